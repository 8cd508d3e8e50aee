// Max and average pooling, adaptive or by window, 1-d to 3-d, forward and backward. Backward gathers from every window
// that covers an element, in window order: deterministic and without atomics.
//
// Real divisions behind a branch that differs between items are done item by item, and what is read through a dynamic
// index is different in every item; hence dividers, axes as template arguments, and a branch of its own for full
// groups.
#pragma once
#include <limits>

#include "kernels/sycl/core/columns.hpp"
#include "kernels/sycl/core/nan.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/images/pooling_args.hpp"

namespace xpu {

using xpu_ops::PoolArgs;

// The element of dst that an item computes.
struct PoolItem {
  uint32_t plane;  // N (channels_last) or N * C
  size_t first;    // the work-group's first channel
  size_t channel;  // 64 bits: a sum of 32-bit indices may wrap, which hides that lanes are neighbours
  int32_t z, y, x;
};

// Positions begin, begin + step ... along one axis; full: the window's length with padding, for the average's divisor.
struct Span { int32_t begin, count, step, full; };

template <int a> XPU_INLINE Span pool_adaptive(const PoolArgs& p, int32_t o) {
  const uint32_t in = static_cast<uint32_t>(p.in[a]), out = static_cast<uint32_t>(p.out[a]);
  const uint32_t u = static_cast<uint32_t>(o) * in;
  Span s;
  s.begin = static_cast<int32_t>(div(u, p.by_out[a]));
  s.count = s.full = static_cast<int32_t>(div(u + in + out - 1, p.by_out[a])) - s.begin;
  s.step = 1;
  return s;
}

// The input positions of window o along axis a: of max pooling, which has dilation, and of average pooling.
template <int a> XPU_INLINE Span pool_max_window(const PoolArgs& p, int32_t o) {
  if (p.adaptive) return pool_adaptive<a>(p, o);
  const int32_t first = o * p.stride[a] - p.pad[a], last = first + (p.kernel[a] - 1) * p.dilation[a] + 1;
  const int32_t end = last < p.in[a] ? last : p.in[a];
  const uint32_t before = first < 0 ? static_cast<uint32_t>(-first) : 0u;
  Span s;
  s.step = p.dilation[a];
  s.begin = first + static_cast<int32_t>(div(before + static_cast<uint32_t>(s.step) - 1, p.by_dilation[a])) * s.step;
  s.count =
      s.begin < end ? static_cast<int32_t>(div(static_cast<uint32_t>(end - s.begin - 1), p.by_dilation[a])) + 1 : 0;
  s.full = 0;
  return s;
}
template <int a> XPU_INLINE Span pool_avg_window(const PoolArgs& p, int32_t o) {
  if (p.adaptive) return pool_adaptive<a>(p, o);
  const int32_t first = o * p.stride[a] - p.pad[a], last = first + p.kernel[a], padded = p.in[a] + p.pad[a];
  Span s;
  s.step = 1;
  s.full = (last < padded ? last : padded) - first;
  s.begin = first < 0 ? 0 : first;
  const int32_t end = last < p.in[a] ? last : p.in[a];
  s.count = s.begin < end ? end - s.begin : 0;
  return s;
}

// The windows along axis a that hold input position x.
template <int a> XPU_INLINE Span pool_cover(const PoolArgs& p, int32_t x) {
  Span s;
  s.step = 1;
  s.full = 0;
  uint32_t u = static_cast<uint32_t>(x);
  if (p.adaptive) {
    const uint32_t in = static_cast<uint32_t>(p.in[a]), out = static_cast<uint32_t>(p.out[a]);
    s.begin = static_cast<int32_t>(div(u * out, p.by_in[a]));
    s.count = static_cast<int32_t>(div((u + 1) * out + in - 1, p.by_in[a])) - s.begin;
    return s;
  }
  u += static_cast<uint32_t>(p.pad[a]);
  const uint32_t reach = static_cast<uint32_t>((p.kernel[a] - 1) * p.dilation[a] + 1);
  s.begin = u < reach ? 0 : static_cast<int32_t>(div(u - reach, p.by_stride[a]) + 1);
  int32_t end = static_cast<int32_t>(div(u, p.by_stride[a]) + 1);
  if (end > p.out[a]) end = p.out[a];
  s.count = s.begin < end ? end - s.begin : 0;
  return s;
}

// A walk over a span. Where it is the same for all items of a vector (kExact), the loop is; otherwise every item takes
// `reach` steps, those past the end stay at the last position, and `in` says which count.
template <bool kExact> struct Walk {
  Span s;
  int32_t steps, last;
  Walk(const Span& span, int32_t reach) : s(span) {
    steps = kExact ? s.count : reach;
    last = s.count > 0 ? s.count - 1 : 0;
    if (!kExact && s.count <= 0) s.begin = 0;
  }
  uint32_t at(int32_t j) const {
    if constexpr (!kExact) j = j < last ? j : last;
    return static_cast<uint32_t>(s.begin + j * s.step);
  }
  bool in(int32_t j) const { return kExact || j < s.count; }
};

template <class T> XPU_INLINE opmath_t<T> pool_lowest() {
  if constexpr (is_float_v<T>) {
    return -std::numeric_limits<opmath_t<T>>::infinity();
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

template <class T> XPU_INLINE T pool_load(const T* x, size_t i) { return x[i]; }
XPU_INLINE bf16 pool_load(const bf16* x, size_t i) {
  bf16 v;
  v.bits = reinterpret_cast<const uint16_t*>(x)[i];
  return v;
}
template <class T> XPU_INLINE void pool_store(T* x, size_t i, T v) { x[i] = v; }
XPU_INLINE void pool_store(bf16* x, size_t i, bf16 v) { reinterpret_cast<uint16_t*>(x)[i] = v.bits; }

inline constexpr int kPoolLanes = xpu_ops::kPoolLanes, kPoolVectors = xpu_ops::kPoolVectors;

// Element (iz, iy, ix) of a plane: (pointer + offset)[lane]; the offset is uniform where the walks are exact in x.
template <bool kX> struct PoolPlane {
  uint32_t height, width, channels;
  size_t base, lane;
  PoolPlane(const PoolArgs& p, const PoolItem& t, const int32_t (&size)[3])
      : height(static_cast<uint32_t>(size[1])), width(static_cast<uint32_t>(size[2])), channels(p.channels) {
    base = static_cast<size_t>(t.plane) * (static_cast<uint32_t>(size[0]) * height * width) * channels + t.first;
    lane = t.channel;
  }
  template <class T> T get(const T* x, uint32_t at, int j) const {
    if constexpr (kX) return pool_load(x + (base + static_cast<size_t>(at) * channels + j * kPoolLanes), lane);
    return pool_load(x + base, static_cast<size_t>(at * channels) + lane);
  }
};

// The last NaN of a window wins, as upstream has it; else the first maximum. Positions repeated past the end of a
// window change neither. Dilation can step over the whole input: such a window is empty.
template <class T, bool kX, bool kYZ, int J> XPU_INLINE void max_pool_one(const PoolArgs& p, const PoolItem& t, T* dst,
                                                                          int64_t* to, size_t i) {
  using A = opmath_t<T>;
  const Span sz = pool_max_window<0>(p, t.z), sy = pool_max_window<1>(p, t.y), sx = pool_max_window<2>(p, t.x);
  const Walk<kYZ> z(sz, p.reach[0]), y(sy, p.reach[1]);
  const Walk<kX> x(sx, p.reach[2]);
  const PoolPlane<kX> plane(p, t, p.in);
  const T* src = static_cast<const T*>(p.src);
  const bool full = sz.count > 0 && sy.count > 0 && sx.count > 0;
  const uint32_t start =
      (static_cast<uint32_t>(sz.begin) * plane.height + static_cast<uint32_t>(sy.begin)) * plane.width +
      static_cast<uint32_t>(sx.begin);
  A best[J];
  uint32_t where[J];
#pragma unroll
  for (int j = 0; j < J; ++j) best[j] = pool_lowest<T>(), where[j] = start;
  for (int32_t jz = 0; jz < z.steps; ++jz)
    for (int32_t jy = 0; jy < y.steps; ++jy) {
      const uint32_t row = (z.at(jz) * plane.height + y.at(jy)) * plane.width;
      for (int32_t jx = 0; jx < x.steps; ++jx) {
        const uint32_t at = row + x.at(jx);
#pragma unroll
        for (int j = 0; j < J; ++j) {
          const A v = static_cast<A>(plane.get(src, at, j));
          const bool take = (v > best[j] || is_nan(opmath_t<T>(v))) && full;
          best[j] = take ? v : best[j];
          where[j] = take ? at : where[j];
        }
      }
    }
#pragma unroll
  for (int j = 0; j < J; ++j) {
    pool_store(dst + j * kPoolLanes, i, static_cast<T>(best[j]));
    if (p.indices) (to + j * kPoolLanes)[i] = where[j];
  }
}

template <class T, bool kX, bool kYZ, int J>
XPU_INLINE void max_pool_back_one(const PoolArgs& p, const PoolItem& t, T* dst, int64_t*, size_t i) {
  using A = opmath_t<T>;
  const Walk<kYZ> z(pool_cover<0>(p, t.z), p.reach[0]), y(pool_cover<1>(p, t.y), p.reach[1]);
  const Walk<kX> x(pool_cover<2>(p, t.x), p.reach[2]);
  const PoolPlane<kX> plane(p, t, p.out);
  const T* src = static_cast<const T*>(p.src);
  const uint32_t self = static_cast<uint32_t>((t.z * p.in[1] + t.y) * p.in[2] + t.x);
  A sum[J];
#pragma unroll
  for (int j = 0; j < J; ++j) sum[j] = A(0);
  for (int32_t jz = 0; jz < z.steps; ++jz)
    for (int32_t jy = 0; jy < y.steps; ++jy) {
      const uint32_t row = (z.at(jz) * plane.height + y.at(jy)) * plane.width;
      for (int32_t jx = 0; jx < x.steps; ++jx) {
        const uint32_t at = row + x.at(jx);
        const bool in = z.in(jz) && y.in(jy) && x.in(jx);
#pragma unroll
        for (int j = 0; j < J; ++j) {
          const bool hit =
              in && static_cast<uint32_t>(plane.get(static_cast<const int64_t*>(p.indices), at, j)) == self;
          const A g = static_cast<A>(plane.get(src, at, j));
          sum[j] += hit ? g : A(0);
        }
      }
    }
#pragma unroll
  for (int j = 0; j < J; ++j) pool_store(dst + j * kPoolLanes, i, static_cast<T>(sum[j]));
}

// Adaptive windows divide axis by axis, as upstream rounds.
template <class A> XPU_INLINE A pool_mean(const PoolArgs& p, A sum, const Span& z, const Span& y, const Span& x) {
  if (p.adaptive) return sum / static_cast<A>(z.full) / static_cast<A>(y.full) / static_cast<A>(x.full);
  const int32_t count = p.divisor ? p.divisor : p.include_pad ? z.full * y.full * x.full : z.count * y.count * x.count;
  if constexpr (std::numeric_limits<A>::is_integer) {
    return count == 0 ? A(0) : sum / static_cast<A>(count);
  } else {
    return sum / static_cast<A>(count);
  }
}

template <class T, bool kX, bool kYZ, int J> XPU_INLINE void avg_pool_one(const PoolArgs& p, const PoolItem& t, T* dst,
                                                                          int64_t*, size_t i) {
  using A = opmath_t<T>;
  const Span sz = pool_avg_window<0>(p, t.z), sy = pool_avg_window<1>(p, t.y), sx = pool_avg_window<2>(p, t.x);
  const Walk<kYZ> z(sz, p.reach[0]), y(sy, p.reach[1]);
  const Walk<kX> x(sx, p.reach[2]);
  const PoolPlane<kX> plane(p, t, p.in);
  const T* src = static_cast<const T*>(p.src);
  A sum[J];
#pragma unroll
  for (int j = 0; j < J; ++j) sum[j] = A(0);
  for (int32_t jz = 0; jz < z.steps; ++jz)
    for (int32_t jy = 0; jy < y.steps; ++jy) {
      const uint32_t row = (z.at(jz) * plane.height + y.at(jy)) * plane.width;
      for (int32_t jx = 0; jx < x.steps; ++jx) {
        const bool in = z.in(jz) && y.in(jy) && x.in(jx);
#pragma unroll
        for (int j = 0; j < J; ++j) {
          const A v = static_cast<A>(plane.get(src, row + x.at(jx), j));
          sum[j] += in ? v : A(0);
        }
      }
    }
  const bool full = sz.count > 0 && sy.count > 0 && sx.count > 0;
#pragma unroll
  for (int j = 0; j < J; ++j)
    pool_store(dst + j * kPoolLanes, i, static_cast<T>(full ? pool_mean(p, sum[j], sz, sy, sx) : A(0)));
}

template <class T, bool kX, bool kYZ, int J>
XPU_INLINE void avg_pool_gradient(const PoolArgs& p, const PoolItem& t, opmath_t<T> (&sum)[J]) {
  using A = opmath_t<T>;
  const Walk<kYZ> z(pool_cover<0>(p, t.z), p.reach[0]), y(pool_cover<1>(p, t.y), p.reach[1]);
  const Walk<kX> x(pool_cover<2>(p, t.x), p.reach[2]);
  const PoolPlane<kX> plane(p, t, p.out);
  const T* src = static_cast<const T*>(p.src);
#pragma unroll
  for (int j = 0; j < J; ++j) sum[j] = A(0);
  for (int32_t jz = 0; jz < z.steps; ++jz) {
    const Span wz = pool_avg_window<0>(p, static_cast<int32_t>(z.at(jz)));
    for (int32_t jy = 0; jy < y.steps; ++jy) {
      const Span wy = pool_avg_window<1>(p, static_cast<int32_t>(y.at(jy)));
      const uint32_t row = (z.at(jz) * plane.height + y.at(jy)) * plane.width;
      for (int32_t jx = 0; jx < x.steps; ++jx) {
        const Span wx = pool_avg_window<2>(p, static_cast<int32_t>(x.at(jx)));
        const bool in = z.in(jz) && y.in(jy) && x.in(jx);
#pragma unroll
        for (int j = 0; j < J; ++j) {
          const A g = pool_mean(p, static_cast<A>(plane.get(src, row + x.at(jx), j)), wz, wy, wx);
          sum[j] += in ? g : A(0);
        }
      }
    }
  }
}
template <class T, bool kX, bool kYZ, int J>
XPU_INLINE void avg_pool_back_one(const PoolArgs& p, const PoolItem& t, T* dst, int64_t*, size_t i) {
  opmath_t<T> sum[J];
  avg_pool_gradient<T, kX, kYZ, J>(p, t, sum);
#pragma unroll
  for (int j = 0; j < J; ++j) pool_store(dst + j * kPoolLanes, i, static_cast<T>(sum[j]));
}

// One item per element of dst, in memory order.
XPU_INLINE PoolItem pool_item(const PoolArgs& p, uint32_t i) {
  PoolItem r{};
  uint32_t q = div(i, p.by_channel), next;
  r.channel = i - q * p.channels;
  next = div(q, p.by_size[2]), r.x = static_cast<int32_t>(q - next * static_cast<uint32_t>(p.size[2])), q = next;
  next = div(q, p.by_size[1]), r.y = static_cast<int32_t>(q - next * static_cast<uint32_t>(p.size[1])), q = next;
  next = div(q, p.by_size[0]), r.z = static_cast<int32_t>(q - next * static_cast<uint32_t>(p.size[0])), q = next;
  r.plane = q;
  return r;
}

// Calls f(count, item, offset, lane) for `segment` elements of dst along the width (kLast: for `count` vectors of
// channels, which share the work on windows) or down the height (for every column).
template <bool kLast, class F> XPU_INLINE void pool_rows(const PoolArgs& p, F f) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), id = item.get_local_id(1), once = item.get_local_range(0);
  const size_t lane0 = item.get_group(1) * (kLast ? kPoolLanes * kPoolVectors : local);
  const uint32_t n = static_cast<uint32_t>(kLast ? p.size[2] : p.size[1]);
  uint32_t q = static_cast<uint32_t>(item.get_group(0));
  const uint32_t line = div(q, p.by_part), begin = (q - line * p.by_part.d) * p.segment;
  const uint32_t end = begin + p.segment < n ? begin + p.segment : n;
  PoolItem t{};
  q = line;
  if (kLast) {
    const uint32_t next = div(q, p.by_size[1]);
    t.y = static_cast<int32_t>(q - next * static_cast<uint32_t>(p.size[1]));
    q = next;
  }
  t.plane = div(q, p.by_size[0]);
  t.z = static_cast<int32_t>(q - t.plane * static_cast<uint32_t>(p.size[0]));
  auto run = [&](auto count, size_t first) {
    for (uint32_t k = begin; k < end; ++k) {
      PoolItem here = t;
      if constexpr (kLast) {
        here.first = first;
        here.channel = id;
        here.x = static_cast<int32_t>(k);
      } else {
        here.x = static_cast<int32_t>(first + id);
        here.y = static_cast<int32_t>(k);
      }
      [[clang::always_inline]] f(count, here, (static_cast<size_t>(line) * n + k) * p.lanes + first, id);
    }
  };
  if constexpr (kLast) {
    column_block<kPoolVectors>(lane0, p.lanes, id, once,
                               [&](auto count, size_t first) { [[clang::always_inline]] run(count, first); });
  } else {
    whole_or_part(lane0 + local <= p.lanes, lane0 + id < p.lanes, once,
                  [&] { [[clang::always_inline]] run(Count<1>{}, lane0); });
  }
}

// flat: any layout. last: lanes run over channels. wide: lanes run over the width of contiguous planes.
#define XPU_POOL(name)                                                                                         \
  template <class T> void name##_flat(const PoolArgs& p) {                                                     \
    const uint32_t i = global_id();                                                                            \
    if (i < p.items) name##_one<T, false, false, 1>(p, pool_item(p, i), static_cast<T*>(p.dst), p.indices, i); \
  }                                                                                                            \
  template <class T> void name##_last(const PoolArgs& p) {                                                     \
    pool_rows<true>(p, [&](auto count, const PoolItem& t, size_t at, size_t id) {                              \
      name##_one<T, true, true, count.value>(p, t, static_cast<T*>(p.dst) + at, p.indices + at, id);           \
    });                                                                                                        \
  }                                                                                                            \
  template <class T> void name##_wide(const PoolArgs& p) {                                                     \
    pool_rows<false>(p, [&](auto, const PoolItem& t, size_t at, size_t id) {                                   \
      name##_one<T, false, true, 1>(p, t, static_cast<T*>(p.dst) + at, p.indices + at, id);                    \
    });                                                                                                        \
  }

