#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/special_i0e.h>
#include <ATen/ops/stack.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/scalar_bits.hpp"
#include "bindings/aten/indexing.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "gen/kernels/factory_kernels.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/factory.hpp"

namespace xpu_ops::aten {
namespace {

struct Split { float hi, lo; };
Split split(double v) {
  const float hi = static_cast<float>(v);
  return {hi, std::isfinite(hi) ? static_cast<float>(v - hi) : 0.0f};
}

// Real parts of start, end and step, in every form a kernel may read.
void set_real(ops::SequenceProblem& a, double start, double end, double step) {
  a.start64 = double_bits(start), a.end64 = double_bits(end), a.step64 = double_bits(step);
  const Split s = split(start), e = split(end), t = split(step);
  a.start_hi = s.hi, a.start_lo = s.lo, a.end_hi = e.hi, a.end_lo = e.lo, a.step_hi = t.hi, a.step_lo = t.lo;
}

void run_sequence(const at::Tensor& out, const runtime::KernelTable& table, ops::SequenceProblem a) {
  TORCH_CHECK(out.numel() < (int64_t{1} << 32), "sequences of 2^32 elements and more are not supported on XPU");
  ContiguousOut target(out);
  a.dst = target.data();
  ops::sequence(runtime::current_queue(), table[dtype_of(out)], out.numel(), a);
  target.finish();
}

template <class T>
void run_arange(const at::Tensor& out, const at::Scalar& start, const at::Scalar& step) {
  using M = at::acc_type<T, false>;
  ops::SequenceProblem a{};
  const M first = start.to<M>(), by = step.to<M>();
  if constexpr (std::is_integral_v<T>) {
    a.start = static_cast<int64_t>(first), a.step = static_cast<int64_t>(by);
  } else {
    set_real(a, static_cast<double>(first), 0, static_cast<double>(by));
  }
  if (out.numel() > 0) run_sequence(out, kernels::arange, a);
}

void resize_sequence(at::Tensor& out, int64_t size) {
  const int64_t numel = out.numel();
  if (numel == size) return;
  if (numel > 0)
    TORCH_WARN(
        "The number of elements in the out tensor of shape ", out.sizes(), " is ", numel,
        " which does not match the computed number of elements ", size,
        ". Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of "
        "shape (",
        size, ",).");
  out.resize_({size});
}

// linspace and logspace: start and end as the element type holds them, the step between.
void run_spaced(at::Tensor& out, const runtime::KernelTable& table, const runtime::KernelTable& integral,
                const at::Scalar& start, const at::Scalar& end, int64_t steps, double base) {
  const at::ScalarType dtype = out.scalar_type();
  ops::SequenceProblem a{};
  const double gaps = static_cast<double>(steps - 1);
  if (at::isComplexType(dtype)) {
    const auto s = start.to<c10::complex<double>>(), e = end.to<c10::complex<double>>();
    set_real(a, s.real(), e.real(), (e.real() - s.real()) / gaps);
    a.start_im64 = double_bits(s.imag()), a.end_im64 = double_bits(e.imag()),
    a.step_im64 = double_bits((e.imag() - s.imag()) / gaps);
    a.start_im = static_cast<float>(s.imag()), a.end_im = static_cast<float>(e.imag());
    a.step_im = static_cast<float>((e.imag() - s.imag()) / gaps);
  } else {
    double s = 0, e = 0;
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "linspace_cpu", [&] {
      s = static_cast<double>(start.to<scalar_t>()), e = static_cast<double>(end.to<scalar_t>());
    });
    set_real(a, s, e, (e - s) / gaps);
  }
  a.base = static_cast<float>(base), a.base64 = double_bits(base);
  a.half_n = static_cast<uint32_t>(steps / 2);  // both halves count from their own end, so that the ends are exact
  run_sequence(out, at::isIntegralType(dtype, false) ? integral : table, a);
}

at::Tensor& spaced(at::Tensor& out, const at::Scalar& start, const at::Scalar& end, int64_t steps, bool log,
                   double base) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 0) return out;
  if (steps == 1) {  // the start alone, in any type that fill_ takes
    if (!log) return out.fill_(start);
    if (at::isComplexType(out.scalar_type()))
      return out.fill_(std::pow(c10::complex<double>(base), start.to<c10::complex<double>>()));
    return out.fill_(std::pow(base, start.to<double>()));
  }
  if (log)
    run_spaced(out, kernels::logspace, kernels::logspace_integral, start, end, steps, base);
  else
    run_spaced(out, kernels::linspace, kernels::linspace_integral, start, end, steps, base);
  return out;
}

