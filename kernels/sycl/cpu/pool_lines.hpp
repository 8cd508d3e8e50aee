// Pooling of contiguous planes by items that compute in vectors of their own: windows first down their columns, in
// whole lines, then along the line. Nothing is subtracted, so that NaN and infinity stay where they are.
#pragma once
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/images/pooling.hpp"

namespace xpu {

using int16v = int32_t __attribute__((ext_vector_type(16)));
using long16v = int64_t __attribute__((ext_vector_type(16)));
using long16u __attribute__((ext_vector_type(16), aligned(8))) = int64_t;
using int16u __attribute__((ext_vector_type(16), aligned(4))) = int32_t;
inline constexpr int32_t kFewWindows = 5;  // of a line, which are summed one by one
inline constexpr int32_t kPoolLine = xpu_ops::kPoolLine, kPoolSlack = xpu_ops::kPoolSlack;

template <class V> XPU_INLINE V pool_evens(V a, V b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
// x[0], x[step], x[2 step] ...; S: the step where it is known.
template <int S, class U, class V, class E> XPU_INLINE V pool_stepped(const E* x, int32_t step) {
  const auto at = [&](int i) __attribute__((always_inline)) { return V(*reinterpret_cast<const U*>(x + 16 * i)); };
  if constexpr (S == 1) {
    return at(0);
  } else if constexpr (S == 2) {
    return pool_evens<V>(at(0), at(1));
  } else if constexpr (S == 4) {
    return pool_evens<V>(pool_evens<V>(at(0), at(1)), pool_evens<V>(at(2), at(3)));
  } else {
    V v;
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = x[i * step];
    return v;
  }
}
template <int S> XPU_INLINE float16v pool_floats(const float* x, int32_t step) {
  return pool_stepped<S, float16u, float16v>(x, step);
}
template <int S> XPU_INLINE int16v pool_places(const int32_t* x, int32_t step) {
  return pool_stepped<S, int16u, int16v>(x, step);
}

// The first n of sixteen values.
template <class T> XPU_INLINE void pool_put(T* x, float16v v, int32_t n) {
  if (n >= 16) {
    store16(x, v);
  } else {
    T part[16];
    store16(part, v);
    for (int32_t i = 0; i < n; ++i) pool_store(x, static_cast<size_t>(i), pool_load(part, static_cast<size_t>(i)));
  }
}
XPU_INLINE void pool_put(int64_t* x, int16v v, int32_t n) {
  if (n >= 16) {
    *reinterpret_cast<long16u*>(x) = __builtin_convertvector(v, long16v);
  } else {
    for (int32_t i = 0; i < n; ++i) x[i] = v[i];
  }
}

// Sixteen elements, of which those past the end of src are zero.
template <class T> XPU_INLINE float16v pool_get(const T* src, uint32_t at, uint32_t end) {
  if (at + 16 <= end) return load16(src + at);
  float16v v = 0;
  for (uint32_t i = 0; at + i < end && i < 16; ++i) v[i] = static_cast<float>(pool_load(src, at + i));
  return v;
}

// A stretch of a line of dst.
struct PoolStretch {
  uint32_t plane;
  int32_t z, y, x, n;  // from column x, n elements
};
// Calls f(stretch, whether it is the one below the last one, offset in dst) for this work-group's share.
template <class F> XPU_INLINE void pool_stretches(const PoolArgs& p, F f) {
  const RowRange mine = group_rows(p.items);
  for (uint32_t i = mine.begin; i < mine.end; ++i) {
    PoolStretch t;
    uint32_t q = div(i, p.by_size[1]);
    t.y = static_cast<int32_t>(i - q * static_cast<uint32_t>(p.size[1]));
    uint32_t next = div(q, p.by_size[0]);
    t.z = static_cast<int32_t>(q - next * static_cast<uint32_t>(p.size[0])), q = next;
    t.plane = div(q, p.by_part);
    t.x = static_cast<int32_t>((q - t.plane * p.by_part.d) * p.segment);
    const int32_t left = p.size[2] - t.x;
    t.n = left < static_cast<int32_t>(p.segment) ? left : static_cast<int32_t>(p.segment);
    const uint32_t line =
        (t.plane * static_cast<uint32_t>(p.size[0]) + static_cast<uint32_t>(t.z)) * static_cast<uint32_t>(p.size[1]) +
        static_cast<uint32_t>(t.y);
    [[clang::always_inline]] f(t, i != mine.begin && t.y != 0,
                               line * static_cast<uint32_t>(p.size[2]) + static_cast<uint32_t>(t.x));
  }
}

// Elements [begin, end) of a line that stands for columns from `from` of a plane with `width` columns.
struct PoolPart { int32_t begin, end; };
XPU_INLINE PoolPart pool_part(int32_t from, int32_t length, int32_t width) {
  const int32_t begin = from < 0 ? -from : 0, end = width - from;
  return {begin, end < length ? end : length};
}

// Calls f(element) for those of a line that are padding.
template <class F> XPU_INLINE void pool_padding(const PoolPart& part, int32_t length, F f) {
  for (int32_t i = 0; i < part.begin && i < length; ++i) [[clang::always_inline]]
    f(i);
  for (int32_t i = part.end < 0 ? 0 : part.end; i < length; ++i) [[clang::always_inline]]
    f(i);
}

// The divisor's part along x of windows o ..
XPU_INLINE int16v pool_counts(const PoolArgs& p, int32_t o) {
  const int16v first = (__builtin_bit_cast(int16v, kCount16) + o) * p.stride[2] - p.pad[2], last = first + p.kernel[2];
  if (p.include_pad) {
    const int16v padded = int16v(p.in[2] + p.pad[2]);
    return (last < padded ? last : padded) - first;
  }
  const int16v begin = first > 0 ? first : int16v(0), end = last < p.in[2] ? last : int16v(p.in[2]);
  return end > begin ? end - begin : int16v(0);
}
XPU_INLINE int32_t pool_count(const PoolArgs& p, const Span& s) { return p.include_pad ? s.full : s.count; }
XPU_INLINE float16v pool_divisor(const PoolArgs& p, int32_t rows, int32_t o) {
  if (p.divisor) return float16v(static_cast<float>(p.divisor));
  return __builtin_convertvector(pool_counts(p, o) * rows, float16v);
}

template <class F> XPU_INLINE void pool_by_step(int32_t step, F f) {
  if (step == 1) [[clang::always_inline]]
    f(Count<1>{});
  else if (step == 2) [[clang::always_inline]]
    f(Count<2>{});
  else if (step == 4) [[clang::always_inline]]
    f(Count<4>{});
  else [[clang::always_inline]]
    f(Count<0>{});
}

// Windows of every column of `own`, joined into `line`, which may be the same: cheaper than to gather each value of a
// window where the step is none of those above, and short.
template <class F> XPU_INLINE bool pool_slide(const PoolArgs& p, const float* own, float* line, int32_t length,
                                              F join) {
  const int32_t step = p.stride[2], spread = p.dilation[2];
  if (step == 1 || step == 2 || step == 4 || step > 12) return false;
  for (int32_t i = 0; i < length - (p.kernel[2] - 1) * spread; i += 16) {
    float16v v = load16(own + i);
    for (int32_t k = 1; k < p.kernel[2]; ++k) v = join(v, load16(own + i + k * spread));
    store16(line + i, v);
  }
  return true;
}

// The line that stands for a window of one row in src itself, or null: where none of it is padding.
template <class T> XPU_INLINE const float* pool_whole(const T* src, uint32_t at, const PoolPart& part, int32_t length,
                                                      int32_t rows, uint32_t end) {
  if constexpr (__is_same(T, float)) {
    if (rows == 1 && part.begin == 0 && part.end == length && at + static_cast<uint32_t>(length + kPoolSlack) <= end)
      return src + at;
  }
  return nullptr;
}

template <class T> void avg_pool_lines(const PoolArgs& p) {
  const T* src = static_cast<const T*>(p.src);
  alignas(64) float line[kPoolLine + kPoolSlack];
  pool_stretches(p, [&](const PoolStretch& t, bool, uint32_t to) {
    const Span z = pool_avg_window<0>(p, t.z), y = pool_avg_window<1>(p, t.y);
    const int32_t from = t.x * p.stride[2] - p.pad[2], length = (t.n - 1) * p.stride[2] + p.kernel[2];
    const PoolPart part = pool_part(from, length, p.in[2]);
    const uint32_t width = static_cast<uint32_t>(p.in[2]), height = static_cast<uint32_t>(p.in[1]);
    const uint32_t top = ((t.plane * static_cast<uint32_t>(p.in[0]) + static_cast<uint32_t>(z.begin)) * height +
                          static_cast<uint32_t>(y.begin)) *
                         width;
    const float* own = pool_whole(src, top + static_cast<uint32_t>(from), part, length, z.count * y.count, p.lanes);
    int32_t i = own ? part.end : part.begin;
    for (; i + 64 <= part.end; i += 64) {
      float16v sum[4] = {0, 0, 0, 0};
      for (int32_t jz = 0; jz < z.count; ++jz)
        for (int32_t jy = 0; jy < y.count; ++jy) {
          const T* x = src + top + (static_cast<uint32_t>(jz) * height + static_cast<uint32_t>(jy)) * width +
                       static_cast<uint32_t>(from + i);
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[j] = sum[j] + load16(x + 16 * j);
        }
#pragma unroll
      for (int j = 0; j < 4; ++j) store16(line + i + 16 * j, sum[j]);
    }
    for (; i < part.end; i += 16) {
      float16v sum = 0;
      for (int32_t jz = 0; jz < z.count; ++jz)
        for (int32_t jy = 0; jy < y.count; ++jy) {
          const uint32_t row = top + (static_cast<uint32_t>(jz) * height + static_cast<uint32_t>(jy)) * width;
          sum = sum + pool_get(src, row + static_cast<uint32_t>(from + i), p.lanes);
        }
      store16(line + i, sum);
    }
    pool_padding(part, length, [&](int32_t i) { line[i] = 0; });
    if (!own) own = line;
    const int32_t rows = pool_count(p, z) * pool_count(p, y);
    T* dst = static_cast<T*>(p.dst) + to;
    if (t.n < kFewWindows) {
      float16v sums = 0;
      for (int32_t i = 0; i < t.n; ++i) {
        float sum = 0;
        for (int32_t k = 0; k < p.kernel[2]; ++k) sum += own[i * p.stride[2] + k];
        sums[i] = sum;
      }
      const float16v by = pool_divisor(p, rows, t.x);
      pool_put(dst, by == 0 ? float16v(0) : sums / by, t.n);
      return;
    }
    const bool slid =
        pool_slide(p, own, line, length, [](float16v a, float16v b) __attribute__((always_inline)) { return a + b; });
    const int32_t taps = slid ? 1 : p.kernel[2];
    if (slid) own = line;
    pool_by_step(p.stride[2], [&](auto step) {
      for (int32_t i = 0; i < t.n; i += 16) {
        const float* x = own + i * p.stride[2];
        float16v sum = pool_floats<step.value>(x, p.stride[2]);
        for (int32_t k = 1; k < taps; ++k) sum = sum + pool_floats<step.value>(x + k, p.stride[2]);
        const float16v by = pool_divisor(p, rows, t.x + i);
        pool_put(dst + i, by == 0 ? float16v(0) : sum / by, t.n - i);
      }
    });
  });
}

// Of equal values the one that comes first in the plane, of NaN the last.
XPU_INLINE void pool_take(float16v& best, int16v& where, float16v v, int16v at) {
  const int16v take = (v > best) | ((v == best) & (at < where)) | ((v != v) & ((best == best) | (at > where)));
  best = take ? v : best;
  where = take ? at : where;
}

template <class T> void max_pool_lines(const PoolArgs& p) {
  const T* src = static_cast<const T*>(p.src);
  alignas(64) float line[kPoolLine + kPoolSlack];
  alignas(64) int32_t places[kPoolLine + kPoolSlack];
  const float lowest = -std::numeric_limits<float>::infinity();
  pool_stretches(p, [&](const PoolStretch& t, bool, uint32_t to) {
    const Span z = pool_max_window<0>(p, t.z), y = pool_max_window<1>(p, t.y);
    const int32_t from = t.x * p.stride[2] - p.pad[2],
                  length = (t.n - 1) * p.stride[2] + (p.kernel[2] - 1) * p.dilation[2] + 1;
    const PoolPart part = pool_part(from, length, p.in[2]);
    const uint32_t width = static_cast<uint32_t>(p.in[2]), height = static_cast<uint32_t>(p.in[1]);
    const uint32_t plane = t.plane * static_cast<uint32_t>(p.in[0]) * height * width;
    const auto row_of = [&](int32_t jz, int32_t jy) __attribute__((always_inline)) {
      return (static_cast<uint32_t>(z.begin + jz * z.step) * height + static_cast<uint32_t>(y.begin + jy * y.step)) *
             width;
    };
    T* dst = static_cast<T*>(p.dst) + to;
    if (!p.indices) {
      const float* own =
          pool_whole(src, plane + row_of(0, 0) + static_cast<uint32_t>(from), part, length, z.count * y.count, p.lanes);
      for (int32_t i = own ? part.end : part.begin; i < part.end; i += 16) {
        float16v best = lowest;
        for (int32_t jz = 0; jz < z.count; ++jz)
          for (int32_t jy = 0; jy < y.count; ++jy)
            best = larger(best, pool_get(src, plane + row_of(jz, jy) + static_cast<uint32_t>(from + i), p.lanes));
        store16(line + i, best);
      }
      pool_padding(part, length, [&](int32_t i) { line[i] = lowest; });
      if (!own) own = line;
      const bool slid = pool_slide(p, own, line, length,
                                   [](float16v a, float16v b) __attribute__((always_inline)) { return larger(a, b); });
      const int32_t taps = slid ? 1 : p.kernel[2];
      if (slid) own = line;
      pool_by_step(p.stride[2], [&](auto step) {
        for (int32_t i = 0; i < t.n; i += 16) {
          const float* x = own + i * p.stride[2];
          float16v best = pool_floats<step.value>(x, p.stride[2]);
          for (int32_t k = 1; k < taps; ++k)
            best = larger(best, pool_floats<step.value>(x + k * p.dilation[2], p.stride[2]));
          pool_put(dst + i, best, t.n - i);
        }
      });
      return;
    }
    for (int32_t i = part.begin; i < part.end; i += 16) {
      const int32_t column = from + i;
      float16v best = lowest;
      int16v where = int16v(static_cast<int32_t>(row_of(0, 0)));
      for (int32_t jz = 0; jz < z.count; ++jz)
        for (int32_t jy = 0; jy < y.count; ++jy) {
          const uint32_t row = row_of(jz, jy);
          const float16v v = pool_get(src, plane + row + static_cast<uint32_t>(column), p.lanes);
          const int16v take = (v > best) | (v != v);
          best = take ? v : best;
          where = take ? int16v(static_cast<int32_t>(row)) : where;
        }
      store16(line + i, best);
      *reinterpret_cast<int16u*>(places + i) = where + column + __builtin_bit_cast(int16v, kCount16);
    }
    pool_padding(part, length, [&](int32_t i) { line[i] = lowest, places[i] = 0x7fffffff; });
    int64_t* indices = p.indices + to;
    pool_by_step(p.stride[2], [&](auto step) {
      for (int32_t i = 0; i < t.n; i += 16) {
        const float* x = line + i * p.stride[2];
        const int32_t* at = places + i * p.stride[2];
        float16v best = pool_floats<step.value>(x, p.stride[2]);
        int16v where = pool_places<step.value>(at, p.stride[2]);
        for (int32_t k = 1; k < p.kernel[2]; ++k)
          pool_take(best, where, pool_floats<step.value>(x + k * p.dilation[2], p.stride[2]),
                    pool_places<step.value>(at + k * p.dilation[2], p.stride[2]));
        pool_put(dst + i, best, t.n - i);
        pool_put(indices + i, where, t.n - i);
      }
    });
  });
}

// Windows that hold column x of dst have numbers q, q - 1 ... where x + pad = q * stride + phase: all columns of a
// phase add equally many, which lie side by side in the line of windows.
template <class T> void avg_pool_back_lines(const PoolArgs& p) {
  const T* src = static_cast<const T*>(p.src);
  alignas(64) float line[kPoolLine + kPoolSlack], sums[kPoolLine + kPoolSlack];
  Span last_z{}, last_y{};
  const int32_t step = p.stride[2], most = (p.kernel[2] - 1) / step + 1;
  pool_stretches(p, [&](const PoolStretch& t, bool below, uint32_t to) {
    const Span z = pool_cover<0>(p, t.z), y = pool_cover<1>(p, t.y);
    T* dst = static_cast<T*>(p.dst) + to;
    if (below && z.begin == last_z.begin && z.count == last_z.count && y.begin == last_y.begin &&
        y.count == last_y.count) {
      const T* above = dst - p.size[2];
      for (int32_t i = 0; i < t.n; i += 16) {
        if (i + 16 <= t.n)
          store16(dst + i, load16(above + i));
        else
          for (int32_t j = i; j < t.n; ++j)
            pool_store(dst, static_cast<size_t>(j), pool_load(above, static_cast<size_t>(j)));
      }
      return;
    }
    last_z = z, last_y = y;
    const int32_t q0 = static_cast<int32_t>(div(static_cast<uint32_t>(t.x + p.pad[2]), p.by_stride[2]));
    const int32_t skip = t.x + p.pad[2] - q0 * step;  // sums begin so many columns before x
    const int32_t quotients = static_cast<int32_t>(div(static_cast<uint32_t>(skip + t.n - 1), p.by_stride[2])) + 1;
    const int32_t from = q0 - (most - 1), length = quotients + most - 1;
    const PoolPart part = pool_part(from, length, p.out[2]);
    const uint32_t width = static_cast<uint32_t>(p.out[2]), height = static_cast<uint32_t>(p.out[1]);
    const uint32_t plane = t.plane * static_cast<uint32_t>(p.out[0]);
    int32_t rows = 0;
    bool equal = true;
    for (int32_t jz = 0; jz < z.count; ++jz)
      for (int32_t jy = 0; jy < y.count; ++jy) {
        const int32_t here =
            pool_count(p, pool_avg_window<0>(p, z.begin + jz)) * pool_count(p, pool_avg_window<1>(p, y.begin + jy));
        equal = equal && (rows == 0 || rows == here);
        rows = here;
      }
    for (int32_t i = part.begin; i < part.end; i += 16) {
      float16v sum = 0;
      for (int32_t jz = 0; jz < z.count; ++jz)
        for (int32_t jy = 0; jy < y.count; ++jy) {
          const uint32_t row =
              ((plane + static_cast<uint32_t>(z.begin + jz)) * height + static_cast<uint32_t>(y.begin + jy)) * width;
          float16v v = pool_get(src, row + static_cast<uint32_t>(from + i), p.lanes);
          if (!equal) {
            const int32_t here =
                pool_count(p, pool_avg_window<0>(p, z.begin + jz)) * pool_count(p, pool_avg_window<1>(p, y.begin + jy));
            v = v / pool_divisor(p, here, from + i);
          }
          sum = sum + v;
        }
      if (equal && rows) sum = sum / pool_divisor(p, rows, from + i);
      store16(line + i, sum);
    }
    pool_padding(part, length, [&](int32_t i) { line[i] = 0; });
    const float* own = line + (most - 1);  // of window q0
    const auto phase_sum = [&](int32_t phase, int32_t i) __attribute__((always_inline)) {
      float16v sum = 0;
      for (int32_t k = phase; k < p.kernel[2]; k += step)
        sum = sum + load16(own + i - static_cast<int32_t>(div(static_cast<uint32_t>(k), p.by_stride[2])));
      return sum;
    };
    if (step > 2 && quotients < kFewWindows) {
      for (int32_t i = 0, q = 0, phase = skip; i < t.n; ++i) {
        float sum = 0;
        for (int32_t k = phase, j = q; k < p.kernel[2]; k += step, --j) sum += own[j];
        sums[skip + i] = sum;
        if (++phase == step) phase = 0, ++q;
      }
    } else
      for (int32_t i = 0; i < quotients; i += 16) {
        if (step == 1) {
          store16(sums + i, phase_sum(0, i));
        } else if (step == 2) {
          const float16v a = phase_sum(0, i), b = phase_sum(1, i);
          store16(sums + 2 * i, __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
          store16(sums + 2 * i + 16,
                  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
        } else {
          const int32_t n = quotients - i < 16 ? quotients - i : 16;
          for (int32_t phase = 0; phase < step; ++phase) {
            alignas(64) float part_sums[16];
            store16(part_sums, phase_sum(phase, i));
            for (int32_t j = 0; j < n; ++j) sums[(i + j) * step + phase] = part_sums[j];
          }
        }
      }
    for (int32_t i = 0; i < t.n; i += 16) pool_put(dst + i, load16(sums + skip + i), t.n - i);
  });
}

// A band of a plane along its first axis: zeros, then the gradients one after the other, as torch adds them. 16-bit
// types are summed as floats.
template <class T> void max_pool_back_scatter(const PoolArgs& p) {
  constexpr bool kSums = sizeof(T) == 2;
  float sums[kSums ? xpu_ops::kPoolBand : 16];
  const RowRange mine = group_rows(p.items);
  const uint32_t inner[3] = {static_cast<uint32_t>(p.in[1] * p.in[2]), static_cast<uint32_t>(p.in[2]), 1u};
  for (uint32_t item = mine.begin; item < mine.end; ++item) {
    const uint32_t plane = div(item, p.by_part), band = item - plane * p.by_part.d;
    const uint32_t size = static_cast<uint32_t>(p.in[p.axis]), begin = band * p.segment,
                   end = begin + p.segment < size ? begin + p.segment : size;
    const uint32_t slice = p.axis == 0 ? inner[0] : p.axis == 1 ? inner[1] : inner[2];
    const uint64_t first = static_cast<uint64_t>(begin) * slice, count = static_cast<uint64_t>(end - begin) * slice;
    const size_t volume = static_cast<size_t>(inner[0]) * static_cast<uint32_t>(p.in[0]);
    T* dst = static_cast<T*>(p.dst) + plane * volume + first;
    // The windows that may hold one of these.
    Span low, high;
    if (p.axis == 0)
      low = pool_cover<0>(p, static_cast<int32_t>(begin)), high = pool_cover<0>(p, static_cast<int32_t>(end) - 1);
    else if (p.axis == 1)
      low = pool_cover<1>(p, static_cast<int32_t>(begin)), high = pool_cover<1>(p, static_cast<int32_t>(end) - 1);
    else
      low = pool_cover<2>(p, static_cast<int32_t>(begin)), high = pool_cover<2>(p, static_cast<int32_t>(end) - 1);
    const bool all = p.by_part.d == 1;
    const uint32_t step = static_cast<uint32_t>(p.axis == 0 ? p.out[1] * p.out[2] : p.axis == 1 ? p.out[2] : 1);
    const size_t outputs = static_cast<size_t>(p.out[0]) * static_cast<uint32_t>(p.out[1] * p.out[2]);
    const size_t from = all ? 0 : static_cast<size_t>(low.begin) * step;
    const size_t to = all ? outputs : static_cast<size_t>(high.begin + high.count) * step;
    const T* src = static_cast<const T*>(p.src) + plane * outputs;
    const int64_t* indices = p.indices + plane * outputs;
    if constexpr (kSums) {
      for (uint64_t i = 0; i < count; i += 16) store16(sums + i, float16v(0));
      auto add = [&](size_t o, float g) {
        const uint64_t at = static_cast<uint64_t>(indices[o]) - first;
        if (at < count) sums[at] += g;
      };
      size_t o = from;
      for (float g[16]; o + 16 <= to; o += 16) {  // converted one by one they take three times as long
        store16(g, load16(src + o));
#pragma unroll
        for (int j = 0; j < 16; ++j) add(o + j, g[j]);
      }
      for (; o < to; ++o) add(o, static_cast<float>(pool_load(src, o)));
      for (uint64_t i = 0; i < count; i += 16) pool_put(dst + i, load16(sums + i), static_cast<int32_t>(count - i));
    } else {
      uint64_t zeros = 0;
      for (; zeros + 64 / sizeof(T) <= count; zeros += 64 / sizeof(T))
        store16(reinterpret_cast<float*>(dst + zeros), float16v(0));
      for (; zeros < count; ++zeros) dst[zeros] = 0;
      size_t o = from;
      for (; o + 4 <= to; o += 4) {
        uint64_t at[4];
        T g[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) at[j] = static_cast<uint64_t>(indices[o + j]) - first, g[j] = src[o + j];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (at[j] < count) dst[at[j]] += g[j];
      }
      for (; o < to; ++o) {
        const uint64_t at = static_cast<uint64_t>(indices[o]) - first;
        if (at < count) dst[at] += src[o];
      }
    }
  }
}

}  // namespace xpu
