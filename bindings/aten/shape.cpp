#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/PixelShuffle.h>
#include <ATen/native/Resize.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/constant_pad_nd_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor_split_native.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <optional>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "bindings/torch_compat.hpp"
#include "gen/kernels/shape_kernels.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/shape.hpp"

namespace xpu_ops::aten {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;
constexpr ops::PadMode kReflection = ops::PadMode::reflection, kReplication = ops::PadMode::replication;

// ---- cat ----------------------------------------------------------------------------------------------------------

// Elements from one run of `t` to the next where each lies in memory as in `out`: along `dim` and dimensions within it.
// Without a value where one does not.
std::optional<int64_t> run_step(const at::Tensor& t, const at::Tensor& out, int64_t dim) {
  const int64_t inner = out.stride(dim), total = inner * out.size(dim);
  std::optional<int64_t> step;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) == 1) continue;
    if (d == dim || out.stride(d) <= inner) {
      if (t.stride(d) != out.stride(d)) return {};
      continue;
    }
    const int64_t runs = out.stride(d) / total;
    if (!step) step = t.stride(d) / runs;
    if (t.stride(d) != *step * runs) return {};
  }
  return step ? step : t.size(dim) * inner;
}

// ---- padding ------------------------------------------------------------------------------------------------------

// Dimension 0 is the innermost.
struct PadShape { int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, pad[3] = {0, 0, 0}; };

PadShape pad_shape(const at::Tensor& input, at::IntArrayRef padding) {
  TORCH_CHECK(padding.size() == 2 || padding.size() == 4 || padding.size() == 6,
              "padding size is expected to be 2, 4 or 6, but got: ", padding.size());
  TORCH_CHECK(input.dim() > static_cast<int64_t>(padding.size() / 2), "Expected more than ", padding.size() / 2,
              " dimensions of the input for padding of ", padding.size(), " elements, but got ", input.sizes());
  PadShape s;
  for (size_t d = 0; d < padding.size() / 2; ++d) {
    s.in[d] = input.size(-1 - static_cast<int64_t>(d));
    s.pad[d] = padding[2 * d];
    s.out[d] = s.in[d] + padding[2 * d] + padding[2 * d + 1];
  }
  return s;
}

// Writes `numel` elements of the tensor with sizes `write`.
ops::PadProblem pad_problem(void* dst, const void* src, const PadShape& s, const int64_t (&write)[3], int64_t numel,
                            int64_t other_numel, ops::PadMode mode) {
  TORCH_CHECK(numel < kLimit && other_numel < kLimit,
              "padding of tensors of 2^31 elements and more is not supported on XPU");
  ops::PadProblem p{};
  p.dst = dst, p.src = src;
  p.rows = static_cast<uint32_t>(numel / write[0]);
  for (int d = 0; d < 3; ++d) {
    p.written[d] = static_cast<uint32_t>(write[d]);
    p.in[d] = static_cast<int32_t>(s.in[d]);
    p.out[d] = static_cast<int32_t>(s.out[d]);
    p.pad[d] = static_cast<int32_t>(s.pad[d]);
  }
  p.mode = mode;
  return p;
}

// The padded dimensions of a tensor with elements as `format` has them, as at most three: one without padding is part
// of the next outer one. Without a value where that does not serve.
std::optional<PadShape> merged_padding(const at::Tensor& input, at::IntArrayRef padding, at::MemoryFormat format) {
  const int64_t last = input.dim() - 1;
  if (padding.size() % 2 != 0 || padding.size() > 2 * input.sizes().size()) return {};
  if (input.numel() == 0 || !input.is_contiguous(format)) return {};
  PadShape s;
  int64_t results = 1;
  size_t k = 0;
  for (int64_t i = last; i >= 0; --i) {
    // The channels are innermost.
    const int64_t d = format == at::MemoryFormat::Contiguous || i == 0 ? i : i == last ? 1 : i + 1;
    const auto at = static_cast<size_t>(2 * (last - d));
    const int64_t before = at < padding.size() ? padding[at] : 0, after = at < padding.size() ? padding[at + 1] : 0;
    if (before < 0 || before >= kLimit || after < 0 || after >= kLimit) return {};
    results *= before + input.size(d) + after;
    if (results >= kLimit) return {};
    if (k < 3 && s.in[k] != s.out[k]) ++k;
    if (k == 3) {
      if (before + after != 0) return {};
      continue;
    }
    const int64_t inner = s.in[k];
    s.in[k] = inner * input.size(d);
    s.out[k] = inner * (before + input.size(d) + after);
    s.pad[k] = inner * before;
  }
  return s;
}

