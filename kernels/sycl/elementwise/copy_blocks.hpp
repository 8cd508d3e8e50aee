// Copies between layouts whose dense dimensions differ, on vectors of a CPU device: one item per part, elements change
// places in registers. At the end of copy.hpp.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/lane_row.hpp"
#include "kernels/sycl/elementwise/copy_args.hpp"

namespace xpu {

// One exchange of the butterfly: lanes whose bit S is set change places between rows that are S apart.
template <int S, int N, class V, int... L>
inline void exchange(V& a, V& b, LaneList<int, L...>) {
  const V lo = __builtin_shufflevector(a, b, ((L & S) ? N + L - S : L)...);
  const V hi = __builtin_shufflevector(a, b, ((L & S) ? N + L : L + S)...);
  a = lo, b = hi;
}
template <int S, int N, class V>
inline void exchange_rows(V (&rows)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (!(i & S)) exchange<S, N>(rows[i], rows[i + S], lane_list<N>{});
}

// N x N elements from rows of `src` to rows of `dst`, by log2(N) exchanges of every row.
template <int N, class T>
inline void transpose_block(T* dst, int64_t to, const T* src, int64_t from) {
  lane_row<T, N> rows[N];
#pragma unroll
  for (int i = 0; i < N; ++i) rows[i] = load_row<lane_row<T, N>>(src + i * from);
  if constexpr (N > 8) exchange_rows<8>(rows);
  if constexpr (N > 4) exchange_rows<4>(rows);
  exchange_rows<2>(rows);
  exchange_rows<1>(rows);
#pragma unroll
  for (int i = 0; i < N; ++i) store_row(dst + i * to, rows[i]);
}

// 2-D. Dimension 0 is dense in dst, dimension 1 in src, both at least a block long. An item moves one tile; the last
// block of a dimension overlaps the one before it.
template <class T, int N>
void copy_blocks(const CopyArgs& p) {
  constexpr uint32_t kTile = xpu_ops::kCopyTile;
  auto it = syclex::this_work_item::get_nd_item<2>();
  const uint32_t n0 = p.size[0].d, n1 = p.size[1].d, tiles = (n1 + kTile - 1) / kTile, y = it.get_group(0),
                 batch = y / tiles, i0 = it.get_group(1) * kTile, j0 = (y - batch * tiles) * kTile,
                 i1 = i0 + kTile < n0 ? i0 + kTile : n0, j1 = j0 + kTile < n1 ? j0 + kTile : n1;
  const Offsets o = copy_offsets<2, xpu_ops::kCopyDims>(p, batch);
  const int64_t to = p.dst_stride[1], from = p.src_stride[0];
  T* dst = static_cast<T*>(p.dst) + o.dst;
  const T* src = static_cast<const T*>(p.src) + o.src;
  for (uint32_t j = j0; j < j1; j += N) {
    const int64_t row = j + N <= n1 ? j : n1 - N;
    for (uint32_t i = i0; i < i1; i += N) {
      const int64_t column = i + N <= n0 ? i : n0 - N;
      transpose_block<N>(dst + row * to + column, to, src + column * from + row, from);
    }
  }
}

// Lane L of the result is lane l of row r, where l + N * r is `source(L)`; rows are joined one after the other.
template <int N, int R, class F, class V, int... L>
inline V pick_lanes(const V (&rows)[R], F, LaneList<int, L...>) {
  V v = __builtin_shufflevector(rows[0], rows[1], (F::source(L) < 2 * N ? F::source(L) : -1)...);
  if constexpr (R > 2)
    v = __builtin_shufflevector(v, rows[2], (F::source(L) >= 2 * N && F::source(L) < 3 * N ? F::source(L) - N : L)...);
  if constexpr (R > 3) v = __builtin_shufflevector(v, rows[3], (F::source(L) >= 3 * N ? F::source(L) - 2 * N : L)...);
  return v;
}
// Row K of C rows that hold columns side by side, C elements each, from C rows of channels; and channel K from them.
template <int N, int C, int K> struct Join {
  static constexpr int source(int lane) { return (K * N + lane) % C * N + (K * N + lane) / C; }
};
template <int N, int C, int K> struct Part {
  static constexpr int source(int lane) { return lane * C + K; }
};

template <int N, int C, template <int, int, int> class Source, class V, int... K>
inline void mix_rows(const V (&in)[C], V (&out)[C], LaneList<int, K...>) {
  ((out[K] = pick_lanes<N>(in, Source<N, C, K>{}, lane_list<N>{})), ...);
}

// 2-D. Calls f(row of dst, row of src, c0, c1) for the rows of an item over its part of dimension 0. Rows are counted
// by dimensions FIRST and up, the first of them without a division per row.
template <class T, int FIRST, class Fn>
inline void for_rows(const CopyArgs& p, Fn f) {
  auto it = syclex::this_work_item::get_nd_item<2>();
  const uint32_t c0 = it.get_group(1) * xpu_ops::kRowColumns, n = p.size[0].d,
                 c1 = c0 + xpu_ops::kRowColumns < n ? c0 + xpu_ops::kRowColumns : n;
  uint32_t row = it.get_group(0) * p.group, end = row + p.group < p.n ? row + p.group : p.n;
  const int64_t to = p.dst_stride[FIRST], from = p.src_stride[FIRST];
  while (row < end) {
    const Offsets o = copy_offsets<FIRST, xpu_ops::kCopyDims>(p, row);
    const uint32_t left = p.size[FIRST].d - (row - xpu_ops::div(row, p.size[FIRST]) * p.size[FIRST].d),
                   count = left < end - row ? left : end - row;
    T* dst = static_cast<T*>(p.dst) + o.dst;
    const T* src = static_cast<const T*>(p.src) + o.src;
    for (uint32_t i = 0; i < count; ++i) f(dst + i * to, src + i * from, c0, c1);
    row += count;
  }
}

// 2-D. Dimension 1 has C elements. JOIN: they are side by side in dst, dimension 0 is dense in src; else the reverse.
template <class T, int C, bool JOIN>
inline void copy_channels(const CopyArgs& p) {
  constexpr int N = 16;
  using V = lane_row<T, N>;
  const int64_t to = JOIN ? N : p.dst_stride[1], from = JOIN ? p.src_stride[1] : N;
  for_rows<T, 2>(p, [&](T* dst, const T* src, uint32_t c0, uint32_t c1) {
    uint32_t c = c0;
    for (; c + N <= c1; c += N) {
      V in[C], out[C];
      T* d = dst + size_t{c} * (JOIN ? C : 1);
      const T* s = src + size_t{c} * (JOIN ? 1 : C);
#pragma unroll
      for (int k = 0; k < C; ++k) in[k] = load_row<V>(s + k * from);
      if constexpr (JOIN)
        mix_rows<N, C, Join>(in, out, lane_list<C>{});
      else
        mix_rows<N, C, Part>(in, out, lane_list<C>{});
#pragma unroll
      for (int k = 0; k < C; ++k) store_row(d + k * to, out[k]);
    }
    for (; c < c1; ++c)
      for (int k = 0; k < C; ++k) {
        if constexpr (JOIN)
          dst[size_t{c} * C + k] = src[k * from + c];
        else
          dst[k * to + c] = src[size_t{c} * C + k];
      }
  });
}

template <class T, int C>
void copy_join(const CopyArgs& p) {
  copy_channels<T, C, true>(p);
}
template <class T, int C>
void copy_part(const CopyArgs& p) {
  copy_channels<T, C, false>(p);
}

// Every C-th element of src. The last block stays an element at a time: a vector would read past the end.
template <class T, int C>
void copy_picks(const CopyArgs& p) {
  constexpr int N = 16;
  using V = lane_row<T, N>;
  for_rows<T, 1>(p, [&](T* dst, const T* src, uint32_t c0, uint32_t c1) {
    uint32_t c = c0;
    for (; c + N < c1; c += N) {
      V in[C];
#pragma unroll
      for (int k = 0; k < C; ++k) in[k] = load_row<V>(src + size_t{c} * C + k * N);
      store_row(dst + c, pick_lanes<N>(in, Part<N, C, 0>{}, lane_list<N>{}));
    }
    for (; c < c1; ++c) dst[c] = src[size_t{c} * C];
  });
}

// `n` elements, at least N. The last vector overlaps the one before it.
template <uint32_t N, class T> XPU_INLINE void copy_span(T* dst, const T* src, uint32_t n) {
  using V = lane_row<T, N>;
  const V last = load_row<V>(src + n - N);
  for (uint32_t c = 0; c + N <= n; c += N) store_row(dst + c, load_row<V>(src + c));
  store_row(dst + n - N, last);
}

// Rows that are dense on both sides, or one element repeated.
template <class T>
void copy_spans(const CopyArgs& p) {
  constexpr uint32_t N = 16;
  using V = lane_row<T, N>;
  const bool repeated = p.src_stride[0] == 0;
  for_rows<T, 1>(p, [&](T* dst, const T* src, uint32_t c0, uint32_t c1) {
    const uint32_t n = c1 - c0;
    if (repeated && n >= N) {
      const V v = *src;
      for (uint32_t c = c0; c + N <= c1; c += N) store_row(dst + c, v);
      store_row(dst + c1 - N, v);
    } else if (repeated || n < 4) {
      for (uint32_t c = c0; c < c1; ++c) dst[c] = src[repeated ? 0 : c];
    } else if (n < 8) {
      copy_span<4>(dst + c0, src + c0, n);
    } else if (n < N) {
      copy_span<8>(dst + c0, src + c0, n);
    } else {
      copy_span<N>(dst + c0, src + c0, n);
    }
  });
}

}  // namespace xpu
