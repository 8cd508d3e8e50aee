#include "kernels/ops/unpool.hpp"

#include "gen/kernels/unpool_kernels.hpp"
#include "kernels/ops/items.hpp"

namespace xpu_ops::ops {

void fractional_max_pool(runtime::Queue& queue, DType type, const FractionalProblem& problem) {
  launch_item_rows(queue, kernels::fractional_max_pool[type],
                   size_t{problem.planes} * problem.out_size[0] * problem.out_size[1], problem.out_size[2], problem);
}

}  // namespace xpu_ops::ops
