// Launches that the indexing, scatter and embedding adapters share.
#pragma once
#include <functional>
#include <vector>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/allocator.hpp"
#include "kernels/runtime/device_error.hpp"
#include "kernels/runtime/launch.hpp"
#include "kernels/sycl/scatter_args.hpp"

namespace xpu_ops::aten {

using Dims3 = std::vector<WalkDim<3>>;

// Work-items of one group for rows of `inner` items: whole sub-groups, no nearly empty last group.
inline size_t even_group(size_t inner, size_t most = 1024) {
  const size_t groups = std::max<size_t>(1, runtime::ceil_div(inner, most));
  return std::max<size_t>(16, runtime::ceil_div(runtime::ceil_div(inner, groups), 16) * 16);
}

// How many items to launch for n elements that cost little each: on a CPU few, each with many in turn.
struct Spread {
  size_t groups, local;
  uint32_t chunk;
};
Spread spread(size_t n);

// `stride`: elements that one index step moves; `size`: length of the indexed dim.
IndexSource index_source(const at::Tensor& index, int64_t size, int64_t stride, DeviceErrorCode code, int64_t dim,
                         bool wrap);

// plain[..] = data[.. + index] (or the other way round) over dims with strides {plain, data, index}, outermost first.
void launch_indexed(bool write, void* plain, void* data, size_t element_size, const IndexSource& index, Dims3 dims);

// Sequential over `steps` indices in every column; see ColumnArgs. `columns` have strides {data, src, index}.
struct ColumnLoop {
  int64_t steps, src_step, index_step;
  std::optional<int64_t> skip = std::nullopt;
};
void launch_columns(runtime::KernelSlot& kernel, void* data, const void* src, const IndexSource& index,
                    const ColumnLoop& loop, Dims3 columns);

enum class Reduce { assign, add, mul, max, min };
runtime::KernelSlot& column_kernel(Reduce op, at::ScalarType dtype);

// out[.., index[i], ..] op= src[.., i, ..] along `dim`, all of the same rank; index has the rank of out (scatter) or
// one dim (index_add). Bad indices are reported with `code`.
void scatter_columns(Reduce op, const at::Tensor& out, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                     DeviceErrorCode code, bool wrap = false, std::optional<int64_t> skip = std::nullopt);

// How often each of [0, bins) occurs in a contiguous index tensor; other values are left out.
at::Tensor count_indices(const at::Tensor& index, int64_t bins);
// Counts in tables that `count` launches a kernel to fill, and their sum.
using CountTables = std::function<void(CountArgs args, size_t groups, size_t local)>;
at::Tensor count_by_tables(int64_t n, int64_t bins, const CountTables& count);

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
