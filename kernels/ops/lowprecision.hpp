// Products of a few rows with 8-bit and 4-bit weights: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/lowprecision.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// int4_pairs: scale and zero of each group side by side, as _weight_int4pack_mm has them.
enum class WeightKind { int8, int4_pairs, int4_zeros };

struct WeightPlan {
  bool served = false;  // false: oneDNN multiplies
  bool pairs = false;   // by kernels/sycl/cpu/dot16.hpp
  bool narrow = false;  // by kernels/sycl/cpu/dots_narrow.hpp
  uint32_t blocks = 1;
  size_t groups = 0;
};
WeightPlan plan_weight(WeightKind kind, DType type, const WeightProblem& problem, const runtime::Policy& policy);
// False where the plan leaves the product to oneDNN.
bool weight_product(runtime::Queue& queue, WeightKind kind, DType type, const WeightProblem& problem);

}  // namespace xpu_ops::ops
