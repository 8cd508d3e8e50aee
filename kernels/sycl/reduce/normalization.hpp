// Layer, RMS, group and batch norm. Rows are read two or three times from cache instead of keeping Welford's
// recurrence: the mean first, then the squared differences, then the result. Means are made of differences to one value
// of the row, so that they do not round where all values are equal, and sums do not overflow.
#pragma once
#include "kernels/sycl/core/columns.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/reduce/normalization_args.hpp"
#include "kernels/sycl/reduce/reduction_functors.hpp"

namespace xpu {

using xpu_ops::ColumnSumArgs;
using xpu_ops::kColumnVectors;
using xpu_ops::LayerNormArgs;
using xpu_ops::NormApplyArgs;
using xpu_ops::NormCoefArgs;
using xpu_ops::Real;
using xpu_ops::RowSumArgs;
using xpu_ops::WeightNormArgs;

template <class A> inline A value(const Real& r) {
  if constexpr (sizeof(A) == 8)
    return sycl::bit_cast<double>(r.f64_bits);
  else
    return r.f32;
}

struct Yes {
  constexpr operator bool() const { return true; }
};
struct No {
  constexpr operator bool() const { return false; }
};

// Biased variance (out0) and mean (out1) in the accumulator's type.
template <class T> struct Moments : Variance<T> {
  using Base = Variance<T>;
  using A = typename Base::A;
  using Base::Base;
  typename Base::Acc finished(const ReductionArgs&, typename Base::Acc a) const { return a; }
  void store(const ReductionArgs& p, int64_t o0, int64_t o1, typename Base::Acc a) const {
    static_cast<A*>(p.out0)[o0] = a.b / a.c;
    static_cast<A*>(p.out1)[o1] = a.a;
  }
};
XPU_REDUCTION(reduce_moments, Moments)

// ---- weight norm, and its gradients

template <class T> void weight_norm_row(const WeightNormArgs& p) {
  using A = opmath_t<T>;
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0), n = p.cols;
  const RowRange mine = group_rows(p.rows);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T* v = static_cast<const T*>(p.v) + row * n;
    T* out = static_cast<T*>(p.out) + row * n;
    const A norm = sycl::sqrt(row_sum<A>(n, lane, [&](size_t r, A& sum) {
      const A x = static_cast<A>(load(v + r, lane));
      sum += x * x;
    }));
    const A scale = static_cast<const A*>(p.g)[row] / norm;
    for_row(n, lane,
            [&](size_t r, int) { store(out + r, lane, static_cast<T>(static_cast<A>(load(v + r, lane)) * scale)); });
    store_first(static_cast<A*>(p.norms) + row, norm);
  }
}

template <class T> void weight_norm_backward_row(const WeightNormArgs& p) {
  using A = opmath_t<T>;
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0), n = p.cols;
  const RowRange mine = group_rows(p.rows);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T *v = static_cast<const T*>(p.v) + row * n, *dw = static_cast<const T*>(p.dw) + row * n;
    T* out = static_cast<T*>(p.out) + row * n;
    const A dot = row_sum<A>(n, lane, [&](size_t r, A& sum) {
      sum += static_cast<A>(load(dw + r, lane)) * static_cast<A>(load(v + r, lane));
    });
    const A norm = static_cast<const A*>(p.norms)[row];
    const A scale = static_cast<const A*>(p.g)[row] / norm, share = dot / (norm * norm);
    for_row(n, lane, [&](size_t r, int) {
      const A x = static_cast<A>(load(v + r, lane));
      store(out + r, lane, static_cast<T>(scale * (static_cast<A>(load(dw + r, lane)) - x * share)));
    });
    store_first(static_cast<A*>(p.grad_g) + row, dot / norm);
  }
}

