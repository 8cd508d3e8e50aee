#include "kernels/ops/normalization.hpp"

#include <algorithm>
#include <optional>

#include "gen/kernels/normalization_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/reduce/normalization_args.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kNormRowGroups = 64;        // work-groups of rows per compute unit
constexpr int64_t kColumnGroups = 8;          // the same over columns
constexpr int64_t kChain = 512, kLeast = 16;  // rows of a split: the most that one chain adds, and the least
constexpr int64_t kMostSplits = 1024;
constexpr int64_t kRowsPerUnit = 16;  // from here on rows alone fill the device
constexpr int64_t kTeamsPerUnit = 4;  // the same of rows that teams share
constexpr int64_t kRowColumnsLeast = 16, kRowColumnsMost = 4096;
constexpr size_t kApplyItems = 4096;  // elements of a work-group, and its most items
constexpr size_t kFinalItems = 64, kCoefItems = 256;
constexpr size_t kNormHeld = 16;  // of an item's registers: kHeld of the device code

// Rows are shared by more items than a sub-group has where these are long.
bool by_teams(const runtime::Policy& policy) { return policy.team_items > policy.lanes; }

ColumnSumArgs to_args(const ColumnSumProblem& problem, const ColumnSumPlan& plan) {
  ColumnSumArgs args{problem};
  args.by_cols = xpu::make_divider(args.cols);
  args.blocks = plan.blocks;
  args.block = plan.block;
  args.splits = plan.splits;
  return args;
}

// Dividers are those of group norm.
NormCoefArgs to_args(const NormCoefProblem& problem) {
  return {problem, xpu::make_divider(problem.channels), xpu::make_divider(problem.channels / problem.groups)};
}

size_t partial_bytes(const ColumnSumArgs& args, DType type) {
  return size_t{args.batches} * std::max<uint32_t>(1, args.splits) * 2 * args.cols * accumulator_bytes(type);
}

// The partial sums of all splits.
void add_columns(runtime::Queue& queue, DType type, DType out, const ColumnSumArgs& args) {
  const runtime::Policy& policy = runtime::policy_of(queue);
  const size_t columns = size_t{args.batches} * args.cols;
  if (by_teams(policy))
    return runtime::launch(queue, kernels::norm_column_final_team(type, out), ceil_div(columns, kLanes),
                           policy.team_items, args);
  runtime::launch(queue, kernels::norm_column_final(type, out), ceil_div(columns, kFinalItems), kFinalItems, args);
}

void coefficients(runtime::Queue& queue, runtime::KernelSlot& kernel, size_t n, const NormCoefArgs& args) {
  runtime::launch(queue, kernel, ceil_div(n, kCoefItems), kCoefItems, args);
}

}  // namespace

size_t row_groups(int64_t rows, const runtime::Policy& policy) {
  return std::min<size_t>(rows, kNormRowGroups * size_t{policy.units});
}

ColumnSumPlan plan_column_sums(int64_t batches, int64_t rows, int64_t cols, const runtime::Policy& policy) {
  ColumnSumPlan plan;
  plan.blocks = static_cast<uint32_t>(ceil_div(cols, kColumnVectors * kLanes));
  const int64_t filling = ceil_div(kColumnGroups * int64_t{policy.units}, plan.blocks * batches);
  const int64_t splits =
      std::max<int64_t>(1, std::max(std::min(filling, rows / kLeast), std::min(rows / kChain, kMostSplits)));
  plan.block = static_cast<uint32_t>(std::max<int64_t>(1, ceil_div(rows, splits)));
  plan.splits = static_cast<uint32_t>(ceil_div(rows, plan.block));
  plan.groups = static_cast<size_t>(batches) * plan.splits * plan.blocks;
  return plan;
}

void column_sums(runtime::Queue& queue, DType type, DType out, const ColumnSumProblem& problem) {
  const ColumnSumPlan plan = plan_column_sums(problem.batches, problem.rows, problem.cols, runtime::policy_of(queue));
  ColumnSumArgs args = to_args(problem, plan);
  const runtime::Scratch partial(partial_bytes(args, type));
  args.partial = partial.get();
  runtime::launch(queue, kernels::norm_column_sums[type], plan.groups, kLanes, args);
  add_columns(queue, type, out, args);
}

