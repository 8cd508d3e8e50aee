// Kernels along the rows of one compressed matrix: sums and products of each, its invariants, and blocks of elements.
// An item has some rows in turn; results of unknown size are counted first, and the counts added up by run_scan.
#pragma once
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/sparse/csr_merge.hpp"

namespace xpu {

using xpu_ops::CsrBlockArgs;
using xpu_ops::CsrCheckArgs;
using xpu_ops::CsrReduceArgs;
using xpu_ops::CsrSolveArgs;

template <class I> XPU_INLINE ElementRange row_elements(const I* crow, int64_t row, int64_t nnz) {
  const int64_t begin = crow[row] < 0 ? 0 : crow[row], end = crow[row + 1] > nnz ? nnz : crow[row + 1];
  return {begin, end};
}

// --- one value for each row that has elements ---

template <class I> XPU_INLINE void csr_reduce_count_of(const CsrReduceArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.rows ? first + p.chunk : p.rows;
  int64_t n = 0;
  for (uint32_t row = first; row < last; ++row) {
    const ElementRange r = row_elements(static_cast<const I*>(p.crow), row, p.nnz);
    n += r.begin < r.end;
  }
  p.counts[item] = n;
}
inline void csr_reduce_count(const CsrReduceArgs& p) {
  if (p.is32)
    csr_reduce_count_of<int32_t>(p);
  else
    csr_reduce_count_of<int64_t>(p);
}

template <class T, class I, class F> XPU_INLINE void csr_reduce_rows(const CsrReduceArgs& p, F join) {
  using A = typename accumulator<T>::type;
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.rows ? first + p.chunk : p.rows;
  const T* values = static_cast<const T*>(p.values);
  I *pointers = static_cast<I*>(p.pointers), *col = static_cast<I*>(p.col);
  T* out = static_cast<T*>(p.out);
  int64_t n = 0;  // those of the items before: there are few
  for (uint32_t k = 0; k < item; ++k) n += p.counts[k];
  if (item == 0) pointers[0] = 0;
  for (uint32_t row = first; row < last; ++row) {
    const ElementRange r = row_elements(static_cast<const I*>(p.crow), row, p.nnz);
    if (r.begin < r.end) {
      A v = static_cast<A>(values[r.begin]);
      for (int64_t j = r.begin + 1; j < r.end; ++j) v = join(v, static_cast<A>(values[j]));
      out[n] = static_cast<T>(v);
      col[n] = 0;
      ++n;
    }
    pointers[row + 1] = static_cast<I>(n);
  }
}
template <class T, class I> XPU_INLINE void csr_reduce_fill_of(const CsrReduceArgs& p) {
  using A = typename accumulator<T>::type;
  if (p.product)
    csr_reduce_rows<T, I>(p, [](A a, A b) __attribute__((always_inline)) { return static_cast<A>(a * b); });
  else
    csr_reduce_rows<T, I>(p, [](A a, A b) __attribute__((always_inline)) { return static_cast<A>(a + b); });
}
template <class T> void csr_reduce_fill(const CsrReduceArgs& p) {
  if (p.is32)
    csr_reduce_fill_of<T, int32_t>(p);
  else
    csr_reduce_fill_of<T, int64_t>(p);
}

// --- products sampled at a pattern, for a CPU device ---

// An item, a group of its own, has some elements in turn, and finds their rows from the pointers. `inner` is 16 and
// more; its last vector overlaps the one before.
template <class I> XPU_INLINE void sampled_rows_of(const SampledArgs& p) {
  const uint32_t begin = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0)) * p.chunk,
                 end = begin + p.chunk < p.nnz ? begin + p.chunk : p.nnz;
  const I *crow = static_cast<const I*>(p.row), *col = static_cast<const I*>(p.col);
  const float *b = static_cast<const float*>(p.b), *values = static_cast<const float*>(p.values);
  float* out = static_cast<float*>(p.out);
  const float alpha = from_bits<float>(p.alpha), beta = from_bits<float>(p.beta);
  const size_t inner = p.inner, whole = inner / 16 * 16;
  const uint16v lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto fresh = lanes >= static_cast<uint32_t>(16 - (inner - whole));
  uint32_t row = 0;
  for (uint32_t low = 0, high = p.rows; low < high;) {  // the last row that begins at or before the first element
    const uint32_t middle = low + (high - low) / 2;
    if (crow[middle] <= static_cast<I>(begin))
      row = middle, low = middle + 1;
    else
      high = middle;
  }
  for (uint32_t e = begin; e < end;) {
    while (row + 1 < p.rows && crow[row + 1] <= static_cast<I>(e)) ++row;
    const uint32_t stop =
        row + 1 < p.rows && crow[row + 1] < static_cast<I>(end) ? static_cast<uint32_t>(crow[row + 1]) : end;
    const float* a = static_cast<const float*>(p.a) + row * inner;
    const auto product = [&](uint32_t i) __attribute__((always_inline)) {
      const int64_t at = col[i];
      float16v sum = 0;
      if (static_cast<uint64_t>(at) >= p.columns) {
        report_error(p.error, DeviceErrorCode::index_runtime, 1, at, p.columns);
        return sum;
      }
      const float* line = b + static_cast<size_t>(at) * inner;
      for (size_t k = 0; k < whole; k += 16) sum += load16(a + k) * load16(line + k);
      if (whole < inner) {
        const float16v last = load16(a + (inner - 16)) * load16(line + (inner - 16));
        sum += fresh ? last : float16v(0);
      }
      return sum;
    };
    for (; e + 4 <= stop; e += 4) {
      float4v v = alpha * sum16(product(e), product(e + 1), product(e + 2), product(e + 3));
      if (values) v += beta * *reinterpret_cast<const float4u*>(values + e);
      *reinterpret_cast<float4u*>(out + e) = v;
    }
    for (; e < stop; ++e) {
      float v = alpha * sum16(product(e));
      if (values) v += beta * values[e];
      out[e] = v;
    }
  }
}
inline void sampled_rows(const SampledArgs& p) {
  if (p.is32)
    sampled_rows_of<int32_t>(p);
  else
    sampled_rows_of<int64_t>(p);
}