// As the CPU kernels do, where upstream's metas do not set it: strides of the input's format, but never for elements
// that belong to others, as those between the elements of a view do.
void restride(const at::Tensor& out, at::IntArrayRef sizes, const at::Tensor& input) {
  if (out.sizes() != sizes || out.is_non_overlapping_and_dense()) out.resize_(sizes, input.suggest_memory_format());
}

void pad_forward(const at::Tensor& input, at::IntArrayRef padding, const at::Tensor& out, ops::PadMode mode) {
  if (out.numel() == 0) return;
  at::assert_no_internal_overlap(out);
  restride(out, out.sizes(), input);
  const PadShape s = pad_shape(input, padding);
  const at::Tensor src = plain(input);
  ContiguousOut target(out);
  ops::pad(runtime::current_queue(), out.element_size(),
           pad_problem(target.data(), src.const_data_ptr(), s, s.out, out.numel(), input.numel(), mode));
  target.finish();
}

void pad_backward(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef padding,
                  const at::Tensor& grad_input, ops::PadMode mode) {
  TORCH_CHECK(grad.dim() == input.dim() && grad.scalar_type() == input.scalar_type(),
              "gradOutput is expected to have the dimensions and the type of the input, but got ", grad.toString(), " ",
              grad.sizes(), " for ", input.toString(), " ", input.sizes());
  for (int64_t d = 0; d < input.dim() - static_cast<int64_t>(padding.size() / 2); ++d)
    TORCH_CHECK(grad.size(d) == input.size(d), "gradOutput has size ", grad.size(d), " in dimension ", d,
                ", but the input has ", input.size(d));
  if (grad_input.numel() == 0) return;
  restride(grad_input, grad_input.sizes(), input);
  const PadShape s = pad_shape(input, padding);
  const at::Tensor src = plain(grad);
  ContiguousOut target(grad_input);
  ops::pad_backward(runtime::current_queue(), dtype_of(grad_input),
                    pad_problem(target.data(), src.const_data_ptr(), s, s.in, grad_input.numel(), grad.numel(), mode));
  target.finish();
}

void resize_pad(at::Tensor& out, const at::Tensor& input, at::IntArrayRef padding) {
  std::vector<int64_t> sizes = input.sizes().vec();
  const PadShape s = pad_shape(input, padding);
  for (size_t d = 0; d < padding.size() / 2; ++d) sizes[sizes.size() - 1 - d] = s.out[d];
  restride(out, sizes, input);
}

void check_reflection2d(const at::Tensor& input, at::IntArrayRef padding) {
  check_padding2d(input, padding);
  const int64_t w = input.size(-1), h = input.size(-2), dim_w = input.dim() - 1, dim_h = input.dim() - 2;
  TORCH_CHECK(padding[0] < w && padding[1] < w,
              "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (",
              padding[0], ", ", padding[1], ") at dimension ", dim_w, " of input ", input.sizes());
  TORCH_CHECK(padding[2] < h && padding[3] < h,
              "Argument #6: Padding size should be less than the corresponding input dimension, but got: padding (",
              padding[2], ", ", padding[3], ") at dimension ", dim_h, " of input ", input.sizes());
  const PadShape s = pad_shape(input, padding);
  TORCH_CHECK(s.out[0] >= 1 || s.out[1] >= 1, "input (H: ", h, ", W: ", w,
              ") is too small. Calculated output H: ", s.out[1], " W: ", s.out[0]);
}

void check_grad_sizes(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef padding) {
  static constexpr const char* kNames[] = {"width", "height", "depth"};
  const PadShape s = pad_shape(input, padding);
  for (size_t d = 0; d < padding.size() / 2; ++d)
    TORCH_CHECK(s.out[d] == grad.size(-1 - static_cast<int64_t>(d)), "gradOutput ", kNames[d],
                " unexpected. Expected: ", s.out[d], ", Got: ", grad.size(-1 - static_cast<int64_t>(d)));
}

