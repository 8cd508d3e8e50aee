// Pooling operators: from tensors and window arguments to one launch a batch of planes.
#include <ATen/TensorUtils.h>
#include <ATen/native/AdaptivePooling.h>
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "gen/kernels/pooling_kernels.hpp"
#include "kernels/runtime/launch.hpp"
#include "kernels/sycl/pooling_args.hpp"

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

struct Tables {
  const runtime::KernelTable& flat;
  const runtime::KernelTable& last;
  const runtime::KernelTable& wide;
  const runtime::KernelTable& plane;
};
const Tables kMax{kernels::max_pool_flat, kernels::max_pool_last, kernels::max_pool_wide, kernels::max_pool_plane};
const Tables kMaxBack{kernels::max_pool_back_flat, kernels::max_pool_back_last, kernels::max_pool_back_wide,
                      kernels::max_pool_back_plane};
const Tables kAvg{kernels::avg_pool_flat, kernels::avg_pool_last, kernels::avg_pool_wide, kernels::avg_pool_plane};
const Tables kAvgBack{kernels::avg_pool_back_flat, kernels::avg_pool_back_last, kernels::avg_pool_back_wide,
                      kernels::avg_pool_back_plane};

// Whether contiguous planes suit the `plane` kernel: few outputs of wide windows.
bool by_plane(const Tables& tables, const Window& w, int nd, const at::Tensor& input, const at::Tensor& output) {
  if (&tables != &kMaxBack) return w.adaptive && input.size(-1) >= 4 * output.size(-1);
  int64_t in = 1, out = 1;
  for (int d = 1; d <= nd; ++d) in *= input.size(-d), out *= output.size(-d);
  return in >= 16 * out;
}

// Whether contiguous planes are averaged by whole windows side by side, which have a kernel of their own.
bool by_tiles(const Tables& tables, const Window& w, int nd, const at::Tensor& input, const at::Tensor& output) {
  const int64_t k = w.kernel[2];
  return &tables == &kAvg && nd == 2 && !w.adaptive && !w.divisor && (k == 2 || k == 3) && w.kernel[1] == k &&
         w.stride[1] == k && w.stride[2] == k && w.pad[1] == 0 && w.pad[2] == 0 &&
         output.size(-1) * k <= input.size(-1) && output.size(-2) * k <= input.size(-2) &&
         kernels::avg_pool_tiles_k2.has(dtype_of(input)) &&
         runtime::device_info(runtime::current_queue().device).policy.single_items;
}

at::MemoryFormat channels_last(int nd) {
  return nd == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
}