// --- invariants ---

// Goes along the pointers of all batches, of which each has one more than lines. Where they are wrong, what they say
// about the numbers does not matter.
template <class I> XPU_INLINE void csr_check_of(const CsrCheckArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  const int64_t all = p.batches * (p.lines + 1), first = item * p.chunk,
                last = first + p.chunk < all ? first + p.chunk : all;
  int64_t batch = first / (p.lines + 1), line = first - batch * (p.lines + 1);
  bool starts = true, ends = true, steps = true, inside = true, sorted = true;
  for (int64_t e = first; e < last; ++e) {
    const I* pointers = static_cast<const I*>(p.pointers) + batch * (p.lines + 1);
    const I* numbers = static_cast<const I*>(p.numbers) + batch * p.nnz;
    const int64_t begin = pointers[line];
    starts &= line != 0 || begin == 0;
    if (line == p.lines) {
      ends &= begin == p.nnz;
      line = 0, ++batch;
      continue;
    }
    const int64_t end = pointers[line + 1];
    ++line;
    const bool fine = begin <= end && end - begin <= p.size;
    steps &= fine;
    if (!fine || begin < 0 || end > p.nnz || begin == end) continue;
    if (rises(numbers, begin, end)) {
      inside &= numbers[begin] >= 0 && numbers[end - 1] < p.size;
    } else {
      sorted = false;
      for (int64_t j = begin; j < end; ++j) inside &= numbers[j] >= 0 && numbers[j] < p.size;
    }
  }
  p.failed[item] = !starts ? 0 : !ends ? 1 : !steps ? 2 : !inside ? 3 : !sorted ? 4 : 5;
}
inline void csr_check(const CsrCheckArgs& p) {
  if (p.is32)
    csr_check_of<int32_t>(p);
  else
    csr_check_of<int64_t>(p);
}

// --- blocks ---

// Calls f(j, number, line within its block) for the elements of a line of blocks.
template <class I, class F> XPU_INLINE void for_block_line(const CsrBlockArgs& p, uint32_t line, F f) {
  for (uint32_t in = 0; in < p.down; ++in) {
    const ElementRange r =
        row_elements(static_cast<const I*>(p.pointers), static_cast<int64_t>(line) * p.down + in, p.nnz);
    for (int64_t j = r.begin; j < r.end; ++j) {
      const int64_t number = static_cast<const I*>(p.numbers)[j];
      if (static_cast<uint64_t>(number) < p.size)
        f(j, static_cast<uint32_t>(number), in);
      else
        report_error(p.error, DeviceErrorCode::index_runtime, 1, number, p.size);
    }
  }
}

