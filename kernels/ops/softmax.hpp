// Softmax: plan (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/policy.hpp"
#include "kernels/runtime/queue.hpp"
#include "kernels/sycl/reduction_args.hpp"
#include "kernels/sycl/softmax_args.hpp"

namespace xpu_ops::plan::inline softmax_family {

struct SoftmaxPlan {
  enum class Kernel : uint8_t { fours, row, columns };  // the first two along the innermost dimension
  Kernel kernel = Kernel::columns;
  uint32_t blocks = 1;  // work-groups over columns
  size_t groups = 0, local = kLanes;
};
SoftmaxPlan plan_softmax(DType from, const SoftmaxArgs& args, const runtime::Policy& policy);

// The gradient where `y` is given. `blocks` of the arguments is left as it is.
void softmax(runtime::Queue& queue, bool log, DType from, DType to, SoftmaxArgs args);

}  // namespace xpu_ops::plan::inline softmax_family
