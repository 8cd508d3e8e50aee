#include "kernels/ops/rounding.hpp"

#include <algorithm>

#include "gen/kernels/rounding_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/elementwise/rounding_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kRoundHeld = 16;        // of an item in a team
constexpr size_t kLeastValues = 8192;    // of an item that computes in vectors, where there are more
constexpr size_t kRoundElements = 2048;  // of a work-group of many items

const runtime::KernelTable& spans(RoundFormat to) {
  return to == RoundFormat::e4m3fn ? kernels::round_spans_e4m3fn
         : to == RoundFormat::e5m2 ? kernels::round_spans_e5m2
                                   : kernels::round_spans_int8;
}
const runtime::KernelTable& teams(RoundFormat to) {
  return to == RoundFormat::e4m3fn ? kernels::round_teams_e4m3fn
         : to == RoundFormat::e5m2 ? kernels::round_teams_e5m2
                                   : kernels::round_teams_int8;
}
const runtime::KernelTable& scaled(RoundFormat to, bool alone) {
  if (alone)
    return to == RoundFormat::e4m3fn ? kernels::scale_spans_e4m3fn
           : to == RoundFormat::e5m2 ? kernels::scale_spans_e5m2
                                     : kernels::scale_spans_int8;
  return to == RoundFormat::e4m3fn ? kernels::scale_items_e4m3fn
         : to == RoundFormat::e5m2 ? kernels::scale_items_e5m2
                                   : kernels::scale_items_int8;
}

}  // namespace

RoundPlan plan_round(const RoundProblem& p, const runtime::Policy& policy) {
  RoundPlan plan;
  const size_t all = size_t{p.rows} * (p.columns / p.group);
  if (policy.single_items) {
    plan.spans = true;
    const size_t share = ceil_div(all, policy.units * kGroupsPerUnit), least = ceil_div(kLeastValues, p.group);
    plan.each = static_cast<uint32_t>(std::max(share, least));
    plan.groups = ceil_div(all, plan.each);
    return plan;
  }
  const RowTeams shape = row_teams(all, p.group, kRoundHeld, policy);
  plan.groups = shape.groups;
  plan.local = shape.local;
  plan.team = static_cast<uint32_t>(shape.items);
  return plan;
}

void round_rows(runtime::Queue& queue, DType from, RoundFormat to, const RoundProblem& problem) {
  RoundArgs args{problem};
  const RoundPlan plan = plan_round(problem, runtime::policy_of(queue));
  args.groups = args.columns / args.group;
  args.each = plan.each;
  args.team = plan.team;
  runtime::launch(queue, (plan.spans ? spans(to) : teams(to))[from], plan.groups, plan.local, args);
}

ScalePlan plan_scale(const ScaleProblem& p, const runtime::Policy& policy) {
  ScalePlan plan;
  size_t wanted = kRoundElements;
  if (policy.single_items) {
    const size_t share = ceil_div(size_t{p.rows} * p.columns, policy.units * kGroupsPerUnit);
    wanted = std::max(kLeastValues, share);
  } else {
    plan.items = tile_group(p.columns, policy);
  }
  // Whole vectors of single columns, and of columns that share one scale.
  const size_t unit = p.group == 1 || p.group >= p.columns ? 16 : p.group;
  plan.chunk = static_cast<uint32_t>(ceil_div(std::min<size_t>(wanted, p.columns), unit) * unit);
  plan.groups = ceil_div(p.columns, plan.chunk);
  return plan;
}

void round_by(runtime::Queue& queue, DType from, RoundFormat to, const ScaleProblem& problem) {
  ScaleArgs args{problem};
  const ScalePlan plan = plan_scale(problem, runtime::policy_of(queue));
  args.chunk = plan.chunk;
  runtime::launch2(queue, scaled(to, plan.items == 1)[from], args.rows, plan.groups, 1, plan.items, args);
}

}  // namespace xpu_ops::ops
