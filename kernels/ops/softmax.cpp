#include "kernels/ops/softmax.hpp"

#include <algorithm>

#include "gen/kernels/softmax_kernels.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/launch.hpp"
#include "kernels/sycl/reduction_args.hpp"

namespace xpu_ops::plan::inline softmax_family {
namespace {

constexpr size_t kRowGroups = 64;  // work-groups per compute unit

const runtime::KernelTable2& kernel_of(bool backward, bool by_row, bool log) {
  if (backward && by_row) return log ? kernels::softmax_backward_row_log : kernels::softmax_backward_row_plain;
  if (backward) return log ? kernels::softmax_backward_col_log : kernels::softmax_backward_col_plain;
  if (by_row) return log ? kernels::softmax_row_log : kernels::softmax_row_plain;
  return log ? kernels::softmax_col_log : kernels::softmax_col_plain;
}

}  // namespace

SoftmaxPlan plan_softmax(const SoftmaxArgs& args, const runtime::Policy& policy) {
  SoftmaxPlan plan;
  if (args.inner == 1) {
    plan.groups = std::min<size_t>(args.outer, kRowGroups * policy.units);
    return plan;
  }
  plan.by_row = false;
  plan.blocks = static_cast<uint32_t>(runtime::ceil_div(args.inner, kSoftmaxVectors * kLanes));
  plan.groups = size_t{plan.blocks} * args.outer;
  return plan;
}

void softmax(runtime::Queue& queue, bool log, DType from, DType to, SoftmaxArgs args) {
  const SoftmaxPlan plan = plan_softmax(args, runtime::device_info(queue.device).policy);
  args.blocks = plan.blocks;
  runtime::launch(queue, kernel_of(args.y, plan.by_row, log)(from, to), plan.groups, kLanes, args);
}

}  // namespace xpu_ops::plan::inline softmax_family