// ---- layer norm and RMS norm. W: type of weight and bias.
template <class T, class W, bool kRms> void layer_norm_row(const LayerNormArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.cols;
  const W *w = static_cast<const W*>(p.weight), *b = static_cast<const W*>(p.bias);
  const RowRange mine = group_rows(p.rows);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    T* y = static_cast<T*>(p.y) + row * n;
    A mean = 0;
    if constexpr (!kRms) {
      const A shift = static_cast<A>(load(x, 0));
      mean = shift + row_sum<A>(n, lane, [&](size_t r, A& sum) { sum += static_cast<A>(load(x + r, lane)) - shift; }) /
                         static_cast<A>(n);
    }
    const A squares = row_sum<A>(n, lane, [&](size_t r, A& sum) {
      const A v = static_cast<A>(load(x + r, lane)) - mean;
      sum += v * v;
    });
    const A var = squares / static_cast<A>(n);
    const A rstd = A(1) / sycl::sqrt(var + value<A>(p.eps));
    if (w && b)
      for_row(n, lane, [&](size_t r, int) {
        const A v = (static_cast<A>(load(x + r, lane)) - mean) * rstd;
        store(y + r, lane, static_cast<T>(v * static_cast<A>(load(w + r, lane)) + static_cast<A>(load(b + r, lane))));
      });
    else if (w)
      for_row(n, lane, [&](size_t r, int) {
        const A v = (static_cast<A>(load(x + r, lane)) - mean) * rstd;
        store(y + r, lane, static_cast<T>(v * static_cast<A>(load(w + r, lane))));
      });
    else
      for_row(n, lane, [&](size_t r, int) {
        const A v = (static_cast<A>(load(x + r, lane)) - mean) * rstd;
        store(y + r, lane, static_cast<T>(b ? v + static_cast<A>(load(b + r, lane)) : v));
      });
    if constexpr (!kRms) store_first(static_cast<A*>(p.mean) + row, mean);
    store_first(static_cast<A*>(p.rstd) + row, rstd);
  }
}

// kSums: a group also adds dy * h and dy of its rows by column, for the gradients of weight and bias.
// With g = dy * w and h = (x - mean) * rstd: dx = rstd * (g - mean(g) - h * mean(g * h)); RMS norm has no mean(g).
template <class T, class W, bool kRms, bool kSums> void layer_norm_backward_row(const LayerNormArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.cols;
  const W* w = static_cast<const W*>(p.weight);
  A* partial = nullptr;
  if constexpr (kSums) {
    partial = static_cast<A*>(p.partial) + item.get_group(0) * 2 * n;
    for_row(2 * n, lane, [&](size_t r, int) { (partial + r)[lane] = A(0); });
  }
  const RowRange mine = group_rows(p.rows);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T *x = static_cast<const T*>(p.x) + row * n, *dy = static_cast<const T*>(p.dy) + row * n;
    T* dx = static_cast<T*>(p.y) + row * n;
    A mean = 0;
    if constexpr (!kRms) mean = static_cast<const A*>(p.mean)[row];
    const A rstd = static_cast<const A*>(p.rstd)[row];
    A s[4] = {0, 0, 0, 0}, q[4] = {0, 0, 0, 0};
    auto gradient = [&](size_t r) {
      const A g = static_cast<A>(load(dy + r, lane));
      return w ? g * static_cast<A>(load(w + r, lane)) : g;
    };
    for_row(n, lane, [&](size_t r, int j) {
      const A g = gradient(r);
      s[j] += g;
      q[j] += g * (static_cast<A>(load(x + r, lane)) - mean) * rstd;
    });
    const A inverse = A(1) / static_cast<A>(n);
    const A mg = kRms ? A(0) : lane_sum(s) * inverse;
    const A mgh = lane_sum(q) * inverse;
    for_row(n, lane, [&](size_t r, int) {
      const A h = (static_cast<A>(load(x + r, lane)) - mean) * rstd;
      if constexpr (kSums) {
        const A v = static_cast<A>(load(dy + r, lane));
        (partial + r)[lane] += v * h;
        if constexpr (!kRms) (partial + n + r)[lane] += v;
      }
      store(dx + r, lane, static_cast<T>(rstd * (gradient(r) - mg - h * mgh)));
    });
  }
}

