#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

// Elements side by side. Those of 16 bytes are read four at a time: a GPU, which has them made of narrower ones, would
// wait for each.
template <class T> inline void copy_columns(T* dst, const T* src, size_t c0, size_t c1, size_t lane, size_t lanes) {
  if constexpr (sizeof(T) == 16) {
    for (; c0 + 4 * lanes <= c1; c0 += 4 * lanes) {
      T v[4];
#pragma unroll
      for (size_t j = 0; j < 4; ++j) v[j] = src[c0 + j * lanes + lane];
#pragma unroll
      for (size_t j = 0; j < 4; ++j) dst[c0 + j * lanes + lane] = v[j];
    }
  }
  for_columns(c0, c1, lane, lanes, [&](size_t c) { dst[c] = src[c]; });
}

}  // namespace xpu
