// Sparse tensors: sorted keys and sums of equal ones (coalesce), row pointers, products of compressed rows with a dense
// matrix. Sums run in the order of the elements, so results do not depend on timing.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/products/matmul.hpp"
#include "kernels/sycl/sparse/sparse_args.hpp"

namespace xpu {

using xpu_ops::CompressArgs;
using xpu_ops::DenseAtArgs;
using xpu_ops::KeyArgs;
using xpu_ops::KeyFindArgs;
using xpu_ops::KeyRunArgs;
using xpu_ops::RadixArgs;
using xpu_ops::RowPlaceArgs;
using xpu_ops::RunSumArgs;
using xpu_ops::SampledArgs;
using xpu_ops::Sorted;
using xpu_ops::SpmmArgs;
using xpu_ops::SpmmReduce;
using xpu_ops::SpmmReduceArgs;

// --- keys ---

inline void coo_key(const KeyArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  int64_t id = p.index[i * p.stride];
  if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.size)) {
    report_error(p.error, DeviceErrorCode::index_runtime, p.dim, id, p.size);
    id = 0;
  }
  uint64_t key = (p.first ? 0 : p.keys[i] * p.size) + id;
  p.keys[i] = p.pack ? (key << p.pack) | i : key;
}

// The values of a dense tensor where the elements are; an item has some in turn.
template <class T, uint32_t kDims> XPU_INLINE void dense_at_of(const DenseAtArgs& p) {
  const uint32_t first = global_id() * p.chunk, last = first + p.chunk < p.n ? first + p.chunk : p.n;
  const int64_t step = p.index_step;
  for (size_t i = first; i < last; ++i) {
    int64_t at = 0;
#pragma unroll
    for (uint32_t d = 0; d < kDims; ++d) {
      int64_t id = (p.index + d * p.index_stride)[i * step];
      if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.size[d])) {
        report_error(p.error, DeviceErrorCode::index_runtime, d, id, p.size[d]);
        id = 0;
      }
      at += id * p.stride[d];
    }
    static_cast<T*>(p.out)[i] = static_cast<const T*>(p.dense)[at];
  }
}
template <class T> void dense_at(const DenseAtArgs& p) {
  if (p.dims == 1)
    dense_at_of<T, 1>(p);
  else if (p.dims == 2)
    dense_at_of<T, 2>(p);
  else
    dense_at_of<T, xpu_ops::kDenseAtDims>(p);
}

// Row and column of every place of some dense rows, a group for each.
inline void row_places(const RowPlaceArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = it.get_local_id(0), lanes = it.get_local_range(0), row = it.get_group(0);
  const int64_t number = p.row[row];
  int64_t *rows = p.out_row + row * p.columns, *columns = p.out_column + row * p.columns;
  for_columns(0, p.columns, lane, lanes, [&](size_t c) {
    rows[c] = number;
    columns[c] = static_cast<int64_t>(c);
  });
}

inline void coo_unkey(const KeyArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  uint64_t key = p.keys[i], rest = p.first ? 0 : key / static_cast<uint64_t>(p.size);
  p.out[i] = static_cast<int64_t>(key - rest * p.size);
  p.keys[i] = rest;
}

// Keys that rise, as those of a coalesced tensor, are found by a few steps from the last one.
inline void key_find(const KeyFindArgs& p) {
  uint32_t i = global_id() * p.chunk, end = i + p.chunk < p.n ? i + p.chunk : p.n;
  uint32_t low = 0;
  uint64_t before = 0;
  for (uint32_t steps = 0; i < end; ++i, steps = 0) {
    const uint64_t key = p.keys[i];
    if (key < before) low = 0;
    before = key;
    while (steps < 8 && low < p.size && p.table[low] < key) ++low, ++steps;
    if (steps == 8) {
      uint32_t high = p.size;
      while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p.table[middle] < key)
          low = middle + 1;
        else
          high = middle;
      }
    }
    p.at[i] = low < p.size ? low : p.size - 1;
    p.hit[i] = low < p.size && p.table[low] == key;
  }
}