// ---- over rows, column by column: group = (matrix, split, block of columns)
struct ColumnRange {
  uint32_t begin, end;  // rows of the split
  size_t row, partial;  // the split's first row among those of all matrices; its number among all splits
  size_t c0;
};
XPU_INLINE ColumnRange column_range(const ColumnSumArgs& p, size_t group) {
  const uint32_t g = static_cast<uint32_t>(group), at = g / p.blocks, batch = at / p.splits;
  const uint32_t split = at - batch * p.splits, begin = split * p.block;
  return {begin, least(p.rows, begin + p.block), static_cast<size_t>(batch) * p.rows + begin, at,
          static_cast<size_t>(g - at * p.blocks) * (kColumnVectors * kLanes)};
}

template <class T> void norm_column_sums(const ColumnSumArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), cols = p.cols;
  const ColumnRange range = column_range(p, item.get_group(0));
  const A *shift = static_cast<const A*>(p.row_shift), *scale = static_cast<const A*>(p.row_scale);
  auto run = [&](auto count, size_t first, auto shifted, auto scaled) {
    constexpr int J = count.value;
    const T* x = static_cast<const T*>(p.x) + range.row * cols + first;
    const T* dy = static_cast<const T*>(p.dy) + range.row * cols + first;
    A column[J], s[J], q[J];
#pragma unroll
    for (int j = 0; j < J; ++j) {
      column[j] = p.column_shift ? (static_cast<const A*>(p.column_shift) + first + j * kLanes)[lane] : A(0);
      s[j] = q[j] = 0;
    }
    for (uint32_t r = range.begin; r < range.end; ++r, x += cols, dy += cols)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const A v = static_cast<A>(load(dy + j * kLanes, lane));
        A d = static_cast<A>(load(x + j * kLanes, lane)) - column[j];
        if constexpr (shifted) d -= shift[r];
        if constexpr (scaled) d *= scale[r];
        s[j] += v;
        q[j] += v * d;
      }
    A* partial = static_cast<A*>(p.partial) + range.partial * 2 * cols + first;
#pragma unroll
    for (int j = 0; j < J; ++j) {
      (partial + j * kLanes)[lane] = q[j];
      (partial + cols + j * kLanes)[lane] = s[j];
    }
  };
  column_block<kColumnVectors>(range.c0, cols, lane, p.once, [&](auto count, size_t first) {
    if (shift) {
      [[clang::always_inline]] run(count, first, Yes{}, Yes{});
    } else if (scale) {
      [[clang::always_inline]] run(count, first, No{}, Yes{});
    } else {
      [[clang::always_inline]] run(count, first, No{}, No{});
    }
  });
}

// One item adds the partial sums of one column. T: accumulator of the partial sums' inputs, W: type of the results.
template <class T, class W> void norm_column_final(const ColumnSumArgs& p) {
  using A = opmath_t<T>;
  const uint32_t i = global_id(), batch = div(i, p.by_cols);
  if (i >= p.batches * p.cols) return;
  const size_t cols = p.cols;
  const A* x = static_cast<const A*>(p.partial) + batch * p.splits * 2 * cols + (i - batch * p.cols);
  A q = 0, s = 0;
  for (uint32_t split = 0; split < p.splits; ++split, x += 2 * cols) {
    q += x[0];
    s += x[cols];
  }
  if (p.out0) static_cast<W*>(p.out0)[i] = static_cast<W>(q);
  if (p.out1) static_cast<W*>(p.out1)[i] = static_cast<W>(s);
}

template <class A> inline A median(A a, A b, A c) {
  const A low = a < b ? a : b, high = a < b ? b : a, below = high < c ? high : c;
  return low < below ? below : low;
}

