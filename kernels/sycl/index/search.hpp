// Binary search, membership, histogram bins.
#pragma once
#include "kernels/sycl/core/counts.hpp"
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/cpu/scalar_loop.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/index/search_args.hpp"

namespace xpu {

using xpu_ops::BinArgs;
using xpu_ops::BinCountArgs;
using xpu_ops::BinSearch;
using xpu_ops::IsinArgs;
using xpu_ops::SearchArgs;

// First position whose bound is not below the value (left), or is above it (right); NaN is above everything.
template <class T>
inline void searchsorted(const SearchArgs& p) {
  using M = opmath_t<T>;
  uint32_t i = global_id();
  if (i >= p.n) return;
  M value = M(static_cast<const T*>(p.values)[i]);
  uint32_t row = p.one_row ? 0 : i / p.row_values;
  int64_t base = static_cast<int64_t>(row) * p.bounds_length;
  const T* bounds = static_cast<const T*>(p.bounds) + base;
  const int64_t* sorter = p.sorter ? p.sorter + base : nullptr;
  uint32_t low = 0, high = p.bounds_length;
  while (low < high) {
    uint32_t mid = low + ((high - low) >> 1);
    M m = M(sorter ? bounds[sorter[mid]] : bounds[mid]);
    bool go_right = p.right ? !(m > value) : !(m >= value);
    if (go_right)
      low = mid + 1;
    else
      high = mid;
  }
  if (p.out32)
    static_cast<int32_t*>(p.out)[i] = static_cast<int32_t>(low);
  else
    static_cast<int64_t*>(p.out)[i] = low;
}

template <class T>
inline void isin(const IsinArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  using M = opmath_t<T>;
  M value = M(static_cast<const T*>(p.elements)[i]);
  const T* test = static_cast<const T*>(p.test);
  bool found = false;
  if (p.sorted) {
    uint32_t low = 0, high = p.tests;
    while (low < high) {
      uint32_t mid = low + ((high - low) >> 1);
      if (M(test[mid]) < value)
        low = mid + 1;
      else
        high = mid;
    }
    found = low < p.tests && M(test[low]) == value;
  } else {
    for (uint32_t k = 0; k < p.tests; ++k) found |= M(test[k]) == value;
  }
  p.out[i] = found != static_cast<bool>(p.invert);
}

template <class T>
inline void histogram_bin(const BinArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  T v = static_cast<const T*>(p.values)[i * p.value_stride];
  const T* edges = static_cast<const T*>(p.edges);
  T left = edges[0], right = edges[p.bins];
  int64_t flat = p.first ? 0 : p.flat[i];
  if (!(v >= left && v <= right) || flat < 0) {
    p.flat[i] = -1;
    return;
  }
  int64_t low = 0, high = p.bins + 1;
  if (p.search != BinSearch::binary) {
    int64_t pos = static_cast<int64_t>((v - left) * T(p.bins) / (right - left));
    if (p.search == BinSearch::linear) {
      low = high = pos + 1;
    } else {
      low = pos > 1 ? pos - 1 : 0;
      high = pos + 2 < p.bins + 1 ? pos + 2 : p.bins + 1;
    }
  }
  while (low < high) {  // first edge above v
    int64_t mid = (low + high) >> 1;
    if (!(edges[mid] > v))
      low = mid + 1;
    else
      high = mid;
  }
  int64_t bin = low - 1;
  if (bin >= p.bins) bin = p.bins - 1;  // the last bin is closed on the right
  if (bin < 0) bin = 0;
  p.flat[i] = flat * p.bins + bin;
}

// The bin of a value, `bins` where it is outside.
template <class T> XPU_INLINE uint32_t even_bin(T v, T left, T right, uint32_t bins) {
  if (!(v >= left && v <= right)) return bins;
  const int64_t bin = static_cast<int64_t>((v - left) * T(bins) / (right - left));
  return bin < 0 ? 0 : bin >= static_cast<int64_t>(bins) ? bins - 1 : static_cast<uint32_t>(bin);
}

using int16v = int32_t __attribute__((ext_vector_type(16)));

// even_bin of sixteen values.
XPU_INLINE int16v even_bins(float16v v, float left, float right, int32_t bins) {
  const auto inside = (v >= left) & (v <= right);
  const float16v at = inside ? (v - left) * float(bins) / (right - left) : float16v(0.0f);
  const int16v bin = __builtin_convertvector(at, int16v), last = int16v(bins - 1);
  return inside ? (bin > last ? last : bin < 0 ? int16v(0) : bin) : int16v(bins);
}

template <class T>
XPU_SCALAR_LOOP void count_even_bins(const T* values, int64_t stride, uint32_t n, T left, T right, uint32_t bins,
                                     int64_t* counts) {
  if constexpr (__is_same(T, float)) {
    if (stride == 1) {
      for (; n >= 16; n -= 16, values += 16) {
        const int16v all = even_bins(load16(values), left, right, static_cast<int32_t>(bins));
#pragma unroll
        for (int lane = 0; lane < 16; ++lane) {
          if (const auto bin = static_cast<uint32_t>(all[lane]); bin < bins) ++counts[bin];
        }
      }
    }
  }
  for (; n > 0; --n, values += stride) {
    if (const uint32_t bin = even_bin(*values, left, right, bins); bin < bins) ++counts[bin];
  }
}

template <class T>
inline void histogram_count(const BinCountArgs& p) {
  const uint32_t t = global_id();
  if (t >= p.tables) return;
  const uint32_t share = (p.n + p.tables - 1) / p.tables, begin = t * share < p.n ? t * share : p.n,
                 end = p.n - begin < share ? p.n : begin + share;
  int64_t* counts = p.counts + static_cast<int64_t>(t) * p.bins;
  for (uint32_t b = 0; b < p.bins; ++b) counts[b] = 0;
  const T* edges = static_cast<const T*>(p.edges);
  count_even_bins(static_cast<const T*>(p.values) + begin * p.value_stride, p.value_stride, end - begin, edges[0],
                  edges[p.bins], p.bins, counts);
}

// A table per work-group.
template <class T> void histogram_local(const BinCountArgs& p) {
  const T *values = static_cast<const T*>(p.values), *edges = static_cast<const T*>(p.edges);
  const T left = edges[0], right = edges[p.bins];
  count_share(p.n, p.bins, p.counts,
              [&](uint32_t i) { return even_bin(values[i * p.value_stride], left, right, p.bins); });
}

}  // namespace xpu
