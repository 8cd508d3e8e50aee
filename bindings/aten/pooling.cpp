// Pooling operators: from tensors and window arguments to the problem of kernels/ops/pooling.hpp.
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/TensorUtils.h>
#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/MaxPooling.h>
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool1d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/quantized_max_pool1d.h>
#include <ATen/ops/quantized_max_pool2d.h>
#include <c10/core/GradMode.h>

#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tangents.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/pooling.hpp"
#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::aten {
namespace {

struct Window {
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  bool adaptive = false, include_pad = true;
  int64_t divisor = 0;
};

std::array<int64_t, 3> expand(at::IntArrayRef v, int nd, std::array<int64_t, 3> fill) {
  for (int a = 3 - nd; a < 3; ++a) fill[a] = v.size() == 1 ? v[0] : v[a - (3 - nd)];
  return fill;
}

Window window(int nd, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef pad,
              at::IntArrayRef dilation = 1) {
  Window w;
  w.kernel = expand(kernel, nd, {1, 1, 1});
  w.stride = stride.empty() ? w.kernel : expand(stride, nd, {1, 1, 1});
  w.pad = expand(pad, nd, {0, 0, 0});
  w.dilation = expand(dilation, nd, {1, 1, 1});
  return w;
}

Window adaptive_window() {
  Window w;
  w.adaptive = true;
  return w;
}

using ops::PoolKind;

at::MemoryFormat channels_last(int nd) {
  return nd == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
}

// Sizes and windows; the pointers are the caller's. `last`: channels-last.
ops::PoolProblem problem_of(PoolKind kind, const Window& w, int nd, const at::Tensor& input, const at::Tensor& output,
                            bool last) {
  const bool back = kind == PoolKind::max_back || kind == PoolKind::avg_back;
  ops::PoolProblem p{{}, kind, dtype_of(back ? output : input), nd, last, 0};
  for (int a = 0; a < 3; ++a) {
    const int dim = a - 3;
    const int64_t in = a < 3 - nd ? 1 : input.size(dim), out = a < 3 - nd ? 1 : output.size(dim);
    TORCH_CHECK_NOT_IMPLEMENTED(in * std::max<int64_t>(out, 1) < (int64_t{1} << 31) || !w.adaptive,
                                "adaptive pooling of ", in, " to ", out, " is too large");
    p.in[a] = static_cast<int32_t>(in);
    p.out[a] = static_cast<int32_t>(out);
    p.kernel[a] = static_cast<int32_t>(w.kernel[a]);
    p.stride[a] = static_cast<int32_t>(w.stride[a]);
    p.pad[a] = static_cast<int32_t>(w.pad[a]);
    p.dilation[a] = static_cast<int32_t>(w.dilation[a]);
  }
  const int64_t channels = input.size(-nd - 1);
  const int64_t batch = input.dim() == nd + 2 ? input.size(0) : 1;
  p.channels = last ? static_cast<uint32_t>(channels) : 1;
  p.divisor = static_cast<int32_t>(w.divisor);
  p.adaptive = w.adaptive;
  p.include_pad = w.include_pad;
  p.planes = last ? batch : batch * channels;
  return p;
}

// dst and indices are dense in `format`; src is made so.
void launch_pool(PoolKind kind, const Window& w, int nd, bool back, at::Tensor src, const at::Tensor& dst,
                 const at::Tensor& indices, at::MemoryFormat format) {
  if (dst.numel() == 0) return;
  src = src.contiguous(format);
  ops::PoolProblem problem =
      problem_of(kind, w, nd, back ? dst : src, back ? src : dst, format != at::MemoryFormat::Contiguous);
  problem.src = src.const_data_ptr();
  problem.dst = dst.mutable_data_ptr();
  if (indices.defined()) problem.indices = indices.mutable_data_ptr<int64_t>();
  ops::pool(runtime::current_queue(), problem);
}

bool turns(PoolKind kind, const Window& w, int nd, const at::Tensor& input, const at::Tensor& output) {
  return ops::plan_pool_turns(problem_of(kind, w, nd, input, output, false), input.size(1), current_policy());
}

// The operator over outputs of any strides: computes into dense ones where they are not.
void pool(PoolKind kind, const Window& w, int nd, bool back, const at::Tensor& src, const at::Tensor& dst,
          const at::Tensor& indices, at::MemoryFormat format) {
  check_scalar_type(src, dst.scalar_type());
  const auto dense = [&](const at::Tensor& t) {
    return !t.defined() || t.is_contiguous(format) ? t : at::empty(t.sizes(), t.options().memory_format(format));
  };
  if (format == at::MemoryFormat::Contiguous && dst.dim() == nd + 2 && dst.numel() != 0 &&
      turns(kind, w, nd, back ? dst : src, back ? src : dst))
    format = channels_last(nd);
  const at::Tensor d = dense(dst);
  if (back) {
    launch_pool(kind, w, nd, back, src, d, indices.defined() ? indices.contiguous(format) : indices, format);
  } else {
    const at::Tensor i = dense(indices);
    launch_pool(kind, w, nd, back, src, d, i, format);
    if (indices.defined() && !i.is_same(indices)) indices.copy_(i);
  }
  if (!d.is_same(dst)) dst.copy_(d);
}

at::MemoryFormat format_of(const at::Tensor& t, int nd) {
  return t.dim() == nd + 2 && t.suggest_memory_format() == channels_last(nd) ? channels_last(nd)
                                                                             : at::MemoryFormat::Contiguous;
}

void require_floating(const at::Tensor& t, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(t.scalar_type()), '"', name, "\" not implemented for '",
                              toString(t.scalar_type()), "'");
}

}  // namespace

