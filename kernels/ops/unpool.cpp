#include "kernels/ops/unpool.hpp"

#include "gen/kernels/unpool_kernels.hpp"
#include "kernels/ops/items.hpp"

namespace xpu_ops::plan::inline unpool_family {

void fractional_max_pool(runtime::Queue& queue, DType type, const FractionalArgs& args) {
  launch_item_rows(queue, kernels::fractional_max_pool[type], size_t{args.planes} * args.out_size[0] * args.out_size[1],
                   args.out_size[2], args);
}

}  // namespace xpu_ops::plan::inline unpool_family