at::Tensor& pad_backward_out(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef padding,
                             at::Tensor& grad_input, ops::PadMode mode) {
  check_grad_sizes(grad, input, padding);
  restride(grad_input, input.sizes(), input);
  pad_backward(grad, input, padding, grad_input, mode);
  return grad_input;
}

// ---- im2col -------------------------------------------------------------------------------------------------------

void check_pair(at::IntArrayRef values, const char* name) {
  TORCH_CHECK(values.size() == 2, "It is expected ", name, " equals to 2, but got size ", values.size());
}

ops::Im2colProblem im2col_problem(int64_t height, int64_t width, at::IntArrayRef kernel, at::IntArrayRef dilation,
                                  at::IntArrayRef padding, at::IntArrayRef stride) {
  ops::Im2colProblem p{};
  auto i32 = [](int64_t v) { return static_cast<int32_t>(v); };
  p.height = i32(height), p.width = i32(width);
  p.kernel_h = i32(kernel[0]), p.kernel_w = i32(kernel[1]);
  p.dilation_h = i32(dilation[0]), p.dilation_w = i32(dilation[1]);
  p.pad_h = i32(padding[0]), p.pad_w = i32(padding[1]);
  p.stride_h = i32(stride[0]), p.stride_w = i32(stride[1]);
  p.out_height = i32((height + 2 * padding[0] - (dilation[0] * (kernel[0] - 1) + 1)) / stride[0] + 1);
  p.out_width = i32((width + 2 * padding[1] - (dilation[1] * (kernel[1] - 1) + 1)) / stride[1] + 1);
  return p;
}

}  // namespace

void cat_impl(const at::ITensorListRef& tensors, int64_t dim, int64_t, bool, bool, bool, at::MemoryFormat,
              const at::Tensor& out) {
  if (out.numel() == 0) return;
  const bool runs = out.is_non_overlapping_and_dense() && out.numel() < kLimit && !out.is_conj() && !out.is_neg();
  const int64_t inner = out.stride(dim), total = inner * out.size(dim);
  std::optional<ops::Cat> cat;
  if (runs)
    cat.emplace(runtime::current_queue(), out.mutable_data_ptr(), out.itemsize(),
                static_cast<uint32_t>(out.numel() / total), static_cast<uint32_t>(total));
  int64_t start = 0;
  for (const at::Tensor& t : tensors) {
    TORCH_CHECK(t.device() == out.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", out.device(),
                " and ", t.device(), "! (when checking argument for argument tensors in method wrapper_XPU_cat)");
    if (t.numel() == 0) continue;  // also the 1-D empty tensors that fit any shape
    const auto added = [&] {
      if (!cat || t.scalar_type() != out.scalar_type() || t.is_conj() || t.is_neg() || t._is_zerotensor()) return false;
      const std::optional<int64_t> step = run_step(t, out, dim);
      return step && cat->add(t.const_data_ptr(), static_cast<uint32_t>(t.size(dim) * inner), *step,
                              static_cast<uint32_t>(start * inner));
    };
    if (!added()) out.narrow(dim, start, t.size(dim)).copy_(t);
    start += t.size(dim);
  }
  if (cat) cat->finish();
}

at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, int64_t start, int64_t length, at::Tensor& out) {
  TORCH_CHECK(dim < self.dim() || self.dim() == 0, "narrow_copy(): dimension ", dim, " of a tensor of ", self.dim());
  const at::Tensor part = self.narrow(dim, start, length);
  check_out_type(out, self.dtype());
  at::native::resize_output(out, part.sizes());
  return out.copy_(part);
}

