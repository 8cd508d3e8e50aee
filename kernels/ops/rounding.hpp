// Rounding to 8 bits with scales: plan (pure host code) and launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/rounding.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

struct RoundPlan {
  bool spans = false;  // items that compute in vectors take groups
  size_t groups = 0;   // of items
  size_t local = 1;
  uint32_t each = 1;  // groups of values for such an item
  uint32_t team = 0;  // else items that share one
};
RoundPlan plan_round(const RoundProblem& problem, const runtime::Policy& policy);
// There are values.
void round_rows(runtime::Queue& queue, DType from, RoundFormat to, const RoundProblem& problem);

struct ScalePlan {
  uint32_t chunk = 0;  // columns of a work-group, whole groups
  size_t groups = 0, items = 1;
};
ScalePlan plan_scale(const ScaleProblem& problem, const runtime::Policy& policy);
void round_by(runtime::Queue& queue, DType from, RoundFormat to, const ScaleProblem& problem);

}  // namespace xpu_ops::ops
