#include "kernels/ops/random.hpp"

#include "gen/kernels/random_kernels.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/sycl/elementwise/random_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr uint32_t kBucket = 4096, kMostBits = 12;  // numbers of a bucket, bits of its number
constexpr uint32_t kChunksPerUnit = 4;

}  // namespace

size_t plan_draws(size_t n, size_t values) { return ceil_div(n, values * kRandomStride) * kRandomStride; }

ShufflePlan plan_shuffle(uint32_t n, const runtime::Policy& policy) {
  ShufflePlan plan;
  while (plan.bits < kMostBits && (n >> plan.bits) > kBucket) ++plan.bits;
  plan.chunk = static_cast<uint32_t>(ceil_div(n, plan.bits == 0 ? 1 : kChunksPerUnit * policy.units));
  plan.chunks = static_cast<uint32_t>(ceil_div(n, plan.chunk));
  return plan;
}

void shuffle(runtime::Queue& queue, const uint64_t* keys, uint32_t n, int64_t* dst) {
  const ShufflePlan plan = plan_shuffle(n, runtime::policy_of(queue));
  const runtime::Scratch order(size_t{n} * sizeof(uint32_t));
  const runtime::Scratch counts((size_t{plan.chunks} << plan.bits) * sizeof(uint32_t));
  ShuffleArgs args{};
  args.dst = dst;
  args.keys = keys;
  args.order = order.get<uint32_t>();
  args.counts = counts.get<uint32_t>();
  args.n = n;
  args.bits = plan.bits;
  args.chunks = plan.chunks;
  args.chunk = plan.chunk;
  if (plan.bits > 0) {
    runtime::launch(queue, kernels::shuffle_count, args.chunks, 1, args);
    runtime::launch(queue, kernels::shuffle_scan, 1, 1, args);
    runtime::launch(queue, kernels::shuffle_scatter, args.chunks, 1, args);
  }
  runtime::launch(queue, kernels::shuffle_bucket, size_t{1} << plan.bits, 1, args);
}

}  // namespace xpu_ops::ops
