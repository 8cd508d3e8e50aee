// Resampling by tables, nearest lookups.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/walk.hpp"
#include "kernels/sycl/cpu/scalar_loop.hpp"
#include "kernels/sycl/cpu/single_kernel.hpp"
#include "kernels/sycl/images/interpolation_args.hpp"
#include "kernels/sycl/images/interpolation_grid.hpp"

namespace xpu {

using xpu_ops::NearestArgs;
using xpu_ops::ResampleArgs;
using xpu_ops::ResamplePlaneArgs;

template <class T, class M> inline T store_as(M v) { return T(v); }
// As torch's integers do, halves go up.
template <> inline uint8_t store_as<uint8_t, float>(float v) {
  v = sycl::floor(v + 0.5f);
  return static_cast<uint8_t>(v < 0.f ? 0.f : v > 255.f ? 255.f : v);
}
template <class T> struct resample_math { using type = opmath_t<T>; };
template <> struct resample_math<uint8_t> { using type = float; };

// Lines one after the other, where inner is 1: what a single item does as fast as its loads go.
template <class TIn, class TOut, int kTaps>
XPU_INLINE void resample_line(const ResampleArgs& p) {
  using M = typename resample_math<TIn>::type;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1), lanes = item.get_local_range(1), n = p.out_length;
  const uint32_t first = item.get_group(0) * p.rows_per_group,
                 end = first + p.rows_per_group < p.rows ? first + p.rows_per_group : p.rows;
  const M* weight = static_cast<const M*>(p.weight);
  for (uint32_t row = first; row < end; ++row) {
    const TIn* in = static_cast<const TIn*>(p.in) + static_cast<int64_t>(row) * p.in_length;
    TOut* out = static_cast<TOut*>(p.out) + static_cast<int64_t>(row) * n;
    for (size_t e = lane; e < n; e += lanes) {
      M sum = M(0);
      if constexpr (kTaps > 0) {
        sum = weight[e] * M(in[p.index[e]]);
#pragma unroll
        for (int k = 1; k < kTaps; ++k) sum += weight[k * n + e] * M(in[p.index[k * n + e]]);
      } else {
        const uint32_t count = p.count[e];
        for (uint32_t k = 0; k < count; ++k) sum += weight[k * n + e] * M(in[p.index[k * n + e]]);
      }
      out[e] = store_as<TOut, M>(sum);
    }
  }
}

// Items walk one row's (out_length, inner); the taps of an item stay in registers for all rows of its group.
template <class TIn, class TOut, int kTaps>
inline void resample_lanes(const ResampleArgs& p) {
  using M = typename resample_math<TIn>::type;
  auto item = syclex::this_work_item::get_nd_item<2>();
  if (p.walk) {
    resample_line<TIn, TOut, kTaps>(p);
    return;
  }
  uint32_t e = item.get_global_id(1);
  if (e >= p.out_length * p.inner) return;
  uint32_t o = e, c = 0;
  if (p.inner > 1) {
    o = divide(e, p.by_inner);
    c = e - o * p.inner;
  }
  uint32_t row = item.get_group(0) * p.rows_per_group, end = row + p.rows_per_group;
  if (end > p.rows) end = p.rows;
  const M* weight = static_cast<const M*>(p.weight);
  const TIn* in = static_cast<const TIn*>(p.in) + static_cast<int64_t>(row) * p.in_length * p.inner;
  TOut* out = static_cast<TOut*>(p.out) + static_cast<int64_t>(row) * p.out_length * p.inner;
  if constexpr (kTaps > 0) {
    uint32_t at[kTaps];
    M w[kTaps];
    for (int k = 0; k < kTaps; ++k) {
      at[k] = static_cast<uint32_t>(p.index[k * p.out_length + o]) * p.inner + c;
      w[k] = weight[k * p.out_length + o];
    }
    for (; row < end; ++row, in += p.in_length * p.inner, out += p.out_length * p.inner) {
      M sum = w[0] * M(in[at[0]]);
      for (int k = 1; k < kTaps; ++k) sum += w[k] * M(in[at[k]]);
      out[e] = store_as<TOut, M>(sum);
    }
  } else {
    uint32_t count = p.count[o];
    for (; row < end; ++row, in += p.in_length * p.inner, out += p.out_length * p.inner) {
      M sum = M(0);
      for (uint32_t k = 0; k < p.taps; ++k) {
        if (k < count) {
          uint32_t at = static_cast<uint32_t>(p.index[k * p.out_length + o]) * p.inner + c;
          sum += weight[k * p.out_length + o] * M(in[at]);
        }
      }
      out[e] = store_as<TOut, M>(sum);
    }
  }
}

// A work-group has some (row, output position) in turn: the taps are the same for all its items, which walk the inner
// dim.
template <class TIn, class TOut>
inline void resample_rows(const ResampleArgs& p) {
  using M = typename resample_math<TIn>::type;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), i0 = item.get_group(1) * local, lane = item.get_local_id(1);
  uint32_t at = item.get_group(0) * p.rows_per_group;
  const uint32_t all = p.rows * p.out_length, end = at + p.rows_per_group < all ? at + p.rows_per_group : all;
  const M* weight = static_cast<const M*>(p.weight);
  whole_or_part(i0 + local <= p.inner, i0 + lane < p.inner, item.get_local_range(0), [&] {
    for (uint32_t g = at; g < end; ++g) {
      const uint32_t row = divide(g, p.by_out_length), o = g - row * p.out_length;
      const TIn* in = static_cast<const TIn*>(p.in) + static_cast<int64_t>(row) * p.in_length * p.inner + i0;
      TOut* out = static_cast<TOut*>(p.out) + static_cast<int64_t>(g) * p.inner + i0;
      const uint32_t count = p.count[o];
      M sum = M(0);
      for (uint32_t k = 0; k < count; ++k) {
        const TIn* line = in + static_cast<int64_t>(p.index[k * p.out_length + o]) * p.inner;
        sum += weight[k * p.out_length + o] * M(line[lane]);
      }
      out[lane] = store_as<TOut, M>(sum);
    }
  });
}

