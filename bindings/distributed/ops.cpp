// The operators of c10d for XPU tensors: each hands its call to the group's backend for that device.
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <vector>

#include "bindings/distributed/process_group.hpp"
#include "bindings/errors.hpp"

namespace xpu_ops::distributed {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Work = c10::intrusive_ptr<c10d::Work>;
using Op = c10::intrusive_ptr<c10d::ReduceOp>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

// A group of gloo alone has no backend that takes XPU tensors: one over it, for as long as it lives.
c10::intrusive_ptr<c10d::Backend> bridge(const c10::intrusive_ptr<c10d::Backend>& engine, const Group& group) {
  static auto* mutex = new std::mutex;
  static auto* bridges = new std::vector<c10::intrusive_ptr<ProcessGroupXCCL>>;
  std::vector<c10::intrusive_ptr<ProcessGroupXCCL>> gone;  // destroyed without the mutex
  std::lock_guard<std::mutex> lock(*mutex);
  c10::intrusive_ptr<ProcessGroupXCCL> found;
  for (auto it = bridges->begin(); it != bridges->end();) {
    if (!(*it)->alive()) {
      gone.push_back(std::move(*it));
      it = bridges->erase(it);
      continue;
    }
    if ((*it)->serves(engine.get())) found = *it;
    ++it;
  }
  if (!found) {
    found = c10::make_intrusive<ProcessGroupXCCL>(engine, group->getStore());
    bridges->push_back(found);
  }
  return found;
}

c10::intrusive_ptr<c10d::Backend> backend(const Group& group) {
  const bool own = group->hasBackendForDeviceType(c10::kXPU);
  TORCH_CHECK(own || group->hasBackendForDeviceType(c10::kCPU),
              "No backend type associated with device type xpu: the process group '", group->getGroupName(),
              "' serves other devices only. Pass backend='xccl', 'gloo' or 'cpu:gloo,xpu:xccl'.");
  auto found = group->getBackend(own ? c10::kXPU : c10::kCPU);
  return found->getBackendName() == "gloo" ? bridge(found, group) : found;
}

std::chrono::milliseconds ms(int64_t timeout) { return std::chrono::milliseconds(timeout); }

template <class Options>
Options with(int64_t timeout, bool async) {
  Options o;
  o.timeout = ms(timeout);
  o.asyncOp = async;
  return o;
}

std::tuple<Tensors, Work> broadcast_(at::TensorList tensors, const Group& group, int64_t root, int64_t root_tensor,
                                     bool async, int64_t timeout) {
  Tensors list = tensors.vec();
  auto o = with<c10d::BroadcastOptions>(timeout, async);
  o.rootRank = root;
  o.rootTensor = root_tensor;
  auto work = backend(group)->broadcast(list, o);
  return {std::move(list), work};
}

std::tuple<Tensors, Work> allreduce_(at::TensorList tensors, const Group& group, const Op& op,
                                     const std::optional<at::Tensor>& sparse_indices, bool async, int64_t timeout) {
  Tensors list = tensors.vec();
  auto o = with<c10d::AllreduceOptions>(timeout, async);
  o.reduceOp = *op;
  o.sparseIndices = sparse_indices;
  auto work = backend(group)->allreduce(list, o);
  return {std::move(list), work};
}

Work allreduce_coalesced_(at::TensorList tensors, const Group& group, const Op& op, bool async, int64_t timeout) {
  Tensors list = tensors.vec();
  auto o = with<c10d::AllreduceCoalescedOptions>(timeout, async);
  o.reduceOp = *op;
  return backend(group)->allreduce_coalesced(list, o);
}

Work reduce_(at::TensorList tensors, const Group& group, const Op& op, int64_t root, int64_t root_tensor, bool async,
             int64_t timeout) {
  Tensors list = tensors.vec();
  auto o = with<c10d::ReduceOptions>(timeout, async);
  o.reduceOp = *op;
  o.rootRank = root;
  o.rootTensor = root_tensor;
  return backend(group)->reduce(list, o);
}

std::tuple<TensorLists, Work> allgather_(const TensorLists& outputs, at::TensorList inputs, const Group& group,
                                         bool async, int64_t timeout) {
  TensorLists out = outputs;
  Tensors in = inputs.vec();
  auto work = backend(group)->allgather(out, in, with<c10d::AllgatherOptions>(timeout, async));
  return {std::move(out), work};
}

std::tuple<at::Tensor, Work> _allgather_base_(at::Tensor& output, at::Tensor& input, const Group& group, bool async,
                                              int64_t timeout) {
  return {output, backend(group)->_allgather_base(output, input, with<c10d::AllgatherOptions>(timeout, async))};
}

Work allgather_coalesced_(const TensorLists& outputs, const at::TensorList& inputs, const Group& group, bool async) {
  TensorLists out = outputs;
  Tensors in = inputs.vec();
  return backend(group)->allgather_coalesced(out, in, with<c10d::AllgatherOptions>(-1, async));
}

Work allgather_into_tensor_coalesced_(at::TensorList outputs, at::TensorList inputs, const Group& group, bool async) {
  Tensors out = outputs.vec(), in = inputs.vec();
  return backend(group)->allgather_into_tensor_coalesced(out, in, with<c10d::AllgatherOptions>(-1, async));
}

std::tuple<Tensors, Work> reduce_scatter_(const at::TensorList& outputs, const TensorLists& inputs, const Group& group,
                                          const Op& op, bool async, int64_t timeout) {
  Tensors out = outputs.vec();
  TensorLists in = inputs;
  auto o = with<c10d::ReduceScatterOptions>(timeout, async);
  o.reduceOp = *op;
  auto work = backend(group)->reduce_scatter(out, in, o);
  return {std::move(out), work};
}

std::tuple<at::Tensor, Work> _reduce_scatter_base_(at::Tensor& output, at::Tensor& input, const Group& group,
                                                   const Op& op, bool async, int64_t timeout) {
  auto o = with<c10d::ReduceScatterOptions>(timeout, async);
  o.reduceOp = *op;
  return {output, backend(group)->_reduce_scatter_base(output, input, o)};
}

Work reduce_scatter_tensor_coalesced_(at::TensorList outputs, at::TensorList inputs, const Group& group, const Op& op,
                                      bool async, int64_t timeout) {
  Tensors out = outputs.vec(), in = inputs.vec();
  auto o = with<c10d::ReduceScatterOptions>(timeout, async);
  o.reduceOp = *op;
  return backend(group)->reduce_scatter_tensor_coalesced(out, in, o);
}

Work gather_(const TensorLists& outputs, const at::TensorList& inputs, const Group& group, int64_t root, bool async,
             int64_t timeout) {
  TensorLists out = outputs;
  Tensors in = inputs.vec();
  auto o = with<c10d::GatherOptions>(timeout, async);
  o.rootRank = root;
  return backend(group)->gather(out, in, o);
}

std::tuple<Tensors, Work> scatter_(const at::TensorList& outputs, const TensorLists& inputs, const Group& group,
                                   int64_t root, bool async, int64_t timeout) {
  Tensors out = outputs.vec();
  TensorLists in = inputs;
  auto o = with<c10d::ScatterOptions>(timeout, async);
  o.rootRank = root;
  auto work = backend(group)->scatter(out, in, o);
  return {std::move(out), work};
}

std::tuple<Tensors, Work> alltoall_(const at::TensorList& outputs, const at::TensorList& inputs, const Group& group,
                                    bool async, int64_t timeout) {
  Tensors out = outputs.vec(), in = inputs.vec();
  auto work = backend(group)->alltoall(out, in, with<c10d::AllToAllOptions>(timeout, async));
  return {std::move(out), work};
}

Work alltoall_base_(at::Tensor& output, at::Tensor& input, const Group& group, std::vector<int64_t> output_splits,
                    std::vector<int64_t> input_splits, bool async, int64_t timeout) {
  return backend(group)->alltoall_base(output, input, output_splits, input_splits,
                                       with<c10d::AllToAllOptions>(timeout, async));
}

Work send(at::TensorList tensors, const Group& group, int64_t peer, int64_t tag) {
  Tensors list = tensors.vec();
  return backend(group)->send(list, static_cast<int>(peer), static_cast<int>(tag));
}

Work recv_(at::TensorList tensors, const Group& group, int64_t peer, int64_t tag) {
  Tensors list = tensors.vec();
  return backend(group)->recv(list, static_cast<int>(peer), static_cast<int>(tag));
}

Work recv_any_source_(at::TensorList tensors, const Group& group, int64_t tag) {
  Tensors list = tensors.vec();
  return backend(group)->recvAnysource(list, static_cast<int>(tag));
}

Work barrier(at::Tensor tensor, const Group& group, const std::vector<int64_t>& device_ids, bool async,
             int64_t timeout) {
  auto o = with<c10d::BarrierOptions>(timeout, async);
  o.device_ids = device_ids;
  o.device = tensor.device();
  return backend(group)->barrier(o);
}

}  // namespace
}  // namespace xpu_ops::distributed

