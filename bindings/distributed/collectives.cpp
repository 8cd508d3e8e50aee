// Every collective as a Call: checks, images, and what the engine is asked for.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/cat.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <numeric>

#include "bindings/distributed/process_group.hpp"
#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::distributed {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using Tensors = ProcessGroupXCCL::Tensors;
using TensorLists = ProcessGroupXCCL::TensorLists;
using Works = Call::Works;

c10::Device current_device() {
  return c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(runtime::current_device()));
}

void check_but_strides(const at::Tensor& t, const at::Tensor& like) {
  TORCH_CHECK_VALUE(t.defined() && t.is_xpu() && !t.is_sparse(), "Tensors must be XPU and dense");
  TORCH_CHECK_VALUE(!t.is_conj() && !t.is_neg(), "Tensors must not have pending conjugate or negative bits");
  TORCH_CHECK_VALUE(t.device() == like.device(), "Expected all tensors to be on the same device, but found ",
                    like.device(), " and ", t.device());
  TORCH_CHECK_TYPE(t.scalar_type() == like.scalar_type(), "Tensors must have identical type, but found ",
                   like.scalar_type(), " and ", t.scalar_type());
}

// As check_gpu_single_tensor of ProcessGroupNCCL.
void check(const at::Tensor& t, const at::Tensor& like) {
  check_but_strides(t, like);
  TORCH_CHECK_VALUE(t.is_non_overlapping_and_dense(), "Tensors must be contiguous");
}

void check(const Tensors& list, const at::Tensor& like) {
  for (const auto& t : list) check(t, like);
}

const at::Tensor& only(const Tensors& list, const char* what) {
  TORCH_CHECK_VALUE(list.size() == 1, what, ": expected one tensor per process, got ", list.size());
  check(list[0], list[0]);
  return list[0];
}

void add(Call& call, const Tensors& list, Use use, Encoding encoding, Order order = Order::memory) {
  for (const auto& t : list) call.images.emplace_back(t, use, encoding, order);
}

// Tensors of a list as they lie in the order of the images.
Tensors part(const Tensors& cpu, size_t from, size_t count) {
  return {cpu.begin() + static_cast<int64_t>(from), cpu.begin() + static_cast<int64_t>(from + count)};
}

Tensors flat(const TensorLists& lists) {
  Tensors all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Copies slices of one flat buffer to tensors, one after the other.
void spread(const at::Tensor& buffer, const Tensors& tensors) {
  int64_t at = 0;
  for (const auto& t : tensors) {
    t.copy_(buffer.narrow(0, at, t.size(0)));
    at += t.size(0);
  }
}

template <class Options>
Options passed_on(const Options& opts, std::chrono::milliseconds timeout) {
  Options own = opts;
  own.timeout = timeout;
  own.asyncOp = true;
  return own;
}

}  // namespace

using Result = ProcessGroupXCCL::Result;

Result ProcessGroupXCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor& t = only(tensors, "broadcast");
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  Call call{OpType::BROADCAST, tensors, {}, {}, {}};
  call.peer = static_cast<int>(opts.rootRank);
  const bool root = opts.rootRank == rank_;
  add(call, tensors, root ? Use::read : Use::write, encode_moves(t.scalar_type()));
  call.start = [own](c10d::Backend& e, Tensors cpu) { return Works{e.broadcast(cpu, own)}; };
  return run(std::move(call), t.device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  if (!tensors.empty() && tensors[0].defined() && tensors[0].is_sparse()) return allreduce_sparse(tensors, opts);
  const at::Tensor& t = only(tensors, "all_reduce");
  const Reduction reduction = encode_reduction(t.scalar_type(), opts.reduceOp);
  auto own = passed_on(opts, timeout_of(opts.timeout));
  own.reduceOp = reduction.op;
  Call call{OpType::ALLREDUCE, tensors, {}, {}, {}};
  add(call, tensors, Use::both, reduction.encoding);
  call.start = [own](c10d::Backend& e, Tensors cpu) { return Works{e.allreduce(cpu, own)}; };
  return run(std::move(call), t.device(), opts.timeout, opts.asyncOp);
}

