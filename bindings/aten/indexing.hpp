// Helpers of the indexing, scatter and embedding adapters.
#pragma once
#include <vector>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/scatter.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::aten {

using ops::Dims3;
using ops::Reduce;

// `stride`: elements that one index step moves; `size`: length of the indexed dim.
IndexSource index_source(const at::Tensor& index, int64_t size, int64_t stride, DeviceErrorCode code, int64_t dim,
                         bool wrap);

// ops::move_indexed on the current queue.
void move_indexed(bool write, void* plain, void* data, size_t element_size, const IndexSource& index, Dims3 dims);

// Whether sums of so many terms into 16-bit elements go through float32.
bool adds_widely(const at::Tensor& out, int64_t terms);
// If so, calls add(out, src) for them in float32 and rounds the sums once.
template <class Add>
bool add_widely(const at::Tensor& out, int64_t terms, const at::Tensor& src, Add&& add) {
  if (!adds_widely(out, terms)) return false;
  const at::Tensor wide = out.to(at::kFloat);
  add(wide, src.to(at::kFloat));
  out.copy_(wide);
  return true;
}

// out[.., index[i], ..] op= src[.., i, ..] along `dim`, all of the same rank; index has the rank of out (scatter) or
// one dim (index_add). Bad indices are reported with `code`.
void scatter_columns(Reduce op, const at::Tensor& out, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                     DeviceErrorCode code, bool wrap = false, std::optional<int64_t> skip = std::nullopt);

// How often each of [0, bins) occurs in a contiguous index tensor; other values are left out.
at::Tensor count_indices(const at::Tensor& index, int64_t bins);

// Bits that tell a true element of this type from a false one.
struct KeepBits { uint64_t bits[2]; };
KeepBits keep_bits(at::ScalarType dtype);

inline std::vector<int64_t> sizes_or_one(const at::Tensor& t) {
  return t.dim() == 0 ? std::vector<int64_t>{1} : t.sizes().vec();
}
inline int64_t stride_or_zero(const at::Tensor& t, int64_t d) { return t.dim() == 0 ? 0 : t.stride(d); }
inline int64_t size_or_one(const at::Tensor& t, int64_t d) { return t.dim() == 0 ? 1 : t.size(d); }
inline void* mutable_ptr(const at::Tensor& t) { return t.mutable_data_ptr(); }
inline void* const_ptr(const at::Tensor& t) { return const_cast<void*>(t.const_data_ptr()); }

}  // namespace xpu_ops::aten
