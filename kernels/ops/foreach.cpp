#include "kernels/ops/foreach.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gen/kernels/foreach_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/sycl/elementwise/foreach_args.hpp"

namespace xpu_ops::ops {
namespace {

constexpr size_t kReduceItems = 16;  // of a work-group of a reduction

// amp_update_scale on the calling thread.
void update_scale_here(const UpdateScaleProblem& a) {
  const bool found = *a.found_inf != 0.0f;
  const float grown = *a.scale * (found ? a.backoff : a.growth);
  const int32_t steps = found ? 0 : *a.tracker + 1;
  const bool grow = steps == a.interval && !found;
  if (found || (grow && std::isfinite(grown))) *a.scale = grown;
  *a.tracker = grow ? 0 : steps;
}

}  // namespace

void upload(runtime::Queue& queue, void* dst, const void* src, size_t bytes) {
  if (queue.small().run(
          static_cast<int64_t>(bytes / sizeof(uint64_t)), [&] { std::memcpy(dst, src, bytes); }, runtime::not_later,
          kernels::foreach_table))
    return;
  constexpr size_t kPart = sizeof(ForeachTableArgs::word);
  for (size_t at = 0; at < bytes; at += kPart) {
    ForeachTableArgs args;
    const size_t part = std::min(kPart, bytes - at);
    args.dst = reinterpret_cast<uint64_t*>(static_cast<char*>(dst) + at);
    args.words = static_cast<uint32_t>(part / sizeof(uint64_t));
    std::memcpy(args.word, static_cast<const char*>(src) + at, part);
    runtime::launch(queue, kernels::foreach_table, 1, 16, args);
  }
}

namespace {

// Calls launch(queue, table) with the table of the tensors in device memory, if there is anything to do.
template <class Tensor, class F>
void with_table(const ForeachTensors<Tensor>& tensors, F&& launch) {
  const std::vector<Tensor>& entries = tensors.table();
  if (entries.empty()) return;
  runtime::Queue& queue = runtime::current_queue();
  const size_t bytes = entries.size() * sizeof(Tensor);
  const runtime::Scratch table(bytes);
  upload(queue, table.get(), entries.data(), bytes);
  launch(queue, ForeachTable<Tensor>{table.template get<const Tensor>(), static_cast<uint32_t>(entries.size())});
}

template <class Args, class Tensor, class Problem>
void launch_each(const ForeachTensors<Tensor>& tensors, runtime::KernelSlot& kernel, const Problem& problem) {
  with_table(tensors, [&](runtime::Queue& queue, const ForeachTable<Tensor>& table) {
    const Args args{table, problem};
    runtime::launch(queue, kernel, tensors.groups(), tile_group(kForeachBlock, runtime::policy_of(queue)), args);
  });
}

}  // namespace

template <int OPERANDS>
void foreach_elements(const ForeachOperands<OPERANDS>& tensors, runtime::KernelSlot& kernel,
                      const ForeachProblem& problem) {
  launch_each<ForeachArgs<OPERANDS>>(tensors, kernel, problem);
}
template void foreach_elements<1>(const ForeachOperands<1>&, runtime::KernelSlot&, const ForeachProblem&);
template void foreach_elements<2>(const ForeachOperands<2>&, runtime::KernelSlot&, const ForeachProblem&);
template void foreach_elements<3>(const ForeachOperands<3>&, runtime::KernelSlot&, const ForeachProblem&);
template void foreach_elements<4>(const ForeachOperands<4>&, runtime::KernelSlot&, const ForeachProblem&);

void optimize_each(const ForeachTensors<ForeachTensor<6>>& tensors, runtime::KernelSlot& kernel,
                   const OptimizerProblem& problem) {
  launch_each<OptimizerArgs>(tensors, kernel, problem);
}

void unscale_each(const ForeachTensors<ForeachTensor<1>>& tensors, runtime::KernelSlot& kernel,
                  const UnscaleProblem& problem) {
  launch_each<UnscaleArgs>(tensors, kernel, problem);
}

void reduce_each(const ForeachTensors<ForeachTensor<2>>& tensors, runtime::KernelSlot& kernel,
                 runtime::KernelSlot& final_kernel, size_t accumulator) {
  with_table(tensors, [&](runtime::Queue& queue, const ForeachTable<ForeachTensor<2>>& table) {
    const runtime::Scratch partial(tensors.groups() * kReduceItems * accumulator);
    const ForeachReduceArgs args{table, partial.get()};
    runtime::launch(queue, kernel, tensors.groups(), kReduceItems, args);
    runtime::launch(queue, final_kernel, args.count, kReduceItems, args);
  });
}

void update_scale(runtime::Queue& queue, const UpdateScaleProblem& args) {
  if (queue.small().run(1, [args] { update_scale_here(args); }, kernels::amp_update_scale)) return;
  runtime::launch(queue, kernels::amp_update_scale, 1, 16, args);
}

}  // namespace xpu_ops::ops
