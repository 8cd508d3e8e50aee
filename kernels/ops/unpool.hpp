// Fractional max pooling: launch.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/unpool_args.hpp"

namespace xpu_ops::plan::inline unpool_family {

void fractional_max_pool(runtime::Queue& queue, DType type, const FractionalArgs& args);

}  // namespace xpu_ops::plan::inline unpool_family