// counts is [chunk, digit], so that no two items write to one cache line.
inline void key_count(const RadixArgs& p) {
  uint32_t c = global_id();
  if (c >= p.chunks) return;
  const uint64_t digits = uint64_t{1} << p.digit;
  uint32_t* count = p.counts + c * digits;
  for (uint64_t d = 0; d < digits; ++d) count[d] = 0;
  uint32_t end = (c + 1) * p.chunk < p.n ? (c + 1) * p.chunk : p.n;
  for (uint32_t i = c * p.chunk; i < end; ++i) ++count[(p.from[i] >> p.shift) & (digits - 1)];
}

inline void key_scan(const RadixArgs& p) {
  if (global_id() != 0) return;
  uint32_t sum = 0;
  for (uint32_t d = 0; d < 1u << p.digit; ++d)
    for (uint32_t c = 0; c < p.chunks; ++c) {
      uint32_t& count = p.counts[(c << p.digit) + d];
      const uint32_t n = count;
      count = sum;
      sum += n;
    }
}

inline void key_scatter(const RadixArgs& p) {
  uint32_t c = global_id();
  if (c >= p.chunks) return;
  const uint64_t mask = (uint64_t{1} << p.digit) - 1;
  uint32_t* count = p.counts + (c << p.digit);
  uint32_t end = (c + 1) * p.chunk < p.n ? (c + 1) * p.chunk : p.n;
  for (uint32_t i = c * p.chunk; i < end; ++i) {
    uint64_t e = p.from[i];
    p.to[count[(e >> p.shift) & mask]++] = e;
  }
}

inline uint64_t key_at(const Sorted& s, int64_t i) { return s.order ? s.entries[i] : s.entries[i] >> s.bits; }
inline int64_t place_at(const Sorted& s, int64_t i) {
  return s.order ? s.order[i] : static_cast<int64_t>(s.entries[i] & ((uint64_t{1} << s.bits) - 1));
}

inline void run_count(const KeyRunArgs& p) {
  uint32_t c = global_id();
  if (c >= p.chunks) return;
  uint32_t i = c * p.chunk, end = i + p.chunk < p.n ? i + p.chunk : p.n;
  int64_t runs = 0;
  for (; i < end; ++i) runs += i == 0 || key_at(p.sorted, i) != key_at(p.sorted, i - 1) ? 1 : 0;
  p.counts[c] = runs;
}

inline void run_scan(const KeyRunArgs& p) {
  if (global_id() != 0) return;
  int64_t sum = 0;
  for (uint32_t c = 0; c < p.chunks; ++c) {
    int64_t runs = p.counts[c];
    p.counts[c] = sum;
    sum += runs;
  }
  p.counts[p.chunks] = sum;
}

inline void run_emit(const KeyRunArgs& p) {
  uint32_t c = global_id();
  if (c >= p.chunks) return;
  uint32_t i = c * p.chunk, end = i + p.chunk < p.n ? i + p.chunk : p.n;
  int64_t run = p.counts[c];
  for (; i < end; ++i) {
    uint64_t key = key_at(p.sorted, i);
    if (i != 0 && key == key_at(p.sorted, i - 1)) continue;
    p.keys[run] = key;
    p.starts[run] = i;
    ++run;
  }
  if (end == p.n) p.starts[run] = p.n;
}

template <class T> XPU_INLINE void run_sum_one(const RunSumArgs& p, uint32_t run, uint32_t column) {
  using A = typename accumulator<T>::type;
  const T* values = static_cast<const T*>(p.values) + column;
  A sum = A(0);
  for (int64_t j = p.starts[run]; j < p.starts[run + 1]; ++j) {
    A v = static_cast<A>(values[place_at(p.sorted, j) * p.columns]);
    if constexpr (__is_same(T, bool))
      sum = sum || v;
    else
      sum = sum + v;
  }
  static_cast<T*>(p.out)[static_cast<int64_t>(run) * p.columns + column] = static_cast<T>(sum);
}

