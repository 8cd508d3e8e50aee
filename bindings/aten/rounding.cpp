// Rounding to 8 bits with scales.
#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <limits>
#include <optional>

#include "bindings/aten/core/tensor.hpp"
#include "gen/aten/rounding_ops.hpp"
#include "kernels/ops/rounding.hpp"

namespace xpu_ops::aten {
namespace {

std::optional<ops::RoundFormat> round_format(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat8_e4m3fn: return ops::RoundFormat::e4m3fn;
    case at::kFloat8_e5m2: return ops::RoundFormat::e5m2;
    case at::kChar: return ops::RoundFormat::int8;
    default: return std::nullopt;
  }
}

double top_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat8_e4m3fn: return 448;
    case at::kFloat8_e5m2:
    case at::kFloat8_e5m2fnuz: return 57344;
    case at::kFloat8_e4m3fnuz: return 240;
    default: TORCH_CHECK(type == at::kChar, "expected an output of 8 bits, got ", type); return 127;
  }
}

bool few(const at::Tensor& t) { return t.size(0) < INT32_MAX && t.size(1) < INT32_MAX; }

void check_values(const at::Tensor& out, const at::Tensor& x) {
  TORCH_CHECK(x.dim() == 2 && out.sizes() == x.sizes(), "expected an output of shape ", x.sizes(), ", got ",
              out.sizes());
  top_of(out.scalar_type());
}
void check_round(const at::Tensor& out, const at::Tensor& scales, const at::Tensor& x, int64_t group,
                 const MaybeTensor& bound) {
  check_values(out, x);
  TORCH_CHECK(group > 0 && x.size(1) % group == 0, "groups of ", group, " do not divide ", x.size(1), " columns");
  TORCH_CHECK(scales.dim() == 2 && scales.size(0) == x.size(0) && scales.size(1) == x.size(1) / group, "expected ",
              x.size(0), " times ", x.size(1) / group, " scales, got ", scales.sizes());
  TORCH_CHECK(!bound.has_value() || bound->numel() == 1, "expected one bound");
}
void check_scale(const at::Tensor& out, const at::Tensor& x, const at::Tensor& scale) {
  check_values(out, x);
  TORCH_CHECK(scale.dim() == 2 && scale.size(0) > 0 && scale.size(1) > 0 && x.size(0) % scale.size(0) == 0 &&
                  x.size(1) % scale.size(1) == 0,
              "scales ", scale.sizes(), " do not divide ", x.sizes());
}

// Rounded to even and held in the range of the type.
at::Tensor cast(const at::Tensor& x, at::ScalarType type) {
  if (type == at::kChar) return x.round().clamp(-128, 127).masked_fill(x.ne(x), 0.0).to(type);
  return x.clamp(-top_of(type), top_of(type)).to(type);
}

}  // namespace

void _round_rows_composite(at::Tensor& out, at::Tensor& scales, const at::Tensor& x, int64_t group,
                           const MaybeTensor& bound, double least_value, double least_scale, bool one, bool exponents,
                           bool inverse) {
  check_round(out, scales, x, group, bound);
  const double top = top_of(out.scalar_type());
  const at::Tensor parts = x.to(at::kFloat).reshape({x.size(0), x.size(1) / group, group});
  at::Tensor most = at::linalg_vector_norm(parts, std::numeric_limits<double>::infinity(), at::IntArrayRef{-1}, true);
  if (bound.has_value()) most = at::minimum(most, bound->to(at::kFloat).reshape(at::IntArrayRef{}));
  at::Tensor scale = (most.clamp_min(least_value) / top).clamp_min(least_scale);
  if (one) scale = scale.masked_fill(most.eq(0), 1.0);
  if (exponents) {
    const auto [mantissa, exponent] = at::frexp(scale.clamp_min(1e-10));
    const at::Tensor power = at::ldexp(at::ones_like(scale), exponent - mantissa.eq(0.5).to(exponent.scalar_type()));
    scale = at::where(at::isfinite(scale), power, scale);
  }
  const at::Tensor held = inverse ? parts * at::where(scale.gt(0), scale, 1.0).reciprocal() : parts / scale;
  out.copy_(cast(held, out.scalar_type()).view(out.sizes()));
  scales.copy_(scale.squeeze(-1));
}

