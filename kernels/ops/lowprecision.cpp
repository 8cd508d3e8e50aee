#include "kernels/ops/lowprecision.hpp"

#include <algorithm>

#include "gen/kernels/dot16_kernels.hpp"
#include "gen/kernels/dots_narrow_kernels.hpp"
#include "gen/kernels/lowprecision_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/products/lowprecision_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

// Rows up to which this is as fast as oneDNN or faster, which the host waits for.
constexpr uint32_t kMostRows8 = 8, kMostPairs8 = 16, kMostRows4 = 16;

const runtime::KernelTable& table(WeightKind kind, const WeightPlan& plan) {
  using namespace kernels;
  if (kind == WeightKind::int8) return plan.pairs ? weight_int8_pairs : weight_int8;
  if (kind == WeightKind::int4_pairs) return plan.pairs ? weight_int4_pairs : plan.narrow ? narrow_int4 : weight_int4;
  return plan.pairs ? weight_int4_zeros_pairs : plan.narrow ? narrow_int4_zeros : weight_int4_zeros;
}

}  // namespace

WeightPlan plan_weight(WeightKind kind, DType type, const WeightProblem& p, const runtime::Policy& policy) {
  WeightPlan plan;
  const bool int4 = kind != WeightKind::int8;
  plan.pairs = type == DType::bf16 && policy.dot16 && (int4 || p.m > 1);  // one row by bytes: floats cost less
  plan.narrow = int4 && type != DType::f32 && policy.dots_narrow;
  const uint32_t most = int4 ? kMostRows4 : plan.pairs ? kMostPairs8 : kMostRows8;
  plan.served = policy.single_items && p.m && p.m <= most && p.n >= kWeightRows && p.k &&
                p.k % (int4 ? kWeightChunk : 16) == 0 && (!int4 || p.group >= kWeightGroup);
  if (!plan.served) return plan;
  const size_t sets = ceil_div(p.n, kWeightRows);
  const size_t share = ceil_div(sets, policy.units * kGroupsPerUnit * kWeightSides) * kWeightSides;
  plan.blocks = static_cast<uint32_t>(std::min<size_t>(share, kWeightBlocks));
  plan.groups = ceil_div(sets, plan.blocks);
  return plan;
}

bool weight_product(runtime::Queue& queue, WeightKind kind, DType type, const WeightProblem& problem) {
  const WeightPlan plan = plan_weight(kind, type, problem, runtime::policy_of(queue));
  if (!plan.served) return false;
  const WeightArgs args{problem, plan.blocks};
  runtime::launch(queue, table(kind, plan)[type], plan.groups, 1, args);
  return true;
}

}  // namespace xpu_ops::ops
