#include "bindings/aten/memory/copy.hpp"

#include <ATen/Dispatch_v2.h>
#include <ATen/InferSize.h>
#include <ATen/MemoryOverlap.h>

#include <cstring>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/copy.hpp"

namespace xpu_ops::aten {
namespace {

// A tensor may have more than kMaxDims dimensions, but fewer that are longer than one.
ops::CopyShape shape_of(const at::Tensor& dst, const at::Tensor* src) {
  ops::CopyShape s;
  for (int64_t d = 0; d < dst.dim(); ++d) {
    if (dst.size(d) == 1) continue;
    s.size[s.ndim] = dst.size(d);
    s.dst[s.ndim] = dst.stride(d);
    s.src[s.ndim] = src ? src->stride(d) : 0;
    ++s.ndim;
  }
  return s;
}

// Same dtype and no bits to resolve: elements move as they are.
void move_elements(const at::Tensor& dst, const at::Tensor& src) {
  ops::copy(queue_of(dst), dst.mutable_data_ptr(), src.const_data_ptr(), dst.element_size(), shape_of(dst, &src));
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

at::Tensor like(const at::Tensor& layout, at::ScalarType dtype) {
  return layout.is_non_overlapping_and_dense() ? new_strided(layout.sizes(), layout.strides(), dtype)
                                               : new_empty(layout.sizes(), dtype);
}

}  // namespace

void copy_device_to_device(const at::Tensor& dst, const at::Tensor& src, bool) {
  if (dst.numel() == 0) return;
  uint32_t flags = 0;
  if (dst.is_conj() != src.is_conj()) flags |= kCopyConj;
  if (dst.is_neg() != src.is_neg()) flags |= kCopyNeg;
  if (dst.scalar_type() == src.scalar_type() && flags == 0) return move_elements(dst, src);
  // A cast runs over memory, so both sides must be dense in the same layout; a strided move comes before or after it,
  // wherever elements are narrower.
  const bool dense_dst = dst.is_non_overlapping_and_dense(), dense_src = src.is_non_overlapping_and_dense();
  at::Tensor from = src, to = dst;
  if (!(dense_dst && dense_src && same_layout(dst, src))) {
    const bool move_first = dense_dst && (!dense_src || src.element_size() <= dst.element_size());
    if (move_first) {
      from = like(dst, src.scalar_type());
      move_elements(from, src);
    } else if (dense_src) {
      to = like(src, dst.scalar_type());
    } else {
      from = new_empty(src.sizes(), src.scalar_type());
      to = new_empty(src.sizes(), dst.scalar_type());
      move_elements(from, src);
    }
  }
  ops::cast(queue_of(dst), to.mutable_data_ptr(), dtype_of(to), from.const_data_ptr(), dtype_of(from), dst.numel(),
            flags);
  if (!to.is_same(dst)) move_elements(dst, to);
}

std::array<uint64_t, 2> element_of(const at::Scalar& value, at::ScalarType type) {
  std::array<uint64_t, 2> bits{};
  AT_DISPATCH_V2(type, "fill_", AT_WRAP([&] {
                   const scalar_t v = value.to<scalar_t>();
                   std::memcpy(bits.data(), &v, sizeof v);
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16,
                 AT_EXPAND(AT_FLOAT8_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
  return bits;
}

void fill_device(const at::Tensor& dst, const at::Scalar& value) {
  const std::array<uint64_t, 2> bits = element_of(value, dst.scalar_type());
  ops::fill(queue_of(dst), dst.mutable_data_ptr(), dst.element_size(), bits.data(), shape_of(dst, nullptr));
}

ContiguousOut::ContiguousOut(const at::Tensor& out) : out_(out) {
  if (!out.is_contiguous() || out.is_conj() || out.is_neg()) temp_ = new_empty(out.sizes(), out.scalar_type());
}
void ContiguousOut::finish() const {
  if (temp_.defined()) out_.copy_(temp_);
}

at::Tensor& fill__Scalar(at::Tensor& self, const at::Scalar& value) {
  // The bits of a conj or neg view belong to the value that is read back.
  at::Scalar v = self.is_conj() ? value.conj() : value;
  fill_device(self, self.is_neg() ? -v : v);
  return self;
}

at::Tensor& fill__Tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (self.device() != value.device()) return self.fill_(value.item());
  // A value that is a view of self would be overwritten while it is read.
  self.copy_(self.is_alias_of(value) ? value.clone() : value);
  return self;
}

at::Tensor& zero_(at::Tensor& self) {
  const uint64_t zero[2] = {0, 0};
  ops::fill(queue_of(self), self.mutable_data_ptr(), self.element_size(), zero, shape_of(self, nullptr));
  return self;
}

}  // namespace xpu_ops::aten
