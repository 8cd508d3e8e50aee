// Operands with a scale per block, made wide for a product: plan (pure host code) and launch.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/blockscale.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

enum class BlockValues { e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e2m1 };
enum class BlockScale { f32, e8m0, e4m3 };

struct BlockScalePlan {
  uint32_t row_each = 1, column_each = 0;  // of a work-group's row of items
  size_t groups0 = 0, groups1 = 0, local0 = 1, local1 = 1;
  bool vectors = false;  // a work-group is one item that computes in vectors
};
BlockScalePlan plan_blockscale(BlockValues values, const BlockScaleProblem& problem, const runtime::Policy& policy);

// Whether bf16 holds every product of a value with a scale.
constexpr bool exact_in_bf16(BlockScale scale) { return scale != BlockScale::f32; }

// Values of e2m1 have e8m0 or e4m3 scales, the others f32 or e8m0. `to` is f32 or bf16.
void dequantize(runtime::Queue& queue, DType to, BlockValues values, BlockScale scale,
                const BlockScaleProblem& problem);

struct BlockRowsPlan {
  bool served = false;  // false: the operands are made wide for oneDNN
  uint32_t blocks = 1;  // sets of kWeightRows rows per work-group
  size_t groups = 0;
};
BlockRowsPlan plan_block_rows(BlockValues values, BlockScale scale, const BlockRowsProblem& problem,
                              const runtime::Policy& policy);
// The same product without wide weights, for a few rows of a. False where the plan does not serve it.
bool block_rows(runtime::Queue& queue, BlockValues values, BlockScale scale, const BlockRowsProblem& problem);

// The same where a and the weight are both of e4m3fn or both of e2m1 with the same scales, which stay as they are, and
// the result has a factor and a bias. By instructions of the processor. `by_rows`: a scale of float32 per row in place
// of one per block.
BlockRowsPlan plan_block_dots(BlockValues values, BlockScale scale, bool by_rows, const BlockDotsProblem& problem,
                              const runtime::Policy& policy);
bool block_dots(runtime::Queue& queue, BlockValues values, BlockScale scale, bool by_rows, DType out,
                const BlockDotsProblem& problem);

}  // namespace xpu_ops::ops
