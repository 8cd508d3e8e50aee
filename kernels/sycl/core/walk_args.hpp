// A walk over the common index space of N operands: rows (uniform for a work-group) times the items of a row.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

constexpr int kWalkDims = 12;  // after collapsing

template <int N>
struct Walk {
  uint32_t rows;        // product of the outer dims
  uint32_t inner;       // product of the inner dims: items of one row
  uint32_t inner_ndim;  // dims[0 .. inner_ndim) belong to the row, innermost first
  uint32_t ndim;        // dims[inner_ndim .. ndim) are the outer ones
  Divider dims[kWalkDims];
  int64_t strides[kWalkDims][N];  // elements; the offset within one row fits 32 bits
};

}  // namespace xpu_ops
