#include "bindings/distributed/record.hpp"

#include <ATen/record_function.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include <algorithm>
#include <numeric>

#include "bindings/distributed/process_group.hpp"
#include "kernels/runtime/profile/profiler.hpp"

namespace xpu_ops::distributed {
namespace {

using c10d::OpType;
using Tensors = ProcessGroupXCCL::Tensors;

// As tools that read traces know it, and the name of the range behind "xccl:".
struct Names { std::string collective, range; };

Names names_of(OpType type, bool several, bool uneven, int rank, int other) {
  const std::string peer = other < 0 ? "any" : std::to_string(other);
  switch (type) {
    case OpType::BROADCAST: return {"broadcast", "broadcast"};
    case OpType::ALLREDUCE: return {"allreduce", "all_reduce"};
    case OpType::ALLREDUCE_COALESCED: return {"allreduce_coalesced", "allreduce_coalesced"};
    case OpType::_ALLREDUCE_SPARSE: return {"allreduce_sparse", "all_reduce_sparse"};
    case OpType::REDUCE: return {"reduce", "reduce"};
    case OpType::ALLGATHER: return {"all_gather", "all_gather"};
    case OpType::_ALLGATHER_BASE:
      if (several) return {"allgather_into_tensor_coalesced", "all_gather_into_tensor_coalesced"};
      return {"_allgather_base", "_all_gather_base"};
    case OpType::ALLGATHER_COALESCED: return {"allgather_coalesced", "all_gather_coalesced"};
    case OpType::GATHER: return {"gather", "gather"};
    case OpType::SCATTER: return {"scatter", "scatter"};
    case OpType::REDUCE_SCATTER: return {"reduce_scatter", "reduce_scatter"};
    case OpType::_REDUCE_SCATTER_BASE:
      if (several) return {"reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_coalesced"};
      return {"_reduce_scatter_base", "_reduce_scatter_base"};
    case OpType::ALLTOALL_BASE: return {uneven ? "all_to_allv" : "all_to_all", "all_to_all"};
    case OpType::ALLTOALL: return {"all_to_all", "all_to_all"};
    case OpType::SEND: return {"send", c10::str("send ", rank, "->", peer)};
    case OpType::RECV:
    case OpType::RECVANYSOURCE: return {"recv", c10::str("recv ", rank, "<-", peer)};
    case OpType::BARRIER: return {"barrier", "barrier"};
    default: return {c10d::opTypeToString(type), c10d::opTypeToString(type)};
  }
}

int64_t elements(const Tensors& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [](int64_t n, const at::Tensor& t) { return n + t.numel(); });
}

// The tensors that a collective reads and writes. Gather and scatter count the whole message on every rank.
struct Message {
  Tensors inputs, outputs;
  int64_t in = 0, out = 0;
  at::ScalarType dtype = at::kByte;

  Message(const Call& call, int size) {
    for (const Image& image : call.images) {
      if (image.use() != Use::write) inputs.push_back(image.tensor());
      if (image.use() != Use::read) outputs.push_back(image.tensor());
    }
    if (call.images.empty()) inputs = outputs = call.results;
    if (!inputs.empty() || !outputs.empty()) dtype = (inputs.empty() ? outputs : inputs)[0].scalar_type();
    const bool gather = call.type == OpType::GATHER, scatter = call.type == OpType::SCATTER;
    if (inputs.empty() && !scatter) inputs = outputs;
    if (outputs.empty() && !gather) outputs = inputs;
    in = scatter ? elements(outputs) * size : elements(inputs);
    out = gather ? elements(inputs) * size : elements(outputs);
  }
};

}  // namespace

ProcessGroupXCCL::Result ProcessGroupXCCL::run(Call call, c10::Device device, std::chrono::milliseconds timeout,
                                               bool async) {
  const Engine engine = factory_ ? nullptr : this->engine();
  const c10d::Backend& named = factory_ ? static_cast<const c10d::Backend&>(*this) : *engine;
  call.group = {named.getGroupUid(), named.getGroupDesc()};
  if (!at::hasCallbacks()) return enqueue(std::move(call), device, timeout, async);

  const bool p2p = c10d::isP2POp(call.type);
  const auto number = static_cast<int64_t>((p2p ? transfers_ : sequence_) + 1);
  const Names names = names_of(call.type, call.results.size() > 1, !call.input_splits.empty(), rank_, call.peer);
  const Message message(call, size_);
  const auto options =
      factory_ ? c10::static_intrusive_pointer_cast<c10d::Backend::Options>(options_) : engine->getBackendOptions();
  int first = 0, step = 0;  // of the global ranks
  c10d::getGlobalRankStartAndStride(options->global_ranks_in_group, first, step);
  const int other = call.peer < 0 ? rank_ : call.peer;
  RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(std::make_tuple(number, p2p), call.group, message.inputs, message.outputs,
                                        other, std::string(names.collective), message.in, message.out, message.dtype,
                                        call.input_splits, call.output_splits, first, step, size_, async);
  // It ends with the call. A range that ends with the work may outlive the profile, whose memory it would write to.
  const std::vector<c10::IValue> values(message.inputs.begin(), message.inputs.end());
  at::RecordFunction range(at::RecordScope::USER_SCOPE);
  if (range.isActive()) {
    range._setAsync();
    range.before("xccl:" + names.range, c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
  }
  return enqueue(std::move(call), device, timeout, async);
}

bool XcclWork::wait(std::chrono::milliseconds timeout) {
  if (!at::hasCallbacks()) return await(timeout);
  RECORD_PARAM_COMMS(std::make_tuple(static_cast<int64_t>(sequence_), c10d::isP2POp(opType_)), group_, rank_,
                     std::string("wait"), 0, 0, at::kByte, std::vector<int64_t>(), std::vector<int64_t>(), -1, -1,
                     peers_->size());
  return await(timeout);
}

// A thread of the engine carries one collective after the other, so that they do not overlap on its row.
void record_carried(OpType type, size_t results, int device, int64_t begin) {
  static thread_local int64_t t_free = 0;
  if (begin == 0) return;
  if (runtime::profiling() && !c10d::isP2POp(type)) {
    runtime::profile_call("xccl:" + names_of(type, results > 1, false, 0, 0).range, device, std::max(begin, t_free),
                          runtime::CommandKind::collective);
  }
  t_free = runtime::detail::profile_clock();
}

}  // namespace xpu_ops::distributed