// A sub-group goes along the lines of its work-group. What two passes would keep in memory stays in registers. A tap of
// weight 0 is skipped: gradients have such taps.
template <class T, int kTaps>
inline void resample_plane(const ResamplePlaneArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), lanes = item.get_local_range(0), height = p.out_size[0],
               width = p.out_size[1];
  const uint32_t begin = item.get_group(0) * p.lines_per_group,
                 end = begin + p.lines_per_group < p.lines ? begin + p.lines_per_group : p.lines;
  const M *wy = static_cast<const M*>(p.weight[0]), *wx = static_cast<const M*>(p.weight[1]);
  for (uint32_t line = begin; line < end; ++line) {
    const uint32_t row = divide(line, p.by_height), y = line - row * p.by_height.d;
    const T* plane = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.in_size[0] * p.in_size[1];
    const T *a = plane + static_cast<int64_t>(p.index[0][y]) * p.in_size[1],
            *b = plane + static_cast<int64_t>(p.index[0][(kTaps - 1) * height + y]) * p.in_size[1];
    T* out = static_cast<T*>(p.out) + static_cast<int64_t>(line) * width;
    const M wa = wy[y];
    if constexpr (kTaps == 1) {
      for_columns(0, width, lane, lanes, [&](size_t x) {
        const M v = M(a[p.index[1][x]]) * wa * wx[x];
        out[x] = T(wa != M(0) && wx[x] != M(0) ? v : M(0));
      });
      continue;
    }
    const M wb = wy[height + y];
    for_columns(0, width, lane, lanes, [&](size_t x) {
      const int32_t left = p.index[1][x], right = (p.index[1] + width)[x];
      M l = wa * M(a[left]), r = wa * M(a[right]);
      l += wb * M(b[left]), r += wb * M(b[right]);
      M sum = wx[x] * l;
      sum += (wx + width)[x] * r;
      out[x] = T(sum);
    });
  }
}

template <class T> XPU_SCALAR_LOOP void nearest_line(const T* in, const int32_t* index, T* out, size_t n) {
  for (; n >= 4; n -= 4, index += 4, out += 4) {
    const T a = in[index[0]], b = in[index[1]], c = in[index[2]], d = in[index[3]];
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
  }
  for (; n > 0; --n, ++index, ++out) *out = in[*index];
}

// A work-group goes through several rows, its items side by side; on a CPU where lines get shorter one item, since a
// gather costs more than the loads it makes.
template <class T>
inline void nearest_lookup(const NearestArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), lanes = item.get_local_range(0);
  const uint32_t width = p.out_size[2] * p.inner, first = item.get_group(0) * p.rows_per_group;
  const uint32_t end = first + p.rows_per_group < p.rows ? first + p.rows_per_group : p.rows;
  uint32_t y = first % p.out_size[1], rest = first / p.out_size[1];
  uint32_t z = rest % p.out_size[0], r = rest / p.out_size[0];
  const auto next_line = [&] {  // the line that a row reads; the row after it is next
    const int64_t line = (static_cast<int64_t>(r) * p.in_size[0] + p.index[0][z]) * p.in_size[1] + p.index[1][y];
    if (++y == p.out_size[1]) {
      y = 0;
      if (++z == p.out_size[0]) z = 0, ++r;
    }
    return static_cast<const T*>(p.in) + line * p.in_size[2] * p.inner;
  };
  if (p.ahead) {
    // Rows of one element per item, which loads several before it stores one.
    constexpr uint32_t kAhead = 4;
    const bool inside = lane < width;
    const int32_t from = p.index[2][inside ? lane : 0];
    for (uint32_t row = first; row < end; row += kAhead) {
      T value[kAhead];
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a)
        if (row + a < end) value[a] = next_line()[from];
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a)
        if (row + a < end && inside) (static_cast<T*>(p.out) + static_cast<int64_t>(row + a) * width)[lane] = value[a];
    }
    return;
  }
  for (uint32_t row = first; row < end; ++row) {
    const T* in = next_line();
    T* out = static_cast<T*>(p.out) + static_cast<int64_t>(row) * width;
    if (p.inner == 1 && lanes == 1) {
      nearest_line(in, p.index[2], out, width);
    } else if (p.inner == 1) {
      for_columns(0, width, lane, lanes, [&](size_t e) { out[e] = in[p.index[2][e]]; });
    } else {
      for (uint32_t o = 0; o < p.out_size[2]; ++o) {
        const T* from = in + static_cast<int64_t>(p.index[2][o]) * p.inner;
        T* to = out + static_cast<int64_t>(o) * p.inner;
        for_columns(0, p.inner, lane, lanes, [&](size_t c) { to[c] = from[c]; });
      }
    }
  }
}

}  // namespace xpu