// A group has some runs, its items columns; the items are runs where there is one column.
template <class T> void run_sum(const RunSumArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t i = item.get_global_id(1);
  if (p.columns == 1) {
    if (i < p.runs) run_sum_one<T>(p, i, 0);
  } else if (i < p.columns) {
    const uint32_t first = item.get_group(0) * p.runs_per_group;
    const uint32_t last = first + p.runs_per_group < p.runs ? first + p.runs_per_group : p.runs;
    for (uint32_t run = first; run < last; ++run) run_sum_one<T>(p, run, i);
  }
}

// --- row pointers ---

inline int64_t sparse_index(const void* x, bool is32, int64_t i) {
  return is32 ? static_cast<int64_t>(static_cast<const int32_t*>(x)[i]) : static_cast<const int64_t*>(x)[i];
}
inline void put_index(void* x, bool is32, int64_t i, int64_t v) {
  if (is32)
    static_cast<int32_t*>(x)[i] = static_cast<int32_t>(v);
  else
    static_cast<int64_t*>(x)[i] = v;
}

// Each element stores where its row ends so far, and the ends of empty rows before it: two branches that mostly go one
// way. A row that the next item goes on with is that one's.
template <class I, class O> XPU_INLINE void rows_to_pointers_of(const CompressArgs& p) {
  const I* in = static_cast<const I*>(p.in);
  O* out = static_cast<O*>(p.out);
  const uint32_t n = p.n, begin = global_id() * p.chunk, end = begin + p.chunk < n ? begin + p.chunk : n;
  if (begin >= end && begin != 0) return;
  const int64_t rows = p.rows, open = end < n ? static_cast<int64_t>(in[end]) : -1;
  int64_t from = begin == 0 ? -2 : in[begin - 1] < 0 ? -1 : static_cast<int64_t>(in[begin - 1]);
  for (uint32_t i = begin; i < end; ++i) {
    const int64_t to = in[i];
    if (static_cast<uint64_t>(to) >= static_cast<uint64_t>(rows)) {
      report_error(p.error, DeviceErrorCode::index_runtime, 0, to, rows);
      continue;
    }
    for (int64_t r = from + 2; r <= to; ++r) out[r] = static_cast<O>(i);
    if (to != open) out[to + 1] = static_cast<O>(i + 1);
    from = to;
  }
  if (end == n)
    for (int64_t r = from + 2; r <= rows; ++r) out[r] = static_cast<O>(n);
}
inline void rows_to_pointers(const CompressArgs& p) {
  if (p.in32 && p.out32)
    rows_to_pointers_of<int32_t, int32_t>(p);
  else if (p.in32)
    rows_to_pointers_of<int32_t, int64_t>(p);
  else if (p.out32)
    rows_to_pointers_of<int64_t, int32_t>(p);
  else
    rows_to_pointers_of<int64_t, int64_t>(p);
}

// Rows of a batch; the number of each goes to every one of its elements. An item goes from its first pointer to its
// last, the first from 0 and the last to n, so that nothing stays unset whatever the pointers are.
template <class I, class O> XPU_INLINE void pointers_to_rows_of(const CompressArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const int64_t batch = item.get_global_id(0), n = p.n;
  uint32_t row = item.get_global_id(1) * p.chunk, last = row + p.chunk < p.rows ? row + p.chunk : p.rows;
  if (row >= last) return;
  const I* in = static_cast<const I*>(p.in) + batch * p.in_batch;
  O* out = static_cast<O*>(p.out) + batch * p.out_batch;
  int64_t j = row == 0 || in[row] < 0 ? 0 : in[row];
  for (; row < last; ++row) {
    const int64_t end = row + 1 == p.rows || in[row + 1] > n ? n : in[row + 1];
    for (; j < end; ++j) out[j] = static_cast<O>(row);
  }
}
inline void pointers_to_rows(const CompressArgs& p) {
  if (p.in32 && p.out32)
    pointers_to_rows_of<int32_t, int32_t>(p);
  else if (p.in32)
    pointers_to_rows_of<int32_t, int64_t>(p);
  else if (p.out32)
    pointers_to_rows_of<int64_t, int32_t>(p);
  else
    pointers_to_rows_of<int64_t, int64_t>(p);
}