namespace {

// `t` itself, or its elements where they are kept as conjugates or negatives.
at::Tensor without_bits(const at::Tensor& t) { return t.is_conj() || t.is_neg() ? t.resolve_conj().resolve_neg() : t; }

// Both have the same number of dimensions, of which `src` says the sizes.
ops::CopyShape copy_shape(const at::Tensor& out, const at::Tensor& src) {
  TORCH_CHECK(src.dim() <= ops::kMaxDims, "only tensors with up to ", ops::kMaxDims, " dims are supported");
  ops::CopyShape s;
  s.ndim = static_cast<int>(src.dim());
  for (int64_t d = 0; d < src.dim(); ++d) s.size[d] = src.size(d), s.dst[d] = out.stride(d), s.src[d] = src.stride(d);
  return s;
}

void add_dim(ops::CopyShape& s, int64_t size, int64_t dst, int64_t src) {
  TORCH_CHECK(s.ndim < ops::kMaxDims, "more than ", ops::kMaxDims, " dimensions are not supported");
  s.size[s.ndim] = size, s.dst[s.ndim] = dst, s.src[s.ndim] = src;
  ++s.ndim;
}

// Dimensions that one pass rolls: each doubles the number of its copies.
constexpr size_t kRolled = 3;

// Copies `src` with each of `dims` begun at the element that `start` names for it. Their sizes are above one.
void roll_pass(const at::Tensor& out, const at::Tensor& src, at::IntArrayRef dims, at::IntArrayRef start) {
  ops::CopyShape s;  // of the dimensions of more than one element, of which 64 suffice
  c10::SmallVector<int, 5> place(src.dim());
  for (int64_t d = 0; d < src.dim(); ++d)
    if (place[d] = s.ndim; src.size(d) != 1) add_dim(s, src.size(d), out.stride(d), src.stride(d));
  const auto element = static_cast<int64_t>(src.element_size());
  for (uint32_t part = 0; part < 1u << dims.size(); ++part) {
    int64_t to = 0, from = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t begin = start[dims[i]], rest = src.size(dims[i]) - begin;
      const int d = place[dims[i]];
      if (part >> i & 1)
        s.size[d] = begin, to += rest * s.dst[d];
      else
        s.size[d] = rest, from += begin * s.src[d];
    }
    ops::copy(runtime::current_queue(), static_cast<char*>(out.mutable_data_ptr()) + to * element,
              static_cast<const char*>(src.const_data_ptr()) + from * element, src.element_size(), s);
  }
}

}  // namespace

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  const int64_t ndim = self.dim();
  const auto flipped = at::dim_list_to_bitset(dims, ndim);
  at::Tensor out = at::empty_like(self, self.options(), at::MemoryFormat::Preserve);
  if (out.numel() == 0) return out;
  const at::Tensor src = without_bits(self);
  ops::CopyShape s = copy_shape(out, src);
  const char* start = static_cast<const char*>(src.const_data_ptr());
  for (int64_t d = 0; d < ndim; ++d) {
    if (flipped[d]) {
      start += (s.size[d] - 1) * s.src[d] * static_cast<int64_t>(self.element_size());
      s.src[d] = -s.src[d];
    }
  }
  ops::copy(runtime::current_queue(), out.mutable_data_ptr(), start, self.element_size(), s);
  return out;
}

at::Tensor roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1)
    return xpu_ops::aten::roll(self.contiguous().view(self.numel()), shifts, at::IntArrayRef{0}).view(self.sizes());
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  if (self.numel() == 0) return self.clone(at::MemoryFormat::Preserve);
  c10::SmallVector<int64_t, 5> start(self.dim(), 0), moved;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = at::maybe_wrap_dim(dims[i], self.dim()), size = self.size(dim);
    start[dim] = (start[dim] + size - shifts[i] % size) % size;
  }
  for (int64_t d = 0; d < self.dim(); ++d)
    if (start[d] != 0) moved.push_back(d);
  at::Tensor from = without_bits(self);
  size_t first = 0;
  do {
    const at::Tensor out = new_empty(self.sizes(), self.scalar_type());
    const size_t count = std::min(kRolled, moved.size() - first);
    roll_pass(out, from, at::IntArrayRef(moved).slice(first, count), start);
    from = out;
    first += count;
  } while (first < moved.size());
  return from;
}

at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  const int64_t c = self.size(1);
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive.", " Value of groups:", groups);
  TORCH_CHECK((c % groups) == 0, "Number of channels must be divisible by groups. Got ", c, " channels and ", groups,
              " groups.");
  const auto format = self.suggest_memory_format();
  at::Tensor out = at::empty(self.sizes(), self.options().memory_format(format));
  if (self.numel() == 0) return out;
  const at::Tensor src = without_bits(self);
  ops::CopyShape s = copy_shape(out, src);
  // Channel (i, j) of (groups, c / groups) becomes (j, i).
  const int64_t inner = c / groups, from = s.src[1], to = s.dst[1];
  s.size[1] = inner, s.dst[1] = to * groups;
  add_dim(s, groups, to, from * inner);
  ops::copy(runtime::current_queue(), out.mutable_data_ptr(), src.const_data_ptr(), self.element_size(), s);
  return out;
}

