// Linear algebra on a queue, with kernels of our own.
#pragma once
#include "runtime/queue.hpp"
#include "sycl/linalg_args.hpp"

namespace xpu_ops::ops {

void lu_permutation(runtime::Queue& queue, const PermutationArgs& args);

}  // namespace xpu_ops::ops
