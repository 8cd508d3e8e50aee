#include "kernels/ops/blockscale.hpp"

#include <algorithm>

#include "gen/kernels/blockscale_kernels.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/launch.hpp"

namespace xpu_ops::plan::inline blockscale_family {
namespace {

using runtime::ceil_div;

constexpr uint32_t kValues = 4096;  // of a work-group, about

const runtime::KernelTable& table(BlockValues values, BlockScale scale) {
  const bool e8m0 = scale == BlockScale::e8m0;
  switch (values) {
    case BlockValues::e4m3fn:
      return e8m0 ? kernels::blockscale_dequantize_e4m3fn_e8m0 : kernels::blockscale_dequantize_e4m3fn_f32;
    case BlockValues::e5m2:
      return e8m0 ? kernels::blockscale_dequantize_e5m2_e8m0 : kernels::blockscale_dequantize_e5m2_f32;
    case BlockValues::e4m3fnuz:
      return e8m0 ? kernels::blockscale_dequantize_e4m3fnuz_e8m0 : kernels::blockscale_dequantize_e4m3fnuz_f32;
    case BlockValues::e5m2fnuz:
      return e8m0 ? kernels::blockscale_dequantize_e5m2fnuz_e8m0 : kernels::blockscale_dequantize_e5m2fnuz_f32;
    default: return e8m0 ? kernels::blockscale_dequantize_e2m1_e8m0 : kernels::blockscale_dequantize_e2m1_e4m3;
  }
}

}  // namespace

BlockScalePlan plan_blockscale(const BlockScaleArgs& args, const runtime::Policy& policy) {
  BlockScalePlan plan;
  if (!args.rows || !args.k) return plan;
  plan.local1 = policy.lanes;
  plan.local0 = std::max<size_t>(policy.row_items / policy.lanes, 1);
  const uint32_t whole = static_cast<uint32_t>(ceil_div(args.k, args.block)) * args.block;
  plan.column_each = std::min(whole, std::max(kValues / args.block, 1u) * args.block);
  plan.row_each = std::max(kValues / plan.column_each, 1u);
  plan.groups0 = ceil_div(args.rows, plan.local0 * plan.row_each);
  plan.groups1 = ceil_div(args.k, plan.column_each);
  return plan;
}

void dequantize(runtime::Queue& queue, DType to, BlockValues values, BlockScale scale, BlockScaleArgs args) {
  const BlockScalePlan plan = plan_blockscale(args, runtime::device_info(queue.device).policy);
  args.row_each = plan.row_each;
  args.column_each = plan.column_each;
  runtime::launch2(queue, table(values, scale)[to], plan.groups0, plan.groups1, plan.local0, plan.local1, args);
}

}  // namespace xpu_ops::plan::inline blockscale_family
