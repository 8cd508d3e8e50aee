// Softmax: plan (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/policy.hpp"
#include "kernels/runtime/queue.hpp"
#include "kernels/sycl/softmax_args.hpp"

namespace xpu_ops::plan::inline softmax_family {

struct SoftmaxPlan {
  bool by_row = true;   // along the innermost dimension, else columns of vectors
  uint32_t blocks = 1;  // work-groups over columns
  size_t groups = 0;
};
SoftmaxPlan plan_softmax(const SoftmaxArgs& args, const runtime::Policy& policy);

// The gradient where `y` is given. `blocks` of the arguments is left as it is.
void softmax(runtime::Queue& queue, bool log, DType from, DType to, SoftmaxArgs args);

}  // namespace xpu_ops::plan::inline softmax_family
