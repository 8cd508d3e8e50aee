// Upsampling in every mode as passes along axes, and grid sampling.
#include <ATen/OpMathType.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tuple>

#include "bindings/aten/indexing.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "bindings/torch_compat.hpp"
#include "kernels/ops/interpolation.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::aten {
namespace {

using ops::Axis;
using ops::Filter;
using ops::Precision;
using ops::Table;
using Scale = std::optional<double>;

// The tensor as [rows, axes.., inner]: channels are rows, or the inner dim of a channels-last tensor.
struct Layout {
  at::MemoryFormat format;
  int64_t rows, inner;
  Layout(const at::Tensor& t, at::MemoryFormat f) : format(f) {
    const bool last = f != at::MemoryFormat::Contiguous;
    rows = last ? t.size(0) : t.size(0) * t.size(1);
    inner = last ? t.size(1) : 1;
  }
};

at::MemoryFormat format_of(const at::Tensor& out) {
  for (auto f : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d})
    if ((f == at::MemoryFormat::Contiguous || out.dim() == (f == at::MemoryFormat::ChannelsLast ? 4 : 5)) &&
        out.is_contiguous(f))
      return f;
  return at::MemoryFormat::Contiguous;
}

// Passes along the axes that change; `transposed` runs the gradient, from the forward's output sizes to its input
// sizes.
void resample(const at::Tensor& in_, const at::Tensor& out_, const std::vector<Axis>& axes, Filter filter, bool align,
              bool transposed) {
  if (out_.numel() == 0) return;
  const at::MemoryFormat format = format_of(out_);
  const at::Tensor in = in_.contiguous(format);
  at::Tensor out = out_;
  if (!out.is_contiguous(format)) out = new_empty(out_.sizes(), out_.scalar_type(), format);
  const Layout layout(out, format);
  const DType type = dtype_of(out);
  const bool bytes = type == DType::u8;
  const Precision precision = bytes ? Precision::fixed : type == DType::f64 ? Precision::twice : Precision::single;
  const DType between = bytes || type == DType::f64 ? type : DType::f32;
  runtime::Queue& queue = runtime::current_queue();
  std::vector<Table> table;
  std::vector<int64_t> size;
  for (const Axis& a : axes) {
    table.push_back(ops::device_table(queue, filter, a, align, precision, transposed));
    size.push_back(table.back()->in);
  }
  // First the axes that shrink, then the innermost (its lookups are gathers, so the fewer rows the better), then the
  // rest. What is rounded between passes goes from the innermost outwards, as upstream does.
  std::vector<size_t> order;
  for (size_t i = 0; i < axes.size(); ++i)
    if (!table[i]->identity) order.push_back(i);
  auto rank = [&](size_t i) {
    if (bytes) return -static_cast<double>(i);
    const double ratio = static_cast<double>(table[i]->out) / table[i]->in;
    return ratio < 1 ? ratio : i + 1 == axes.size() ? 1. : 1. + ratio;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  if (order.empty()) {
    out_.copy_(in);
    return;
  }
  // Both axes at once save memory what lies between. Bytes are rounded there, which two passes do faster.
  if (!bytes && order.size() == 2 && axes.size() == 2 && layout.inner == 1 &&
      ops::plan_resample_plane_serves(*table[0], *table[1], type, out.numel(), in.numel())) {
    ops::resample_plane(queue, *table[0], *table[1], type, in.const_data_ptr(), mutable_ptr(out), layout.rows);
    if (!out.is_same(out_)) out_.copy_(out);
    return;
  }
  at::Tensor now = in;
  for (size_t step = 0; step < order.size(); ++step) {
    const size_t i = order[step];
    const bool last = step + 1 == order.size();
    int64_t rows = layout.rows, inner = layout.inner;
    for (size_t k = 0; k < i; ++k) rows *= size[k];
    for (size_t k = i + 1; k < size.size(); ++k) inner *= size[k];
    at::Tensor next = last ? out : new_empty({rows * table[i]->out * inner}, static_cast<at::ScalarType>(between));
    ops::resample_axis(queue, *table[i], now.const_data_ptr(), dtype_of(now), mutable_ptr(next), dtype_of(next), rows,
                       inner);
    size[i] = table[i]->out;
    now = next;
  }
  if (!out.is_same(out_)) out_.copy_(out);
}

void nearest(const at::Tensor& in_, const at::Tensor& out_, const std::vector<Axis>& axes, Filter filter) {
  if (out_.numel() == 0) return;
  const at::MemoryFormat format = format_of(out_);
  const at::Tensor in = in_.contiguous(format);
  at::Tensor out = out_;
  if (!out.is_contiguous(format)) out = new_empty(out_.sizes(), out_.scalar_type(), format);
  const Layout layout(out, format);
  runtime::Queue& queue = runtime::current_queue();
  ops::NearestProblem problem{};
  problem.in = in.const_data_ptr();
  problem.out = mutable_ptr(out);
  Table table[3];
  for (int d = 0; d < 3; ++d) {
    const int k = d - 3 + static_cast<int>(axes.size());
    const Axis axis = k < 0 ? Axis{1, 1, std::nullopt} : axes[k];
    table[d] = ops::device_table(queue, filter, axis, false, Precision::single, false);
    problem.index[d] = table[d]->index;
    problem.in_size[d] = static_cast<uint32_t>(axis.in);
    problem.out_size[d] = static_cast<uint32_t>(axis.out);
  }
  problem.rows = static_cast<uint32_t>(layout.rows) * problem.out_size[0] * problem.out_size[1];
  problem.inner = static_cast<uint32_t>(layout.inner);
  ops::nearest(queue, in.element_size(), problem);
  if (!out.is_same(out_)) out_.copy_(out);
}

// Axes of a forward from the input's sizes, of a backward from input_size and the gradient's sizes.
std::vector<Axis> axes_of(at::IntArrayRef in, at::IntArrayRef out, std::initializer_list<Scale> scales) {
  std::vector<Axis> axes;
  size_t d = 2;
  for (const Scale& s : scales) {
    axes.push_back({in[d], out[d], s});
    ++d;
  }
  return axes;
}

void forward(Filter f, const at::Tensor& self, const at::Tensor& out, bool align, std::initializer_list<Scale> scales) {
  const bool copies = f == Filter::nearest || f == Filter::nearest_exact;
  const at::ScalarType type = self.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(
      (at::isFloatingType(type) && self.element_size() > 1) || (type == at::kByte && (copies || scales.size() == 2)),
      "\"upsample\" not implemented for '", type, "'");
  const auto axes = axes_of(self.sizes(), out.sizes(), scales);
  if (copies)
    nearest(self, out, axes, f);
  else
    resample(self, out, axes, f, align, false);
}
void backward(Filter f, const at::Tensor& grad, const at::Tensor& grad_in, bool align,
              std::initializer_list<Scale> scales) {
  resample(grad, grad_in, axes_of(grad_in.sizes(), grad.sizes(), scales), f, align, true);
}

// at::upsample_nearest2d copies an axis that keeps its size and repeats one that doubles, also where the scale differs;
// with one or three axes and in nearest-exact the scale decides.
Scale plane_scale(Filter f, int64_t in, int64_t out, Scale s) {
  return f == Filter::nearest && (out == in || out == 2 * in) ? std::nullopt : s;
}

}  // namespace