// Mean and sum of squared differences of each column of a split. The sums are of differences to a value of the column
// itself, so that a mean far from zero does not cancel them: the median of the first, the middle and the last, so that
// one value far from all others does not either.
template <class T> void norm_column_moments(const ColumnSumArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), cols = p.cols;
  const ColumnRange range = column_range(p, item.get_group(0));
  column_block<kColumnVectors>(range.c0, cols, lane, p.once, [&](auto count, size_t first) {
    constexpr int J = count.value;
    const T* x = static_cast<const T*>(p.x) + range.row * cols + first;
    const size_t rows = range.end - range.begin;
    const T *middle = x + rows / 2 * cols, *last = x + (rows - 1) * cols;
    A shift[J], s[J], q[J];
#pragma unroll
    for (int j = 0; j < J; ++j) {
      shift[j] = median(static_cast<A>(load(x + j * kLanes, lane)), static_cast<A>(load(middle + j * kLanes, lane)),
                        static_cast<A>(load(last + j * kLanes, lane)));
      s[j] = q[j] = 0;
    }
    for (uint32_t r = range.begin; r < range.end; ++r, x += cols)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const A d = static_cast<A>(load(x + j * kLanes, lane)) - shift[j];
        s[j] += d;
        q[j] += d * d;
      }
    const A inverse = A(1) / static_cast<A>(range.end - range.begin);
    A* partial = static_cast<A*>(p.partial) + range.partial * 2 * cols + first;
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const A d = s[j] * inverse;
      (partial + j * kLanes)[lane] = shift[j] + d;
      (partial + cols + j * kLanes)[lane] = q[j] - s[j] * d;
    }
  });
}

// Variance (out0) and mean (out1) of each group of columns of each matrix from these: a sub-group takes one of them.
template <class T> void norm_group_moments(const ColumnSumArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), cols = p.cols;
  const uint32_t at = static_cast<uint32_t>(item.get_group(0)), batch = at / p.groups, per = p.cols / p.groups;
  const A* first = static_cast<const A*>(p.partial) + batch * p.splits * 2 * cols + (at - batch * p.groups) * per;
  const A inverse = A(1) / (static_cast<A>(per) * static_cast<A>(p.rows));
  auto sum = [&](auto term) {
    A s = 0;
    const A* x = first;
    for (uint32_t split = 0; split < p.splits; ++split, x += 2 * cols) {
      const A n = static_cast<A>(least(p.block, p.rows - split * p.block));
      for_row(per, lane, [&](size_t r, int) { s += term(n, (x + r)[lane], (x + cols + r)[lane]); });
    }
    return lane_sum(s) * inverse;
  };
  const A shift = *first;
  const A mean = shift + sum([&](A n, A m, A) { return n * (m - shift); });
  const A var = sum([&](A n, A m, A q) { return q + n * (m - mean) * (m - mean); });
  store_first(static_cast<A*>(p.out0) + at, var);
  store_first(static_cast<A*>(p.out1) + at, mean);
}

// ---- sums along rows
template <class T> void norm_row_sums(const RowSumArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.cols;
  const RowRange mine = group_rows(p.rows);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T *x = static_cast<const T*>(p.x) + row * n, *dy = static_cast<const T*>(p.dy) + row * n;
    const A shift = p.shift ? static_cast<const A*>(p.shift)[row % p.period] : A(0);
    A s[4] = {0, 0, 0, 0}, q[4] = {0, 0, 0, 0};
    for_row(n, lane, [&](size_t r, int j) {
      const A v = static_cast<A>(load(dy + r, lane));
      s[j] += v;
      q[j] += v * (static_cast<A>(load(x + r, lane)) - shift);
    });
    const A dot = lane_sum(q), sum = lane_sum(s);
    store_first(static_cast<A*>(p.out0) + row, dot);
    store_first(static_cast<A*>(p.out1) + row, sum);
  }
}