void _round_rows(at::Tensor& out, at::Tensor& scales, const at::Tensor& x, int64_t group, const MaybeTensor& bound,
                 double least_value, double least_scale, bool one, bool exponents, bool inverse) {
  check_round(out, scales, x, group, bound);
  const auto format = round_format(out);
  if (!format || !is_single_or_half(x.scalar_type()) || !has_dense_rows(x) || !has_dense_rows(out) ||
      scales.scalar_type() != at::kFloat || !few(x))
    return _round_rows_composite(out, scales, x, group, bound, least_value, least_scale, one, exponents, inverse);
  mark_written(out);
  mark_written(scales);
  if (x.numel() == 0) return;
  const at::Tensor limit = bound.has_value() ? bound->to(at::kFloat) : at::Tensor();
  ops::RoundProblem p;
  p.x = x.const_data_ptr();
  p.out = out.mutable_data_ptr();
  p.scales = scales.mutable_data_ptr<float>();
  if (limit.defined()) p.bound = limit.const_data_ptr<float>();
  p.x_row = x.stride(0);
  p.out_row = out.stride(0);
  p.scale_row = scales.stride(0);
  p.scale_group = scales.stride(1);
  p.rows = static_cast<uint32_t>(x.size(0));
  p.columns = static_cast<uint32_t>(x.size(1));
  p.group = static_cast<uint32_t>(group);
  p.least_value = static_cast<float>(least_value);
  p.least_scale = static_cast<float>(least_scale);
  p.one = one;
  p.exponents = exponents;
  p.inverse = inverse;
  ops::round_rows(runtime::current_queue(), dtype_of(x), *format, p);
}

void _round_by_composite(at::Tensor& out, const at::Tensor& x, const at::Tensor& scale, bool safe) {
  check_scale(out, x, scale);
  const at::Tensor given = scale.to(at::kFloat);
  const at::Tensor factor = (safe ? at::where(given.gt(0), given, 1.0) : given).reciprocal();
  const int64_t rows = scale.size(0), columns = scale.size(1);
  const at::Tensor parts = x.to(at::kFloat).reshape({rows, x.size(0) / rows, columns, x.size(1) / columns});
  out.copy_(cast(parts * factor.view({rows, 1, columns, 1}), out.scalar_type()).view(out.sizes()));
}

void _round_by(at::Tensor& out, const at::Tensor& x, const at::Tensor& scale, bool safe) {
  check_scale(out, x, scale);
  const auto format = round_format(out);
  if (!format || !is_single_or_half(x.scalar_type()) || !has_dense_rows(x) || !has_dense_rows(out) || !few(x))
    return _round_by_composite(out, x, scale, safe);
  mark_written(out);
  if (x.numel() == 0) return;
  const at::Tensor scales = scale.to(at::kFloat).contiguous();
  ops::ScaleProblem p;
  p.x = x.const_data_ptr();
  p.out = out.mutable_data_ptr();
  p.scales = scales.const_data_ptr<float>();
  p.x_row = x.stride(0);
  p.out_row = out.stride(0);
  p.scale_row = scales.stride(0);
  p.scale_group = 1;
  p.rows = static_cast<uint32_t>(x.size(0));
  p.columns = static_cast<uint32_t>(x.size(1));
  if (scales.numel() == 1 && x.is_contiguous() && out.is_contiguous() && x.numel() < INT32_MAX)
    p.columns = static_cast<uint32_t>(x.numel()), p.rows = 1;
  p.row_group = p.rows / static_cast<uint32_t>(scales.numel() == 1 ? 1 : scales.size(0));
  p.group = p.columns / static_cast<uint32_t>(scales.size(1));
  p.safe = safe;
  ops::round_by(runtime::current_queue(), dtype_of(x), *format, p);
}

}  // namespace xpu_ops::aten
