// Operands of scaled products whose scales belong to blocks: which scales fit, and the values times them.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>

#include "kernels/ops/blockscale.hpp"

namespace xpu_ops::aten {

// As torch numbers them.
enum class Recipe : int64_t { tensor, row, by_1x16, by_1x32, by_1x128, by_128x128 };

inline bool is_float4(at::ScalarType t) { return t == at::kFloat4_e2m1fn_x2; }
inline bool is_float8(at::ScalarType t) {
  return t == at::kFloat8_e4m3fn || t == at::kFloat8_e5m2 || t == at::kFloat8_e4m3fnuz || t == at::kFloat8_e5m2fnuz;
}
// The scales of an operand whose rows are contracted.
struct BlockScales {
  at::Tensor values;
  Recipe recipe = Recipe::by_1x32;
  bool swizzled = false;
};
struct Operands {
  at::Tensor a, b;  // rows of both are contracted
  BlockScales scale_a, scale_b;
  std::array<at::Tensor, 2> factor;  // of the product, where there are two
};
// Those of _scaled_mm(a, b), which tells combinations from one another by their shapes.
std::optional<Operands> block_operands(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                                       const at::Tensor& scale_b);
// Those of _scaled_mm_v2. ValueError where torch knows no such combination, or a scale does not fit.
Operands named_operands(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                        at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b,
                        at::IntArrayRef swizzle_b);
// The text of the error for combinations that torch does not know.
std::string invalid_scaling(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                            const at::Tensor& scale_b);

// Whether bf16 holds every value times its scale.
bool narrow(const BlockScales& scales);
// The values times their scales, (rows, values of a row), in bf16 or float32.
at::Tensor widened(const at::Tensor& rows, const BlockScales& scales, at::ScalarType to);
// out = a @ b.T for a few rows of a, with the scales of blocks, by a kernel of its own. out is dense, of float32. False
// where the plan leaves the product to others.
bool few_rows(const Operands& operands, const at::Tensor& out);
// The same with the factor and a bias, a row of float32. out is dense, of float32, bf16 or f16.
bool few_rows(const Operands& operands, const at::Tensor& bias, const at::Tensor& out);
// out = a @ b * scale_a * scale_b + bias for float8, with scales of the tensors or of rows and columns.
bool few_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
              const at::Tensor& bias, const at::Tensor& out);

// out = (a @ b) * scale_a * scale_b + bias for float8.
void scaled_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                    const std::optional<at::Tensor>& bias, const at::Tensor& out);
// out = a @ b.T + bias with the scales of blocks applied first, and the factors to the product.
void block_product(const Operands& x, const std::optional<at::Tensor>& bias, const at::Tensor& out);
// The conditions of torch on products with block scales; an element holds so many values.
void check_block_product(const at::Tensor& a, const at::Tensor& b, int64_t per_element, bool use_fast_accum,
                         const std::optional<at::Tensor>& bias, at::ScalarType out);

}  // namespace xpu_ops::aten