// ---- y from x and coefficients; a 2-D range: (blocks of rows, columns)
template <class T, bool kBackward>
XPU_INLINE void norm_apply_block(const NormApplyArgs& p, uint32_t batch, uint32_t begin, uint32_t end, uint32_t k,
                                 size_t c0, size_t id) {
  using A = opmath_t<T>;
  const A *a = static_cast<const A*>(p.a), *m = static_cast<const A*>(p.m), *b = static_cast<const A*>(p.b),
          *d = static_cast<const A*>(p.d);
  const size_t cols = p.cols, at = (static_cast<size_t>(batch) * p.rows + begin) * cols + c0;
  const T* x = static_cast<const T*>(p.x) + at;
  const T* dy = kBackward ? static_cast<const T*>(p.dy) + at : nullptr;
  T* y = static_cast<T*>(p.y) + at;
  auto one = [&](A ka, A km, A kb, A kd) {
    A v = static_cast<A>(load(x, id)) - km;
    if constexpr (kBackward)
      v = ka * static_cast<A>(load(dy, id)) + kd * v + kb;
    else
      v = ka * v + kb;
    store(y, id, static_cast<T>(v));
    x += cols, y += cols;
    if constexpr (kBackward) dy += cols;
  };
  if (p.by_column) {
    const size_t c = batch * cols + c0;
    const A ka = (a + c)[id], km = (m + c)[id], kb = (b + c)[id], kd = kBackward ? (d + c)[id] : A(0);
    for (uint32_t r = begin; r < end; ++r) [[clang::always_inline]]
      one(ka, km, kb, kd);
  } else {
    for (uint32_t r = begin; r < end; ++r) {
      [[clang::always_inline]] one(a[k], m[k], b[k], kBackward ? d[k] : A(0));
      k = k + 1 == p.period ? 0 : k + 1;
    }
  }
}

// The remainder comes before the branch that differs between items, which would make it one division per item; full
// groups have no such branch.
template <class T> void norm_apply(const NormApplyArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t id = item.get_local_id(1), local = item.get_local_range(1), c0 = item.get_group(1) * local;
  const uint32_t part = item.get_group(0), batch = part / p.parts;
  const uint32_t begin = (part - batch * p.parts) * p.rows_per_group, end = least(p.rows, begin + p.rows_per_group);
  const uint32_t k = begin % p.period;
  auto run = [&] {
    if (p.dy)
      norm_apply_block<T, true>(p, batch, begin, end, k, c0, id);
    else
      norm_apply_block<T, false>(p, batch, begin, end, k, c0, id);
  };
  whole_or_part(c0 + local <= p.cols, c0 + id < p.cols, item.get_local_range(0), run);
}

// Many rows with coefficients of their own: a sub-group goes through one after the other, in the order of memory.
template <class T, bool kBackward> XPU_INLINE void norm_apply_rows(const NormApplyArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.cols;
  const RowRange mine = group_rows(p.rows);
  uint32_t k = mine.begin % p.period;
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    const T* dy = kBackward ? static_cast<const T*>(p.dy) + row * n : nullptr;
    T* y = static_cast<T*>(p.y) + row * n;
    const A ka = static_cast<const A*>(p.a)[k], km = static_cast<const A*>(p.m)[k], kb = static_cast<const A*>(p.b)[k],
            kd = kBackward ? static_cast<const A*>(p.d)[k] : A(0);
    for_row(n, lane, [&](size_t r, int) {
      A v = static_cast<A>(load(x + r, lane)) - km;
      if constexpr (kBackward)
        v = ka * static_cast<A>(load(dy + r, lane)) + kd * v + kb;
      else
        v = ka * v + kb;
      store(y + r, lane, static_cast<T>(v));
    });
    k = k + 1 == p.period ? 0 : k + 1;
  }
}
// The same with coefficients a column, which the first cache holds.
template <class T, bool kBackward> XPU_INLINE void norm_apply_lines(const NormApplyArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.cols;
  const RowRange mine = group_rows(p.rows * p.batches);
  size_t c = mine.begin / p.rows * n;
  uint32_t left = p.rows - mine.begin % p.rows;  // rows to the next matrix
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    const T* dy = kBackward ? static_cast<const T*>(p.dy) + row * n : nullptr;
    T* y = static_cast<T*>(p.y) + row * n;
    const A *a = static_cast<const A*>(p.a) + c, *m = static_cast<const A*>(p.m) + c,
            *b = static_cast<const A*>(p.b) + c, *d = kBackward ? static_cast<const A*>(p.d) + c : nullptr;
    for_row(n, lane, [&](size_t r, int) {
      A v = static_cast<A>(load(x + r, lane)) - (m + r)[lane];
      if constexpr (kBackward)
        v = (a + r)[lane] * static_cast<A>(load(dy + r, lane)) + (d + r)[lane] * v + (b + r)[lane];
      else
        v = (a + r)[lane] * v + (b + r)[lane];
      store(y + r, lane, static_cast<T>(v));
    });
    if (--left == 0) {
      left = p.rows;
      c += n;
    }
  }
}
template <class T, bool kBackward> XPU_INLINE void norm_apply_in_order(const NormApplyArgs& p) {
  if (p.by_column)
    norm_apply_lines<T, kBackward>(p);
  else
    norm_apply_rows<T, kBackward>(p);
}
template <class T> void norm_apply_row(const NormApplyArgs& p) {
  if (p.dy)
    norm_apply_in_order<T, true>(p);
  else
    norm_apply_in_order<T, false>(p);
}