TORCH_LIBRARY_IMPL(c10d, XPU, m) {
  using namespace xpu_ops::distributed;
  m.impl("broadcast_", XPU_OPS_FN(broadcast_));
  m.impl("allreduce_", XPU_OPS_FN(allreduce_));
  m.impl("allreduce_coalesced_", XPU_OPS_FN(allreduce_coalesced_));
  m.impl("reduce_", XPU_OPS_FN(reduce_));
  m.impl("allgather_", XPU_OPS_FN(allgather_));
  m.impl("_allgather_base_", XPU_OPS_FN(_allgather_base_));
  m.impl("allgather_coalesced_", XPU_OPS_FN(allgather_coalesced_));
  m.impl("allgather_into_tensor_coalesced_", XPU_OPS_FN(allgather_into_tensor_coalesced_));
  m.impl("reduce_scatter_", XPU_OPS_FN(reduce_scatter_));
  m.impl("_reduce_scatter_base_", XPU_OPS_FN(_reduce_scatter_base_));
  m.impl("reduce_scatter_tensor_coalesced_", XPU_OPS_FN(reduce_scatter_tensor_coalesced_));
  m.impl("gather_", XPU_OPS_FN(gather_));
  m.impl("scatter_", XPU_OPS_FN(scatter_));
  m.impl("alltoall_", XPU_OPS_FN(alltoall_));
  m.impl("alltoall_base_", XPU_OPS_FN(alltoall_base_));
  m.impl("send", XPU_OPS_FN(xpu_ops::distributed::send));
  m.impl("recv_", XPU_OPS_FN(recv_));
  m.impl("recv_any_source_", XPU_OPS_FN(recv_any_source_));
  m.impl("barrier", XPU_OPS_FN(barrier));
}
TORCH_LIBRARY_IMPL(c10d, SparseXPU, m) {
  using namespace xpu_ops::distributed;
  m.impl("allreduce_", XPU_OPS_FN(allreduce_));
}