void max_pool2d_with_indices(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                             at::IntArrayRef padding, at::IntArrayRef dilation, bool, const at::Tensor& out,
                             const at::Tensor& indices) {
  pool(PoolKind::max, window(2, kernel_size, stride, padding, dilation), 2, false, self, out, indices,
       format_of(self, 2));
}

void max_pool2d_with_indices_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                      at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                                      at::IntArrayRef dilation, bool, const at::Tensor& indices,
                                      const at::Tensor& grad_input) {
  pool(PoolKind::max_back, window(2, kernel_size, stride, padding, dilation), 2, true, grad_output, grad_input, indices,
       format_of(self, 2));
}

void avg_pool2d(const at::Tensor& self, int64_t kH, int64_t kW, int64_t dH, int64_t dW, int64_t padH, int64_t padW,
                bool, bool count_include_pad, std::optional<int64_t> divisor_override, const at::Tensor& out) {
  Window w = window(2, {kH, kW}, {dH, dW}, {padH, padW});
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(PoolKind::avg, w, 2, false, self, out, {}, format_of(self, 2));
}

void avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel_size,
                         at::IntArrayRef stride, at::IntArrayRef padding, bool, bool count_include_pad,
                         std::optional<int64_t> divisor_override, const at::Tensor& grad_input) {
  Window w = window(2, kernel_size, stride, padding);
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(PoolKind::avg_back, w, 2, true, grad_output, grad_input, {}, format_of(self, 2));
}

void avg_pool3d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                bool, bool count_include_pad, std::optional<int64_t> divisor_override, const at::Tensor& out) {
  Window w = window(3, kernel_size, stride, padding);
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(PoolKind::avg, w, 3, false, self, out, {}, at::MemoryFormat::Contiguous);
}

void avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor&, at::IntArrayRef kernel_size,
                         at::IntArrayRef stride, at::IntArrayRef padding, bool, bool count_include_pad,
                         std::optional<int64_t> divisor_override, const at::Tensor& grad_input) {
  Window w = window(3, kernel_size, stride, padding);
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(PoolKind::avg_back, w, 3, true, grad_output, grad_input, {}, at::MemoryFormat::Contiguous);
}