void triangle(const at::Tensor& self, int64_t diagonal, const at::Tensor& out, const runtime::KernelTable& table) {
  if (self.numel() == 0) return;
  const at::Tensor src = plain(self);
  ContiguousOut target(out);
  const int64_t rows = self.size(-2), cols = self.size(-1);
  TORCH_CHECK(rows * cols < (int64_t{1} << 31),
              "tril and triu of matrices of 2^31 elements and more are not supported on XPU");
  ops::TriangleProblem a{};
  a.height = static_cast<uint32_t>(rows), a.width = static_cast<uint32_t>(cols);
  a.diagonal = static_cast<int32_t>(std::clamp<int64_t>(diagonal, -rows - 1, cols + 1));
  a.dst = target.data();
  a.src = src.const_data_ptr();
  ops::triangle(runtime::current_queue(), table[raw_dtype(self.element_size())], self.numel(), self.itemsize(), a);
  target.finish();
}

at::Tensor triangle_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                            std::optional<at::Layout> layout, bool upper) {
  at::native::check_args(row, col, layout);
  const at::ScalarType type = dtype.value_or(at::kLong);
  int64_t n =
      upper ? row * col - at::native::get_tril_size(row, col, offset - 1) : at::native::get_tril_size(row, col, offset);
  at::Tensor result = new_empty({2, n}, type);
  if (n == 0) return result;
  ops::TriangleIndexProblem a{};
  a.dst = result.mutable_data_ptr();
  a.first_row = upper ? 0 : std::max<int64_t>(0, -offset);
  a.cols = col, a.offset = offset, a.n = n;
  const int64_t last_row = upper ? std::min(row, col - offset) : row;  // the rows after it have no entry
  ops::triangle_indices(runtime::current_queue(), upper, to_dtype(type), last_row - a.first_row, a);
  return result;
}

void complex_parts(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, const runtime::KernelTable& table) {
  auto allowed = [&](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble || t.scalar_type() == at::kHalf;
  };
  TORCH_CHECK(allowed(a) && allowed(b), "Expected both inputs to be Half, Float or Double tensors but got ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ", a.scalar_type(),
              " but got scalar type ", b.scalar_type(), " for second argument");
  TORCH_CHECK(out.scalar_type() == at::toComplexType(a.scalar_type()), "Expected object of scalar type ",
              at::toComplexType(a.scalar_type()), " but got scalar type ", out.scalar_type(), " for argument 'out'");
  resize_as_iterator(out, {a, b});
  if (out.numel() == 0) return;
  const bool dense = out.is_non_overlapping_and_dense();
  const at::Tensor target = dense ? out : new_empty(out.sizes(), out.scalar_type());
  auto laid_out = [&](const at::Tensor& t) {
    const at::Tensor wide = t.expand(out.sizes());
    if (wide.strides() == target.strides() && !t.is_neg()) return wide;
    const at::Tensor copy = new_strided(out.sizes(), target.strides(), t.scalar_type());
    copy.copy_(wide);
    return copy;
  };
  const at::Tensor x = laid_out(a), y = laid_out(b);
  ops::ComplexProblem problem{};
  problem.dst = target.data_ptr();
  problem.a = x.const_data_ptr();
  problem.b = y.const_data_ptr();
  ops::complex_from(runtime::current_queue(), table[dtype_of(a)], out.numel(), a.itemsize(), problem);
  if (!dense) out.copy_(target);
}

}  // namespace

at::Tensor& arange_start_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "arange_cpu", [&] {
    resize_sequence(out, at::native::compute_arange_size<scalar_t>(start, end, step));
    run_arange<scalar_t>(out, start, step);
  });
  return out;
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "range_cpu", [&] {
    using M = at::acc_type<scalar_t, false>;
    const M first = start.to<M>(), last = end.to<M>(), by = step.to<M>();
    at::native::arange_check_bounds(start, end, step);
    TORCH_CHECK(by != M{0}, "step must be nonzero");  // also once it is of out='s type
    const int64_t size = static_cast<int64_t>((last - first) / by + 1);
    if (out.numel() != size) out.resize_({size});
    run_arange<scalar_t>(out, start, step);
  });
  return out;
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out) {
  return spaced(out, start, end, steps, false, 0);
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base, at::Tensor& out) {
  return spaced(out, start, end, steps, true, base);
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  if (out.numel() == 0) return out;
  out.zero_();
  fill_device(out.diagonal(), 1);
  return out;
}

at::Tensor& eye_out(int64_t n, at::Tensor& out) { return eye_m_out(n, n, out); }