// --- products ---

inline constexpr uint32_t kSpmmLanes = 16, kSpmmBlock = 4;

template <class T, class I> struct SpmmRow {
  const I* col;
  const T* values;
  int64_t begin, end;
  SpmmRow(const void* crow_, const void* col_, const void* values_, int64_t nnz, uint32_t row)
      : col(static_cast<const I*>(col_)), values(static_cast<const T*>(values_)) {
    const I* crow = static_cast<const I*>(crow_);
    begin = crow[row] < 0 ? 0 : crow[row];
    end = crow[row + 1] > nnz ? nnz : crow[row + 1];
  }
};

template <class T, class A>
XPU_INLINE void spmm_store(const SpmmArgs& p, uint32_t row, size_t c0, size_t lane, A sum, A alpha, A beta) {
  A v = alpha * sum;
  if (p.self) {
    const T* self = static_cast<const T*>(p.self) + row * p.self_row + c0 * p.self_col;
    v = v + beta * static_cast<A>(self[lane * p.self_col]);
  }
  (static_cast<T*>(p.out) + row * p.out_row + c0)[lane] = static_cast<T>(v);
}

// Rows of a group one after the other; an item has kBlock columns, kSpmmLanes apart, so that neighbours read vectors of
// dense and share the values.
template <class T, class I, uint32_t kBlock>
XPU_INLINE void spmm_block(const SpmmArgs& p, uint32_t first, uint32_t end_row, size_t c0, size_t lane) {
  using A = typename accumulator<T>::type;
  const A alpha = from_bits<A>(p.alpha), beta = from_bits<A>(p.beta);
  for (uint32_t row = first; row < end_row; ++row) {
    const SpmmRow<T, I> r(p.crow, p.col, p.values, p.nnz, row);
    A sum[kBlock];
#pragma unroll
    for (uint32_t b = 0; b < kBlock; ++b) sum[b] = A(0);
    for (int64_t j = r.begin; j < r.end; ++j) {
      const int64_t col = r.col[j];
      if (static_cast<uint64_t>(col) >= p.inner) {
        report_error(p.error, DeviceErrorCode::index_runtime, 1, col, p.inner);
        continue;
      }
      const A v = static_cast<A>(r.values[j]);
      const T* line = static_cast<const T*>(p.dense) + col * p.dense_row + c0;
#pragma unroll
      for (uint32_t b = 0; b < kBlock; ++b)
        sum[b] = sum[b] + v * static_cast<A>(matmul_load(line + b * kSpmmLanes, lane));
    }
#pragma unroll
    for (uint32_t b = 0; b < kBlock; ++b) spmm_store<T, A>(p, row, c0 + b * kSpmmLanes, lane, sum[b], alpha, beta);
  }
}

// A last block that is not whole starts earlier and repeats columns: a branch that differs between items costs more.
template <class T, class I> XPU_INLINE void spmm_group(const SpmmArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1), columns = p.columns;
  const uint32_t first = static_cast<uint32_t>(item.get_group(0)) * p.rows_per_group;
  const uint32_t end = first + p.rows_per_group < p.rows ? first + p.rows_per_group : p.rows;
  size_t c0 = item.get_group(1) * (kSpmmLanes * kSpmmBlock);
  if (c0 + kSpmmLanes * kSpmmBlock <= columns) {
    spmm_block<T, I, kSpmmBlock>(p, first, end, c0, lane);
    return;
  }
  for (; c0 < columns; c0 += kSpmmLanes)
    spmm_block<T, I, 1>(p, first, end, c0 + kSpmmLanes <= columns ? c0 : columns - kSpmmLanes, lane);
}

template <class T> void spmm_rows(const SpmmArgs& p) {
  if (p.is32)
    spmm_group<T, int32_t>(p);
  else
    spmm_group<T, int64_t>(p);
}