namespace {

std::tuple<Window, std::vector<int64_t>> max_pool3d_window(const at::Tensor& self, at::IntArrayRef kernel_size,
                                                           at::IntArrayRef stride, at::IntArrayRef padding,
                                                           at::IntArrayRef dilation, bool ceil_mode, const char* name) {
  TORCH_CHECK(kernel_size.size() == 1 || kernel_size.size() == 3,
              "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
  TORCH_CHECK(stride.empty() || stride.size() == 1 || stride.size() == 3,
              "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
  TORCH_CHECK(padding.size() == 1 || padding.size() == 3,
              "max_pool3d: padding must either be a single int, or a tuple of three ints");
  TORCH_CHECK(dilation.size() == 1 || dilation.size() == 3,
              "max_pool3d: dilation must be either a single int, or a tuple of three ints");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, name,
              ": Expected 4D or 5D tensor for input, but got: ", self.sizes());
  Window w = window(3, kernel_size, stride, padding, dilation);
  std::vector<int64_t> sizes = self.sizes().vec();
  for (int a = 0; a < 3; ++a)
    sizes[self.dim() - 3 + a] = at::native::pooling_output_shape<int64_t>(self.size(a - 3), w.kernel[a], w.pad[a],
                                                                          w.stride[a], w.dilation[a], ceil_mode);
  const size_t d = sizes.size() - 3;
  at::native::pool3d_shape_check(self, self.size(-4), w.kernel[0], w.kernel[1], w.kernel[2], w.stride[0], w.stride[1],
                                 w.stride[2], w.pad[0], w.pad[1], w.pad[2], w.dilation[0], w.dilation[1], w.dilation[2],
                                 self.size(-3), self.size(-2), self.size(-1), sizes[d], sizes[d + 1], sizes[d + 2],
                                 name);
  return {w, sizes};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> max_pool3d_with_indices(const at::Tensor& self, at::IntArrayRef kernel_size,
                                                           at::IntArrayRef stride, at::IntArrayRef padding,
                                                           at::IntArrayRef dilation, bool ceil_mode) {
  auto [w, sizes] =
      max_pool3d_window(self, kernel_size, stride, padding, dilation, ceil_mode, "max_pool3d_with_indices()");
  const at::MemoryFormat format = format_of(self, 3);
  at::Tensor out = new_empty(sizes, self.scalar_type(), format), indices = new_empty(sizes, at::kLong, format);
  pool(PoolKind::max, w, 3, false, self, out, indices, format);
  return {out, indices};
}

std::tuple<at::Tensor&, at::Tensor&> max_pool3d_with_indices_out(const at::Tensor& self, at::IntArrayRef kernel_size,
                                                                 at::IntArrayRef stride, at::IntArrayRef padding,
                                                                 at::IntArrayRef dilation, bool ceil_mode,
                                                                 at::Tensor& out, at::Tensor& indices) {
  auto [w, sizes] =
      max_pool3d_window(self, kernel_size, stride, padding, dilation, ceil_mode, "max_pool3d_with_indices()");
  resize_out(out, sizes, {}, self.options());
  resize_out(indices, sizes, {}, self.options().dtype(at::kLong));
  pool(PoolKind::max, w, 3, false, self, out, indices, format_of(self, 3));
  return {out, indices};
}

at::Tensor& max_pool3d_with_indices_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                        at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                                        at::IntArrayRef padding, at::IntArrayRef dilation,
                                                        bool ceil_mode, const at::Tensor& indices,
                                                        at::Tensor& grad_input) {
  auto [w, sizes] =
      max_pool3d_window(self, kernel_size, stride, padding, dilation, ceil_mode, "max_pool3d_with_indices_backward()");
  for (int64_t d = 0; d < self.dim(); ++d) {
    at::check_dim_size(grad_output, self.dim(), d, sizes[d]);
    at::check_dim_size(indices, self.dim(), d, sizes[d]);
  }
  resize_out(grad_input, self.sizes(), {}, self.options());
  pool(PoolKind::max_back, w, 3, true, grad_output, grad_input, indices, format_of(self, 3));
  return grad_input;
}

at::Tensor max_pool3d_with_indices_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                            at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                            at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode,
                                            const at::Tensor& indices) {
  at::Tensor grad_input = new_empty(self.sizes(), self.scalar_type(), format_of(self, 3));
  max_pool3d_with_indices_backward_grad_input(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode,
                                              indices, grad_input);
  return grad_input;
}

// --- without indices ---

namespace {

// Max pooling whose indices nobody asks for. Undefined: a gradient is wanted, or the arguments are not those of an
// operator that succeeds.
at::Tensor max_pool_alone(const at::Tensor& self, int nd, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                          at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  if (at::isTensorSubclassLike(self) || self.is_quantized() || self.layout() != at::kStrided || self.is_conj() ||
      self.is_neg() || (c10::GradMode::is_enabled() && self.requires_grad()) || has_tangent(self))
    return {};
  const auto fits = [&](at::IntArrayRef v, int64_t least) {
    return (v.size() == 1 || v.size() == static_cast<size_t>(nd)) &&
           std::all_of(v.begin(), v.end(), [&](int64_t i) { return i >= least; });
  };
  if ((self.dim() != nd + 1 && self.dim() != nd + 2) || self.numel() == 0 || !fits(kernel_size, 1) ||
      !(stride.empty() || fits(stride, 1)) || !fits(padding, 0) || !fits(dilation, 1))
    return {};
  const Window w = window(nd, kernel_size, stride, padding, dilation);
  std::vector<int64_t> sizes = self.sizes().vec();
  for (int a = 3 - nd; a < 3; ++a) {
    const int64_t covered = (w.kernel[a] - 1) * w.dilation[a] + 1, in = self.size(a - 3);
    if (w.pad[a] > covered / 2 || w.pad[a] > w.kernel[a] / 2 || covered > in + 2 * w.pad[a]) return {};
    sizes[self.dim() - 3 + a] =
        at::native::pooling_output_shape<int64_t>(in, w.kernel[a], w.pad[a], w.stride[a], w.dilation[a], ceil_mode);
  }
  if (self.scalar_type() == at::kBool || at::isComplexType(self.scalar_type())) return {};
  const at::Tensor x = nd == 1 ? self.unsqueeze(-2) : self;
  const int planes = std::max(nd, 2);
  const at::MemoryFormat format = nd == 1 ? at::MemoryFormat::Contiguous : format_of(x, planes);
  if (nd == 1) sizes.insert(sizes.end() - 1, 1);
  const at::Tensor out = new_empty(sizes, self.scalar_type(), format);
  pool(PoolKind::max, w, planes, false, x, out, {}, format);
  return nd == 1 ? out.squeeze(-2) : out;
}

}  // namespace

at::Tensor max_pool1d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  if (self.is_quantized()) return at::quantized_max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode);
  TORCH_CHECK((self.dim() == 2 || self.dim() == 3) && self.size(-1) != 0 && self.size(-2) != 0,
              "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:",
              self.sizes());
  at::native::check_max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode);
  const at::Tensor out = max_pool_alone(self, 1, kernel_size, stride, padding, dilation, ceil_mode);
  if (out.defined()) return out;
  return std::get<0>(at::max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode));
}

