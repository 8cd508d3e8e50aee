// Writes by index whose result does not depend on timing: one item owns a column and walks the indices in order.
#pragma once
#include "indexing.hpp"
#include "scatter_args.hpp"

namespace xpu {

using xpu_ops::ColumnArgs;
using xpu_ops::CountArgs;
using xpu_ops::SegmentArgs;
using xpu_ops::SegmentOp;

template <class T> inline bool is_nan(T v) {
  if constexpr (is_complex_v<T>)
    return v.re != v.re || v.im != v.im;
  else
    return v != v;
}
// NaN wins, as in torch's amax and amin.
template <class M> inline M nan_max(M a, M b) { return is_nan(a) || a > b ? a : b; }
template <class M> inline M nan_min(M a, M b) { return is_nan(a) || a < b ? a : b; }

struct OpAssign {
  template <class T> static T run(T, T b) { return b; }
};
struct OpAdd {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a || b;
    else
      return T(opmath_t<T>(a) + opmath_t<T>(b));
  }
};
struct OpMul {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a && b;
    else
      return T(opmath_t<T>(a) * opmath_t<T>(b));
  }
};
struct OpMax {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a || b;
    else
      return T(nan_max(opmath_t<T>(a), opmath_t<T>(b)));
  }
};
struct OpMin {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a && b;
    else
      return T(nan_min(opmath_t<T>(a), opmath_t<T>(b)));
  }
};

// Whether an index is one that an item takes: of [low, low + count), `wrap` added to a negative one. What does not
// change between indices is computed once.
XPU_INLINE bool takes(const ColumnArgs& p, int64_t& id, int64_t low, int64_t count, int64_t wrap) {
  const int64_t given = id;
  id += id < 0 ? wrap : 0;
  if (static_cast<uint64_t>(id - low) < static_cast<uint64_t>(count)) return given != p.skip;
  if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.index.size) && p.index.code != DeviceErrorCode::none)
    report_error(p.index.error, p.index.code, p.index.dim, given, p.index.size);
  return false;
}

template <class T, class Op, class Index>
XPU_INLINE void column_items(const ColumnArgs& p, int64_t low, int64_t count, int64_t wrap, T* data, const T* src,
                             const Index* index, bool inside) {
  const int64_t stride = p.index.stride, src_step = p.src_step, index_step = p.index_step;
  for (uint32_t j = 0; j < p.steps; ++j, index += index_step, src += src_step) {
    int64_t id = static_cast<int64_t>(*index);
    if (!takes(p, id, low, count, wrap) || !inside) continue;
    T* d = data + id * stride;
    *d = Op::run(*d, *src);
  }
}

template <class T, class Op>
XPU_INLINE void column_loop(const ColumnArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), i0 = item.get_group(1) * local, lane = item.get_local_id(1);
  uint32_t row = item.get_group(0), part = 0;
  if (p.parts > 1) {
    part = row % p.parts;
    row /= p.parts;
  }
  const int64_t low = part * p.part_size, count = low + p.part_size < p.index.size ? p.part_size : p.index.size - low,
                wrap = p.index.wrap ? p.index.size : 0;
  int64_t o[3] = {0, 0, 0};
  add_row(p.walk, row, o);
  const bool inside = i0 + lane < p.walk.inner;
  if (p.uniform && p.unit) {
    whole_or_part(i0 + local <= p.walk.inner, inside, item.get_local_range(0), [&] {
      T* data = static_cast<T*>(p.data) + o[0] + i0;
      const T* src = static_cast<const T*>(p.src) + o[1] + i0;
      for (uint32_t j = 0; j < p.steps; ++j) {
        int64_t id = load_index(p.index, o[2] + j * p.index_step);
        if (!takes(p, id, low, count, wrap)) continue;
        T* d = data + id * p.index.stride;
        const T* s = src + j * p.src_step;
        d[lane] = Op::run(d[lane], s[lane]);
      }
    });
    return;
  }
  // Items beyond the edge go along with the last one and write nothing: what is wanted differs between items anyway.
  uint32_t f[3];
  inner_offsets(p.walk, inside ? static_cast<uint32_t>(i0 + lane) : p.walk.inner - 1, f);
  T* data = static_cast<T*>(p.data) + (o[0] + f[0]);
  const T* src = static_cast<const T*>(p.src) + (o[1] + f[1]);
  const int64_t at = o[2] + f[2];
  if (p.index.is32)
    column_items<T, Op>(p, low, count, wrap, data, src, static_cast<const int32_t*>(p.index.ptr) + at, inside);
  else
    column_items<T, Op>(p, low, count, wrap, data, src, static_cast<const int64_t*>(p.index.ptr) + at, inside);
}

template <class T> inline void column_assign(const ColumnArgs& p) { column_loop<T, OpAssign>(p); }
template <class T> inline void column_add(const ColumnArgs& p) { column_loop<T, OpAdd>(p); }
template <class T> inline void column_mul(const ColumnArgs& p) { column_loop<T, OpMul>(p); }
template <class T> inline void column_max(const ColumnArgs& p) { column_loop<T, OpMax>(p); }
template <class T> inline void column_min(const ColumnArgs& p) { column_loop<T, OpMin>(p); }