// Indices and values of the ranks differ in number: a copy on the CPU carries them.
Result ProcessGroupXCCL::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "all_reduce: expected one tensor per process, got ", tensors.size());
  const at::Tensor& t = tensors[0];
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  auto copies = std::make_shared<Tensors>(Tensors{t.cpu()});
  Call call{OpType::_ALLREDUCE_SPARSE, tensors, {}, {}, {}};
  call.start = [own, copies](c10d::Backend& e, const Tensors&) { return Works{e.allreduce(*copies, own)}; };
  call.after = [t, copies](const Tensors&) {
    t.copy_((*copies)[0]);
    runtime::synchronize(runtime::current_queue(t.device().index()));
  };
  return run(std::move(call), t.device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  TORCH_CHECK_VALUE(!tensors.empty(), "allreduce_coalesced: requires non-empty tensor list");
  check(tensors, tensors[0]);
  const Reduction reduction = encode_reduction(tensors[0].scalar_type(), opts.reduceOp);
  auto own = passed_on(opts, timeout_of(opts.timeout));
  own.reduceOp = reduction.op;
  Call call{OpType::ALLREDUCE_COALESCED, tensors, {}, {}, {}};
  add(call, tensors, Use::both, reduction.encoding);
  call.start = [own](c10d::Backend& e, Tensors cpu) { return Works{e.allreduce_coalesced(cpu, own)}; };
  return run(std::move(call), tensors[0].device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor& t = only(tensors, "reduce");
  const Reduction reduction = encode_reduction(t.scalar_type(), opts.reduceOp);
  auto own = passed_on(opts, timeout_of(opts.timeout));
  own.reduceOp = reduction.op;
  Call call{OpType::REDUCE, tensors, {}, {}, {}};
  call.peer = static_cast<int>(opts.rootRank);
  const bool root = opts.rootRank == rank_;
  add(call, tensors, root ? Use::both : Use::read, reduction.encoding);
  call.start = [own, root](c10d::Backend& e, Tensors cpu) {
    if (!root) cpu[0] = cpu[0].clone();  // gloo leaves partial sums in it
    return Works{e.reduce(cpu, own)};
  };
  return run(std::move(call), t.device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = only(inputs, "all_gather");
  TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_),
                    "all_gather: expected a list of ", size_, " output tensors");
  const Tensors& outs = outputs[0];
  for (const auto& t : outs) {  // which ProcessGroupNCCL copies to, so that columns of a larger tensor will do
    check_but_strides(t, input);
    at::assert_no_internal_overlap(t);
  }
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  const auto encoding = encode_moves(input.scalar_type());
  Call call{OpType::ALLGATHER, outs, {}, {}, {}};
  add(call, inputs, Use::read, encoding, Order::index);
  add(call, outs, Use::write, encoding, Order::index);
  const bool even = std::all_of(outs.begin(), outs.end(), [&](auto& t) { return t.numel() == input.numel(); });
  if (even) {
    call.start = [own](c10d::Backend& e, const Tensors& cpu) {
      TensorLists out{part(cpu, 1, cpu.size() - 1)};
      Tensors in{cpu[0]};
      return Works{e.allgather(out, in, own)};
    };
  } else {
    // As ProcessGroupNCCL: each rank broadcasts its part.
    TORCH_CHECK_VALUE(outs[rank_].numel() == input.numel(), "all_gather: output tensor ", rank_, " has ",
                      outs[rank_].numel(), " elements, the input of that rank ", input.numel());
    call.start = [own, rank = rank_](c10d::Backend& e, const Tensors& cpu) {
      cpu[rank + 1].copy_(cpu[0]);
      Works works;
      c10d::BroadcastOptions each;
      each.timeout = own.timeout;
      for (size_t r = 1; r < cpu.size(); ++r) {
        each.rootRank = static_cast<int64_t>(r - 1);
        Tensors one{cpu[r]};
        works.push_back(e.broadcast(one, each));
      }
      return works;
    };
  }
  return run(std::move(call), input.device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  Tensors outputs{output}, inputs{input};
  check(input, input);
  TORCH_CHECK_TYPE(input.scalar_type() == output.scalar_type(),
                   "output tensor must have the same type as input tensor");
  TORCH_CHECK_VALUE(input.numel() * size_ == output.numel(),
                    "output tensor size must be equal to world_size times input tensor size");
  return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

Result ProcessGroupXCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(!inputs.empty() && inputs.size() == outputs.size(),
                    "all_gather_into_tensor: expected as many outputs as inputs, and at least one");
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  Call call{OpType::_ALLGATHER_BASE, outputs, {}, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i], inputs[0].scalar_type() == inputs[i].scalar_type() ? inputs[0] : inputs[i]);
    check(outputs[i], inputs[i]);
    TORCH_CHECK_VALUE(inputs[i].numel() * size_ == outputs[i].numel(),
                      "output tensor size must be equal to world_size times input tensor size");
    const auto encoding = encode_moves(inputs[i].scalar_type());
    call.images.emplace_back(outputs[i], Use::write, encoding);
    call.images.emplace_back(inputs[i], Use::read, encoding);
  }
  call.start = [own](c10d::Backend& e, Tensors cpu) {
    Works works;
    for (size_t i = 0; i < cpu.size(); i += 2) works.push_back(e._allgather_base(cpu[i], cpu[i + 1], own));
    return works;
  };
  return run(std::move(call), inputs[0].device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(!inputs.empty() && outputs.size() == static_cast<size_t>(size_), "all_gather_coalesced: expected ",
                    size_, " lists of outputs");
  check(inputs, inputs[0]);
  Call call{OpType::ALLGATHER_COALESCED, flat(outputs), {}, {}, {}};
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  const auto encoding = encode_moves(inputs[0].scalar_type());
  add(call, inputs, Use::read, encoding);
  for (const auto& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "all_gather_coalesced: every list needs ", inputs.size(),
                      " tensors");
    check(list, inputs[0]);
    add(call, list, Use::write, encoding);
  }
  call.start = [own, n = inputs.size()](c10d::Backend& e, const Tensors& cpu) {
    Tensors in = part(cpu, 0, n);
    TensorLists out;
    for (size_t at = n; at < cpu.size(); at += n) out.push_back(part(cpu, at, n));
    return Works{e.allgather_coalesced(out, in, own)};
  };
  return run(std::move(call), inputs[0].device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const at::Tensor& input = only(inputs, "gather");
  const auto encoding = encode_moves(input.scalar_type());
  const bool root = opts.rootRank == rank_;
  TORCH_CHECK_VALUE(root ? outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_) : outputs.empty(),
                    "gather: the destination needs a list of ", size_, " tensors, other ranks need none");
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  Call call{OpType::GATHER, flat(outputs), {}, {}, {}};
  call.peer = static_cast<int>(opts.rootRank);
  add(call, inputs, Use::read, encoding);
  if (root) {
    check(outputs[0], input);
    add(call, outputs[0], Use::write, encoding);
  }
  call.start = [own](c10d::Backend& e, const Tensors& cpu) {
    TensorLists out;
    if (cpu.size() > 1) out.push_back(part(cpu, 1, cpu.size() - 1));
    Tensors in{cpu[0]};
    return Works{e.gather(out, in, own)};
  };
  return run(std::move(call), input.device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "scatter");
  const auto encoding = encode_moves(output.scalar_type());
  const bool root = opts.rootRank == rank_;
  TORCH_CHECK_VALUE(root ? inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_) : inputs.empty(),
                    "scatter: the source needs a list of ", size_, " tensors, other ranks need none");
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  Call call{OpType::SCATTER, outputs, {}, {}, {}};
  call.peer = static_cast<int>(opts.rootRank);
  add(call, outputs, Use::write, encoding);
  if (root) {
    check(inputs[0], output);
    add(call, inputs[0], Use::read, encoding);
  }
  call.start = [own](c10d::Backend& e, const Tensors& cpu) {
    TensorLists in;
    if (cpu.size() > 1) in.push_back(part(cpu, 1, cpu.size() - 1));
    Tensors out{cpu[0]};
    return Works{e.scatter(out, in, own)};
  };
  return run(std::move(call), output.device(), opts.timeout, opts.asyncOp);
}