at::Tensor max_pool2d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  if (self.is_quantized()) return at::quantized_max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode);
  const at::Tensor out = max_pool_alone(self, 2, kernel_size, stride, padding, dilation, ceil_mode);
  if (out.defined()) return out;
  return std::get<0>(at::max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode));
}

at::Tensor max_pool3d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const at::Tensor out = max_pool_alone(self, 3, kernel_size, stride, padding, dilation, ceil_mode);
  if (out.defined()) return out;
  return std::get<0>(at::max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode));
}

// --- adaptive ---

void adaptive_max_pool2d(const at::Tensor& self, at::IntArrayRef, const at::Tensor& out, const at::Tensor& indices) {
  require_floating(self, "adaptive_max_pool2d");
  pool(PoolKind::max, adaptive_window(), 2, false, self, out, indices, format_of(self, 2));
}

void adaptive_max_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& indices,
                                  const at::Tensor& grad_input) {
  require_floating(self, "adaptive_max_pool2d_backward");
  pool(PoolKind::max_back, adaptive_window(), 2, true, grad_output, grad_input, indices, format_of(self, 2));
}

void adaptive_max_pool3d(const at::Tensor& self, at::IntArrayRef, const at::Tensor& out, const at::Tensor& indices) {
  require_floating(self, "adaptive_max_pool3d_cpu");
  pool(PoolKind::max, adaptive_window(), 3, false, self, out, indices, at::MemoryFormat::Contiguous);
}

void adaptive_max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& indices,
                                  const at::Tensor& grad_input) {
  require_floating(self, "adaptive_max_pool3d_backward");
  pool(PoolKind::max_back, adaptive_window(), 3, true, grad_output, grad_input, indices, at::MemoryFormat::Contiguous);
}

