// Fake quantisation. What no grid point is near to - NaN - takes the lowest; infinities take the ends of the range,
// where torch's CPU kernels for channels convert them to an integer, which C++ leaves open.
#include <ATen/TensorOperators.h>
#include <ATen/native/quantized/cpu/QuantUtils.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/fmin.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <limits>
#include <vector>

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "gen/aten/quantization_ops.hpp"

namespace xpu_ops::aten {
namespace {

void check_range(int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or         equal to `quant_max`.");
}

// Distance of neighbouring values and the place of zero, as floats that broadcast to the values.
struct Grid {
  at::Tensor scale, zero_point;
  bool add_first = false;  // add the place of zero before rounding: it may lie between points

  // Where on the grid: whole numbers, or NaN.
  at::Tensor place(const at::Tensor& self) const {
    const at::ScalarType wide = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor q = self.to(wide) * scale.reciprocal();
    return add_first ? q.add_(zero_point).round_() : q.round_().add_(zero_point);
  }
};

std::tuple<at::Tensor, at::Tensor> rounded(const at::Tensor& self, const Grid& grid, int64_t low, int64_t high) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"fake_quantize\" not implemented for '",
                              self.scalar_type(), "'");
  at::Tensor q = grid.place(self);
  const at::Tensor mask = q.ge(low).logical_and_(q.le(high));
  const auto bound = [&](int64_t v) { return at::scalar_tensor(v, at::dtype(q.scalar_type()).device(at::kCPU)); };
  at::fmax_out(q, q, bound(low));  // these two prefer a number to NaN
  at::fmin_out(q, q, bound(high));
  return {q.sub_(grid.zero_point).mul_(grid.scale).to(self.scalar_type()), mask};
}

// The first element of a learned parameter.
at::Tensor first(const at::Tensor& t) { return t.select(0, 0).to(at::kFloat); }

// Where zero is learned as a fraction, forward takes the nearest point, halves the even one; backward takes the upper
// one of halves, and adds it before it rounds.
Grid learned(const at::Tensor& scale, const at::Tensor& zero_point, int64_t low, int64_t high) {
  return {first(scale), first(zero_point).round().clamp_(low, high)};
}
Grid learned_backward(const at::Tensor& scale, const at::Tensor& zero_point, int64_t low, int64_t high) {
  return {first(scale), first(zero_point).add(0.5).clamp_(low, high).trunc_(), true};
}

// One value of `t` for each slice of `self` along `axis`.
at::Tensor along(const at::Tensor& t, const at::Tensor& self, int64_t axis) {
  std::vector<int64_t> sizes(self.dim(), 1);
  sizes[axis] = t.numel();
  return t.to(at::kFloat).reshape(sizes);
}

void check_channels(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
                    int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(scale.dim() == 1, "scale should be a 1-D tensor");
  TORCH_CHECK(zero_point.dim() == 1, "zero point should be a 1-D tensor");
  TORCH_CHECK(scale.numel() == zero_point.numel(), "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(scale.numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  check_range(quant_min, quant_max);
  TORCH_CHECK(axis >= 0, "`axis` must be between 0 and number of dimensions of input");
}

// Upstream asks for the least zero point, which no channels have not.
void check_some(const at::Tensor& zero_point) {
  TORCH_CHECK(
      zero_point.numel() != 0,
      "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
      "'dim' argument.");
}

Grid learned_channels(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
                      int64_t low, int64_t high, bool add_first) {
  check_some(zero_point);
  return {along(scale, self, axis), along(zero_point, self, axis).round().clamp_(low, high), add_first};
}

// Gradients of self, and of scale and zero_point for each element.
struct Slopes { at::Tensor self, scale, zero_point; };

Slopes slopes(const at::Tensor& grad, const at::Tensor& self, const Grid& grid, int64_t low, int64_t high,
              double factor) {
  const at::Tensor q = grid.place(self), below = q.ge(low).logical_not_(), above = q.gt(high);
  const at::Tensor outside = below.logical_or(above);
  const at::Tensor error = (q.sub(grid.zero_point).mul_(grid.scale).sub_(self)).mul_(grid.scale.reciprocal());
  const at::Tensor end = at::where(below, low - grid.zero_point, high - grid.zero_point);
  // The first factor decides the layout: that of self, as on the CPU.
  return {outside.logical_not() * grad, (grad * at::where(outside, end, error)).mul_(factor),
          at::where(outside, grad * grid.scale.neg() * factor, at::scalar_tensor(0.0f, grad.options()))};
}

void check_float(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale,
                 const at::Tensor& zero_point) {
  for (const at::Tensor& t : {grad, self, scale, zero_point})
    TORCH_CHECK(t.scalar_type() == at::kFloat, "Expected every tensor to be Float, found ", t.scalar_type());
  TORCH_CHECK(self.numel() == grad.numel(), "`X` and `dY` are not the same size");
}

void check_single(const at::Tensor& t) {
  TORCH_CHECK(t.numel() == 1, "a Tensor with ", t.numel(), " elements cannot be converted to Scalar");
}

// The running extremes: the first ones as they are, then a moving average.
void observe(const at::Tensor& self, at::Tensor& running_min, at::Tensor& running_max, double part, bool rows) {
  const auto [least, most] = rows ? at::aminmax(self.flatten(1), 1) : at::aminmax(self);
  const auto move = [&](at::Tensor& running, const at::Tensor& now) {
    check_scalar_type(running, at::kFloat);
    const at::Tensor to = now.reshape(running.sizes());
    running.copy_(at::where(at::isinf(running), to, (to - running).mul_(part).add_(running)));
  };
  move(running_min, least);
  move(running_max, most);
}

// Channels observed for the first time: as many as there are, with nothing in their range.
void grow(const at::Tensor& self, at::Tensor& running_min, at::Tensor& running_max, at::Tensor& scale,
          at::Tensor& zero_point) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const int64_t channels = self.size(0);
  running_min.resize_({channels}).fill_(kInfinity);
  running_max.resize_({channels}).fill_(-kInfinity);
  scale.resize_({channels}).fill_(1);
  zero_point.resize_({channels}).fill_(0);
}