// Each item counts a contiguous share of the indices in a table of its own.
inline void count_private(const CountArgs& p) {
  uint32_t t = global_id();
  if (t >= p.tables) return;
  uint32_t share = (p.n + p.tables - 1) / p.tables;
  uint32_t begin = t * share, end = begin + share < p.n ? begin + share : p.n;
  int64_t* mine = p.counts + static_cast<int64_t>(t) * p.bins;
  for (uint32_t b = 0; b < p.bins; ++b) mine[b] = 0;
  for (uint32_t i = begin; i < end; ++i) {
    int64_t id = p.is32 ? static_cast<int64_t>(static_cast<const int32_t*>(p.index)[i])
                        : static_cast<const int64_t*>(p.index)[i];
    if (static_cast<uint64_t>(id) < p.bins) ++mine[id];
  }
}

inline void count_merge(const CountArgs& p) {
  uint32_t b = global_id();
  if (b >= p.bins) return;
  int64_t sum = 0;
  for (uint32_t t = 0; t < p.tables; ++t) sum += p.counts[static_cast<int64_t>(t) * p.bins + b];
  p.out[b] = sum;
}

inline int64_t segment_offset(const SegmentArgs& p, uint32_t outer, uint32_t k) {
  int64_t at = static_cast<int64_t>(outer) * (p.segments + 1) + k;
  return p.is32 ? static_cast<int64_t>(static_cast<const int32_t*>(p.offsets)[at])
                : static_cast<const int64_t*>(p.offsets)[at];
}

// One item a (outer, segment, inner): rows (outer, segment), items inner.
template <class T>
inline void segment_reduce(const SegmentArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t i = item.get_global_id(1), row = item.get_group(0);
  if (i >= p.inner) return;
  uint32_t outer = row / p.segments, s = row % p.segments;
  int64_t begin = segment_offset(p, outer, s), end = segment_offset(p, outer, s + 1);
  const T* data = static_cast<const T*>(p.data) + static_cast<int64_t>(outer) * p.axis * p.inner + i;
  const M inf = M(__builtin_inff());
  M acc = p.has_initial             ? real_as<M>(p.initial)
          : p.op == SegmentOp::max  ? -inf
          : p.op == SegmentOp::min  ? inf
          : p.op == SegmentOp::prod ? M(1)
                                    : M(0);
  for (int64_t j = begin; j < end; ++j) {
    M v = M(data[j * p.inner]);
    if (p.op == SegmentOp::max)
      acc = is_nan(v) ? v : nan_max(acc, v);
    else if (p.op == SegmentOp::min)
      acc = is_nan(v) ? v : nan_min(acc, v);
    else if (p.op == SegmentOp::prod)
      acc *= v;
    else
      acc += v;
  }
  int64_t length = end - begin;
  if (p.op == SegmentOp::mean) {
    if (length == 0 && !p.has_initial)
      acc = M(__builtin_nanf(""));
    else if (length > 0 && !is_nan(acc))
      acc = acc / M(length);
  }
  static_cast<T*>(p.out)[static_cast<int64_t>(row) * p.inner + i] = T(acc);
}

template <class T>
inline void segment_reduce_backward(const SegmentArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t i = item.get_global_id(1), row = item.get_group(0);
  if (i >= p.inner) return;
  uint32_t outer = row / p.segments, s = row % p.segments;
  int64_t begin = segment_offset(p, outer, s), end = segment_offset(p, outer, s + 1);
  if (begin >= end) return;
  int64_t base = static_cast<int64_t>(outer) * p.axis * p.inner + i, at = static_cast<int64_t>(row) * p.inner + i;
  const T* data = static_cast<const T*>(p.data) + base;
  T* result = static_cast<T*>(p.result) + base;
  M grad = M(static_cast<const T*>(p.grad)[at]), out = M(static_cast<const T*>(p.out)[at]);
  if (p.op == SegmentOp::max || p.op == SegmentOp::min) {
    uint32_t equal = 0;
    for (int64_t j = begin; j < end; ++j) {
      M v = M(data[j * p.inner]);
      if (v == out || is_nan(v)) {
        result[j * p.inner] = T(grad);
        ++equal;
      }
    }
    // As on the CPU, only a positive gradient is shared among equal elements.
    if (equal > 1 && grad > M(0))
      for (int64_t j = begin; j < end; ++j)
        if (M v = M(data[j * p.inner]); v == out || is_nan(v)) result[j * p.inner] = T(grad / M(equal));
  } else if (p.op == SegmentOp::mean) {
    for (int64_t j = begin; j < end; ++j) result[j * p.inner] = T(grad / M(end - begin));
  } else if (p.op == SegmentOp::sum) {
    for (int64_t j = begin; j < end; ++j) result[j * p.inner] = T(grad);
  } else {
    const M initial = p.has_initial ? real_as<M>(p.initial) : M(1);
    for (int64_t j = begin; j < end; ++j) {
      M v = M(data[j * p.inner]);
      if (is_nan(v) || v == M(0)) {
        M others = initial;
        for (int64_t k = begin; k < end; ++k)
          if (k != j) others *= M(data[k * p.inner]);
        result[j * p.inner] = T(grad * others);
      } else {
        result[j * p.inner] = T(grad * out / v);
      }
    }
  }
}

}  // namespace xpu
