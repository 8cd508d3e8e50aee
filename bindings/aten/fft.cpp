// Fourier transforms: dims sorted and joined for oneMKL, results in the layout of at::_fft_* on the CPU.
#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/Resize.h>
#include <ATen/native/SpectralOpsUtils.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/roll.h>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/mkl/fft.hpp"

namespace xpu_ops::aten {
namespace {

using Dims = at::DimVector;
using at::native::fft_norm_mode;

double scale_of(int64_t normalization, at::IntArrayRef sizes, at::IntArrayRef dim) {
  if (normalization == static_cast<int64_t>(fft_norm_mode::none)) return 1;
  double n = 1;
  for (int64_t d : dim) n *= static_cast<double>(sizes[d]);
  return normalization == static_cast<int64_t>(fft_norm_mode::by_n) ? 1 / n : 1 / std::sqrt(n);
}

// The largest strides first, but the last dim, which is the halved one, stays last where `keep_last`.
Dims sorted(const at::Tensor& self, at::IntArrayRef dim, bool keep_last) {
  Dims result(dim.begin(), dim.end());
  const auto strides = self.strides();
  std::sort(result.begin(), result.end() - (keep_last ? 1 : 0),
            [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return result;
}

// Other dims first, largest strides first, then those of the transform.
Dims permutation(const at::Tensor& self, at::IntArrayRef dim) {
  Dims order;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(dim.begin(), dim.end(), d) == dim.end()) order.push_back(d);
  }
  const auto strides = self.strides();
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  order.insert(order.end(), dim.begin(), dim.end());
  return order;
}

// Strides that make a tensor contiguous once its dims are in this order.
Dims strides_in_order(at::IntArrayRef sizes, at::IntArrayRef order) {
  Dims strides(sizes.size());
  int64_t next = 1;
  for (auto i = static_cast<int64_t>(order.size()) - 1; i >= 0; --i) {
    strides[order[i]] = next;
    next *= std::max<int64_t>(1, sizes[order[i]]);
  }
  return strides;
}

// Whether elements stand for several, which not every plan takes.
bool repeats(const at::Tensor& t) {
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.stride(d) == 0 && t.size(d) > 1) return true;
  }
  return false;
}

struct JoinedDims { int64_t count = 1, distance = 0; };
// These dims as one; nothing where their strides do not allow it.
std::optional<JoinedDims> joined(const at::Tensor& t, at::IntArrayRef dims) {
  JoinedDims batch;
  for (size_t i = dims.size(); i-- > 0;) {
    const int64_t size = t.size(dims[i]), stride = t.stride(dims[i]);
    if (size == 1) continue;
    if (batch.count == 1) {
      batch.distance = stride;
    } else if (stride != batch.distance * batch.count) {
      return std::nullopt;
    }
    batch.count *= size;
  }
  return batch;
}

// One transform over at most kFftRank dims. `layout`: the result's dims from the slowest on, those of no transform
// first.
at::Tensor transform(const at::Tensor& self, at::IntArrayRef dim, mkl::FftKind kind, bool forward, double scale,
                     at::IntArrayRef out_sizes, at::ScalarType out_type, at::IntArrayRef layout = {}) {
  const Dims order = permutation(self, dim);
  const auto out_strides = strides_in_order(out_sizes, layout.empty() ? at::IntArrayRef(order) : layout);
  const at::Tensor out = new_strided(out_sizes, out_strides, out_type);
  if (out.numel() == 0) return out;
  const at::IntArrayRef outer = at::IntArrayRef(order).slice(0, order.size() - dim.size());
  at::Tensor in = self;
  std::optional<JoinedDims> batch = repeats(in) ? std::nullopt : joined(in, outer);
  if (!batch) {
    in = new_strided(self.sizes(), strides_in_order(self.sizes(), order), self.scalar_type());
    in.copy_(self);
    batch = joined(in, outer);
  }

  mkl::FftShape shape;
  shape.real = to_dtype(c10::toRealValueType(out_type));
  shape.kind = kind;
  shape.forward = forward;
  shape.scale = scale;
  shape.rank = static_cast<int>(dim.size());
  shape.batch = batch->count;
  shape.in_distance = batch->distance;
  shape.out_distance = 1;
  for (size_t i = 0; i < dim.size(); ++i) {
    shape.lengths[i] = kind == mkl::FftKind::c2r ? out_sizes[dim[i]] : self.size(dim[i]);
    // One element takes no step, but its stride may be 0, which oneMKL's queues refuse.
    shape.in_strides[i] = in.size(dim[i]) == 1 ? 1 : in.stride(dim[i]);
    shape.out_strides[i] = out.stride(dim[i]);
    shape.out_distance *= out_sizes[dim[i]];
  }
  mkl::fft(runtime::current_queue(), shape, in.const_data_ptr(), out.mutable_data_ptr());
  return out;
}