// Fewer columns than lanes: an item has some rows, and kWidth columns at a time.
template <class T, class I, uint32_t kWidth> XPU_INLINE uint32_t narrow_columns(const SpmmArgs& p, uint32_t c0) {
  using A = typename accumulator<T>::type;
  if (c0 + kWidth > p.columns) return c0;
  const A alpha = from_bits<A>(p.alpha), beta = from_bits<A>(p.beta);
  const T* dense = static_cast<const T*>(p.dense) + c0;
  uint32_t row = global_id() * p.rows_per_group,
           last = row + p.rows_per_group < p.rows ? row + p.rows_per_group : p.rows;
  for (; row < last; ++row) {
    const SpmmRow<T, I> r(p.crow, p.col, p.values, p.nnz, row);
    A sum[kWidth];
#pragma unroll
    for (uint32_t c = 0; c < kWidth; ++c) sum[c] = A(0);
    for (int64_t j = r.begin; j < r.end; ++j) {
      const int64_t col = r.col[j];
      if (static_cast<uint64_t>(col) >= p.inner) {
        report_error(p.error, DeviceErrorCode::index_runtime, 1, col, p.inner);
        continue;
      }
      const A v = static_cast<A>(r.values[j]);
      const T* line = dense + col * p.dense_row;
#pragma unroll
      for (uint32_t c = 0; c < kWidth; ++c) sum[c] = sum[c] + v * static_cast<A>(line[c]);
    }
#pragma unroll
    for (uint32_t c = 0; c < kWidth; ++c) spmm_store<T, A>(p, row, c0, c, sum[c], alpha, beta);
  }
  return c0 + kWidth;
}

template <class T, class I> XPU_INLINE void spmm_narrow_item(const SpmmArgs& p) {
  uint32_t c0 = narrow_columns<T, I, 8>(p, 0);
  c0 = narrow_columns<T, I, 4>(p, c0);
  c0 = narrow_columns<T, I, 2>(p, c0);
  narrow_columns<T, I, 1>(p, c0);
}

template <class T> void spmm_narrow(const SpmmArgs& p) {
  if (p.is32)
    spmm_narrow_item<T, int32_t>(p);
  else
    spmm_narrow_item<T, int64_t>(p);
}

// kPick: amax and amin, which keep the place of what they chose.
template <class T, class I, bool kPick> XPU_INLINE void spmm_reduce_rows(const SpmmReduceArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1), columns = p.columns;
  const uint32_t first = static_cast<uint32_t>(item.get_group(0)) * p.rows_per_group;
  const uint32_t last = first + p.rows_per_group < p.rows ? first + p.rows_per_group : p.rows;
  size_t c0 = item.get_group(1) * kSpmmLanes;
  if (columns >= kSpmmLanes && c0 + kSpmmLanes > columns) c0 = columns - kSpmmLanes;
  const bool high = p.op == SpmmReduce::amax, mean = p.op == SpmmReduce::mean;
  whole_or_part(columns >= kSpmmLanes, lane < columns, item.get_local_range(0), [&]() __attribute__((always_inline)) {
    for (uint32_t row = first; row < last; ++row) {
      const SpmmRow<T, I> r(p.crow, p.col, p.values, p.nnz, row);
      A best = A(0);
      I where = static_cast<I>(p.nnz);
      for (int64_t j = r.begin; j < r.end; ++j) {
        const int64_t col = r.col[j];
        if (static_cast<uint64_t>(col) >= p.inner) {
          report_error(p.error, DeviceErrorCode::index_runtime, 1, col, p.inner);
          continue;
        }
        const T* line = static_cast<const T*>(p.dense) + col * p.dense_row + c0;
        const A v = static_cast<A>(r.values[j]) * static_cast<A>(matmul_load(line, lane));
        if constexpr (kPick) {
          const bool better = where == static_cast<I>(p.nnz) || v != v || (high ? v > best : v < best);
          best = better ? v : best;
          where = better ? static_cast<I>(j) : where;
        } else {
          best = best + v;
        }
      }
      if (mean && r.end > r.begin) best = best / static_cast<A>(static_cast<int32_t>(r.end - r.begin));
      const int64_t at = row * static_cast<int64_t>(columns) + c0;
      (static_cast<T*>(p.out) + at)[lane] = static_cast<T>(best);
      if constexpr (kPick) (static_cast<I*>(p.arg) + at)[lane] = where;
    }
  });
}