// The eight shapes of signature that upstream's upsample operators have.
#define XPU_NEAREST(NAME, FILTER)                                                                                    \
  void NAME##1d(const at::Tensor& self, at::IntArrayRef, Scale s, const at::Tensor& out) {                           \
    forward(FILTER, self, out, false, {s});                                                                          \
  }                                                                                                                  \
  void NAME##2d(const at::Tensor& self, at::IntArrayRef, Scale h, Scale w, const at::Tensor& out) {                  \
    forward(FILTER, self, out, false,                                                                                \
            {plane_scale(FILTER, self.size(2), out.size(2), h), plane_scale(FILTER, self.size(3), out.size(3), w)}); \
  }                                                                                                                  \
  void NAME##3d(const at::Tensor& self, at::IntArrayRef, Scale d, Scale h, Scale w, const at::Tensor& out) {         \
    forward(FILTER, self, out, false, {d, h, w});                                                                    \
  }                                                                                                                  \
  void NAME##1d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, Scale s,                          \
                         const at::Tensor& grad_in) {                                                                \
    backward(FILTER, grad, grad_in, false, {s});                                                                     \
  }                                                                                                                  \
  void NAME##2d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, Scale h, Scale w,                 \
                         const at::Tensor& grad_in) {                                                                \
    backward(FILTER, grad, grad_in, false,                                                                           \
             {plane_scale(FILTER, grad_in.size(2), grad.size(2), h),                                                 \
              plane_scale(FILTER, grad_in.size(3), grad.size(3), w)});                                               \
  }                                                                                                                  \
  void NAME##3d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, Scale d, Scale h, Scale w,        \
                         const at::Tensor& grad_in) {                                                                \
    backward(FILTER, grad, grad_in, false, {d, h, w});                                                               \
  }
XPU_NEAREST(upsample_nearest, Filter::nearest)
XPU_NEAREST(_upsample_nearest_exact, Filter::nearest_exact)
#undef XPU_NEAREST

