#include "bindings/aten/blockscale.hpp"

#include <ATen/ceil_div.h>

#include "bindings/aten/core/tensor.hpp"

namespace xpu_ops::aten {
namespace {

using plan::BlockScale;
using plan::BlockValues;

BlockValues values_of(at::ScalarType t) {
  switch (t) {
    case at::kFloat8_e4m3fn: return BlockValues::e4m3fn;
    case at::kFloat8_e5m2: return BlockValues::e5m2;
    case at::kFloat8_e4m3fnuz: return BlockValues::e4m3fnuz;
    case at::kFloat8_e5m2fnuz: return BlockValues::e5m2fnuz;
    default: return BlockValues::e2m1;
  }
}
BlockScale scale_of(at::ScalarType t) {
  return t == at::kFloat ? BlockScale::f32 : t == at::kFloat8_e8m0fnu ? BlockScale::e8m0 : BlockScale::e4m3;
}
int64_t scale_rows(Recipe recipe) { return recipe == Recipe::by_128x128 ? 128 : 1; }

bool types_fit(at::ScalarType values, at::ScalarType scale, Recipe recipe) {
  switch (recipe) {
    case Recipe::by_1x16: return is_float4(values) && scale == at::kFloat8_e4m3fn;
    case Recipe::by_1x32: return (is_float4(values) || is_float8(values)) && scale == at::kFloat8_e8m0fnu;
    default: return is_float8(values) && scale == at::kFloat;
  }
}

}  // namespace

int64_t block_of(Recipe recipe) { return recipe == Recipe::by_1x16 ? 16 : recipe == Recipe::by_1x32 ? 32 : 128; }
int64_t blocks_in(const at::Tensor& rows, Recipe recipe) {
  return at::ceil_div<int64_t>(row_values(rows), block_of(recipe));
}
int64_t swizzled_scales(const at::Tensor& rows, Recipe recipe) {
  return at::round_up<int64_t>(rows.size(0), 128) * at::round_up<int64_t>(blocks_in(rows, recipe), 4);
}

std::optional<BlockScales> block_scales(const at::Tensor& rows, const at::Tensor& scale, Recipe recipe,
                                        Swizzle swizzle) {
  if (!types_fit(rows.scalar_type(), scale.scalar_type(), recipe)) return std::nullopt;
  const bool plain = scale.dim() == 2 && scale.size(0) == at::ceil_div(rows.size(0), scale_rows(recipe)) &&
                     scale.size(1) == blocks_in(rows, recipe);
  if (swizzle != Swizzle::tiles_32_4_4 && plain && (scale.is_contiguous() || scale.t().is_contiguous()))
    return BlockScales{scale, recipe, false};
  if (swizzle != Swizzle::none && scale.scalar_type() != at::kFloat && scale.is_contiguous() &&
      scale.numel() == swizzled_scales(rows, recipe))
    return BlockScales{scale, recipe, true};
  return std::nullopt;
}

bool narrow(const BlockScales& scales) { return plan::exact_in_bf16(scale_of(scales.values.scalar_type())); }

at::Tensor widened(const at::Tensor& rows_, const BlockScales& scales, at::ScalarType to) {
  const at::Tensor rows = rows_.stride(1) == 1 || rows_.size(1) == 1 ? rows_ : rows_.contiguous();
  const int64_t k = row_values(rows);
  TORCH_CHECK(rows.size(0) <= INT32_MAX && k <= INT32_MAX, "A scaled product takes sizes up to ", INT32_MAX,
              ", but got ", rows.size(0), " rows of ", k, " values.");
  at::Tensor out = new_empty({rows.size(0), k}, to);
  BlockScaleArgs args;
  args.in = rows.const_data_ptr();
  args.scale = scales.values.const_data_ptr();
  args.out = out.mutable_data_ptr();
  args.in_row = rows.stride(0);
  args.rows = static_cast<uint32_t>(rows.size(0));
  args.k = static_cast<uint32_t>(k);
  args.block = static_cast<uint32_t>(block_of(scales.recipe));
  args.scale_rows = static_cast<uint32_t>(scale_rows(scales.recipe));
  if (scales.swizzled) {
    args.tiles = static_cast<uint32_t>(at::ceil_div<int64_t>(blocks_in(rows, scales.recipe), 4));
  } else {
    args.scale_row = scales.values.stride(0);
    args.scale_block = scales.values.stride(1);
  }
  plan::dequantize(runtime::current_queue(), to_dtype(to), values_of(rows.scalar_type()),
                   scale_of(scales.values.scalar_type()), args);
  return out;
}

}  // namespace xpu_ops::aten
