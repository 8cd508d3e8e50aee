#include "kernels/ops/blockscale.hpp"

#include <algorithm>

#include "gen/kernels/blockscale_kernels.hpp"
#include "gen/kernels/dots8_kernels.hpp"
#include "gen/kernels/dots_narrow_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/products/blockscale_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr uint32_t kValues = 4096;         // of a work-group, about
constexpr uint32_t kManyValues = 32768;    // of one that computes in vectors
constexpr uint32_t kMostProductRows = 32;  // up to which a product with the weights as they are is the faster one
// The same where both operands stay as they are. Scales of float32 have no product by bf16 to turn to.
constexpr uint32_t kMostNibbleDots = 64, kMostFloatDots = 256;

const runtime::KernelTable& vectors(BlockValues values, BlockScale scale) {
  const bool e8m0 = scale == BlockScale::e8m0;
  if (values == BlockValues::e4m3fn)
    return e8m0 ? kernels::blockscale_widen_e4m3fn_e8m0 : kernels::blockscale_widen_e4m3fn_f32;
  return e8m0 ? kernels::blockscale_widen_e2m1_e8m0 : kernels::blockscale_widen_e2m1_e4m3;
}

// Scales of a chunk side by side.
bool dense(BlockScale scale, const BlockScaleProblem& p) {
  return scale == BlockScale::f32 || p.tiles || p.scale_block == 1;
}
bool few(BlockValues values, const WeightProblem& w, uint32_t most) {
  return (values == BlockValues::e4m3fn || values == BlockValues::e2m1) && w.m && w.m <= most && w.n >= kWeightRows &&
         w.k && w.k % kWeightChunk == 0;
}
void share_sets(BlockRowsPlan& plan, uint32_t n, const runtime::Policy& policy) {
  const size_t sets = ceil_div(n, kWeightRows);
  const size_t share = ceil_div(sets, policy.units * kGroupsPerUnit * kWeightSides) * kWeightSides;
  plan.blocks = static_cast<uint32_t>(std::min<size_t>(share, kWeightBlocks));
  plan.groups = ceil_div(sets, plan.blocks);
}

const runtime::KernelTable& kernels_of(BlockValues values, BlockScale scale) {
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

runtime::KernelSlot& dots_kernel(BlockValues values, BlockScale scale, bool by_rows, bool narrow) {
  using namespace kernels;
  const bool e8m0 = scale == BlockScale::e8m0;
  if (values == BlockValues::e2m1) {
    if (e8m0) return narrow ? narrow_dots_e2m1_e8m0 : block_dots_e2m1_e8m0;
    return narrow ? narrow_dots_e2m1_e4m3 : block_dots_e2m1_e4m3;
  }
  if (by_rows) return narrow ? narrow_dots_e4m3_rows : block_dots_e4m3_rows;
  if (e8m0) return narrow ? narrow_dots_e4m3_e8m0 : block_dots_e4m3_e8m0;
  return narrow ? narrow_dots_e4m3_f32 : block_dots_e4m3_f32;
}

}  // namespace

BlockScalePlan plan_blockscale(BlockValues values, const BlockScaleProblem& p, const runtime::Policy& policy) {
  BlockScalePlan plan;
  if (!p.rows || !p.k) return plan;
  plan.vectors = policy.single_items && p.k % 16 == 0 && (values == BlockValues::e4m3fn || values == BlockValues::e2m1);
  const uint32_t each = plan.vectors ? kManyValues : kValues;
  if (!plan.vectors) {
    plan.local1 = policy.lanes;
    plan.local0 = std::max<size_t>(policy.row_items / policy.lanes, 1);
  }
  const uint32_t whole = static_cast<uint32_t>(ceil_div(p.k, p.block)) * p.block;
  plan.column_each = std::min(whole, std::max(each / p.block, 1u) * p.block);
  plan.row_each = std::max(each / plan.column_each, 1u);
  plan.groups0 = ceil_div(p.rows, plan.local0 * plan.row_each);
  plan.groups1 = ceil_div(p.k, plan.column_each);
  return plan;
}

void dequantize(runtime::Queue& queue, DType to, BlockValues values, BlockScale scale, const BlockScaleProblem& p) {
  const BlockScalePlan plan = plan_blockscale(values, p, runtime::policy_of(queue));
  const BlockScaleArgs args{p, plan.row_each, plan.column_each};
  if (plan.vectors) return runtime::launch(queue, vectors(values, scale)[to], plan.groups0 * plan.groups1, 1, args);
  runtime::launch2(queue, kernels_of(values, scale)[to], plan.groups0, plan.groups1, plan.local0, plan.local1, args);
}

BlockRowsPlan plan_block_rows(BlockValues values, BlockScale scale, const BlockRowsProblem& p,
                              const runtime::Policy& policy) {
  BlockRowsPlan plan;
  const WeightProblem& w = p.weight;
  plan.served = policy.single_items && dense(scale, p.scales) && few(values, w, kMostProductRows);
  if (plan.served) share_sets(plan, w.n, policy);
  return plan;
}

bool block_rows(runtime::Queue& queue, BlockValues values, BlockScale scale, const BlockRowsProblem& p) {
  const BlockRowsPlan plan = plan_block_rows(values, scale, p, runtime::policy_of(queue));
  if (!plan.served) return false;
  const BlockRowsArgs args{{p.weight, plan.blocks}, {p.scales}};
  const bool e8m0 = scale == BlockScale::e8m0;
  runtime::KernelSlot& kernel = values == BlockValues::e2m1
                                    ? (e8m0 ? kernels::blockscale_rows_e2m1_e8m0 : kernels::blockscale_rows_e2m1_e4m3)
                                    : (e8m0 ? kernels::blockscale_rows_e4m3_e8m0 : kernels::blockscale_rows_e4m3_f32);
  runtime::launch(queue, kernel, plan.groups, 1, args);
  return true;
}

BlockRowsPlan plan_block_dots(BlockValues values, BlockScale scale, bool by_rows, const BlockDotsProblem& p,
                              const runtime::Policy& policy) {
  BlockRowsPlan plan;
  const uint32_t most = values == BlockValues::e2m1            ? kMostNibbleDots
                        : scale == BlockScale::f32 && !by_rows ? kMostFloatDots
                                                               : kMostProductRows;
  plan.served = (policy.dots8 || policy.dots_narrow) && few(values, p.weight, most) &&
                (by_rows || (dense(scale, p.a) && dense(scale, p.w)));
  if (plan.served) share_sets(plan, p.weight.n, policy);
  return plan;
}

bool block_dots(runtime::Queue& queue, BlockValues values, BlockScale scale, bool by_rows, DType out,
                const BlockDotsProblem& p) {
  const BlockRowsPlan plan = plan_block_dots(values, scale, by_rows, p, runtime::policy_of(queue));
  if (!plan.served) return false;
  const uint32_t to = out == DType::f32 ? 0 : out == DType::bf16 ? 1 : 2;
  const BlockDotsArgs args{{p.weight, plan.blocks}, {p.a}, {p.w}, {p.factor[0], p.factor[1]}, p.bias, to};
  const bool narrow = runtime::policy_of(queue).dots_narrow;
  runtime::launch(queue, dots_kernel(values, scale, by_rows, narrow), plan.groups, 1, args);
  return true;
}

}  // namespace xpu_ops::ops