#define XPU_FILTER_2D(NAME, FILTER)                                                                            \
  void NAME(const at::Tensor& self, at::IntArrayRef, bool align, Scale h, Scale w, const at::Tensor& out) {    \
    forward(FILTER, self, out, align, {h, w});                                                                 \
  }                                                                                                            \
  void NAME##_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, bool align, Scale h, Scale w, \
                       const at::Tensor& grad_in) {                                                            \
    backward(FILTER, grad, grad_in, align, {h, w});                                                            \
  }
XPU_FILTER_2D(upsample_bilinear2d, Filter::linear)
XPU_FILTER_2D(upsample_bicubic2d, Filter::cubic)
XPU_FILTER_2D(_upsample_bilinear2d_aa, Filter::linear_aa)
XPU_FILTER_2D(_upsample_bicubic2d_aa, Filter::cubic_aa)
XPU_FILTER_2D(_upsample_lanczos2d_aa, Filter::lanczos_aa)
#undef XPU_FILTER_2D

void upsample_linear1d(const at::Tensor& self, at::IntArrayRef, bool align, Scale s, const at::Tensor& out) {
  forward(Filter::linear, self, out, align, {s});
}
void upsample_linear1d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, bool align, Scale s,
                                const at::Tensor& grad_in) {
  backward(Filter::linear, grad, grad_in, align, {s});
}
void upsample_trilinear3d(const at::Tensor& self, at::IntArrayRef, bool align, Scale d, Scale h, Scale w,
                          const at::Tensor& out) {
  forward(Filter::linear, self, out, align, {d, h, w});
}
void upsample_trilinear3d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, bool align, Scale d,
                                   Scale h, Scale w, const at::Tensor& grad_in) {
  backward(Filter::linear, grad, grad_in, align, {d, h, w});
}