// y = a (x - m) + b. An infinite scale is applied to x and the mean apart, as torch's CPU applies any.
template <class A> XPU_INLINE void store_coefficients(const NormCoefArgs& p, uint32_t i, A scale, A mean, A bias) {
  const bool apart = scale - scale != A(0);
  static_cast<A*>(p.a)[i] = scale;
  static_cast<A*>(p.m)[i] = apart ? A(0) : mean;
  static_cast<A*>(p.b)[i] = apart ? bias - mean * scale : bias;
}

// ---- batch norm, an item per channel. W: type of weight, bias and running statistics.
template <class T, class W> void batch_norm_coef(const NormCoefArgs& p) {
  using A = opmath_t<T>;
  const uint32_t c = global_id();
  if (c >= p.channels) return;
  A mean, rstd;
  W *rm = static_cast<W*>(p.running_mean), *rv = static_cast<W*>(p.running_var);
  if (p.train) {
    mean = static_cast<const A*>(p.mean)[c];
    const A var = static_cast<const A*>(p.var)[c];
    rstd = A(1) / sycl::sqrt(var + value<A>(p.eps));
    if (p.save_mean) static_cast<A*>(p.save_mean)[c] = mean;
    const A t = value<A>(p.momentum);
    if (rm) rm[c] = static_cast<W>(t * mean + (A(1) - t) * static_cast<A>(rm[c]));
    if (rv) rv[c] = static_cast<W>(t * (var * value<A>(p.unbiased)) + (A(1) - t) * static_cast<A>(rv[c]));
  } else {
    mean = static_cast<A>(rm[c]);
    rstd = A(1) / sycl::sqrt(static_cast<A>(rv[c]) + value<A>(p.eps));
  }
  if (p.rstd) static_cast<A*>(p.rstd)[c] = rstd;
  if (!p.a) return;
  const W *w = static_cast<const W*>(p.weight), *b = static_cast<const W*>(p.bias);
  store_coefficients(p, c, w ? rstd * static_cast<A>(w[c]) : rstd, mean, b ? static_cast<A>(b[c]) : A(0));
}

template <class T, class W> void batch_norm_backward_coef(const NormCoefArgs& p) {
  using A = opmath_t<T>;
  const uint32_t c = global_id();
  if (c >= p.channels) return;
  A dot = 0, sum = 0;
  for (uint32_t r = 0; r < p.sum_rows; ++r) {
    dot += static_cast<const A*>(p.sum0)[static_cast<size_t>(r) * p.channels + c];
    sum += static_cast<const A*>(p.sum1)[static_cast<size_t>(r) * p.channels + c];
  }
  A mean, rstd;
  if (p.train) {
    mean = static_cast<const A*>(p.mean)[c];
    rstd = static_cast<const A*>(p.rstd)[c];
  } else {
    mean = static_cast<A>(static_cast<const W*>(p.running_mean)[c]);
    rstd = A(1) / sycl::sqrt(static_cast<A>(static_cast<const W*>(p.running_var)[c]) + value<A>(p.eps));
  }
  if (p.grad_weight) static_cast<W*>(p.grad_weight)[c] = static_cast<W>(dot * rstd);
  if (p.grad_bias) static_cast<W*>(p.grad_bias)[c] = static_cast<W>(sum);
  if (!p.a) return;
  const A scale = p.weight ? rstd * static_cast<A>(static_cast<const W*>(p.weight)[c]) : rstd;
  const A n = value<A>(p.count);
  static_cast<A*>(p.a)[c] = scale;
  static_cast<A*>(p.m)[c] = mean;
  static_cast<A*>(p.d)[c] = p.train ? -scale * rstd * rstd * dot / n : A(0);
  static_cast<A*>(p.b)[c] = p.train ? -scale * sum / n : A(0);
}

