// Linear algebra on a queue, with kernels of our own.
#pragma once
#include "kernels/runtime/queue.hpp"
#include "kernels/sycl/linalg_args.hpp"

namespace xpu_ops::ops {

void lu_permutation(runtime::Queue& queue, const PermutationArgs& args);

}  // namespace xpu_ops::ops