XPU_POOL(max_pool)
XPU_POOL(max_pool_back)
XPU_POOL(avg_pool)
XPU_POOL(avg_pool_back)
#undef XPU_POOL

// ---- average pooling of contiguous planes by K x K windows that lie side by side: an item goes through lines of
// outputs, whose inputs are K lines without gaps. The last vector of a line overlaps the one before instead of masking.
template <int kx> XPU_INLINE float16v pool_taps(const float16v (&v)[2]) {
  return __builtin_shufflevector(v[0], v[1], kx, 2 + kx, 4 + kx, 6 + kx, 8 + kx, 10 + kx, 12 + kx, 14 + kx, 16 + kx,
                                 18 + kx, 20 + kx, 22 + kx, 24 + kx, 26 + kx, 28 + kx, 30 + kx);
}
// Sixteen of every third element from 48: 32 hold the first 11 of them, or 10 where kx is 2.
template <int kx> XPU_INLINE float16v pool_taps(const float16v (&v)[3]) {
  const float16v low = __builtin_shufflevector(v[0], v[1], kx, 3 + kx, 6 + kx, 9 + kx, 12 + kx, 15 + kx, 18 + kx,
                                               21 + kx, 24 + kx, 27 + kx, kx < 2 ? 30 + kx : 0, 0, 0, 0, 0, 0);
  return __builtin_shufflevector(low, v[2], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, kx < 2 ? 10 : 16, 17 + kx, 20 + kx, 23 + kx,
                                 26 + kx, 29 + kx);
}
template <class T, int K> void avg_pool_tiles(const PoolArgs& p) {
  const size_t width = static_cast<size_t>(p.in[2]), n = static_cast<size_t>(p.out[2]);
  const RowRange mine = group_rows(p.items);
  for (uint32_t line = mine.begin; line < mine.end; ++line) {
    const uint32_t plane = div(line, p.by_out[1]), y = line - plane * p.by_out[1].d;
    const T* src =
        static_cast<const T*>(p.src) + (static_cast<size_t>(plane) * static_cast<uint32_t>(p.in[1]) + y * K) * width;
    T* dst = static_cast<T*>(p.dst) + line * n;
    for (size_t c = 0; n < kPoolLanes && c < n; ++c) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < K * K; ++k) sum += static_cast<float>(pool_load(src + k / K * width, c * K + k % K));
      pool_store(dst, c, static_cast<T>(sum / float(K * K)));
    }
    for (size_t c = 0; n >= kPoolLanes && c < n; c += kPoolLanes) {
      const size_t at = c + kPoolLanes <= n ? c : n - kPoolLanes;
      float16v sum = 0;
#pragma unroll
      for (int ky = 0; ky < K; ++ky) {
        float16v v[K];
#pragma unroll
        for (int j = 0; j < K; ++j) v[j] = load16(src + ky * width + at * K + j * kPoolLanes);
        sum = sum + pool_taps<0>(v);
        sum = sum + pool_taps<1>(v);
        if constexpr (K == 3) sum = sum + pool_taps<2>(v);
      }
      store16(dst + at, sum / float16v(K * K));
    }
  }
}