// ---- group norm, one item per (sample, channel)
template <class T, class W> void group_norm_coef(const NormCoefArgs& p) {
  using A = opmath_t<T>;
  const uint32_t i = global_id();
  if (i >= p.batch * p.channels) return;
  const uint32_t n = div(i, p.by_channels), c = i - n * p.channels, per = p.by_group.d, k = div(c, p.by_group);
  const uint32_t g = n * p.groups + k;
  const A mean = static_cast<const A*>(p.mean)[g];
  const A rstd = A(1) / sycl::sqrt(static_cast<const A*>(p.var)[g] + value<A>(p.eps));
  if (c == k * per) static_cast<A*>(p.rstd)[g] = rstd;
  const W *w = static_cast<const W*>(p.weight), *b = static_cast<const W*>(p.bias);
  store_coefficients(p, i, w ? rstd * static_cast<A>(w[c]) : rstd, mean, b ? static_cast<A>(b[c]) : A(0));
}

// sum0, sum1: [batch][channels] sums of dy * x and dy over the positions; count: channels of a group x positions.
// A sub-group per group of channels of a sample: what its channels share is summed once.
template <class T, class W> void group_norm_backward_coef(const NormCoefArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), per = p.by_group.d;
  const RowRange mine = group_rows(p.batch * p.groups);
  const A count = value<A>(p.count);
  for (uint32_t g = mine.begin; g < mine.end; ++g) {
    const size_t first = g * per;
    const W* w = p.weight ? static_cast<const W*>(p.weight) + g % p.groups * per : nullptr;
    const A *dots = static_cast<const A*>(p.sum0) + first, *sums = static_cast<const A*>(p.sum1) + first;
    const A mean = static_cast<const A*>(p.mean)[g], rstd = static_cast<const A*>(p.rstd)[g];
    A d[4] = {0, 0, 0, 0}, s[4] = {0, 0, 0, 0};
    for_row(per, lane, [&](size_t r, int j) {
      const A weight = w ? static_cast<A>((w + r)[lane]) : A(1);
      d[j] += weight * (dots + r)[lane];
      s[j] += weight * (sums + r)[lane];
    });
    const A dot = lane_sum(d), sum = lane_sum(s), inner = -rstd * rstd * rstd * (dot - mean * sum) / count,
            outer = -rstd * sum / count;
    A *pa = static_cast<A*>(p.a) + first, *pm = static_cast<A*>(p.m) + first, *pd = static_cast<A*>(p.d) + first,
      *pb = static_cast<A*>(p.b) + first;
    for_row(per, lane, [&](size_t r, int) {
      (pa + r)[lane] = w ? rstd * static_cast<A>((w + r)[lane]) : rstd;
      (pm + r)[lane] = mean;
      (pd + r)[lane] = inner;
      (pb + r)[lane] = outer;
    });
  }
}

// An item per channel: gradients of weight and bias.
template <class T, class W> void group_norm_backward_params(const NormCoefArgs& p) {
  using A = opmath_t<T>;
  const uint32_t c = global_id();
  if (c >= p.channels) return;
  const uint32_t k = div(c, p.by_group);
  A dw = 0, db = 0;
  for (uint32_t n = 0; n < p.batch; ++n) {
    const uint32_t i = n * p.channels + c, g = n * p.groups + k;
    const A dot = static_cast<const A*>(p.sum0)[i], sum = static_cast<const A*>(p.sum1)[i];
    dw += (dot - sum * static_cast<const A*>(p.mean)[g]) * static_cast<const A*>(p.rstd)[g];
    db += sum;
  }
  if (p.grad_weight) static_cast<W*>(p.grad_weight)[c] = static_cast<W>(dw);
  if (p.grad_bias) static_cast<W*>(p.grad_bias)[c] = static_cast<W>(db);
}

}  // namespace xpu

#include "kernels/sycl/reduce/normalization_team.hpp"
