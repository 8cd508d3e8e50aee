#include "kernels/ops/linalg.hpp"

#include "gen/kernels/linalg_kernels.hpp"
#include "kernels/runtime/launch.hpp"

namespace xpu_ops::ops {
namespace {

constexpr size_t kGroup = 64;  // matrices of one work-group

}  // namespace

void lu_permutation(runtime::Queue& queue, const PermutationArgs& args) {
  runtime::launch(queue, kernels::lu_permutation, runtime::ceil_div(args.batch, kGroup), kGroup, args);
}

}  // namespace xpu_ops::ops
