// Fractional max pooling: launch.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/ops/problem/unpool.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

void fractional_max_pool(runtime::Queue& queue, DType type, const FractionalProblem& problem);

}  // namespace xpu_ops::ops
