// Offsets of a work-item in a Walk.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/walk_args.hpp"

namespace xpu {

using xpu_ops::Walk;

// Loops over dims have constant bounds: an index into the argument struct that is not a constant makes a copy of the
// struct in every item, after which nothing read from it counts as uniform.

// Adds the offsets of a row: the same for every item of a work-group.
template <int N>
XPU_INLINE void add_row(const Walk<N>& w, uint32_t row, int64_t (&off)[N]) {
#pragma unroll
  for (uint32_t d = 0; d < xpu_ops::kWalkDims; ++d) {
    if (d >= w.ndim) break;
    if (d >= w.inner_ndim) {
      const uint32_t q = divide(row, w.dims[d]);
      const int64_t r = row - q * w.dims[d].d;
      row = q;
#pragma unroll
      for (int k = 0; k < N; ++k) off[k] += r * w.strides[d][k];
    }
  }
}

// Offsets of item `i` inside its row, without division for the outermost of its dims.
template <int N>
XPU_INLINE void inner_offsets(const Walk<N>& w, uint32_t i, uint32_t (&off)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) off[k] = 0;
#pragma unroll
  for (uint32_t d = 0; d < xpu_ops::kWalkDims; ++d) {
    if (d >= w.inner_ndim) break;
    uint32_t r = i;
    if (d + 1 < w.inner_ndim) {
      const uint32_t q = divide(i, w.dims[d]);
      r = i - q * w.dims[d].d;
      i = q;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) off[k] += r * static_cast<uint32_t>(w.strides[d][k]);
  }
}

}  // namespace xpu