template <class I> XPU_INLINE void csr_block_count_of(const CsrBlockArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  ColumnSet set(p.seen, p.width, item);
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.lines ? first + p.chunk : p.lines;
  int64_t n = 0;
  for (uint32_t line = first; line < last; ++line) {
    for_block_line<I>(
        p, line, [&](int64_t, uint32_t number, uint32_t) { n += set.add(xpu_ops::div(number, p.by_across)) ? 1 : 0; });
    set.take([](uint64_t) {});
  }
  p.counts[item] = n;
}
inline void csr_block_count(const CsrBlockArgs& p) {
  if (p.is32)
    csr_block_count_of<int32_t>(p);
  else
    csr_block_count_of<int64_t>(p);
}

template <class T, class I> XPU_INLINE void csr_block_fill_of(const CsrBlockArgs& p) {
  const uint32_t item = global_id();
  if (item >= p.items) return;
  ColumnSet set(p.seen, p.width, item);
  int64_t* place = p.places + static_cast<size_t>(item) * p.width;
  const T* values = static_cast<const T*>(p.values);
  I *pointers = static_cast<I*>(p.out_pointers), *numbers = static_cast<I*>(p.out_numbers);
  const uint32_t first = item * p.chunk, last = first + p.chunk < p.lines ? first + p.chunk : p.lines;
  const int64_t block = static_cast<int64_t>(p.down) * p.across;
  int64_t n = p.counts[item];
  if (item == 0) pointers[0] = 0;
  for (uint32_t line = first; line < last; ++line) {
    for_block_line<I>(p, line, [&](int64_t, uint32_t number, uint32_t) { set.add(xpu_ops::div(number, p.by_across)); });
    set.take([&](uint64_t column) {
      numbers[n] = static_cast<I>(column);
      place[column] = n++ * block;
    });
    pointers[line + 1] = static_cast<I>(n);
    for_block_line<I>(p, line, [&](int64_t j, uint32_t number, uint32_t in) {
      const uint32_t column = xpu_ops::div(number, p.by_across), rest = number - column * p.across;
      static_cast<T*>(p.out)[place[column] + in * p.in_stride + rest * p.rest_stride] = values[j];
    });
  }
}
template <class T> void csr_block_fill(const CsrBlockArgs& p) {
  if (p.is32)
    csr_block_fill_of<T, int32_t>(p);
  else
    csr_block_fill_of<T, int64_t>(p);
}

// --- a triangular system ---

template <class T, class I> XPU_INLINE void csr_solve_of(const CsrSolveArgs& p) {
  const uint32_t side = global_id();
  if (side >= p.sides) return;
  const I* col = static_cast<const I*>(p.col);
  const T* values = static_cast<const T*>(p.values);
  T* x = static_cast<T*>(p.x) + side;
  const size_t step = p.sides;
  const bool rising = (p.upper != 0) == (p.transposed != 0);
  for (uint32_t k = 0; k < p.rows; ++k) {
    const int64_t row = rising ? k : p.rows - 1 - k;
    const ElementRange r = row_elements(static_cast<const I*>(p.crow), row, p.nnz);
    const auto inside = [&](int64_t c) { return p.upper ? c > row && c < p.rows : c < row && c >= 0; };
    T diagonal = T(0), v = x[row * step];
    for (int64_t j = r.begin; j < r.end; ++j) {
      const int64_t c = col[j];
      if (c == row) diagonal = diagonal + values[j];
      if (!p.transposed && inside(c)) v = v - values[j] * x[c * step];
    }
    if (!p.unit) v = v / diagonal;
    x[row * step] = v;
    if (!p.transposed) continue;
    for (int64_t j = r.begin; j < r.end; ++j)
      if (inside(col[j])) x[col[j] * step] = x[col[j] * step] - values[j] * v;
  }
}
template <class T> void csr_solve(const CsrSolveArgs& p) {
  if (p.is32)
    csr_solve_of<T, int32_t>(p);
  else
    csr_solve_of<T, int64_t>(p);
}

}  // namespace xpu