// As ProcessGroupGloo: an all_reduce of a copy of all parts, of which each rank keeps its own.
Result ProcessGroupXCCL::reduce_scatter_lists(OpType type, Tensors& outputs, TensorLists inputs,
                                              const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& first = outputs[0];
  const bool lists = type == OpType::REDUCE_SCATTER;  // which ProcessGroupNCCL copies from
  const Order order = lists ? Order::index : Order::memory;
  c10d::AllreduceOptions own;
  own.timeout = timeout_of(opts.timeout);
  Call call{type, outputs, {}, {}, {}};
  std::vector<size_t> parts;
  std::vector<Reduction> reductions;
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i], outputs[i].scalar_type() == first.scalar_type() ? first : outputs[i]);
    for (const auto& t : inputs[i]) lists ? check_but_strides(t, outputs[i]) : check(t, outputs[i]);
    reductions.push_back(encode_reduction(outputs[i].scalar_type(), opts.reduceOp));
    call.images.emplace_back(outputs[i], Use::write, reductions.back().encoding, order);
    add(call, inputs[i], Use::read, reductions.back().encoding, order);
    parts.push_back(inputs[i].size());
  }
  auto sums = std::make_shared<Tensors>();
  call.start = [own, parts, reductions, sums](c10d::Backend& e, const Tensors& cpu) mutable {
    Works works;
    size_t at = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Tensors in = part(cpu, at + 1, parts[i]);
      sums->push_back(in.size() == 1 ? in[0].clone() : at::cat(in));
      own.reduceOp = reductions[i].op;
      Tensors one{sums->back()};
      works.push_back(e.allreduce(one, own));
      at += 1 + parts[i];
    }
    return works;
  };
  call.after = [parts, sums, rank = rank_](const Tensors& cpu) {
    size_t at = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const at::Tensor& out = cpu[at];
      int64_t begin = parts[i] == 1 ? rank * out.size(0) : 0;
      for (int r = 0; parts[i] > 1 && r < rank; ++r) begin += cpu[at + 1 + r].size(0);
      out.copy_((*sums)[i].narrow(0, begin, out.size(0)));
      at += 1 + parts[i];
    }
    sums->clear();
  };
  return run(std::move(call), first.device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_),
                    "reduce_scatter: expected a list of ", size_, " input tensors");
  TORCH_CHECK_VALUE(inputs[0][rank_].numel() == output.numel(), "reduce_scatter: input tensor ", rank_, " has ",
                    inputs[0][rank_].numel(), " elements, the output of that rank ", output.numel());
  return reduce_scatter_lists(OpType::REDUCE_SCATTER, outputs, inputs, opts);
}

