#include "kernels/ops/foreach.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gen/kernels/foreach_kernels.hpp"

namespace xpu_ops::plan::inline foreach_family {
namespace {

constexpr size_t kReduceItems = 16;  // of a work-group of a reduction

// amp_update_scale on the calling thread.
void update_scale_here(const UpdateScaleArgs& a) {
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

void reduce_each(ForeachLaunch<ForeachReduceArgs>& tensors, runtime::KernelSlot& kernel,
                 runtime::KernelSlot& final_kernel, size_t accumulator) {
  ForeachReduceArgs args{};
  tensors.run(args, [&](runtime::Queue& queue, size_t groups) {
    const runtime::Scratch partial(groups * kReduceItems * accumulator);
    args.partial = partial.get();
    runtime::launch(queue, kernel, groups, kReduceItems, args);
    runtime::launch(queue, final_kernel, args.count, kReduceItems, args);
  });
}

void update_scale(runtime::Queue& queue, const UpdateScaleArgs& args) {
  if (queue.small().run(1, [args] { update_scale_here(args); }, kernels::amp_update_scale)) return;
  runtime::launch(queue, kernels::amp_update_scale, 1, 16, args);
}

}  // namespace xpu_ops::plan::inline foreach_family
