// Sums of two compressed matrices by merging their rows, and the elements that an index names. An item has some rows in
// turn; the sizes of all are counted first and added up by run_scan.
#pragma once
#include "kernels/sycl/sparse/spgemm.hpp"

namespace xpu {

using xpu_ops::CsrMergeArgs;
using xpu_ops::RangeArgs;

// A value that makes the sum of all counts negative, while no sum of as many as there are items overflows.
inline constexpr int64_t kRefused = -(int64_t{1} << 48);

template <class I> struct MergeRow {
  const I *a, *b;
  int64_t i, a_end, j, b_end;
  MergeRow(const CsrMergeArgs& p, uint32_t row) : a(static_cast<const I*>(p.a_col)), b(static_cast<const I*>(p.b_col)) {
    const I *a_crow = static_cast<const I*>(p.a_crow), *b_crow = static_cast<const I*>(p.b_crow);
    i = a_crow[row] < 0 ? 0 : a_crow[row], a_end = a_crow[row + 1] > p.a_nnz ? p.a_nnz : a_crow[row + 1];
    j = b_crow[row] < 0 ? 0 : b_crow[row], b_end = b_crow[row + 1] > p.b_nnz ? p.b_nnz : b_crow[row + 1];
    a_end = a_end < i ? i : a_end, b_end = b_end < j ? j : b_end;
  }
  bool both() const { return i < a_end && j < b_end; }
};

template <class I> XPU_INLINE bool rises(const I* x, int64_t begin, int64_t end) {
  bool fine = true;
  for (int64_t k = begin + 1; k < end; ++k) fine &= x[k - 1] < x[k];
  return fine;
}

// Rows whose columns do not rise are refused. Both sides move on without a branch, which would be a coin toss.
template <class I> XPU_INLINE void csr_merge_count_of(const CsrMergeArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.rows ? first + p.chunk : p.rows;
  int64_t n = 0;
  bool fine = true;
  for (uint32_t row = first; row < last; ++row) {
    MergeRow<I> r(p, row);
    fine &= rises(r.a, r.i, r.a_end) & rises(r.b, r.j, r.b_end);
    for (; r.both(); ++n) {
      const I a = r.a[r.i], b = r.b[r.j];
      r.i += a <= b, r.j += b <= a;
    }
    n += (r.a_end - r.i) + (r.b_end - r.j);
  }
  p.counts[item] = fine ? n : kRefused;
}
inline void csr_merge_count(const CsrMergeArgs& p) {
  if (p.is32)
    csr_merge_count_of<int32_t>(p);
  else
    csr_merge_count_of<int64_t>(p);
}

template <class T, class I> XPU_INLINE void csr_merge_fill_of(const CsrMergeArgs& p) {
  using A = typename accumulator<T>::type;
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.rows ? first + p.chunk : p.rows;
  I *crow = static_cast<I*>(p.crow), *col = static_cast<I*>(p.col);
  T* out = static_cast<T*>(p.out);
  const T *a_values = static_cast<const T*>(p.a_values), *b_values = static_cast<const T*>(p.b_values);
  int64_t n = p.counts[item];
  if (item == 0) crow[0] = 0;
  for (uint32_t row = first; row < last; ++row) {
    MergeRow<I> r(p, row);
    for (; r.both(); ++n) {
      const I a = r.a[r.i], b = r.b[r.j];
      const A x = static_cast<A>(a_values[r.i]), y = static_cast<A>(b_values[r.j]);
      const bool left = a <= b, right = b <= a;
      col[n] = left ? a : b;
      out[n] = static_cast<T>((left ? x : A(0)) + (right ? y : A(0)));
      r.i += left, r.j += right;
    }
    for (; r.i < r.a_end; ++r.i, ++n) col[n] = r.a[r.i], out[n] = a_values[r.i];
    for (; r.j < r.b_end; ++r.j, ++n) col[n] = r.b[r.j], out[n] = b_values[r.j];
    crow[row + 1] = static_cast<I>(n);
  }
}
template <class T> void csr_merge_fill(const CsrMergeArgs& p) {
  if (p.is32)
    csr_merge_fill_of<T, int32_t>(p);
  else
    csr_merge_fill_of<T, int64_t>(p);
}

// --- ranges [pointers[index], pointers[index + 1]) one after the other ---

struct NamedRange {
  int64_t begin, end;
  bool fine;
};
XPU_INLINE NamedRange named_range(const RangeArgs& p, uint32_t i) {
  int64_t at = p.index[i * p.stride];
  if (p.wrap && at < 0) at += p.size;
  if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(p.size)) return {0, 0, false};
  return {p.pointers[at], p.pointers[at + 1], true};
}

inline void range_count(const RangeArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.n ? first + p.chunk : p.n;
  int64_t n = 0;
  bool fine = true;
  for (uint32_t i = first; i < last; ++i) {
    const NamedRange r = named_range(p, i);
    n += r.end - r.begin;
    fine &= r.fine;
  }
  p.counts[item] = fine ? n : kRefused;
}

inline void range_fill(const RangeArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.n ? first + p.chunk : p.n;
  int64_t n = p.counts[item];
  for (uint32_t i = first; i < last; ++i) {
    const NamedRange r = named_range(p, i);
    for (int64_t j = r.begin; j < r.end; ++j, ++n) p.element[n] = j, p.owner[n] = i;
  }
}

}  // namespace xpu