Result ProcessGroupXCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::ReduceScatterOptions& opts) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

Result ProcessGroupXCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                         const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK_VALUE(!outputs.empty() && outputs.size() == inputs.size(),
                    "reduce_scatter_tensor: expected as many inputs as outputs, and at least one");
  TensorLists lists;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_TYPE(inputs[i].scalar_type() == outputs[i].scalar_type(),
                     "input tensor must be the same type as the output tensor.");
    TORCH_CHECK_VALUE(inputs[i].numel() == outputs[i].numel() * size_,
                      "input tensor must be the same size as output size times world size");
    lists.push_back({inputs[i]});
  }
  return reduce_scatter_lists(OpType::_REDUCE_SCATTER_BASE, outputs, lists, opts);
}

Result ProcessGroupXCCL::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                       std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  check(input, input);
  check(output, input);
  TORCH_CHECK_VALUE(input.is_contiguous() && output.is_contiguous(), "Tensors must be contiguous");
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  const auto encoding = encode_moves(input.scalar_type());
  Call call{OpType::ALLTOALL_BASE, {output}, {}, {}, {}};
  call.input_splits = input_splits;
  call.output_splits = output_splits;
  call.images.emplace_back(output, Use::write, encoding, Order::rows);
  call.images.emplace_back(input, Use::read, encoding, Order::rows);
  call.start = [own, output_splits, input_splits](c10d::Backend& e, Tensors cpu) mutable {
    return Works{e.alltoall_base(cpu[0], cpu[1], output_splits, input_splits, own)};
  };
  return run(std::move(call), input.device(), opts.timeout, opts.asyncOp);
}