// The result of several transforms in the layout of a single one.
at::Tensor laid_out(const at::Tensor& out, at::IntArrayRef layout) {
  const Dims strides = strides_in_order(out.sizes(), layout);
  if (out.strides() == at::IntArrayRef(strides)) return out;
  const at::Tensor result = new_strided(out.sizes(), strides, out.scalar_type());
  result.copy_(out);
  return result;
}

at::Tensor c2c(const at::Tensor& self, at::IntArrayRef dim, double scale, bool forward) {
  at::Tensor out = self;
  const Dims order = sorted(self, dim, false);
  Dims rest = order;
  while (!rest.empty()) {
    const size_t take = std::min<size_t>(rest.size(), mkl::kFftRank);
    const Dims now(rest.end() - static_cast<int64_t>(take), rest.end());
    out = transform(out, now, mkl::FftKind::c2c, forward, scale, out.sizes(), out.scalar_type());
    rest.resize(rest.size() - take);
    scale = 1;
  }
  return dim.size() > mkl::kFftRank ? laid_out(out, permutation(self, order)) : out;
}

// Indices k of every dim become -k, counted from the end.
at::Tensor mirrored(const at::Tensor& half, at::IntArrayRef dim) {
  const auto others = dim.slice(0, dim.size() - 1);
  at::Tensor t = at::flip(half, dim);
  return others.empty() ? t : at::roll(t, Dims(others.size(), 1), others);
}

// The second half of the spectrum of a real signal from the first.
void fill_symmetric(const at::Tensor& out, at::IntArrayRef dim) {
  const int64_t last = dim.back(), n = out.size(last), half = n / 2 + 1;
  if (n <= half) return;
  out.narrow(last, half, n - half).copy_(mirrored(out.narrow(last, 1, n - half), dim).conj());
}

// The layout that meta_fft_r2c promises for XPU: the last dim is transformed first, then the others by three at most.
Dims r2c_layout(const at::Tensor& self, at::IntArrayRef dim) {
  constexpr size_t kMost = 3;
  Dims order = permutation(self, dim.slice(dim.size() - 1)), rest(dim.begin(), dim.end() - 1);
  while (!rest.empty()) {
    const auto place = [&](int64_t d) { return std::find(order.begin(), order.end(), d); };
    std::sort(rest.begin(), rest.end(), [&](int64_t a, int64_t b) { return place(a) < place(b); });
    const size_t take = std::min(rest.size(), kMost);
    for (size_t i = rest.size() - take; i < rest.size(); ++i) {
      order.erase(place(rest[i]));
      order.push_back(rest[i]);
    }
    rest.resize(rest.size() - take);
  }
  return order;
}