// ---- adaptive pooling of contiguous planes to a few outputs: no two of them share much, so the lanes go along a
// window Calls f(item, offset of dst) for the outputs of a line of one plane.
template <class F> XPU_INLINE void pool_line(const PoolArgs& p, F f) {
  const uint32_t line = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0));
  const uint32_t q = div(line, p.by_size[1]), plane = div(q, p.by_size[0]), n = static_cast<uint32_t>(p.size[2]);
  for (uint32_t k = 0; k < n; ++k) {
    PoolItem t{};
    t.plane = plane;
    t.z = static_cast<int32_t>(q - plane * static_cast<uint32_t>(p.size[0]));
    t.y = static_cast<int32_t>(line - q * static_cast<uint32_t>(p.size[1]));
    t.x = static_cast<int32_t>(k);
    [[clang::always_inline]] f(t, static_cast<size_t>(line) * n + k);
  }
}

// Calls f(position of the first lane in the plane) for a lane's share of a window.
template <class F> XPU_INLINE void pool_window(const PoolArgs& p, const Span& z, const Span& y, const Span& x,
                                               size_t lane, F f) {
  const size_t count = static_cast<size_t>(x.count);
  for (int32_t jz = 0; jz < z.count; ++jz)
    for (int32_t jy = 0; jy < y.count; ++jy) {
      const int32_t row = ((z.begin + jz) * p.in[1] + y.begin + jy) * p.in[2] + x.begin;
      size_t c = 0;
      for (; c + kPoolLanes <= count; c += kPoolLanes) [[clang::always_inline]]
        f(static_cast<size_t>(row) + c);
      if (c + lane < count) [[clang::always_inline]]
        f(static_cast<size_t>(row) + c);
    }
}

