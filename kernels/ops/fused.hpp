// Residual addition with a norm, and rotary embeddings: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/fused.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// Results go past the last cache where they alone would fill it.
enum class AddNormKernel { row, vectors, vectors_past };
// `bytes`: of one element.
AddNormKernel plan_add_norm(int64_t rows, int64_t cols, size_t bytes, const runtime::Policy& policy);
// x + residual and its layer norm, or RMS norm where `norm.mean` is null; `parameter`: type of weight and bias.
void add_norm(runtime::Queue& queue, DType type, DType parameter, const AddNormProblem& problem);

struct RotaryPlan {
  uint32_t rows_per_group = 1;
  size_t groups0 = 0, groups1 = 0, local = 1;  // over rows, over pairs
};
RotaryPlan plan_rotary(int64_t rows, int64_t pairs, const runtime::Policy& policy);
// `table`: type of sines and cosines.
void rotary(runtime::Queue& queue, DType type, DType table, const RotaryProblem& problem, bool interleaved);

}  // namespace xpu_ops::ops
