#include "kernels/ops/experts.hpp"

#include <algorithm>

#include "gen/kernels/experts_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/products/experts_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kAtOnce = 1 << 17;           // bytes that one item moves sooner than a second launch begins
constexpr uint32_t kLeastSummands = 1 << 14;  // of a work-group of one item
constexpr size_t kLeastPairs = 4096;          // likewise

// Of `chunk` columns for one item; of many items four each.
PiecePlan pieces(uint32_t columns, size_t chunk, const runtime::Policy& policy) {
  PiecePlan plan;
  plan.items = policy.single_items ? 1 : tile_group(columns, policy);
  plan.chunk = static_cast<uint32_t>(policy.single_items ? chunk : 4 * plan.items);
  plan.groups = ceil_div(columns, plan.chunk);
  return plan;
}

size_t bytes_of(const SpreadPart& part) { return size_t{part.size} * part.bytes; }

}  // namespace

bool plan_experts_serve(uint32_t experts, uint32_t count) {
  return experts > 0 && experts <= kMostExperts && count <= kMostChosen;
}

uint32_t plan_choices(uint32_t tokens, const runtime::Policy& policy) {
  if (!policy.single_items) return 1;
  return static_cast<uint32_t>(std::max<size_t>(1, tokens / (policy.units * kGroupsPerUnit)));
}

void choose_experts(runtime::Queue& queue, DType type, const ChooseProblem& problem) {
  ChooseArgs args{problem};
  args.each = plan_choices(args.tokens, runtime::policy_of(queue));
  runtime::launch(queue, kernels::choose_experts[type], ceil_div(args.tokens, args.each), 1, args);
}

void align_experts(runtime::Queue& queue, const AlignProblem& problem) {
  runtime::launch(queue, kernels::align_experts, 1, 1, AlignArgs{problem});
}

SpreadPlan plan_spread(const SpreadProblem& p, const runtime::Policy& policy) {
  const size_t bytes = size_t{p.tokens} * p.count * (bytes_of(p.part[0]) + bytes_of(p.part[1]));
  if (policy.single_items) return {bytes <= kAtOnce, 1};
  return {false, tile_group(std::max(p.part[0].size, p.part[1].size), policy)};
}

void spread_rows(runtime::Queue& queue, const SpreadProblem& problem) {
  SpreadArgs args{problem};
  const SpreadPlan plan = plan_spread(problem, runtime::policy_of(queue));
  args.at_once = plan.at_once;
  runtime::launch(queue, kernels::rank_experts, 1, 1, args);
  if (plan.at_once || (!args.part[0].size && !args.part[1].size)) return;
  runtime::KernelSlot& kernel = plan.items == 1 ? kernels::spread_spans : kernels::spread_rows;
  runtime::launch2(queue, kernel, size_t{args.tokens} * args.count, args.part[1].size ? 2 : 1, 1, plan.items, args);
}

PiecePlan plan_sum(const SumProblem& p, const runtime::Policy& policy) {
  const size_t wanted = policy.units * kGroupsPerUnit, parts = ceil_div(wanted, std::max<size_t>(p.tokens, 1));
  const size_t least = ceil_div(kLeastSummands, size_t{std::max(p.count, 1u)} * 64) * 64;
  return pieces(p.columns, std::max(least, ceil_div(p.columns, parts * 64) * 64), policy);
}

void sum_experts(runtime::Queue& queue, DType type, const SumProblem& problem) {
  SumArgs args{problem};
  const PiecePlan plan = plan_sum(problem, runtime::policy_of(queue));
  args.chunk = plan.chunk;
  const auto& table = plan.items == 1 ? kernels::sum_spans : kernels::sum_rows;
  runtime::launch2(queue, table[type], args.tokens, plan.groups, 1, plan.items, args);
}

PiecePlan plan_pairs(const PairProblem& p, const runtime::Policy& policy) {
  const size_t share = ceil_div(size_t{p.rows} * p.columns, policy.units * kGroupsPerUnit);
  return pieces(p.columns, ceil_div(std::max(kLeastPairs, share), 16) * 16, policy);
}

void swiglu_pairs(runtime::Queue& queue, DType type, const PairProblem& problem) {
  PairArgs args{problem};
  const PiecePlan plan = plan_pairs(problem, runtime::policy_of(queue));
  args.chunk = plan.chunk;
  const auto& table = plan.items == 1 ? kernels::pair_spans : kernels::pair_items;
  runtime::launch2(queue, table[type], args.rows, plan.groups, 1, plan.items, args);
}

}  // namespace xpu_ops::ops