void choose_grids(const at::Tensor& running_min, const at::Tensor& running_max, int64_t low, int64_t high,
                  bool symmetric, at::Tensor& scale, at::Tensor& zero_point) {
  const at::Tensor least = running_min.cpu().contiguous(), most = running_max.cpu().contiguous();
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  for (int64_t i = 0; i < least.numel(); ++i) {
    const auto grid =
        quant_utils::ChooseQuantizationParams(least.const_data_ptr<float>()[i], most.const_data_ptr<float>()[i],
                                              static_cast<int32_t>(low), static_cast<int32_t>(high), symmetric);
    scales.push_back(static_cast<float>(grid.scale));
    zeros.push_back(grid.zero_point);
  }
  const int64_t n = least.numel();
  scale.narrow(0, 0, n).copy_(at::from_blob(scales.data(), {n}, at::kFloat));
  zero_point.narrow(0, 0, n).copy_(at::from_blob(zeros.data(), {n}, at::kInt));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> fake_quantize_per_tensor(const at::Tensor& self, double scale, int64_t zero_point,
                                                            int64_t quant_min, int64_t quant_max) {
  check_range(quant_min, quant_max);
  TORCH_CHECK(zero_point >= quant_min && zero_point <= quant_max,
              "`zero_point` must be between `quant_min` and `quant_max`.");
  const PointwiseOp& op = k_fake_quantize_per_tensor_affine_cachemask;
  auto it = make_iterator(Promotion::unary, op, {at::Tensor(), at::Tensor()}, {self});
  pointwise(it, op, {ScalarArg{scale}, ScalarArg{zero_point}, ScalarArg{quant_min}, ScalarArg{quant_max}});
  return {it.output(0), it.output(1)};
}

std::tuple<at::Tensor, at::Tensor> _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, const at::Tensor& fake_quant_enabled,
    int64_t quant_min, int64_t quant_max) {
  check_range(quant_min, quant_max);
  for (const at::Tensor& t : {scale, zero_point, fake_quant_enabled}) check_single(t);
  const Grid grid{scale.reshape({}).to(at::kFloat), zero_point.reshape({}).to(at::kFloat).trunc()};
  const auto [values, mask] = rounded(self, grid, quant_min, quant_max);
  const at::Tensor on = fake_quant_enabled.reshape({}).ne(0);
  return {at::where(on, values, self), mask.logical_or(on.logical_not())};
}

std::tuple<at::Tensor, at::Tensor> fake_quantize_per_channel_affine_cachemask(const at::Tensor& self,
                                                                              const at::Tensor& scale,
                                                                              const at::Tensor& zero_point,
                                                                              int64_t axis, int64_t quant_min,
                                                                              int64_t quant_max) {
  TORCH_CHECK(scale.scalar_type() == at::kFloat || scale.scalar_type() == at::kBFloat16,
              "Scale must be Float or BFloat16, found ", scale.scalar_type());
  const at::ScalarType type = zero_point.scalar_type();
  TORCH_CHECK(type == at::kInt || type == at::kFloat || type == at::kHalf,
              "Zero-point must be Int32, Float or Half, found ", type);
  check_channels(self, scale, zero_point, axis, quant_min, quant_max);
  if (type == at::kInt) {
    check_some(zero_point);
    const auto [least, most] = at::aminmax(zero_point);
    TORCH_CHECK(least.item<int64_t>() >= quant_min && most.item<int64_t>() <= quant_max,
                "`zero_point` must be between `quant_min` and `quant_max`.");
  }
  return rounded(self, {along(scale, self, axis), along(zero_point, self, axis), type != at::kInt}, quant_min,
                 quant_max);
}