template <class T> void max_pool_plane(const PoolArgs& p) {
  using A = opmath_t<T>;
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  const size_t volume = static_cast<size_t>(p.in[0]) * static_cast<uint32_t>(p.in[1] * p.in[2]);
  pool_line(p, [&](const PoolItem& t, size_t to) {
    const Span z = pool_adaptive<0>(p, t.z), y = pool_adaptive<1>(p, t.y), x = pool_adaptive<2>(p, t.x);
    const T* src = static_cast<const T*>(p.src) + t.plane * volume;
    A best = pool_lowest<T>();
    uint32_t where = static_cast<uint32_t>((z.begin * p.in[1] + y.begin) * p.in[2] + x.begin);
    const uint32_t own = static_cast<uint32_t>(lane);
    pool_window(p, z, y, x, lane, [&](size_t at) {
      const A v = static_cast<A>(pool_load(src + at, lane));
      const bool take = v > best || is_nan(opmath_t<T>(v));
      best = take ? v : best;
      where = take ? static_cast<uint32_t>(at) + own : where;
    });
    auto sg = syclex::this_work_item::get_sub_group();
#pragma unroll
    for (uint32_t m = kLanes / 2; m > 0; m /= 2) {
      const A v = exchange(sg, best, m);
      const uint32_t other = exchange(sg, where, m);
      const bool nan = is_nan(opmath_t<T>(best)), also = is_nan(opmath_t<T>(v));
      // The last NaN, or else the first maximum.
      const bool take = nan || also ? also && (!nan || other > where) : v > best || (v == best && other < where);
      best = take ? v : best;
      where = take ? other : where;
    }
    store_first(static_cast<T*>(p.dst) + to, best);
    store_first(p.indices + to, where);
  });
}