// dst and indices are dense in `format`; src is made so.
void launch_pool(const Tables& tables, const Window& w, int nd, bool back, at::Tensor src, const at::Tensor& dst,
                 at::Tensor indices, at::MemoryFormat format) {
  if (dst.numel() == 0) return;
  runtime::KernelSlot& flat = tables.flat[dtype_of(src)];
  src = src.contiguous(format);
  const at::Tensor& input = back ? dst : src;
  const at::Tensor& output = back ? src : dst;
  const bool last = format != at::MemoryFormat::Contiguous;
  const bool plane = !last && by_plane(tables, w, nd, input, output);
  const bool tiles = !last && by_tiles(tables, w, nd, input, output);
  PoolArgs p{};
  int64_t in_volume = 1, out_volume = 1;
  for (int a = 0; a < 3; ++a) {
    const int dim = a - 3;
    const int64_t in = a < 3 - nd ? 1 : input.size(dim), out = a < 3 - nd ? 1 : output.size(dim);
    TORCH_CHECK_NOT_IMPLEMENTED(in * std::max<int64_t>(out, 1) < (int64_t{1} << 31) || !w.adaptive,
                                "adaptive pooling of ", in, " to ", out, " is too large");
    in_volume *= in;
    out_volume *= out;
    p.in[a] = static_cast<int32_t>(in);
    p.out[a] = static_cast<int32_t>(out);
    p.kernel[a] = static_cast<int32_t>(w.kernel[a]);
    p.stride[a] = static_cast<int32_t>(w.stride[a]);
    p.pad[a] = static_cast<int32_t>(w.pad[a]);
    p.dilation[a] = static_cast<int32_t>(w.dilation[a]);
    const int64_t covered = (w.kernel[a] - 1) * w.dilation[a];
    const int64_t reach = back ? (w.adaptive ? std::min(out, (out + in - 1) / in + 1) : covered / w.stride[a] + 1)
                               : (w.adaptive ? std::min(in, (in + out - 1) / out + 1) : w.kernel[a]);
    p.reach[a] = static_cast<int32_t>(reach);
    p.size[a] = static_cast<int32_t>(back ? in : out);
    p.by_size[a] = xpu::make_divider(static_cast<uint32_t>(p.size[a]));
    p.by_in[a] = xpu::make_divider(static_cast<uint32_t>(in));
    p.by_out[a] = xpu::make_divider(static_cast<uint32_t>(out));
    p.by_stride[a] = xpu::make_divider(static_cast<uint32_t>(w.stride[a]));
    p.by_dilation[a] = xpu::make_divider(static_cast<uint32_t>(w.dilation[a]));
  }
  const int64_t channels = input.size(-nd - 1);
  const int64_t batch = input.dim() == nd + 2 ? input.size(0) : 1;
  p.channels = last ? static_cast<uint32_t>(channels) : 1;
  p.by_channel = xpu::make_divider(p.channels);
  p.divisor = static_cast<int32_t>(w.divisor);
  p.adaptive = w.adaptive;
  p.include_pad = w.include_pad;

  const int64_t planes = last ? batch : batch * channels;
  const int64_t largest = std::max<int64_t>(1, std::max(in_volume, out_volume) * p.channels);
  const int64_t at_once = std::max<int64_t>(1, ((int64_t{1} << 31) - 1) / largest);
  const int64_t dst_step = (back ? in_volume : out_volume) * p.channels,
                src_step = (back ? out_volume : in_volume) * p.channels;
  const size_t item = src.element_size();
  runtime::Queue& queue = runtime::current_queue();
  const uint32_t width = static_cast<uint32_t>(last ? p.channels : p.size[2]);
  const int axis = last ? 2 : 1;
  for (int64_t first = 0; first < planes; first += at_once) {
    const int64_t count = std::min(at_once, planes - first);
    p.src = static_cast<const char*>(src.const_data_ptr()) + first * src_step * item;
    p.dst = static_cast<char*>(dst.mutable_data_ptr()) + first * dst_step * item;
    if (indices.defined()) p.indices = indices.mutable_data_ptr<int64_t>() + first * (back ? src_step : dst_step);
    p.items = static_cast<uint32_t>(count * dst_step);
    if (plane) {
      const size_t groups = static_cast<size_t>(count) * (back ? 1 : p.size[0] * p.size[1]);
      runtime::launch(queue, tables.plane[dtype_of(src)], groups, kPoolLanes, p);
    } else if (tiles) {
      p.items = static_cast<uint32_t>(count * p.out[1]);
      const size_t groups = std::min<size_t>(p.items, size_t{runtime::device_info(queue.device).policy.units} * 64);
      const auto& kernel = w.kernel[2] == 2 ? kernels::avg_pool_tiles_k2 : kernels::avg_pool_tiles_k3;
      runtime::launch(queue, kernel[dtype_of(src)], groups, 1, p);
    } else if (width >= 16) {
      const size_t lines = static_cast<size_t>(count) * p.size[0] * (last ? p.size[1] : 1);
      const size_t local = last ? kPoolLanes : std::min<size_t>(256, runtime::ceil_div(width, 16) * 16);
      const size_t across = last ? kPoolLanes * kPoolVectors : local;
      const size_t blocks = runtime::ceil_div(width, across), length = p.size[axis];
      // About 4096 elements a work-group, but enough groups to share among the compute units.
      const size_t wanted = size_t{runtime::device_info(queue.device).policy.units} * 8;
      const size_t parts =
          std::max(runtime::ceil_div(length * across, 4096), runtime::ceil_div(wanted, lines * blocks));
      p.segment = static_cast<uint32_t>(runtime::ceil_div(length, std::min(parts, length)));
      p.by_part = xpu::make_divider(static_cast<uint32_t>(runtime::ceil_div(length, p.segment)));
      p.lanes = width;
      runtime::launch2(queue, (last ? tables.last : tables.wide)[dtype_of(src)], lines * p.by_part.d, blocks, 1, local,
                       p);
    } else {
      runtime::launch(queue, flat, runtime::ceil_div(p.items, 256), 256, p);
    }
  }
}

