// Losses: one elementwise launch, or partial sums and a launch that ends them. The arguments of the kernels are the
// problems; fields that a plan makes are left as they are.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/loss_args.hpp"

namespace xpu_ops::plan::inline loss_family {

LossScalar loss_scalar(double value);

// Work-groups of partial sums over n elements, and their items; a partial sum per item.
struct PartialPlan { size_t groups, items; };
PartialPlan plan_partial(size_t n, const runtime::Policy& policy);

// Losses of each element into args.out.
void loss(runtime::Queue& queue, LossKind kind, DType type, const LossArgs& args);
void loss_backward(runtime::Queue& queue, LossKind kind, DType type, const LossArgs& args);
// Their sum over `divisor`.
void loss_sum(runtime::Queue& queue, LossKind kind, DType type, LossArgs args, double divisor, void* out);

void nll(runtime::Queue& queue, DType type, const NllArgs& args);
void nll_backward(runtime::Queue& queue, DType type, const NllArgs& args);  // onto zeros
// Sum or mean of losses, and the sum of their weights.
void nll_sum(runtime::Queue& queue, DType type, NllArgs args, bool mean, void* out, void* total_weight);

// Margin losses of rows. `divisor`: 0 for the row losses themselves, else they are summed and divided.
enum class MarginKind { multi, multilabel };
void margin(runtime::Queue& queue, MarginKind kind, DType type, MarginArgs args, double divisor, void* out);
void margin_backward(runtime::Queue& queue, MarginKind kind, DType type, const MarginArgs& args);

}  // namespace xpu_ops::plan::inline loss_family