template <class T> void avg_pool_plane(const PoolArgs& p) {
  using A = opmath_t<T>;
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  const size_t volume = static_cast<size_t>(p.in[0]) * static_cast<uint32_t>(p.in[1] * p.in[2]);
  pool_line(p, [&](const PoolItem& t, size_t to) {
    const Span z = pool_adaptive<0>(p, t.z), y = pool_adaptive<1>(p, t.y), x = pool_adaptive<2>(p, t.x);
    const T* src = static_cast<const T*>(p.src) + t.plane * volume;
    A sum = 0;
    pool_window(p, z, y, x, lane, [&](size_t at) { sum += static_cast<A>(pool_load(src + at, lane)); });
    sum = lane_sum(sum) / static_cast<A>(z.count) / static_cast<A>(y.count) / static_cast<A>(x.count);
    store_first(static_cast<T*>(p.dst) + to, sum);
  });
}

// A sub-group per plane of dst: zeros, then every output's share added to its window. A lane has every sixteenth
// column, so that no two lanes add to one element.
//
// The zeros: for_row's end asks for the sub-group's id, which a kernel without exchanges avoids: with it the plane
// kernels took 1.7 times as long.
template <class T> XPU_INLINE void pool_clear(T* dst, size_t n, size_t lane) {
  size_t r = 0;
  for (; r + kLanes <= n; r += kLanes) pool_store(dst + r, lane, static_cast<T>(0.0f));
  if (r + lane < n) pool_store(dst + r, lane, static_cast<T>(0.0f));
}

