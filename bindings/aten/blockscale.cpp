#include "bindings/aten/blockscale.hpp"

#include <ATen/ceil_div.h>

#include <algorithm>

#include "bindings/aten/core/tensor.hpp"

namespace xpu_ops::aten {
namespace {

using ops::BlockScale;
using ops::BlockValues;

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

int64_t block_of(Recipe recipe) { return recipe == Recipe::by_1x16 ? 16 : recipe == Recipe::by_1x32 ? 32 : 128; }
enum class Swizzle { none, tiles_32_4_4 };

// Values of a row, blocks of a row, scales of a swizzled tensor.
int64_t row_values(const at::Tensor& rows) { return rows.size(1) * (is_float4(rows.scalar_type()) ? 2 : 1); }
int64_t blocks_in(const at::Tensor& rows, Recipe recipe) {
  return at::ceil_div<int64_t>(row_values(rows), block_of(recipe));
}
int64_t swizzled_scales(const at::Tensor& rows, Recipe recipe) {
  return at::round_up<int64_t>(rows.size(0), 128) * at::round_up<int64_t>(blocks_in(rows, recipe), 4);
}

// Nothing where type, shape or layout do not fit. Without swizzling a tensor has a row for each row of the operand, or
// for each 128 of them, and a column for each block.
std::optional<BlockScales> block_scales(const at::Tensor& rows, const at::Tensor& scale, Recipe recipe,
                                        Swizzle swizzle) {
  if (!types_fit(rows.scalar_type(), scale.scalar_type(), recipe)) return std::nullopt;
  const bool plain = scale.dim() == 2 && scale.size(0) == at::ceil_div(rows.size(0), scale_rows(recipe)) &&
                     scale.size(1) == blocks_in(rows, recipe);
  if (swizzle == Swizzle::none && plain && (scale.is_contiguous() || scale.t().is_contiguous()))
    return BlockScales{scale, recipe, false};
  if (swizzle == Swizzle::tiles_32_4_4 && scale.scalar_type() != at::kFloat && scale.is_contiguous() &&
      scale.numel() == swizzled_scales(rows, recipe))
    return BlockScales{scale, recipe, true};
  return std::nullopt;
}

std::string configurations(const at::Tensor& a, const at::Tensor& b) {
  const auto blocks = [](int64_t n) { return at::ceil_div<int64_t>(n, 128); };
  const at::Tensor rows = b.t();
  return c10::str(
      "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales should be float and "
      "singletons.\n- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be (",
      a.size(0), ", 1) and scale_b should be (1, ", b.size(1),
      "), and both should be contiguous.\n- For BlockWise 1x128 scaling, a and b should be float8, scales should be "
      "float, scale_a should be (",
      a.size(0), ", ", blocks(a.size(1)), ") and scale_b should be (", blocks(b.size(0)), ", ", b.size(1),
      "), and both should be dense.\n- For BlockWise 128x128 scaling, a and b should be float8, scales should be "
      "float, "
      "scale_a should be (",
      blocks(a.size(0)), ", ", blocks(a.size(1)), ") and scale_b should be (", blocks(b.size(0)), ", ",
      blocks(b.size(1)),
      "), and both should be dense.\n- For Blockwise 1x32 scaling, a and b should be float8 or float4 (packed 2x), "
      "scales "
      "should be float8_e8m0fnu, scale_a should have ",
      swizzled_scales(a, Recipe::by_1x32), " elements and scale_b should have ", swizzled_scales(rows, Recipe::by_1x32),
      " elements, and both should be contiguous.\n- For Blockwise 1x16 scaling, a and b should be float4 (packed 2x), "
      "scales should be float8_e4m3fn, scale_a should have ",
      swizzled_scales(a, Recipe::by_1x16), " elements and scale_b should have ", swizzled_scales(rows, Recipe::by_1x16),
      " elements, and both should be contiguous.\n");
}
std::string given(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sa, const at::Tensor& sb) {
  return c10::str("Got mat_a.dtype()=", a.scalar_type(), ", scale_a.dtype()=", sa.scalar_type(),
                  ", scale_a.size()=", sa.sizes(), ", scale_a.stride()=", sa.strides(),
                  ", mat_b.dtype()=", b.scalar_type(), ", scale_b.dtype()=", sb.scalar_type(),
                  ", scale_b.size()=", sb.sizes(), ", scale_b.stride()=", sb.strides());
}

// The combinations that _scaled_mm_v2 takes besides scales by tensor and by row.
struct Combination {
  Recipe a, b;
  bool float4;
  at::ScalarType scale;
  size_t levels;  // two: a float32 scale of the whole operand follows
};
constexpr Combination kCombinations[] = {{Recipe::by_1x128, Recipe::by_128x128, false, at::kFloat, 1},
                                         {Recipe::by_128x128, Recipe::by_1x128, false, at::kFloat, 1},
                                         {Recipe::by_1x128, Recipe::by_1x128, false, at::kFloat, 1},
                                         {Recipe::by_1x16, Recipe::by_1x16, true, at::kFloat8_e4m3fn, 2},
                                         {Recipe::by_1x16, Recipe::by_1x16, true, at::kFloat8_e4m3fn, 1},
                                         {Recipe::by_1x32, Recipe::by_1x32, false, at::kFloat8_e8m0fnu, 1},
                                         {Recipe::by_1x32, Recipe::by_1x32, true, at::kFloat8_e8m0fnu, 1}};

const Combination* find_combination(const at::Tensor& a, at::TensorList scale_a, at::IntArrayRef recipe_a,
                                    const at::Tensor& b, at::TensorList scale_b, at::IntArrayRef recipe_b) {
  const auto fits = [](const Combination& c, Recipe first, const at::Tensor& m, at::TensorList scale,
                       at::IntArrayRef recipe) {
    return m.scalar_type() == (c.float4 ? at::kFloat4_e2m1fn_x2 : at::kFloat8_e4m3fn) && scale.size() == c.levels &&
           recipe.size() == c.levels && recipe[0] == static_cast<int64_t>(first) && scale[0].scalar_type() == c.scale &&
           (c.levels == 1 ||
            (recipe[1] == static_cast<int64_t>(Recipe::tensor) && scale[1].scalar_type() == at::kFloat));
  };
  for (const Combination& c : kCombinations)
    if (fits(c, c.a, a, scale_a, recipe_a) && fits(c, c.b, b, scale_b, recipe_b)) return &c;
  return nullptr;
}

Swizzle swizzle_of(const char* name, at::IntArrayRef swizzle, const Combination& c) {
  for (const int64_t s : swizzle)
    TORCH_CHECK_VALUE(s == 0 || s == 1, name, " must be NO_SWIZZLE or SWIZZLE_32_4_4, got ", s);
  const bool none = std::all_of(swizzle.begin(), swizzle.end(), [](int64_t s) { return s == 0; });
  TORCH_CHECK_VALUE(swizzle.size() == c.levels || (none && swizzle.size() < c.levels), name, " must have ", c.levels,
                    " value", c.levels == 1 ? "" : "s", ", got ", swizzle.size());
  TORCH_CHECK_VALUE(none || c.scale != at::kFloat, name, ": float32 scales are not swizzled");
  return swizzle.empty() || swizzle[0] == 0 ? Swizzle::none : Swizzle::tiles_32_4_4;
}

// Scales of 128 x 128 come with their blocks first and may be padded to four of them.
BlockScales required_scales(const char* name, const at::Tensor& rows, const at::Tensor& scale, Recipe recipe,
                            Swizzle swizzle) {
  const int64_t blocks = blocks_in(rows, recipe);
  at::Tensor s = scale;
  if (recipe == Recipe::by_128x128) {
    const int64_t padded = at::round_up<int64_t>(blocks, 4), across = at::ceil_div<int64_t>(rows.size(0), 128);
    TORCH_CHECK_VALUE(s.dim() == 2 && (s.size(0) == padded || s.size(0) == blocks) && s.size(1) == across, name,
                      " must have shape ", padded, " x ", across, " Float elements, got ", s.sizes());
    TORCH_CHECK_VALUE(s.is_contiguous() || s.t().is_contiguous(), name, " must have strides (1, ", padded, "); got ",
                      s.strides());
    return {s.t().narrow(1, 0, blocks), recipe, false};
  }
  if (swizzle == Swizzle::tiles_32_4_4) {
    const int64_t count = swizzled_scales(rows, recipe);
    TORCH_CHECK_VALUE(s.numel() == count, "For Blockwise scaling ", name, " should have ", count,
                      " elements, got: ", s.numel());
    TORCH_CHECK_VALUE(s.is_contiguous(), "For Blockwise scaling both scales should be contiguous");
  } else {
    TORCH_CHECK_VALUE(s.dim() == 2 && s.size(0) == rows.size(0) && s.size(1) == blocks, name, " must have shape ",
                      rows.size(0), " x ", blocks, " ", s.scalar_type(), " elements, got ", s.sizes());
    TORCH_CHECK_VALUE(s.is_contiguous() || s.t().is_contiguous(), name, " strides must be (1, ", rows.size(0),
                      "); got: ", s.strides());
  }
  return *block_scales(rows, s, recipe, swizzle);
}

// The values, or nothing where rows are not dense.
std::optional<ops::BlockScaleProblem> value_args(const at::Tensor& rows) {
  if (rows.stride(1) != 1 && rows.size(1) != 1) return std::nullopt;
  const int64_t k = row_values(rows);
  TORCH_CHECK(rows.size(0) <= INT32_MAX && k <= INT32_MAX, "A scaled product takes sizes up to ", INT32_MAX,
              ", but got ", rows.size(0), " rows of ", k, " values.");
  ops::BlockScaleProblem args;
  args.in = rows.const_data_ptr();
  args.in_row = rows.stride(0);
  args.rows = static_cast<uint32_t>(rows.size(0));
  args.k = static_cast<uint32_t>(k);
  return args;
}

// All but what is written.
std::optional<ops::BlockScaleProblem> scale_args(const at::Tensor& rows, const BlockScales& scales) {
  auto found = value_args(rows);
  if (!found) return found;
  ops::BlockScaleProblem& args = *found;
  args.scale = scales.values.const_data_ptr();
  args.block = static_cast<uint32_t>(block_of(scales.recipe));
  args.scale_rows = static_cast<uint32_t>(scale_rows(scales.recipe));
  if (scales.swizzled) {
    args.tiles = static_cast<uint32_t>(at::ceil_div<int64_t>(blocks_in(rows, scales.recipe), 4));
  } else {
    args.scale_row = scales.values.stride(0);
    args.scale_block = scales.values.stride(1);
  }
  return found;
}

}  // namespace

std::optional<Operands> block_operands(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sa,
                                       const at::Tensor& sb) {
  static constexpr std::pair<Recipe, Recipe> pairs[] = {{Recipe::by_128x128, Recipe::by_1x128},
                                                        {Recipe::by_1x128, Recipe::by_128x128},
                                                        {Recipe::by_1x128, Recipe::by_1x128},
                                                        {Recipe::by_1x32, Recipe::by_1x32},
                                                        {Recipe::by_1x16, Recipe::by_1x16}};
  const at::Tensor rows = b.t();
  for (const auto& [left, right] : pairs) {
    // Without swizzling the scales of b lie as b does.
    for (const Swizzle swizzle : {Swizzle::none, Swizzle::tiles_32_4_4}) {
      if (swizzle == Swizzle::none && sb.dim() != 2) continue;
      const auto of_a = block_scales(a, sa, left, swizzle);
      const auto of_b = block_scales(rows, swizzle == Swizzle::none ? sb.t() : sb, right, swizzle);
      if (of_a && of_b) return Operands{a, rows, *of_a, *of_b, {}};
    }
  }
  return std::nullopt;
}

Operands named_operands(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                        at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b,
                        at::IntArrayRef swizzle_b) {
  const Combination* c = find_combination(a, scale_a, recipe_a, b, scale_b, recipe_b);
  TORCH_CHECK_VALUE(c, invalid_scaling(a, b, scale_a[0], scale_b[0]));
  const at::Tensor rows = b.t();
  Operands operands{a,
                    rows,
                    required_scales("scale_a", a, scale_a[0], c->a, swizzle_of("swizzle_a", swizzle_a, *c)),
                    required_scales("scale_b", rows, scale_b[0], c->b, swizzle_of("swizzle_b", swizzle_b, *c)),
                    {}};
  if (c->levels == 2) {
    TORCH_CHECK_VALUE(scale_a[1].numel() == 1 && scale_b[1].numel() == 1,
                      "For two-level-scaled NVFP4, both global scales must have 1 Float element");
    operands.factor[0] = scale_a[1];
    operands.factor[1] = scale_b[1];
  }
  return operands;
}

std::string invalid_scaling(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                            const at::Tensor& scale_b) {
  return configurations(a, b) + given(a, b, scale_a, scale_b);
}

bool narrow(const BlockScales& scales) { return ops::exact_in_bf16(scale_of(scales.values.scalar_type())); }

at::Tensor widened(const at::Tensor& rows, const BlockScales& scales, at::ScalarType to) {
  auto args = scale_args(rows, scales);
  if (!args) return widened(rows.contiguous(), scales, to);
  at::Tensor out = new_empty({rows.size(0), row_values(rows)}, to);
  args->out = out.mutable_data_ptr();
  ops::dequantize(runtime::current_queue(), to_dtype(to), values_of(rows.scalar_type()),
                  scale_of(scales.values.scalar_type()), *args);
  return out;
}

bool few_rows(const Operands& x, const at::Tensor& out) {
  const auto b_args = scale_args(x.b, x.scale_b);
  if (!b_args || x.a.size(0) == 0 || x.a.size(0) > INT32_MAX) return false;
  const auto values = values_of(x.b.scalar_type());
  const auto scale = scale_of(x.scale_b.values.scalar_type());
  ops::BlockRowsProblem args;
  args.scales = *b_args;
  args.weight.m = static_cast<uint32_t>(x.a.size(0));
  args.weight.n = static_cast<uint32_t>(x.b.size(0));
  args.weight.k = b_args->k;
  if (!ops::plan_block_rows(values, scale, args, current_policy()).served) return false;
  const at::Tensor a = widened(x.a, x.scale_a, at::kFloat);
  args.weight.a = a.const_data_ptr();
  args.weight.a_row = a.stride(0);
  args.weight.out = out.mutable_data_ptr();
  return ops::block_rows(runtime::current_queue(), values, scale, args);
}

namespace {

void size_dots(ops::BlockDotsProblem& args, const at::Tensor& bias, const at::Tensor& out) {
  args.weight.m = args.a.rows;
  args.weight.n = args.w.rows;
  args.weight.k = args.w.k;
  args.weight.out = out.data_ptr();
  args.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
}
bool dots_type(const at::Tensor& out) {
  return out.scalar_type() == at::kFloat || out.scalar_type() == at::kBFloat16 || out.scalar_type() == at::kHalf;
}

}  // namespace

bool few_rows(const Operands& x, const at::Tensor& bias, const at::Tensor& out) {
  const auto values = values_of(x.b.scalar_type());
  const auto scale = scale_of(x.scale_b.values.scalar_type());
  if (x.a.scalar_type() != x.b.scalar_type() || !out.is_contiguous() || !dots_type(out)) return false;
  const auto a = scale_args(x.a, x.scale_a), w = scale_args(x.b, x.scale_b);
  if (!a || !w) return false;
  ops::BlockDotsProblem args;
  args.a = *a;
  args.w = *w;
  for (int i = 0; i < 2; ++i) args.factor[i] = x.factor[i].defined() ? x.factor[i].const_data_ptr<float>() : nullptr;
  size_dots(args, bias, out);
  return ops::block_dots(runtime::current_queue(), values, scale, false, to_dtype(out.scalar_type()), args);
}

bool few_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
              const at::Tensor& bias, const at::Tensor& out) {
  if (a.scalar_type() != at::kFloat8_e4m3fn || b.scalar_type() != at::kFloat8_e4m3fn || !out.is_contiguous() ||
      !dots_type(out))
    return false;
  const auto rows = [](const at::Tensor& m, const at::Tensor& scale) {
    auto args = value_args(m);
    if (args) {
      args->scale = scale.const_data_ptr();
      args->scale_row = scale.numel() != 1;
    }
    return args;
  };
  const auto of_a = rows(a, scale_a), of_w = rows(b.t(), scale_b);
  if (!of_a || !of_w) return false;
  ops::BlockDotsProblem args;
  args.a = *of_a;
  args.w = *of_w;
  size_dots(args, bias, out);
  return ops::block_dots(runtime::current_queue(), ops::BlockValues::e4m3fn, ops::BlockScale::f32, true,
                         to_dtype(out.scalar_type()), args);
}

}  // namespace xpu_ops::aten