at::Tensor r2c(const at::Tensor& self, at::IntArrayRef dim, double scale, bool onesided) {
  const Dims order = sorted(self, dim, true);
  const auto take = std::min<int64_t>(static_cast<int64_t>(order.size()), mkl::kFftRank);
  const Dims layout = onesided ? r2c_layout(self, dim) : permutation(self, order);
  const at::IntArrayRef all = order, now = all.slice(all.size() - take), rest = all.slice(0, all.size() - take);
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (onesided || !rest.empty()) sizes[dim.back()] = self.size(dim.back()) / 2 + 1;
  at::Tensor out = transform(self, now, mkl::FftKind::r2c, true, scale, sizes, c10::toComplexType(self.scalar_type()),
                             rest.empty() ? at::IntArrayRef(layout) : at::IntArrayRef());
  if (!rest.empty()) {
    out = c2c(out, rest, 1, true);
    if (!onesided) {
      const at::Tensor whole = new_empty(self.sizes(), out.scalar_type());
      whole.narrow(dim.back(), 0, out.size(dim.back())).copy_(out);
      out = whole;
    }
    out = laid_out(out, layout);
  }
  if (!onesided) fill_symmetric(out, dim);
  return out;
}

at::Tensor c2r(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_size) {
  at::Tensor in = self;
  if (dim.size() > 1) {
    const auto others = dim.slice(0, dim.size() - 1);
    in = c2c(self, others, scale_of(normalization, self.sizes(), others), false);
  }
  const auto last = dim.slice(dim.size() - 1);
  Dims sizes(in.sizes().begin(), in.sizes().end());
  sizes[last[0]] = last_size;
  return transform(in, last, mkl::FftKind::c2r, false, scale_of(normalization, sizes, last), sizes,
                   c10::toRealValueType(in.scalar_type()));
}

bool is_half(const at::Tensor& t) { return t.scalar_type() == at::kHalf || t.scalar_type() == at::kComplexHalf; }
at::Tensor widened(const at::Tensor& t) {
  return is_half(t) ? t.to(t.is_complex() ? at::kComplexFloat : at::kFloat) : t;
}
// Half precision transforms compute in float.
at::Tensor narrowed(at::Tensor result, const at::Tensor& self) {
  return is_half(self) ? result.to(result.is_complex() ? at::kComplexHalf : at::kHalf) : result;
}

// torch.fft has checked the dims of its calls; others may call these operators.
void check_dims(const char* name, const at::Tensor& self, at::IntArrayRef dim) {
  TORCH_CHECK(!dim.empty(), name, ": expected at least one dim");
  for (int64_t d : dim)
    TORCH_CHECK_INDEX(d >= 0 && d < self.dim(), name, ": dim ", d, " is out of range for ", self.dim(), " dims");
  (void)at::dim_list_to_bitset(dim, static_cast<size_t>(self.dim()));  // refuses what comes twice
}

at::Tensor& copied(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace

at::Tensor _fft_c2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex());
  if (dim.empty()) return self.clone();
  check_dims("_fft_c2c", self, dim);
  const at::Tensor in = widened(self);
  return narrowed(c2c(in, dim, scale_of(normalization, in.sizes(), dim), forward), self);
}

at::Tensor& _fft_c2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward,
                         at::Tensor& out) {
  return copied(aten::_fft_c2c(self, dim, normalization, forward), out);
}

at::Tensor _fft_r2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point());
  check_dims("_fft_r2c", self, dim);
  const at::Tensor in = widened(self);
  return narrowed(r2c(in, dim, scale_of(normalization, in.sizes(), dim), onesided), self);
}

at::Tensor& _fft_r2c_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided,
                         at::Tensor& out) {
  return copied(aten::_fft_r2c(self, dim, normalization, onesided), out);
}

at::Tensor _fft_c2r(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  TORCH_CHECK(self.is_complex());
  check_dims("_fft_c2r", self, dim);
  return narrowed(c2r(widened(self), dim, normalization, last_dim_size), self);
}

at::Tensor& _fft_c2r_out(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size,
                         at::Tensor& out) {
  return copied(aten::_fft_c2r(self, dim, normalization, last_dim_size), out);
}

}  // namespace xpu_ops::aten