std::tuple<at::Tensor, at::Tensor> _fused_moving_avg_obs_fq_helper(
    const at::Tensor& self, const at::Tensor& observer_on, const at::Tensor& fake_quant_on, at::Tensor& running_min,
    at::Tensor& running_max, at::Tensor& scale, at::Tensor& zero_point, double averaging_const, int64_t quant_min,
    int64_t quant_max, int64_t ch_axis, bool per_row_fake_quant, bool symmetric_quant) {
  TORCH_CHECK(ch_axis < self.dim(), "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()");
  if (observer_on.item<bool>()) {
    check_scalar_type(self, at::kFloat);
    TORCH_CHECK(!per_row_fake_quant || ch_axis == 0,
                "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0");
    if (per_row_fake_quant && running_min.numel() == 0) grow(self, running_min, running_max, scale, zero_point);
    observe(self, running_min, running_max, averaging_const, per_row_fake_quant);
  }
  if (!fake_quant_on.item<bool>())
    return {self.clone(), at::ones_like(self, self.options().dtype(at::kBool), at::MemoryFormat::Preserve)};
  if (!per_row_fake_quant)
    for (const at::Tensor& t : {running_min, running_max}) check_single(t);
  TORCH_CHECK(running_min.numel() == running_max.numel(), "running_min and running_max must have as many elements");
  choose_grids(running_min, running_max, quant_min, quant_max, symmetric_quant, scale, zero_point);
  if (per_row_fake_quant)
    return fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, ch_axis, quant_min, quant_max);
  return _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, zero_point, fake_quant_on, quant_min,
                                                                   quant_max);
}

at::Tensor _fake_quantize_learnable_per_tensor_affine(const at::Tensor& self, const at::Tensor& scale,
                                                      const at::Tensor& zero_point, int64_t quant_min,
                                                      int64_t quant_max, double) {
  check_range(quant_min, quant_max);
  for (const at::Tensor& t : {scale, zero_point})
    if (t.dim() > 1) check_single(t.select(0, 0));
  return std::get<0>(rounded(self, learned(scale, zero_point, quant_min, quant_max), quant_min, quant_max));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _fake_quantize_learnable_per_tensor_affine_backward(
    const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
    int64_t quant_min, int64_t quant_max, double grad_factor) {
  check_float(grad, self, scale, zero_point);
  TORCH_CHECK(quant_min <= 0 && quant_max >= 0,
              "`quant_min` should be less than or         equal to `quant_max`, and the quantization range should "
              "include 0.");
  if (self.numel() == 0) return {self, scale, zero_point};
  const Grid grid = learned_backward(scale, zero_point, quant_min, quant_max);
  const Slopes s = slopes(grad, self, grid, quant_min, quant_max, grad_factor);
  return {s.self, s.scale.sum().reshape({1}), s.zero_point.sum().reshape({1})};
}

at::Tensor _fake_quantize_learnable_per_channel_affine(const at::Tensor& self, const at::Tensor& scale,
                                                       const at::Tensor& zero_point, int64_t axis, int64_t quant_min,
                                                       int64_t quant_max, double) {
  check_channels(self, scale, zero_point, axis, quant_min, quant_max);
  const Grid grid = learned_channels(self, scale, zero_point, axis, quant_min, quant_max, false);
  return std::get<0>(rounded(self, grid, quant_min, quant_max));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _fake_quantize_learnable_per_channel_affine_backward(
    const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
    int64_t quant_min, int64_t quant_max, double grad_factor) {
  check_float(grad, self, scale, zero_point);
  TORCH_CHECK(quant_min <= 0 && quant_max >= 0, "Expecting `quant_min` <= 0 and `quant_max` >= 0");
  check_channels(self, scale, zero_point, axis, quant_min, quant_max);
  const Grid grid = learned_channels(self, scale, zero_point, axis, quant_min, quant_max, true);
  if (self.numel() == 0) return {self, scale, zero_point};
  const Slopes s = slopes(grad, self, grid, quant_min, quant_max, grad_factor);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != axis) others.push_back(d);
  const auto total = [&](const at::Tensor& t) { return others.empty() ? t : t.sum(others); };
  return {s.self, total(s.scale), total(s.zero_point)};
}

at::Tensor dequantize_self(const at::Tensor& self) { return self.to(at::kFloat); }

at::Tensor _saturate_weight_to_fp16(const at::Tensor& weight) {
  check_scalar_type(weight, at::kFloat);
  const float most = std::numeric_limits<at::Half>::max();
  return weight.clamp(-most, most);
}

}  // namespace xpu_ops::aten
