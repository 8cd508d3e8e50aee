// Operands of scaled products whose scales belong to blocks: which scales fit, and the values times them.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/ops/blockscale.hpp"

namespace xpu_ops::aten {

// As torch numbers them.
enum class Recipe : int64_t { tensor, row, by_1x16, by_1x32, by_1x128, by_128x128 };
enum class Swizzle : int64_t { none, tiles_32_4_4, any };

inline bool is_float4(at::ScalarType t) { return t == at::kFloat4_e2m1fn_x2; }
inline bool is_float8(at::ScalarType t) {
  return t == at::kFloat8_e4m3fn || t == at::kFloat8_e5m2 || t == at::kFloat8_e4m3fnuz || t == at::kFloat8_e5m2fnuz;
}
// Values of a row.
inline int64_t row_values(const at::Tensor& rows) { return rows.size(1) * (is_float4(rows.scalar_type()) ? 2 : 1); }
// Blocks of a row, and how many scales a swizzled tensor of them has.
int64_t block_of(Recipe recipe);
int64_t blocks_in(const at::Tensor& rows, Recipe recipe);
int64_t swizzled_scales(const at::Tensor& rows, Recipe recipe);

// The scales of an operand whose rows are contracted.
struct BlockScales {
  at::Tensor values;
  Recipe recipe = Recipe::by_1x32;
  bool swizzled = false;
};
// Nothing where type, shape or layout do not fit. Without swizzling a tensor has a row for each row of the operand, or
// for each 128 of them, and a column for each block; Swizzle::any prefers that shape.
std::optional<BlockScales> block_scales(const at::Tensor& rows, const at::Tensor& scale, Recipe recipe,
                                        Swizzle swizzle);

// Whether bf16 holds every value times its scale.
bool narrow(const BlockScales& scales);
// The values times their scales, (rows, values of a row), in bf16 or float32.
at::Tensor widened(const at::Tensor& rows, const BlockScales& scales, at::ScalarType to);

}  // namespace xpu_ops::aten