namespace {

// The walk over two images: pixel (i, j) of a block of r x r in dst is channel (i, j) of r * r in src.
ops::CopyShape block_shape(const at::Tensor& dst, const at::Tensor& src, int64_t r) {
  ops::CopyShape s = copy_shape(dst, src);
  const int64_t row = src.dim() - 2, channel = s.src[row - 1], down = s.dst[row], right = s.dst[row + 1];
  s.size[row - 1] /= r * r, s.src[row - 1] *= r * r;
  s.dst[row] *= r, s.dst[row + 1] *= r;
  add_dim(s, r, down, channel * r);
  add_dim(s, r, right, channel);
  return s;
}

// Sizes of `self` with other channels, rows and columns.
std::vector<int64_t> image_sizes(const at::Tensor& self, std::array<int64_t, 3> last) {
  std::vector<int64_t> sizes = self.sizes().vec();
  std::copy_n(last.begin(), 3, sizes.end() - 3);
  return sizes;
}

}  // namespace

// Contiguous, as the meta function says, which of pixel_unshuffle keeps channels last.
at::Tensor pixel_shuffle(const at::Tensor& self, int64_t upscale_factor) {
  at::native::check_pixel_shuffle_shapes(self, upscale_factor);
  const int64_t r = upscale_factor;
  at::Tensor out =
      new_empty(image_sizes(self, {self.size(-3) / (r * r), self.size(-2) * r, self.size(-1) * r}), self.scalar_type());
  if (out.numel() == 0) return out;
  const at::Tensor src = without_bits(self);
  ops::copy(runtime::current_queue(), out.mutable_data_ptr(), src.const_data_ptr(), self.element_size(),
            block_shape(out, src, r));
  return out;
}

at::Tensor pixel_unshuffle(const at::Tensor& self, int64_t downscale_factor) {
  at::native::check_pixel_unshuffle_shapes(self, downscale_factor);
  const int64_t r = downscale_factor;
  at::Tensor out = at::empty(image_sizes(self, {self.size(-3) * r * r, self.size(-2) / r, self.size(-1) / r}),
                             self.options().memory_format(self.suggest_memory_format()));
  if (out.numel() == 0) return out;
  const at::Tensor src = without_bits(self);
  ops::CopyShape s = block_shape(src, out, r);
  std::swap(s.dst, s.src);
  ops::copy(runtime::current_queue(), out.mutable_data_ptr(), src.const_data_ptr(), self.element_size(), s);
  return out;
}

void reflection_pad1d_impl(const at::Tensor& self, at::ArrayRef<int64_t> padding, const at::Tensor& out) {
  pad_forward(self, padding, out, kReflection);
}
void reflection_pad1d_backward_impl(const at::Tensor& grad_output, const at::Tensor& self,
                                    at::ArrayRef<int64_t> padding, const at::Tensor& grad_input) {
  pad_backward(grad_output, self, padding, grad_input, kReflection);
}
at::Tensor& reflection_pad2d_out(const at::Tensor& self, at::IntArrayRef padding, at::Tensor& out) {
  check_reflection2d(self, padding);
  resize_pad(out, self, padding);
  pad_forward(self, padding, out, kReflection);
  return out;
}
at::Tensor reflection_pad2d(const at::Tensor& self, at::IntArrayRef padding) {
  at::Tensor out = at::empty({0}, self.options());
  return reflection_pad2d_out(self, padding, out);
}
at::Tensor& reflection_pad2d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                 at::IntArrayRef padding, at::Tensor& grad_input) {
  return pad_backward_out(grad_output, self, padding, grad_input, kReflection);
}
at::Tensor reflection_pad2d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef padding) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return pad_backward_out(grad_output, self, padding, grad_input, kReflection);
}
void reflection_pad3d_impl(const at::Tensor& self, at::ArrayRef<int64_t> padding, const at::Tensor& out) {
  pad_forward(self, padding, out, kReflection);
}
void reflection_pad3d_backward_impl(const at::Tensor& grad_output, const at::Tensor& self,
                                    at::ArrayRef<int64_t> padding, const at::Tensor& grad_input) {
  pad_backward(grad_output, self, padding, grad_input, kReflection);
}
void replication_pad1d_impl(const at::Tensor& self, at::ArrayRef<int64_t> padding, const at::Tensor& out) {
  pad_forward(self, padding, out, kReplication);
}
void replication_pad1d_backward_impl(const at::Tensor& grad_output, const at::Tensor& self,
                                     at::ArrayRef<int64_t> padding, const at::Tensor& grad_input) {
  pad_backward(grad_output, self, padding, grad_input, kReplication);
}
void replication_pad2d_impl(const at::Tensor& self, at::ArrayRef<int64_t> padding, const at::Tensor& out) {
  pad_forward(self, padding, out, kReplication);
}
at::Tensor& replication_pad2d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                  at::IntArrayRef padding, at::Tensor& grad_input) {
  return pad_backward_out(grad_output, self, padding, grad_input, kReplication);
}
at::Tensor replication_pad2d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef padding) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return pad_backward_out(grad_output, self, padding, grad_input, kReplication);
}
void replication_pad3d_impl(const at::Tensor& self, at::ArrayRef<int64_t> padding, const at::Tensor& out) {
  pad_forward(self, padding, out, kReplication);
}
at::Tensor& replication_pad3d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                  at::IntArrayRef padding, at::Tensor& grad_input) {
  return pad_backward_out(grad_output, self, padding, grad_input, kReplication);
}
at::Tensor replication_pad3d_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef padding) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return pad_backward_out(grad_output, self, padding, grad_input, kReplication);
}

