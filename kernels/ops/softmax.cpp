#include "kernels/ops/softmax.hpp"

#include <algorithm>

#include "gen/kernels/softmax_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"
#include "kernels/sycl/reduce/softmax_args.hpp"

namespace xpu_ops::ops {
namespace {

constexpr size_t kSoftmaxRowGroups = 64;             // work-groups per compute unit
constexpr size_t kSoftmaxHeld = 16, kTeamPairs = 8;  // of an item's registers: kHeld of the device code

const runtime::KernelTable2& kernel_of(SoftmaxPlan::Kernel kernel, bool backward, bool log) {
  using Kernel = SoftmaxPlan::Kernel;
  if (kernel == Kernel::fours) return log ? kernels::softmax_short_log : kernels::softmax_short_plain;
  if (kernel == Kernel::team && backward)
    return log ? kernels::softmax_backward_team_log : kernels::softmax_backward_team_plain;
  if (kernel == Kernel::team) return log ? kernels::softmax_team_log : kernels::softmax_team_plain;
  if (kernel == Kernel::row && backward)
    return log ? kernels::softmax_backward_row_log : kernels::softmax_backward_row_plain;
  if (backward) return log ? kernels::softmax_backward_col_log : kernels::softmax_backward_col_plain;
  if (kernel == Kernel::row) return log ? kernels::softmax_row_log : kernels::softmax_row_plain;
  return log ? kernels::softmax_col_log : kernels::softmax_col_plain;
}

SoftmaxArgs to_args(const SoftmaxProblem& problem, const SoftmaxPlan& plan) {
  SoftmaxArgs args{problem};
  args.blocks = plan.blocks;
  args.team = plan.team;
  args.rows = plan.rows;
  return args;
}

}  // namespace

SoftmaxPlan plan_softmax(DType from, const SoftmaxProblem& p, const runtime::Policy& policy) {
  using Kernel = SoftmaxPlan::Kernel;
  SoftmaxPlan plan;
  if (p.inner == 1 && policy.team_items > kLanes) {
    plan.rows = !p.y && p.dim <= kSoftmaxShort ? kSoftmaxRows : 1;
    const RowTeams teams =
        row_teams(runtime::ceil_div(p.outer, plan.rows), p.dim, p.y ? kTeamPairs : kSoftmaxHeld, policy);
    plan.kernel = Kernel::team;
    plan.team = static_cast<uint32_t>(teams.items);
    plan.local = teams.local;
    plan.groups = teams.groups;
    return plan;
  }
  if (p.inner == 1) {
    const bool fours = !p.y && from != DType::f64 && p.dim >= kLanes && p.dim <= kSoftmaxShort;
    plan.kernel = fours && policy.single_items ? Kernel::fours : Kernel::row;
    plan.local = plan.kernel == Kernel::fours ? 1 : kLanes;
    const size_t each = plan.kernel == Kernel::fours ? kSoftmaxRows : 1;
    plan.groups = std::min<size_t>(runtime::ceil_div(p.outer, each), kSoftmaxRowGroups * policy.units);
    return plan;
  }
  plan.local = kLanes;
  plan.blocks = static_cast<uint32_t>(runtime::ceil_div(p.inner, kSoftmaxVectors * kLanes));
  plan.groups = size_t{plan.blocks} * p.outer;
  return plan;
}

void softmax(runtime::Queue& queue, bool log, DType from, DType to, const SoftmaxProblem& problem) {
  const SoftmaxPlan plan = plan_softmax(from, problem, runtime::policy_of(queue));
  runtime::launch(queue, kernel_of(plan.kernel, problem.y, log)(from, to), plan.groups, plan.local,
                  to_args(problem, plan));
}

}  // namespace xpu_ops::ops