namespace {

std::vector<int64_t> adaptive_sizes(const at::Tensor& self, at::IntArrayRef output_size, int nd, const char* name) {
  TORCH_CHECK(output_size.size() == static_cast<size_t>(nd), name, ": output_size must be ", nd);
  TORCH_CHECK(self.dim() == nd + 1 || self.dim() == nd + 2, name, "(): Expected ", nd + 1, "D or ", nd + 2,
              "D tensor, but got ", self.sizes());
  for (int64_t i = self.dim() - nd; i < self.dim(); ++i)
    TORCH_CHECK(self.size(i) > 0, name,
                "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ", self.sizes(),
                " with dimension ", i, " being empty");
  std::vector<int64_t> sizes = self.sizes().vec();
  for (int a = 0; a < nd; ++a) {
    TORCH_CHECK(output_size[a] >= 0, name, ": elements of output_size must be greater than or equal to 0");
    sizes[sizes.size() - nd + a] = output_size[a];
  }
  // Nothing of any type, as on the CPU and CUDA.
  if (c10::multiply_integers(sizes) != 0) require_floating(self, name);
  return sizes;
}

void check_adaptive_backward(const at::Tensor& grad_output, const at::Tensor& self, int nd, const char* name) {
  at::native::adaptive_pool_empty_output_check(grad_output, name);
  TORCH_CHECK(self.dim() == nd + 1 || self.dim() == nd + 2, name, "(): Expected ", nd + 1, "D or ", nd + 2,
              "D tensor, but got ", self.sizes());
  TORCH_CHECK(self.dtype() == grad_output.dtype(), name, "(): expected dtype ", self.dtype(),
              " for `grad_output` but got dtype ", grad_output.dtype());
  TORCH_CHECK(grad_output.dim() == self.dim(), name, "(): Expected grad_output with ", self.dim(),
              " dimensions, but got ", grad_output.sizes());
  for (int64_t i = 0; i < self.dim() - nd; ++i)
    TORCH_CHECK(grad_output.size(i) == self.size(i), name, "(): Expected grad_output with size ", self.size(i),
                " at dimension ", i, ", but got ", grad_output.sizes());
  require_floating(self, name);
}

}  // namespace

at::Tensor _adaptive_avg_pool2d(const at::Tensor& self, at::IntArrayRef output_size) {
  const std::vector<int64_t> sizes = adaptive_sizes(self, output_size, 2, "adaptive_avg_pool2d");
  const at::MemoryFormat format = format_of(self, 2);
  at::Tensor out = new_empty(sizes, self.scalar_type(), format);
  pool(PoolKind::avg, adaptive_window(), 2, false, self, out, {}, format);
  return out;
}

at::Tensor& adaptive_avg_pool2d_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out) {
  resize_out(out, adaptive_sizes(self, output_size, 2, "adaptive_avg_pool2d"), {}, self.options());
  pool(PoolKind::avg, adaptive_window(), 2, false, self, out, {}, format_of(self, 2));
  return out;
}

at::Tensor _adaptive_avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_adaptive_backward(grad_output, self, 2, "adaptive_avg_pool2d_backward");
  const at::MemoryFormat format = format_of(self, 2);
  at::Tensor grad_input = new_empty(self.sizes(), self.scalar_type(), format);
  pool(PoolKind::avg_back, adaptive_window(), 2, true, grad_output, grad_input, {}, format);
  return grad_input;
}

at::Tensor& adaptive_avg_pool3d_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out) {
  resize_out(out, adaptive_sizes(self, output_size, 3, "adaptive_avg_pool3d"), {}, self.options());
  pool(PoolKind::avg, adaptive_window(), 3, false, self, out, {}, at::MemoryFormat::Contiguous);
  return out;
}

at::Tensor _adaptive_avg_pool3d(const at::Tensor& self, at::IntArrayRef output_size) {
  at::Tensor out = new_empty(adaptive_sizes(self, output_size, 3, "adaptive_avg_pool3d"), self.scalar_type());
  pool(PoolKind::avg, adaptive_window(), 3, false, self, out, {}, at::MemoryFormat::Contiguous);
  return out;
}

at::Tensor& adaptive_avg_pool3d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                    at::Tensor& grad_input) {
  check_adaptive_backward(grad_output, self, 3, "adaptive_avg_pool3d_backward");
  resize_out(grad_input, self.sizes(), {}, self.options());
  pool(PoolKind::avg_back, adaptive_window(), 3, true, grad_output, grad_input, {}, at::MemoryFormat::Contiguous);
  return grad_input;
}

at::Tensor _adaptive_avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  at::Tensor grad_input = new_empty(self.sizes(), self.scalar_type());
  return adaptive_avg_pool3d_backward_grad_input(grad_output, self, grad_input);
}

}  // namespace xpu_ops::aten