void column_group_moments(runtime::Queue& queue, DType type, const ColumnSumProblem& problem) {
  const ColumnSumPlan plan = plan_column_sums(problem.batches, problem.rows, problem.cols, runtime::policy_of(queue));
  ColumnSumArgs args = to_args(problem, plan);
  const runtime::Scratch partial(partial_bytes(args, type));
  args.partial = partial.get();
  runtime::launch(queue, kernels::norm_column_moments[type], plan.groups, kLanes, args);
  runtime::launch(queue, kernels::norm_group_moments[type], size_t{args.batches} * args.groups, kLanes, args);
}

void row_sums(runtime::Queue& queue, DType type, const RowSumProblem& problem) {
  RowSumArgs args{problem};
  const runtime::Policy& policy = runtime::policy_of(queue);
  if (by_teams(policy)) {
    const RowTeams teams = row_teams(args.rows, args.cols, kNormHeld, policy);
    args.team = static_cast<uint32_t>(teams.items);
    return runtime::launch(queue, kernels::norm_row_sums_team[type], teams.groups, teams.local, args);
  }
  runtime::launch(queue, kernels::norm_row_sums[type], row_groups(args.rows, runtime::policy_of(queue)), kLanes, args);
}

ApplyPlan plan_norm_apply(const NormApplyProblem& p, const runtime::Policy& policy) {
  ApplyPlan plan;
  const int64_t cols = p.cols, rows = int64_t{p.rows} * p.batches;
  const bool along = !(p.by_column || by_teams(policy)) ||
                     (policy.single_items && cols >= kRowColumnsLeast && cols <= kRowColumnsMost);
  if (along && rows >= kRowsPerUnit * int64_t{policy.units}) {
    plan.by_row = true;
    plan.groups0 = row_groups(rows, policy);
    plan.local = kLanes;
    return plan;
  }
  // Long rows are gone through one at a time, in the order of memory, by groups of one size: the last is not left
  // nearly empty.
  plan.groups1 =
      ceil_div(cols, by_teams(policy) ? policy.tile_items : std::min<size_t>(kApplyItems, policy.most_items));
  plan.local = ceil_div(ceil_div(cols, plan.groups1), 16) * 16;
  plan.rows_per_group = static_cast<uint32_t>(std::max<size_t>(1, kApplyItems / plan.local));
  plan.parts = static_cast<uint32_t>(ceil_div(p.rows, plan.rows_per_group));
  plan.groups0 = size_t{plan.parts} * p.batches;
  return plan;
}

void norm_apply(runtime::Queue& queue, DType type, const NormApplyProblem& problem) {
  const ApplyPlan plan = plan_norm_apply(problem, runtime::policy_of(queue));
  NormApplyArgs args{problem};
  args.rows_per_group = plan.rows_per_group;
  args.parts = plan.parts;
  if (plan.by_row)
    runtime::launch(queue, kernels::norm_apply_row[type], plan.groups0, plan.local, args);
  else
    runtime::launch2(queue, kernels::norm_apply[type], plan.groups0, plan.groups1, 1, plan.local, args);
}

void layer_norm(runtime::Queue& queue, DType type, DType parameter, const LayerNormProblem& problem) {
  LayerNormArgs args{problem};
  if (const runtime::Policy& policy = runtime::policy_of(queue); by_teams(policy)) {
    const runtime::KernelTable2& kernel = args.mean ? kernels::layer_norm_team_plain : kernels::layer_norm_team_rms;
    const RowTeams teams = row_teams(args.rows, args.cols, kNormHeld, policy);
    args.team = static_cast<uint32_t>(teams.items);
    return runtime::launch(queue, kernel(type, parameter), teams.groups, teams.local, args);
  }
  const runtime::KernelTable2& kernel = args.mean ? kernels::layer_norm_row_plain : kernels::layer_norm_row_rms;
  runtime::launch(queue, kernel(type, parameter), row_groups(args.rows, runtime::policy_of(queue)), kLanes, args);
}