void tril_impl(const at::Tensor& self, int64_t diagonal, const at::Tensor& out) {
  triangle(self, diagonal, out, kernels::triangle_lower);
}
void triu_impl(const at::Tensor& self, int64_t diagonal, const at::Tensor& out) {
  triangle(self, diagonal, out, kernels::triangle_upper);
}

at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device>, std::optional<bool>) {
  return triangle_indices(row, col, offset, dtype, layout, false);
}
at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device>, std::optional<bool>) {
  return triangle_indices(row, col, offset, dtype, layout, true);
}

at::Tensor& complex_out(const at::Tensor& real, const at::Tensor& imag, at::Tensor& out) {
  complex_parts(real, imag, out, kernels::complex_of);
  return out;
}
at::Tensor& polar_out(const at::Tensor& abs, const at::Tensor& angle, at::Tensor& out) {
  complex_parts(abs, angle, out, kernels::polar_of);
  return out;
}

namespace {

// exp(-x) I0(x). From 714 on I0 is no double, and std::cyl_bessel_i throws; three terms of the series are exact there.
double scaled_i0(double x) {
  if (x < 700) return std::cyl_bessel_i(0.0, x) * std::exp(-x);
  const double t = 1 / (8 * x);
  return (1 + t + 4.5 * t * t + 37.5 * t * t * t) / std::sqrt(2 * std::numbers::pi * x);
}

}  // namespace

at::Tensor kaiser_window_beta(int64_t window_length, bool periodic, double beta, std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> layout, std::optional<at::Device> device,
                              std::optional<bool> pin_memory) {
  // Of a meta tensor at::kaiser_window checks its arguments, and nothing more.
  const at::Tensor like = at::kaiser_window(window_length, periodic, beta, dtype, layout, at::kMeta, pin_memory);
  const at::TensorOptions options = like.options().device(device.value_or(at::kXPU)).pinned_memory(pin_memory);
  if (window_length <= 1) return at::ones({window_length}, options);
  const int64_t points = window_length + (periodic ? 1 : 0);
  const bool narrow = like.scalar_type() == at::kHalf || like.scalar_type() == at::kBFloat16;
  at::Tensor x = at::arange(points, narrow ? options.dtype(at::kFloat) : options);
  x.mul_(2.0 / static_cast<double>(points - 1)).sub_(1);
  const double steep = std::abs(beta);
  x = x.square_().neg_().add_(1).clamp_min_(0).sqrt_();
  if (std::isinf(beta))
    x = x.eq(1).to(x.scalar_type());
  else if (steep > 80)  // whose I0 is no float: both without their exponentials
    x = at::special_i0e(x.mul(steep)).mul_(x.sub(1).mul_(steep).exp_()).div_(scaled_i0(steep));
  else
    x = x.mul_(beta).i0_().div_(std::isnan(beta) ? beta : std::cyl_bessel_i(0.0, steep));
  if (narrow) x = x.to(like.scalar_type());
  return periodic ? x.narrow(0, 0, window_length) : x;
}
at::Tensor kaiser_window_periodic(int64_t window_length, bool periodic, std::optional<at::ScalarType> dtype,
                                  std::optional<at::Layout> layout, std::optional<at::Device> device,
                                  std::optional<bool> pin_memory) {
  return kaiser_window_beta(window_length, periodic, 12.0, dtype, layout, device, pin_memory);
}
at::Tensor kaiser_window(int64_t window_length, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  return kaiser_window_periodic(window_length, /*periodic=*/true, dtype, layout, device, pin_memory);
}

at::Tensor repeat_interleave_Tensor(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) return new_empty({0}, repeats.scalar_type());
  const at::Tensor cumulative = repeats.cumsum(0, at::kLong);
  int64_t total = output_size.value_or(0);
  if (!output_size.has_value()) {
    // One trip to the host for both numbers.
    const at::Tensor both = at::stack({repeats.min().to(at::kLong), cumulative.select(0, -1)}).cpu();
    TORCH_CHECK(both.const_data_ptr<int64_t>()[0] >= 0, "repeats can not be negative");
    total = both.const_data_ptr<int64_t>()[1];
  }
  at::Tensor result = new_empty({total}, repeats.scalar_type());
  if (total == 0) return result;
  TORCH_CHECK(total < (int64_t{1} << 32) && repeats.numel() < (int64_t{1} << 31),
              "repeat_interleave: too many elements");
  ops::RepeatProblem a{};
  a.dst = result.mutable_data_ptr();
  a.cumulative = cumulative.const_data_ptr();
  a.n = static_cast<uint32_t>(total), a.count = static_cast<uint32_t>(repeats.numel());
  ops::repeat_indices(runtime::current_queue(), dtype_of(repeats), a);
  return result;
}

}  // namespace xpu_ops::aten