namespace {

// Five sizes or strides with depth 1 in two dimensions.
void five(int64_t (&to)[5], at::IntArrayRef from, int64_t depth) {
  if (from.size() == 5)
    std::copy(from.begin(), from.end(), to);
  else
    std::tie(to[0], to[1], to[2], to[3], to[4]) = std::make_tuple(from[0], from[1], depth, from[2], from[3]);
}

// `grid` is contiguous, `over` (the output or its gradient) so in the dims after the second.
ops::GridProblem grid_problem(const at::Tensor& input, const at::Tensor& grid, const at::Tensor& over, int64_t mode,
                              int64_t padding, bool align) {
  ops::GridProblem problem{};
  problem.type = dtype_of(input);
  problem.volume = input.dim() == 5;
  problem.channels = input.size(1);
  problem.taps = ops::grid_taps(problem.volume, static_cast<GridMode>(mode));
  problem.input = input.const_data_ptr();
  problem.grid = grid.const_data_ptr();
  five(problem.in_size, input.sizes(), 1);
  five(problem.in_stride, input.strides(), 0);
  for (int d = 0; d < 2; ++d) problem.out_stride[d] = over.stride(d);
  const int64_t positions = grid.numel() / grid.size(0) / grid.size(-1);
  TORCH_CHECK_NOT_IMPLEMENTED(positions < (int64_t{1} << 31), "grid_sampler of 2^31 positions and more");
  problem.samples = static_cast<uint32_t>(grid.size(0));
  problem.positions = static_cast<uint32_t>(positions);
  int64_t reach = 0;  // of an offset in a plane of the input
  for (int d = 2; d < 5; ++d) reach += (problem.in_size[d] - 1) * problem.in_stride[d];
  TORCH_CHECK_NOT_IMPLEMENTED(reach < (int64_t{1} << 31), "grid_sampler of planes of 2^31 elements and more");
  problem.padding = static_cast<GridPadding>(padding);
  problem.align = align;
  return problem;
}

// Whether the dims after the second lie side by side.
bool dense_planes(const at::Tensor& t) {
  int64_t step = 1;
  for (int64_t d = t.dim() - 1; d >= 2; step *= t.size(d--))
    if (t.stride(d) != step && t.size(d) != 1) return false;
  return true;
}

// The size of the result, of arguments that it checks.
std::vector<int64_t> grid_result(const at::Tensor& input, const at::Tensor& grid, int64_t mode, bool volume) {
  at::native::check_grid_sampler_common(input, grid);
  check_scalar_type(grid, input.scalar_type());
  volume ? check_grid_sampler_3d(input, grid, mode) : at::native::check_grid_sampler_2d(input, grid);
  std::vector<int64_t> sizes{input.size(0), input.size(1)};
  for (int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  return sizes;
}

at::Tensor grid_forward(const at::Tensor& input, const at::Tensor& grid_, int64_t mode, int64_t padding, bool align,
                        bool volume) {
  at::Tensor out = new_empty(grid_result(input, grid_, mode, volume), input.scalar_type());
  const at::Tensor grid = grid_.contiguous();
  if (out.numel() == 0) return out;
  ops::GridProblem problem = grid_problem(input, grid, out, mode, padding, align);
  problem.out = mutable_ptr(out);
  ops::grid_sample(runtime::current_queue(), problem);
  return out;
}

std::tuple<at::Tensor, at::Tensor> grid_backward(const at::Tensor& grad, const at::Tensor& input,
                                                 const at::Tensor& grid_, int64_t mode, int64_t padding, bool align,
                                                 std::array<bool, 2> mask, bool volume) {
  const std::vector<int64_t> sizes = grid_result(input, grid_, mode, volume);
  TORCH_CHECK(grad.sizes() == sizes, "grid_sampler: expected grad_output of size ", at::IntArrayRef(sizes),
              ", but got ", grad.sizes());
  check_scalar_type(grad, input.scalar_type());
  const at::Tensor grid = grid_.contiguous(), flow = dense_planes(grad) ? grad : grad.contiguous();
  at::Tensor grad_input, grad_grid = new_empty(grid.sizes(), grid.scalar_type());
  if (grid.numel() == 0 || input.numel() == 0) {
    if (mask[0]) grad_input = at::zeros(input.sizes(), input.options());
    grad_grid.zero_();
    return {grad_input, grad_grid};
  }
  ops::GridProblem problem = grid_problem(input, grid, flow, mode, padding, align);
  problem.grad_out = flow.const_data_ptr();
  problem.grad_grid = mutable_ptr(grad_grid);
  runtime::Queue& queue = runtime::current_queue();
  if (!mask[0]) {
    ops::grid_sample_grid_grad(queue, problem);
    return {grad_input, grad_grid};
  }
  // The 16-bit floats are summed in float.
  const at::ScalarType compute = at::toOpMathType(input.scalar_type());
  problem.pitch = problem.positions + 48;
  const size_t entries = static_cast<size_t>(input.size(0) * problem.taps) * problem.pitch;
  const int64_t pixels = input.numel() / input.size(0) / input.size(1);
  TORCH_CHECK_NOT_IMPLEMENTED(pixels < (int64_t{1} << 31), "the gradient of grid_sampler for 2^31 pixels and more");
  const runtime::Scratch pixel(entries * sizeof(int32_t)), weight(entries * at::elementSize(compute));
  problem.pixel = pixel.get<int32_t>(), problem.weight = weight.get();
  ops::grid_sample_grid_grad(queue, problem);
  const bool planes = ops::plan_grid_planes(input.size(1), pixels, current_policy());
  const at::Tensor grads = planes ? plain(grad) : grad.movedim(1, -1).contiguous();
  std::vector<int64_t> laid_out = input.sizes().vec();
  if (!planes) std::rotate(laid_out.begin() + 1, laid_out.begin() + 2, laid_out.end());
  const at::Tensor sums = planes ? new_empty(laid_out, compute) : at::zeros(laid_out, input.options().dtype(compute));
  ops::GridSumProblem sum{mutable_ptr(sums), grads.const_data_ptr(), problem.pixel, problem.weight};
  sum.pixels = static_cast<uint64_t>(pixels), sum.channels = static_cast<uint64_t>(input.size(1));
  sum.positions = problem.positions, sum.pitch = problem.pitch, sum.taps = static_cast<uint64_t>(problem.taps);
  ops::grid_sample_input_grad(queue, problem, planes, sum);
  if (planes && compute == input.scalar_type()) return {sums, grad_grid};
  grad_input = at::empty_like(input, input.options(), at::MemoryFormat::Contiguous);
  grad_input.copy_(planes ? sums : sums.movedim(-1, 1));
  return {grad_input, grad_grid};
}

}  // namespace

at::Tensor grid_sampler_2d(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding, bool align) {
  return grid_forward(input, grid, mode, padding, align, false);
}
at::Tensor grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding, bool align) {
  return grid_forward(input, grid, mode, padding, align, true);
}
std::tuple<at::Tensor, at::Tensor> grid_sampler_2d_backward(const at::Tensor& grad, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t mode, int64_t padding,
                                                            bool align, std::array<bool, 2> mask) {
  return grid_backward(grad, input, grid, mode, padding, align, mask, false);
}
std::tuple<at::Tensor, at::Tensor> grid_sampler_3d_backward(const at::Tensor& grad, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t mode, int64_t padding,
                                                            bool align, std::array<bool, 2> mask) {
  return grid_backward(grad, input, grid, mode, padding, align, mask, true);
}

}  // namespace xpu_ops::aten