// The operator over outputs of any strides: computes into dense ones where they are not.
void pool(const Tables& tables, const Window& w, int nd, bool back, const at::Tensor& src, const at::Tensor& dst,
          const at::Tensor& indices, at::MemoryFormat format) {
  const auto dense = [&](const at::Tensor& t) {
    return !t.defined() || t.is_contiguous(format) ? t : at::empty(t.sizes(), t.options().memory_format(format));
  };
  // Neighbouring outputs of a plane read every second input, one gather a tap: copies to channels-last and back cost
  // less.
  if (format == at::MemoryFormat::Contiguous && dst.dim() == nd + 2 && dst.size(1) >= kPoolLanes &&
      !by_plane(tables, w, nd, back ? dst : src, back ? src : dst) && !by_tiles(tables, w, nd, src, dst))
    format = channels_last(nd);
  const at::Tensor d = dense(dst);
  if (back) {
    launch_pool(tables, w, nd, back, src, d, indices.defined() ? indices.contiguous(format) : indices, format);
  } else {
    const at::Tensor i = dense(indices);
    launch_pool(tables, w, nd, back, src, d, i, format);
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
  pool(kMax, window(2, kernel_size, stride, padding, dilation), 2, false, self, out, indices, format_of(self, 2));
}

void max_pool2d_with_indices_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                      at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                                      at::IntArrayRef dilation, bool, const at::Tensor& indices,
                                      const at::Tensor& grad_input) {
  pool(kMaxBack, window(2, kernel_size, stride, padding, dilation), 2, true, grad_output, grad_input, indices,
       format_of(self, 2));
}

void avg_pool2d(const at::Tensor& self, int64_t kH, int64_t kW, int64_t dH, int64_t dW, int64_t padH, int64_t padW,
                bool, bool count_include_pad, std::optional<int64_t> divisor_override, const at::Tensor& out) {
  Window w = window(2, {kH, kW}, {dH, dW}, {padH, padW});
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(kAvg, w, 2, false, self, out, {}, format_of(self, 2));
}

void avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel_size,
                         at::IntArrayRef stride, at::IntArrayRef padding, bool, bool count_include_pad,
                         std::optional<int64_t> divisor_override, const at::Tensor& grad_input) {
  Window w = window(2, kernel_size, stride, padding);
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(kAvgBack, w, 2, true, grad_output, grad_input, {}, format_of(self, 2));
}

void avg_pool3d(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                bool, bool count_include_pad, std::optional<int64_t> divisor_override, const at::Tensor& out) {
  Window w = window(3, kernel_size, stride, padding);
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(kAvg, w, 3, false, self, out, {}, at::MemoryFormat::Contiguous);
}

void avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor&, at::IntArrayRef kernel_size,
                         at::IntArrayRef stride, at::IntArrayRef padding, bool, bool count_include_pad,
                         std::optional<int64_t> divisor_override, const at::Tensor& grad_input) {
  Window w = window(3, kernel_size, stride, padding);
  w.include_pad = count_include_pad;
  w.divisor = divisor_override.value_or(0);
  pool(kAvgBack, w, 3, true, grad_output, grad_input, {}, at::MemoryFormat::Contiguous);
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
  pool(kMax, w, 3, false, self, out, indices, format);
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
  pool(kMax, w, 3, false, self, out, indices, format_of(self, 3));
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
  pool(kMaxBack, w, 3, true, grad_output, grad_input, indices, format_of(self, 3));
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

// --- adaptive ---

void adaptive_max_pool2d(const at::Tensor& self, at::IntArrayRef, const at::Tensor& out, const at::Tensor& indices) {
  require_floating(self, "adaptive_max_pool2d");
  pool(kMax, adaptive_window(), 2, false, self, out, indices, format_of(self, 2));
}

void adaptive_max_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& indices,
                                  const at::Tensor& grad_input) {
  require_floating(self, "adaptive_max_pool2d_backward");
  pool(kMaxBack, adaptive_window(), 2, true, grad_output, grad_input, indices, format_of(self, 2));
}

void adaptive_max_pool3d(const at::Tensor& self, at::IntArrayRef, const at::Tensor& out, const at::Tensor& indices) {
  require_floating(self, "adaptive_max_pool3d_cpu");
  pool(kMax, adaptive_window(), 3, false, self, out, indices, at::MemoryFormat::Contiguous);
}

void adaptive_max_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& indices,
                                  const at::Tensor& grad_input) {
  require_floating(self, "adaptive_max_pool3d_backward");
  pool(kMaxBack, adaptive_window(), 3, true, grad_output, grad_input, indices, at::MemoryFormat::Contiguous);
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
  pool(kAvg, adaptive_window(), 2, false, self, out, {}, format);
  return out;
}

at::Tensor& adaptive_avg_pool2d_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out) {
  resize_out(out, adaptive_sizes(self, output_size, 2, "adaptive_avg_pool2d"), {}, self.options());
  pool(kAvg, adaptive_window(), 2, false, self, out, {}, format_of(self, 2));
  return out;
}

at::Tensor _adaptive_avg_pool2d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  check_adaptive_backward(grad_output, self, 2, "adaptive_avg_pool2d_backward");
  const at::MemoryFormat format = format_of(self, 2);
  at::Tensor grad_input = new_empty(self.sizes(), self.scalar_type(), format);
  pool(kAvgBack, adaptive_window(), 2, true, grad_output, grad_input, {}, format);
  return grad_input;
}

at::Tensor& adaptive_avg_pool3d_out(const at::Tensor& self, at::IntArrayRef output_size, at::Tensor& out) {
  resize_out(out, adaptive_sizes(self, output_size, 3, "adaptive_avg_pool3d"), {}, self.options());
  pool(kAvg, adaptive_window(), 3, false, self, out, {}, at::MemoryFormat::Contiguous);
  return out;
}

at::Tensor _adaptive_avg_pool3d(const at::Tensor& self, at::IntArrayRef output_size) {
  at::Tensor out = new_empty(adaptive_sizes(self, output_size, 3, "adaptive_avg_pool3d"), self.scalar_type());
  pool(kAvg, adaptive_window(), 3, false, self, out, {}, at::MemoryFormat::Contiguous);
  return out;
}

at::Tensor& adaptive_avg_pool3d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                    at::Tensor& grad_input) {
  check_adaptive_backward(grad_output, self, 3, "adaptive_avg_pool3d_backward");
  resize_out(grad_input, self.sizes(), {}, self.options());
  pool(kAvgBack, adaptive_window(), 3, true, grad_output, grad_input, {}, at::MemoryFormat::Contiguous);
  return grad_input;
}

at::Tensor _adaptive_avg_pool3d_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  at::Tensor grad_input = new_empty(self.sizes(), self.scalar_type());
  return adaptive_avg_pool3d_backward_grad_input(grad_output, self, grad_input);
}

}  // namespace xpu_ops::aten