// Sizes may differ from rank to rank: one all_to_all_single of all of them, side by side.
Result ProcessGroupXCCL::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  const auto n = static_cast<size_t>(size_);
  TORCH_CHECK_VALUE(inputs.size() == n && outputs.size() == n, "all_to_all: expected ", n, " inputs and outputs");
  check(inputs, inputs[0]);
  check(outputs, inputs[0]);
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  const auto encoding = encode_moves(inputs[0].scalar_type());
  Call call{OpType::ALLTOALL, outputs, {}, {}, {}};
  add(call, outputs, Use::write, encoding);
  add(call, inputs, Use::read, encoding);
  auto received = std::make_shared<at::Tensor>();
  call.start = [own, n, received](c10d::Backend& e, const Tensors& cpu) {
    std::vector<int64_t> out_splits, in_splits;
    for (size_t i = 0; i < n; ++i) {
      out_splits.push_back(cpu[i].size(0));
      in_splits.push_back(cpu[n + i].size(0));
    }
    at::Tensor sent = at::cat(part(cpu, n, n));
    auto shape = sent.sizes().vec();
    shape[0] = std::accumulate(out_splits.begin(), out_splits.end(), int64_t{0});
    *received = sent.new_empty(shape);
    return Works{e.alltoall_base(*received, sent, out_splits, in_splits, own)};
  };
  call.after = [n, received](const Tensors& cpu) {
    spread(*received, part(cpu, 0, n));
    received->reset();
  };
  return run(std::move(call), inputs[0].device(), opts.timeout, opts.asyncOp);
}

Result ProcessGroupXCCL::send(Tensors& tensors, int peer, int tag) {
  const at::Tensor& t = only(tensors, "send");
  Call call{OpType::SEND, tensors, {}, {}, {}};
  call.peer = peer;
  add(call, tensors, Use::read, encode_moves(t.scalar_type()));
  call.start = [peer, tag](c10d::Backend& e, Tensors cpu) { return Works{e.send(cpu, peer, tag)}; };
  return run(std::move(call), t.device(), c10d::kUnsetTimeout, true);
}

Result ProcessGroupXCCL::recv(Tensors& tensors, int peer, int tag) {
  const at::Tensor& t = only(tensors, "recv");
  Call call{OpType::RECV, tensors, {}, {}, {}};
  call.peer = peer;
  add(call, tensors, Use::write, encode_moves(t.scalar_type()));
  call.start = [peer, tag](c10d::Backend& e, Tensors cpu) { return Works{e.recv(cpu, peer, tag)}; };
  return run(std::move(call), t.device(), c10d::kUnsetTimeout, true);
}

Result ProcessGroupXCCL::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& t = only(tensors, "recv");
  Call call{OpType::RECVANYSOURCE, tensors, {}, {}, {}};
  add(call, tensors, Use::write, encode_moves(t.scalar_type()));
  call.start = [tag](c10d::Backend& e, Tensors cpu) { return Works{e.recvAnysource(cpu, tag)}; };
  return run(std::move(call), t.device(), c10d::kUnsetTimeout, true);
}

Result ProcessGroupXCCL::barrier(const c10d::BarrierOptions& opts) {
  const auto own = passed_on(opts, timeout_of(opts.timeout));
  Call call{OpType::BARRIER, {}, {}, {}, {}};
  call.start = [own](c10d::Backend& e, const Tensors&) { return Works{e.barrier(own)}; };
  const c10::Device device = opts.device && opts.device->is_xpu() && opts.device->has_index() ? *opts.device
                             : bound_device_id_                                               ? *bound_device_id_
                                                                                              : current_device();
  return run(std::move(call), device, opts.timeout, opts.asyncOp);
}

void ProcessGroupXCCL::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  engine()->monitoredBarrier(opts, wait_all_ranks);
}

}  // namespace xpu_ops::distributed
