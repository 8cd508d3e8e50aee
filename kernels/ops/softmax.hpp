// Softmax: plan (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/softmax.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

struct SoftmaxPlan {
  enum class Kernel : uint8_t { fours, row, team, columns };  // all but the last along the innermost dimension
  Kernel kernel = Kernel::columns;
  uint32_t blocks = 1;  // work-groups over columns
  uint32_t team = 1;    // items that share a row
  uint32_t rows = 1;    // that they take side by side
  size_t groups = 0, local = 0;
};
SoftmaxPlan plan_softmax(DType from, const SoftmaxProblem& problem, const runtime::Policy& policy);

void softmax(runtime::Queue& queue, bool log, DType from, DType to, const SoftmaxProblem& problem);

}  // namespace xpu_ops::ops
