// Losses: one elementwise launch, or partial sums and a launch that ends them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/loss.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

LossScalar loss_scalar(double value);

// Work-groups of partial sums over n elements, and their items; a partial sum per item.
struct PartialPlan { size_t groups, items; };
PartialPlan plan_partial(size_t n, const runtime::Policy& policy);

// Losses of each element into problem.out.
void loss(runtime::Queue& queue, LossKind kind, DType type, const LossProblem& problem);
void loss_backward(runtime::Queue& queue, LossKind kind, DType type, const LossProblem& problem);
// Their sum over `divisor`.
void loss_sum(runtime::Queue& queue, LossKind kind, DType type, const LossProblem& problem, double divisor);

void nll(runtime::Queue& queue, DType type, const NllProblem& problem);
void nll_backward(runtime::Queue& queue, DType type, const NllProblem& problem);  // onto zeros
// Their sum or mean, and the sum of their weights. Reports of the kernels are left to be raised.
void nll_sum(runtime::Queue& queue, DType type, const NllProblem& problem, void* total_weight);

// Margin losses of rows. `divisor`: 0 for the row losses themselves, else they are summed and divided.
enum class MarginKind { multi, multilabel };
void margin(runtime::Queue& queue, MarginKind kind, DType type, const MarginProblem& problem, double divisor);
void margin_backward(runtime::Queue& queue, MarginKind kind, DType type, const MarginProblem& problem);

}  // namespace xpu_ops::ops