template <class T, bool kPick> void spmm_reduce(const SpmmReduceArgs& p) {
  if (p.is32)
    spmm_reduce_rows<T, int32_t, kPick>(p);
  else
    spmm_reduce_rows<T, int64_t, kPick>(p);
}

// The addend of each lane to the product of element i. An index out of range is noted and counts as 0: reporting it
// here would take a branch that the CPU device masks.
template <class T, class I>
XPU_INLINE typename accumulator<T>::type sampled_part(const SampledArgs& p, uint32_t i, size_t lane, int64_t& bad) {
  using A = typename accumulator<T>::type;
  const int64_t row = static_cast<const I*>(p.row)[i], col = static_cast<const I*>(p.col)[i];
  const bool fine = static_cast<uint64_t>(row) < p.rows && static_cast<uint64_t>(col) < p.columns;
  bad = fine ? bad : col;
  const T* a = static_cast<const T*>(p.a) + (fine ? row : 0) * p.inner;
  const T* b = static_cast<const T*>(p.b) + (fine ? col : 0) * p.inner;
  const auto product = [&](size_t k) __attribute__((always_inline)) {
    return static_cast<A>(matmul_load(a + k, lane)) * static_cast<A>(matmul_load(b + k, lane));
  };
  // for_row, but the masked step is behind a branch that is the same for all.
  A part[4] = {A(0), A(0), A(0), A(0)};
  size_t k = 0;
  for (; k + 4 * kLanes <= p.inner; k += 4 * kLanes) {
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) part[j] = part[j] + product(k + j * kLanes);
  }
  for (; k + kLanes <= p.inner; k += kLanes) part[0] = part[0] + product(k);
  if (k < p.inner) {
    if (k + lane < p.inner) part[1] = part[1] + product(k);
  }
  return (part[0] + part[1]) + (part[2] + part[3]);
}

// Sixteen elements at a time, four by four: lane 4 j + g gets that of the j-th in the g-th four, its own.
template <class T, class I> XPU_INLINE void sampled_dot_of(const SampledArgs& p) {
  using A = typename accumulator<T>::type;
  constexpr int64_t kFine = int64_t{1} << 62;  // no index
  const A alpha = from_bits<A>(p.alpha), beta = from_bits<A>(p.beta);
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  const uint32_t begin = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0)) * p.chunk,
                 end = begin + p.chunk < p.nnz ? begin + p.chunk : p.nnz;
  const T* values = static_cast<const T*>(p.values);
  int64_t bad = kFine;
  for (uint32_t i = begin; i < end; i += kLanes) {
    A sum = A(0);
    for (uint32_t g = 0; g < 4; ++g) {
      A part[4];
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) part[j] = sampled_part<T, I>(p, least(i + 4 * j + g, end - 1), lane, bad);
      const A four = lane_sum(part[0], part[1], part[2], part[3], lane);
      sum = (lane & 3) == g ? A(four) : A(sum);
    }
    A v = alpha * sum;
    T* out = static_cast<T*>(p.out) + i;
    if (i + kLanes <= end) {
      if (values) v = v + beta * static_cast<A>(matmul_load(values + i, lane));
      out[lane] = static_cast<T>(v);
    } else if (i + sub_group_lane() < end) {
      if (values) v = v + beta * static_cast<A>(matmul_load(values + i, lane));
      out[lane] = static_cast<T>(v);
    }
  }
  if (bad != kFine) report_error(p.error, DeviceErrorCode::index_runtime, 1, bad, p.columns);
}

// One sub-group, a work-group of its own, has some elements in turn.
template <class T> void sampled_dot(const SampledArgs& p) {
  if (p.is32)
    sampled_dot_of<T, int32_t>(p);
  else
    sampled_dot_of<T, int64_t>(p);
}

}  // namespace xpu

#include "kernels/sycl/sparse/csr_rows.hpp"
