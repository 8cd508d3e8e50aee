// Products of two compressed matrices, row by row (Gustavson): an item has a row of sums of its own and a set of the
// columns that are in use, as bits, and a bit for each word of those. The set gives the columns in their order.
#pragma once
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/sparse/sparse_args.hpp"

namespace xpu {

using xpu_ops::SpgemmArgs;

struct ColumnSet {
  uint64_t *words, *top;
  uint32_t top_words;
  ColumnSet(uint64_t* seen, uint32_t columns, uint32_t item) {
    const uint32_t n = (columns + 63) / 64;
    top_words = (n + 63) / 64;
    words = seen + static_cast<size_t>(item) * (n + top_words);
    top = words + n;
    for (uint32_t i = 0; i < n + top_words; ++i) words[i] = 0;
  }
  // Whether the column is new.
  XPU_INLINE bool add(uint64_t column) {
    const uint64_t bit = uint64_t{1} << (column & 63), w = column >> 6, had = words[w];
    if (had & bit) return false;
    words[w] = had | bit;
    top[w >> 6] |= uint64_t{1} << (w & 63);
    return true;
  }
  // Calls f(column) in rising order and empties the set.
  template <class F> XPU_INLINE void take(F f) {
    for (uint32_t t = 0; t < top_words; ++t) {
      for (uint64_t used = top[t]; used != 0; used &= used - 1) {
        const uint64_t w = t * uint64_t{64} + sycl::ctz(used);
        for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) f(w * 64 + sycl::ctz(bits));
        words[w] = 0;
      }
      top[t] = 0;
    }
  }
};

// Pointers of an unchecked tensor may be wrong.
struct ElementRange { int64_t begin, end; };
XPU_INLINE ElementRange elements_of(const int64_t* crow, int64_t row, int64_t nnz) {
  return {crow[row] < 0 ? 0 : crow[row], crow[row + 1] > nnz ? nnz : crow[row + 1]};
}

// Calls f(column, j, k) for every pair of elements j of a's row and k of b that meet.
template <class F> XPU_INLINE void for_products(const SpgemmArgs& p, uint32_t row, F f) {
  const ElementRange own = elements_of(p.a_crow, row, p.a_nnz);
  for (int64_t j = own.begin; j < own.end; ++j) {
    const int64_t inner = p.a_col[j];
    if (static_cast<uint64_t>(inner) >= p.inner) {
      report_error(p.error, DeviceErrorCode::index_runtime, 1, inner, p.inner);
      continue;
    }
    const ElementRange other = elements_of(p.b_crow, inner, p.b_nnz);
    for (int64_t k = other.begin; k < other.end; ++k) {
      const int64_t column = p.b_col[k];
      if (static_cast<uint64_t>(column) < p.columns)
        f(static_cast<uint64_t>(column), j, k);
      else
        report_error(p.error, DeviceErrorCode::index_runtime, 1, column, p.columns);
    }
  }
}

inline void spgemm_count(const SpgemmArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.rows ? first + p.chunk : p.rows;
  if (p.few) {  // the last row that met each column: nothing to branch on and nothing to clear
    uint32_t* met = static_cast<uint32_t*>(p.sums) + static_cast<size_t>(item) * p.columns;
    for (uint32_t c = 0; c < p.columns; ++c) met[c] = 0;
    for (uint32_t row = first; row < last; ++row) {
      int64_t n = 0;
      for_products(p, row, [&](uint64_t column, int64_t, int64_t) {
        n += met[column] != row + 1 ? 1 : 0;
        met[column] = row + 1;
      });
      p.counts[row] = n;
    }
    return;
  }
  ColumnSet set(p.seen, p.columns, item);
  for (uint32_t row = first; row < last; ++row) {
    int64_t n = 0;
    for_products(p, row, [&](uint64_t column, int64_t, int64_t) { n += set.add(column) ? 1 : 0; });
    set.take([](uint64_t) {});
    p.counts[row] = n;
  }
}

template <class T> void spgemm_fill(const SpgemmArgs& p) {
  using A = typename accumulator<T>::type;
  const uint32_t item = global_id();
  if (item >= p.items) return;
  ColumnSet set(p.seen, p.columns, item);
  const T *a = static_cast<const T*>(p.a_values), *b = static_cast<const T*>(p.b_values);
  A* sums = static_cast<A*>(p.sums) + static_cast<size_t>(item) * p.columns;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.rows ? first + p.chunk : p.rows;
  for (uint32_t row = first; row < last; ++row) {
    for_products(p, row, [&](uint64_t column, int64_t j, int64_t k) {
      const A v = static_cast<A>(a[j]) * static_cast<A>(b[k]);
      sums[column] = set.add(column) ? v : sums[column] + v;
    });
    int64_t at = p.crow[row];
    if (p.out_row)
      for (int64_t k = at; k < p.crow[row + 1]; ++k) p.out_row[k] = row;
    set.take([&](uint64_t column) {
      p.out_col[at] = static_cast<int64_t>(column);
      static_cast<T*>(p.out)[at] = static_cast<T>(sums[column]);
      ++at;
    });
  }
}

}  // namespace xpu
