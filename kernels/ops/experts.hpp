// Layers of experts: plan (pure host code) and launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/experts.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// Whether an item can keep what it needs about so many experts and choices of a token.
bool plan_experts_serve(uint32_t experts, uint32_t count);

uint32_t plan_choices(uint32_t tokens, const runtime::Policy& policy);  // tokens of an item
void choose_experts(runtime::Queue& queue, DType type, const ChooseProblem& problem);

void align_experts(runtime::Queue& queue, const AlignProblem& problem);

struct SpreadPlan {
  bool at_once = false;  // one launch
  size_t items = 1;      // of a work-group, which moves one part of one choice
};
SpreadPlan plan_spread(const SpreadProblem& problem, const runtime::Policy& policy);
void spread_rows(runtime::Queue& queue, const SpreadProblem& problem);

// Rows in pieces.
struct PiecePlan {
  uint32_t chunk = 0;  // columns of a work-group
  size_t groups = 0, items = 1;
};
PiecePlan plan_sum(const SumProblem& problem, const runtime::Policy& policy);
void sum_experts(runtime::Queue& queue, DType type, const SumProblem& problem);

PiecePlan plan_pairs(const PairProblem& problem, const runtime::Policy& policy);
void swiglu_pairs(runtime::Queue& queue, DType type, const PairProblem& problem);

}  // namespace xpu_ops::ops