at::Tensor constant_pad_nd_impl(const at::Tensor& self, at::IntArrayRef pad, const at::Scalar& value) {
  const at::MemoryFormat format = self.suggest_memory_format();
  const auto s = merged_padding(self, pad, format);
  if (!s) return at::native::constant_pad_nd(self, pad, value);
  std::vector<int64_t> sizes = self.sizes().vec();
  for (size_t d = 0; d < pad.size() / 2; ++d) sizes[sizes.size() - 1 - d] += pad[2 * d] + pad[2 * d + 1];
  at::Tensor out = at::empty(sizes, self.options().memory_format(format));
  ops::PadProblem p = pad_problem(out.mutable_data_ptr(), self.const_data_ptr(), *s, s->out, out.numel(), self.numel(),
                                  ops::PadMode::constant);
  const std::array<uint64_t, 2> bits = element_of(value, self.scalar_type());
  std::copy(bits.begin(), bits.end(), p.value);
  ops::pad(runtime::current_queue(), self.element_size(), p);
  return out;
}

at::Tensor& im2col_out(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                       at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  check_pair(kernel_size, "kernel_size");
  check_pair(dilation, "dilation");
  check_pair(padding, "padding");
  check_pair(stride, "stride");
  at::native::im2col_shape_check(self, at::Tensor(), kernel_size[0], kernel_size[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 4;
  const int64_t batch = batched ? self.size(0) : 1, channels = self.size(-3);
  ops::Im2colProblem p = im2col_problem(self.size(-2), self.size(-1), kernel_size, dilation, padding, stride);
  const int64_t rows = channels * kernel_size[0] * kernel_size[1], columns = int64_t{p.out_height} * p.out_width;
  if (batched)
    out.resize_({batch, rows, columns});
  else
    out.resize_({rows, columns});
  if (out.numel() == 0) return out;
  TORCH_CHECK(out.numel() < kLimit && self.numel() < kLimit,
              "im2col of 2^31 elements and more is not supported on XPU");
  const at::Tensor src = plain(self);
  ContiguousOut target(out);
  p.dst = target.data(), p.src = src.const_data_ptr();
  p.rows = static_cast<uint32_t>(batch * rows);
  ops::im2col(runtime::current_queue(), self.itemsize(), p);
  target.finish();
  return out;
}
at::Tensor im2col(const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return im2col_out(self, kernel_size, dilation, padding, stride, out);
}

at::Tensor& col2im_out(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size,
                       at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride, at::Tensor& out) {
  check_pair(output_size, "output_size");
  check_pair(kernel_size, "kernel_size");
  check_pair(dilation, "dilation");
  check_pair(padding, "padding");
  check_pair(stride, "stride");
  at::native::col2im_shape_check(self, at::Tensor(), output_size[0], output_size[1], kernel_size[0], kernel_size[1],
                                 dilation[0], dilation[1], padding[0], padding[1], stride[0], stride[1]);
  const bool batched = self.dim() == 3;
  const int64_t batch = batched ? self.size(0) : 1, channels = self.size(-2) / (kernel_size[0] * kernel_size[1]);
  if (batched)
    out.resize_({batch, channels, output_size[0], output_size[1]});
  else
    out.resize_({channels, output_size[0], output_size[1]});
  if (out.numel() == 0) return out;
  TORCH_CHECK(out.numel() < kLimit && self.numel() < kLimit,
              "col2im of 2^31 elements and more is not supported on XPU");
  const at::Tensor src = plain(self);
  ContiguousOut target(out);
  ops::Im2colProblem p = im2col_problem(output_size[0], output_size[1], kernel_size, dilation, padding, stride);
  p.dst = target.data(), p.src = src.const_data_ptr();
  p.rows = static_cast<uint32_t>(batch * channels * output_size[0]);
  ops::col2im(runtime::current_queue(), dtype_of(self), p);
  target.finish();
  return out;
}
at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel_size,
                  at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  at::Tensor out = at::empty({0}, self.options());
  return col2im_out(self, output_size, kernel_size, dilation, padding, stride, out);
}

namespace {

// Whether grad_in has the shape of an unfolded tensor of input_sizes, which the kernel trusts.
void check_unfold_backward(const at::Tensor& grad_in, at::IntArrayRef input_sizes, int64_t dim, int64_t size,
                           int64_t step) {
  TORCH_CHECK(step > 0, "unfold_backward: step is ", step, " but must be > 0");
  TORCH_CHECK(size >= 0, "unfold_backward: size is ", size, " but must be >= 0");
  const int64_t rank = static_cast<int64_t>(input_sizes.size());
  const int64_t at = at::maybe_wrap_dim(dim, rank), length = rank ? input_sizes[at] : 1;
  TORCH_CHECK(size <= length, "unfold_backward: size is ", size, " but dimension ", at, " of input_sizes has ", length);
  std::vector<int64_t> expected = input_sizes.vec();
  if (rank) expected[at] = (length - size) / step + 1;
  expected.push_back(size);
  TORCH_CHECK(grad_in.sizes() == at::IntArrayRef(expected), "unfold_backward: expected grad_in of size ",
              at::IntArrayRef(expected), ", but got ", grad_in.sizes());
}

}  // namespace

at::Tensor unfold_backward(const at::Tensor& grad_in, at::IntArrayRef input_sizes, int64_t dim, int64_t size,
                           int64_t step) {
  check_unfold_backward(grad_in, input_sizes, dim, size, step);
  if (input_sizes.empty()) {  // unfold of a 0-d tensor adds a dimension of size 1 or 0
    at::Tensor grad = at::zeros({}, grad_in.options());
    return grad_in.numel() ? grad.add_(grad_in.sum()) : grad;
  }
  dim = at::maybe_wrap_dim(dim, static_cast<int64_t>(input_sizes.size()));
  at::Tensor grad = new_empty(input_sizes, grad_in.scalar_type());
  if (grad.numel() == 0) return grad;
  if (grad_in.numel() == 0) return grad.zero_();
  TORCH_CHECK(grad.numel() < kLimit && grad_in.numel() < kLimit,
              "unfold_backward of 2^31 elements and more is not supported on XPU");
  const at::Tensor src = plain(grad_in);
  ops::UnfoldBackwardProblem p{};
  p.grad = grad.mutable_data_ptr(), p.grad_in = src.const_data_ptr();
  p.inner = static_cast<uint32_t>(grad.stride(dim));
  p.length = static_cast<uint32_t>(input_sizes[dim]);
  p.windows = static_cast<int32_t>(grad_in.size(dim));
  p.size = static_cast<int32_t>(size), p.step = static_cast<int32_t>(step);
  p.n = static_cast<uint32_t>(grad.numel());
  ops::unfold_backward(runtime::current_queue(), dtype_of(grad), p);
  return grad;
}

// ---- parts ----------------------------------------------------------------------------------------------------------

std::vector<at::Tensor> tensor_split_tensor_indices_or_sections(const at::Tensor& self, const at::Tensor& places,
                                                                int64_t dim) {
  return at::native::tensor_split(self, places.cpu(), dim);
}

namespace {

int64_t checked_chunks(at::TensorList tensors, int64_t dim, int64_t chunks) {
  TORCH_CHECK(chunks >= 1, "_chunk_cat expects positive num_chunks");
  TORCH_CHECK(!tensors.empty(), "_chunk_cat expects a non-empty input tensor list");
  bool one_rank = true;
  for (const at::Tensor& t : tensors) {
    TORCH_CHECK(t.numel() > 0, "_chunk_cat expects non-empty tensor");
    TORCH_CHECK(t.dtype() == tensors[0].dtype(), "_chunk_cat expects all input tensors with the same dtype");
    TORCH_CHECK(t.device() == tensors[0].device(), "_chunk_cat expects all inputs tensors on the same device");
    one_rank = one_rank && t.dim() == tensors[0].dim();
  }
  if (one_rank)
    dim = c10::maybe_wrap_dim(dim, tensors[0].dim());
  else
    TORCH_CHECK(dim >= 0, "_chunk_cat expects non-negative dim when input tensors have different ndims");
  for (const at::Tensor& t : tensors) {
    TORCH_CHECK(dim < t.dim(), "_chunk_cat expects dim < ndim for all input tensors");
    TORCH_CHECK(t.sizes().slice(0, dim) == tensors[0].sizes().slice(0, dim),
                "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors");
  }
  return dim;
}

}  // namespace

// Each tensor is `chunks` rows of the result, as many elements of it as they take; zeros fill the last ones.
// Upstream's composite for all devices but the CPU concatenates the tensors as they are.
at::Tensor& _stack_out(at::TensorList tensors, int64_t dim, at::Tensor& out) {
  return at::stack_out(out, tensors, dim);
}

at::Tensor& _chunk_cat_out(at::TensorList tensors, int64_t dim, int64_t chunks, at::Tensor& out) {
  dim = checked_chunks(tensors, dim, chunks);
  TORCH_CHECK_TYPE(at::canCast(tensors[0].scalar_type(), out.scalar_type()),
                   "torch.cat(): input types can't be cast to the desired output type ", out.scalar_type());
  std::vector<int64_t> sizes = tensors[0].sizes().slice(0, dim).vec(), columns;
  const auto inner = [&](const at::Tensor& t) { return c10::multiply_integers(t.sizes().slice(dim + 1)); };
  int64_t total = 0;
  for (const at::Tensor& t : tensors) {
    columns.push_back((t.size(dim) + chunks - 1) / chunks * inner(t));
    total += columns.back();
  }
  sizes.push_back(chunks);
  sizes.push_back(total);
  at::native::resize_output(out, sizes);
  int64_t first = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor flat = tensors[i].flatten(dim);  // the lines of all chunks
    const at::Tensor place = out.narrow(dim + 1, first, columns[i]);
    const int64_t full = flat.size(dim) / columns[i], rest = flat.size(dim) % columns[i];
    place.narrow(dim, 0, full).copy_(flat.narrow(dim, 0, full * columns[i]).unflatten(dim, {full, columns[i]}));
    if (full < chunks) {
      at::Tensor tail = place.select(dim, full);
      tail.narrow(dim, 0, rest).copy_(flat.narrow(dim, full * columns[i], rest));
      tail.narrow(dim, rest, columns[i] - rest).zero_();
      place.narrow(dim, full + 1, chunks - full - 1).zero_();
    }
    first += columns[i];
  }
  return out;
}

at::Tensor _chunk_cat(at::TensorList tensors, int64_t dim, int64_t chunks) {
  checked_chunks(tensors, dim, chunks);
  at::Tensor out = at::empty({0}, tensors[0].options());
  return _chunk_cat_out(tensors, dim, chunks, out);
}

void split_with_sizes_copy_out(const at::Tensor& self, at::IntArrayRef split_sizes, int64_t dim, at::TensorList out) {
  const std::vector<at::Tensor> parts = self.split_with_sizes(split_sizes, dim);
  TORCH_CHECK(out.size() == parts.size(), "split_with_sizes_copy_out() expected an out= argument of size ",
              parts.size(), ", got size ", out.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    check_out_type(out[i], parts[i].dtype());
    TORCH_CHECK(out[i].device() == parts[i].device(), "Expected out tensor to have device ", parts[i].device(),
                ", but got ", out[i].device(), " instead");
    at::native::resize_output(out[i], parts[i].sizes());
  }
  if (!parts.empty()) at::_foreach_copy_(out, parts);
}

}  // namespace xpu_ops::aten
