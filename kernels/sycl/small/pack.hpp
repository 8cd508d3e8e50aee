// Batches of small matrices: as many matrices at a time as a vector has lanes, each in a lane of its own. A routine is
// written once for packs, where a pack is a vector (a CPU device, work-groups of one item) or one element (one matrix
// per work-item). Matrices are transposed to packs when they are loaded and back when they are stored.
#pragma once
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/products/linalg_args.hpp"

namespace xpu::small {

using xpu_ops::SmallArgs;
using xpu_ops::SmallMatrices;

using double4v = double __attribute__((ext_vector_type(4)));
using double8v = double __attribute__((ext_vector_type(8)));
using double4u __attribute__((ext_vector_type(4), aligned(8))) = double;

template <class T> struct Lanes;
template <> struct Lanes<float> {
  using T = float;
  using V = float16v;
  using Four = float4v;
  using FourAnywhere = float4u;
  static constexpr int lanes = 16;
};
template <> struct Lanes<double> {
  using T = double;
  using V = double8v;
  using Four = double4v;
  using FourAnywhere = double4u;
  static constexpr int lanes = 8;
};
template <class Element> struct One {
  using T = Element;
  using V = Element;
  static constexpr int lanes = 1;
};

// A matrix of packs.
template <class P> struct Tile {
  typename P::V* p;
  size_t row, column;
  XPU_INLINE typename P::V& operator()(size_t i, size_t j) const { return p[i * row + j * column]; }
  XPU_INLINE Tile transposed() const { return {p, column, row}; }
};

// The matrices that a worker has at a time, and its scratch memory. `step` is the distance of two packs there.
template <class P> struct Work {
  typename P::V* scratch;
  size_t step;
  int64_t first;
  int count;  // lanes that have a matrix

  // By columns. An odd distance of columns keeps the elements of a row in different sets of the cache.
  XPU_INLINE Tile<P> tile(int rows, int columns) {
    const size_t distance = static_cast<size_t>(rows | 1);
    Tile<P> t{scratch, step, distance * step};
    scratch += distance * step * static_cast<size_t>(columns);
    return t;
  }
};

XPU_INLINE float lane(float v, int) { return v; }
XPU_INLINE double lane(double v, int) { return v; }
XPU_INLINE float lane(float16v v, int l) { return v[l]; }
XPU_INLINE double lane(double8v v, int l) { return v[l]; }

XPU_INLINE bool any(bool b) { return b; }
// Masks are 0 or -1. They are added as numbers: the optimizer reads an `or` of them as the bits of a vector of bool,
// which has none in SPIR-V.
template <class V> XPU_INLINE bool any_number(V v) {
  constexpr int half = sizeof(v) / sizeof(v[0]) / 2;
  if constexpr (half == 8) {
    return any_number(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  } else {
    static_assert(half == 4);
    const auto four = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
    const auto two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
    return two[0] + two[1] != 0;
  }
}
template <class Mask> XPU_INLINE bool any(Mask m) {
  constexpr int lanes = sizeof(Mask) / sizeof(m[0]);
  if constexpr (lanes == 16) {
    return any_number(__builtin_convertvector(m, float16v));
  } else {
    return any_number(__builtin_convertvector(m, double8v));
  }
}

// Four vectors of fours, r[e] lane 4 g + k = q[k] lane 4 g + e. It is its own inverse.
XPU_INLINE void swap_fours(float16v* q) {
  const auto low = [](float16v a, float16v b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
  };
  const auto high = [](float16v a, float16v b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  };
  const float16v a = low(q[0], q[1]), b = high(q[0], q[1]), c = low(q[2], q[3]), d = high(q[2], q[3]);
  const auto first = [](float16v x, float16v y) __attribute__((always_inline)) {
    return __builtin_shufflevector(x, y, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
  };
  const auto second = [](float16v x, float16v y) __attribute__((always_inline)) {
    return __builtin_shufflevector(x, y, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  };
  q[0] = first(a, c), q[1] = first(b, d), q[2] = second(a, c), q[3] = second(b, d);
}
XPU_INLINE void swap_fours(double8v* q) {
  const double8v a = __builtin_shufflevector(q[0], q[1], 0, 8, 2, 10, 4, 12, 6, 14),
                 b = __builtin_shufflevector(q[0], q[1], 1, 9, 3, 11, 5, 13, 7, 15),
                 c = __builtin_shufflevector(q[2], q[3], 0, 8, 2, 10, 4, 12, 6, 14),
                 d = __builtin_shufflevector(q[2], q[3], 1, 9, 3, 11, 5, 13, 7, 15);
  q[0] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
  q[1] = __builtin_shufflevector(b, d, 0, 1, 8, 9, 4, 5, 12, 13);
  q[2] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
  q[3] = __builtin_shufflevector(b, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

XPU_INLINE double8v joined(const double4v* x) { return __builtin_shufflevector(x[0], x[4], 0, 1, 2, 3, 4, 5, 6, 7); }
XPU_INLINE float16v joined(const float4v* x) {
  const auto low = __builtin_shufflevector(x[0], x[4], 0, 1, 2, 3, 4, 5, 6, 7),
             high = __builtin_shufflevector(x[8], x[12], 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
XPU_INLINE void split(float16v v, float4v* x) {
  x[0] = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  x[4] = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  x[8] = __builtin_shufflevector(v, v, 8, 9, 10, 11);
  x[12] = __builtin_shufflevector(v, v, 12, 13, 14, 15);
}
XPU_INLINE void split(double8v v, double4v* x) {
  x[0] = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  x[4] = __builtin_shufflevector(v, v, 4, 5, 6, 7);
}

// Four adjacent elements of every matrix as four packs, and back.
template <class P> XPU_INLINE void load_fours(typename P::T* const* at, size_t k, typename P::V* q) {
  typename P::Four x[P::lanes];
#pragma unroll
  for (int l = 0; l < P::lanes; ++l) x[l] = *reinterpret_cast<const typename P::FourAnywhere*>(at[l] + k);
#pragma unroll
  for (int e = 0; e < 4; ++e) q[e] = joined(x + e);
  swap_fours(q);
}
template <class P> XPU_INLINE void store_fours(typename P::T* const* at, size_t k, typename P::V* q, int count) {
  typename P::Four x[P::lanes];
  swap_fours(q);
#pragma unroll
  for (int e = 0; e < 4; ++e) split(q[e], x + e);
#pragma unroll
  for (int l = 0; l < P::lanes; ++l) {
    if (l < count) *reinterpret_cast<typename P::FourAnywhere*>(at[l] + k) = x[l];
  }
}

// The memory of a pack's matrices as lines of adjacent elements; one line where a matrix has no gaps.
template <class P> struct Lines {
  using T = typename P::T;
  T* at[P::lanes];
  size_t lines, length, line_step, step;  // in memory
  size_t fast, tile_fast, tile_slow;      // elements and steps of the tile

  XPU_INLINE Lines(const Work<P>& w, const SmallMatrices& m, const Tile<P>& t) {
    const bool by_rows = m.column == 1;
    fast = static_cast<size_t>(by_rows ? m.columns : m.rows);
    lines = static_cast<size_t>(by_rows ? m.rows : m.columns);
    line_step = static_cast<size_t>(by_rows ? m.row : m.column);
    step = static_cast<size_t>(by_rows ? m.column : m.row);
    tile_fast = by_rows ? t.column : t.row;
    tile_slow = by_rows ? t.row : t.column;
    length = fast;
    if (step == 1 && line_step == fast) {
      length = fast * lines;
      lines = lines > 0 ? 1 : 0;
    }
#pragma unroll
    for (int l = 0; l < P::lanes; ++l)
      at[l] = static_cast<T*>(m.data) + (w.first + (l < w.count ? l : w.count - 1)) * m.batch;
  }
};

// Lanes without a matrix get that of the last one.
template <class P> XPU_INLINE void load(const Work<P>& w, const SmallMatrices& m, Tile<P> t) {
  const Lines<P> s(w, m, t);
  for (size_t line = 0; line < s.lines; ++line) {
    size_t k = 0, inner = 0, start = line * s.tile_slow;
    const auto put = [&](typename P::V v) __attribute__((always_inline)) {
      t.p[start + inner * s.tile_fast] = v;
      if (++inner == s.fast) inner = 0, start += s.tile_slow;
    };
    if constexpr (P::lanes > 1) {
      for (; s.step == 1 && k + 4 <= s.length; k += 4) {
        typename P::V q[4];
        load_fours<P>(s.at, line * s.line_step + k, q);
#pragma unroll
        for (int e = 0; e < 4; ++e) put(q[e]);
      }
    }
    for (; k < s.length; ++k) {
      const size_t place = line * s.line_step + k * s.step;
      typename P::V v;
      if constexpr (P::lanes == 1) {
        v = s.at[0][place];
      } else {
#pragma unroll
        for (int l = 0; l < P::lanes; ++l) v[l] = s.at[l][place];
      }
      put(v);
    }
  }
}

template <class P> XPU_INLINE void store(const Work<P>& w, Tile<P> t, const SmallMatrices& m) {
  if (!m.data) return;
  const Lines<P> s(w, m, t);
  for (size_t line = 0; line < s.lines; ++line) {
    size_t k = 0, inner = 0, start = line * s.tile_slow;
    const auto next = [&]() __attribute__((always_inline)) {
      const typename P::V v = t.p[start + inner * s.tile_fast];
      if (++inner == s.fast) inner = 0, start += s.tile_slow;
      return v;
    };
    if constexpr (P::lanes > 1) {
      for (; s.step == 1 && k + 4 <= s.length; k += 4) {
        typename P::V q[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) q[e] = next();
        store_fours<P>(s.at, line * s.line_step + k, q, w.count);
      }
    }
    for (; k < s.length; ++k) {
      const size_t place = line * s.line_step + k * s.step;
      const typename P::V v = next();
#pragma unroll
      for (int l = 0; l < P::lanes; ++l) {
        if (l < w.count) s.at[l][place] = lane(v, l);
      }
    }
  }
}

// Value i of `each` per matrix.
template <class P, class Out> XPU_INLINE void put(const Work<P>& w, Out* out, int each, int i, typename P::V v) {
  if (!out) return;
#pragma unroll
  for (int l = 0; l < P::lanes; ++l) {
    if (l < w.count) out[(w.first + l) * each + i] = static_cast<Out>(lane(v, l));
  }
}
template <class P> XPU_INLINE typename P::V get(const Work<P>& w, const typename P::T* in, int each, int i) {
  typename P::V v;
  if constexpr (P::lanes == 1) {
    v = in[w.first * each + i];
  } else {
#pragma unroll
    for (int l = 0; l < P::lanes; ++l) v[l] = in[(w.first + (l < w.count ? l : w.count - 1)) * each + i];
  }
  return v;
}

// The vectors of a CPU device: a work-group of one item takes every workers-th pack of matrices.
template <class T, class Routine> XPU_INLINE void run_packs(const SmallArgs& p) {
  using P = Lanes<T>;
  const uint32_t worker = group_id();
  const int64_t packs = (p.count + P::lanes - 1) / P::lanes;
  for (int64_t pack = worker; pack < packs; pack += p.workers) {
    const int64_t first = pack * P::lanes, left = p.count - first;
    Work<P> w{static_cast<typename P::V*>(p.scratch) + int64_t{worker} * p.elements, 1, first,
              static_cast<int>(left < P::lanes ? left : P::lanes)};
    Routine::template run<P>(w, p);
  }
}

// A work-item takes every workers-th matrix. Its packs lie between those of its neighbours.
template <class T, class Routine> XPU_INLINE void run_items(const SmallArgs& p) {
  const uint32_t worker = global_id();
  if (worker >= p.workers) return;
  for (int64_t b = worker; b < p.count; b += p.workers) {
    Work<One<T>> w{static_cast<T*>(p.scratch) + worker, p.workers, b, 1};
    Routine::template run<One<T>>(w, p);
  }
}

}  // namespace xpu::small