template <class T> void avg_pool_back_plane(const PoolArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), plane = item.get_group(0), width = static_cast<size_t>(p.in[2]);
  const size_t rows = static_cast<size_t>(p.in[0]) * static_cast<uint32_t>(p.in[1]);
  T* dst = static_cast<T*>(p.dst) + plane * rows * width;
  pool_clear(dst, rows * width, lane);
  const T* src = static_cast<const T*>(p.src) + plane * static_cast<uint32_t>(p.out[0] * p.out[1] * p.out[2]);
  for (int32_t oz = 0; oz < p.out[0]; ++oz)
    for (int32_t oy = 0; oy < p.out[1]; ++oy)
      for (int32_t ox = 0; ox < p.out[2]; ++ox, ++src) {
        const Span z = pool_adaptive<0>(p, oz), y = pool_adaptive<1>(p, oy), x = pool_adaptive<2>(p, ox);
        const A share = static_cast<A>(pool_load(src, 0)) / static_cast<A>(z.count) / static_cast<A>(y.count) /
                        static_cast<A>(x.count);
        const size_t begin = static_cast<size_t>(x.begin), end = begin + static_cast<size_t>(x.count);
        for (int32_t iz = z.begin; iz < z.begin + z.count; ++iz)
          for (int32_t iy = y.begin; iy < y.begin + y.count; ++iy) {
            T* row = dst + static_cast<size_t>(iz * p.in[1] + iy) * width;
            for (size_t r = begin / kLanes * kLanes; r < end; r += kLanes)
              if (r + lane >= begin && r + lane < end)
                pool_store(row + r, lane, static_cast<T>(static_cast<A>(pool_load(row + r, lane)) + share));
          }
      }
}

// A sub-group per plane of dst: zeros, then the gradients one after the other. An element is added to by the lane that
// set it to zero.
template <class T> void max_pool_back_plane(const PoolArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), plane = item.get_group(0);
  const size_t volume = static_cast<size_t>(p.in[0]) * static_cast<uint32_t>(p.in[1] * p.in[2]);
  const size_t outputs = static_cast<size_t>(p.out[0]) * static_cast<uint32_t>(p.out[1] * p.out[2]);
  T* dst = static_cast<T*>(p.dst) + plane * volume;
  pool_clear(dst, volume, lane);
  const T* src = static_cast<const T*>(p.src) + plane * outputs;
  const int64_t* indices = p.indices + plane * outputs;
  for (size_t o = 0; o < outputs; ++o) {
    const size_t at = static_cast<size_t>(indices[o]);
    if (at % kLanes == lane && at < volume) dst[at] = static_cast<T>(static_cast<A>(dst[at]) + static_cast<A>(src[o]));
  }
}

}  // namespace xpu