size_t plan_layer_sums(int64_t rows, const runtime::Policy& policy) {
  const int64_t filling = (by_teams(policy) ? kTeamsPerUnit : kRowsPerUnit) * int64_t{policy.units};
  return std::max<int64_t>(1, std::max(std::min(filling, rows / kLeast), std::min(rows / kChain, kMostSplits)));
}

void layer_norm_backward(runtime::Queue& queue, DType type, DType parameter, const LayerNormProblem& problem,
                         void* grad_weight, void* grad_bias) {
  LayerNormArgs args{problem};
  const runtime::Policy& policy = runtime::policy_of(queue);
  const bool plain = args.mean, wide = by_teams(policy);
  if (!grad_weight && !grad_bias) {
    if (wide) {
      const auto& kernel = plain ? kernels::layer_norm_backward_team_plain : kernels::layer_norm_backward_team_rms;
      const RowTeams teams = row_teams(args.rows, args.cols, kNormHeld, policy);
      args.team = static_cast<uint32_t>(teams.items);
      return runtime::launch(queue, kernel(type, parameter), teams.groups, teams.local, args);
    }
    const auto& kernel = plain ? kernels::layer_norm_backward_row_plain : kernels::layer_norm_backward_row_rms;
    return runtime::launch(queue, kernel(type, parameter), row_groups(args.rows, policy), kLanes, args);
  }
  const size_t groups = plan_layer_sums(args.rows, policy);
  const runtime::Scratch partial(groups * 2 * args.cols * accumulator_bytes(type));
  args.partial = partial.get();
  const auto& kernel =
      wide    ? plain ? kernels::layer_norm_backward_team_plain_sums : kernels::layer_norm_backward_team_rms_sums
      : plain ? kernels::layer_norm_backward_row_plain_sums
              : kernels::layer_norm_backward_row_rms_sums;
  // One team per work-group: the sums of a group have one writer per column.
  const size_t local = wide ? even_group(args.cols, policy.team_items) : kLanes;
  args.team = static_cast<uint32_t>(local);
  runtime::launch(queue, kernel(type, parameter), groups, local, args);
  ColumnSumArgs last;
  last.partial = partial.get();
  last.out0 = grad_weight;
  last.out1 = grad_bias;
  last.cols = args.cols;
  last.by_cols = xpu::make_divider(last.cols);
  last.splits = static_cast<uint32_t>(groups);
  add_columns(queue, type, parameter, last);
}

void weight_norm(runtime::Queue& queue, DType type, const WeightNormProblem& problem) {
  const auto& kernel = problem.dw ? kernels::weight_norm_backward_row : kernels::weight_norm_row;
  runtime::launch(queue, kernel[type], row_groups(problem.rows, runtime::policy_of(queue)), kLanes, problem);
}

void batch_norm_coefficients(runtime::Queue& queue, DType type, DType parameter, const NormCoefProblem& problem) {
  coefficients(queue, kernels::batch_norm_coef(type, parameter), problem.channels, NormCoefArgs{problem});
}

void batch_norm_backward_coefficients(runtime::Queue& queue, DType type, DType parameter,
                                      const NormCoefProblem& problem) {
  coefficients(queue, kernels::batch_norm_backward_coef(type, parameter), problem.channels, NormCoefArgs{problem});
}

void group_norm_coefficients(runtime::Queue& queue, DType type, DType parameter, const NormCoefProblem& problem) {
  coefficients(queue, kernels::group_norm_coef(type, parameter), size_t{problem.batch} * problem.channels,
               to_args(problem));
}

void group_norm_backward_coefficients(runtime::Queue& queue, DType type, DType parameter,
                                      const NormCoefProblem& problem) {
  runtime::launch(queue, kernels::group_norm_backward_coef(type, parameter),
                  row_groups(int64_t{problem.batch} * problem.groups, runtime::policy_of(queue)), kLanes,
                  to_args(problem));
}

void group_norm_backward_parameters(runtime::Queue& queue, DType type, DType parameter,
                                    const NormCoefProblem& problem) {
  coefficients(queue, kernels::group_norm_backward_params(type, parameter), problem.channels, to_args(problem));
}

}  // namespace xpu_ops::ops
