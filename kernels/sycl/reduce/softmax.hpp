// softmax and log_softmax with their gradients: `row` where the dimension is contiguous, `col` where it is strided.
#pragma once
#include "kernels/sycl/core/columns.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/reduce/softmax_args.hpp"

namespace xpu {

using xpu_ops::kSoftmaxRows;
using xpu_ops::kSoftmaxVectors;
using xpu_ops::SoftmaxArgs;

// The element type of a narrow result cannot hold exp(x - max) between two passes without rounding twice.
template <class T> inline constexpr bool kWideResult = sizeof(T) >= 4;

template <class I, class O, bool kLog> void softmax_row(const SoftmaxArgs& p) {
  using A = opmath_t<O>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.dim;
  const RowRange mine = group_rows(p.outer);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const I* x = static_cast<const I*>(p.x) + row * n;
    O* out = static_cast<O*>(p.out) + row * n;
    constexpr A lowest = -__builtin_inff();
    A m[4] = {lowest, lowest, lowest, lowest}, s[4] = {0, 0, 0, 0};
    for_row(n, lane, [&](size_t r, int j) {
      const A v = static_cast<A>(load(x + r, lane));
      m[j] = larger(m[j], v);
    });
    const A top = lane_max(m);
    for_row(n, lane, [&](size_t r, int j) {
      const A e = fast_exp(static_cast<A>(load(x + r, lane)) - top);
      s[j] += e;
      if constexpr (!kLog && kWideResult<O>) (out + r)[lane] = static_cast<O>(e);
    });
    const A sum = lane_sum(s);
    if constexpr (kLog) {
      const A shift = sycl::log(sum);
      for_row(n, lane, [&](size_t r, int) {
        store(out + r, lane, static_cast<O>((static_cast<A>(load(x + r, lane)) - top) - shift));
      });
    } else {
      const A scale = A(1) / sum;
      for_row(n, lane, [&](size_t r, int) {
        if constexpr (kWideResult<O>)
          (out + r)[lane] = static_cast<O>((out + r)[lane] * scale);
        else
          store(out + r, lane, static_cast<O>(fast_exp(static_cast<A>(load(x + r, lane)) - top) * scale));
      });
    }
  }
}

// Four rows of 16 (kVectors - 1) to 16 kVectors elements, in registers; those past the end are the last one again. The
// last vector of a row is that at its end, and begins with elements of the one before. Each v becomes x - top or its
// exponential; returned are the sums of the exponentials.
template <bool kLog, int kVectors> struct SoftmaxFour {
  float16v v[kSoftmaxRows][kVectors];
  uint32_t n, last;
  XPU_INLINE size_t at(uint32_t row, uint32_t i) const { return size_t{least(row + i, last)} * n; }
  XPU_INLINE size_t column(int j) const { return j + 1 < kVectors ? j * kLanes : n - kLanes; }
  template <class I> XPU_INLINE float4v terms(const I* x, uint32_t row) {
    float16v top[kSoftmaxRows], sum[kSoftmaxRows];
#pragma unroll
    for (uint32_t i = 0; i < kSoftmaxRows; ++i)
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        v[i][j] = load16(x + at(row, i) + column(j));
        top[i] = j ? larger(top[i], v[i][j]) : v[i][0];
      }
    const float4v tops = max16(top[0], top[1], top[2], top[3]);
    const uint32_t twice = kVectors * kLanes - n;
#pragma unroll
    for (uint32_t i = 0; i < kSoftmaxRows; ++i)
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        v[i][j] -= tops[i];
        float16v e = fast_exp_of<float16v, uint16v>(v[i][j]);
        if constexpr (!kLog) v[i][j] = e;
        if (j + 1 == kVectors) e = kCount16 < twice ? float16v(0.0f) : e;
        sum[i] = j ? sum[i] + e : e;
      }
    return sum16(sum[0], sum[1], sum[2], sum[3]);
  }
};
// For rows of 16 to kSoftmaxShort elements on a CPU device.
template <class I, class O, bool kLog, int kVectors> XPU_INLINE void softmax_fours(const SoftmaxArgs& p) {
  const RowRange mine = group_rows(p.outer);
  const I* x = static_cast<const I*>(p.x);
  O* out = static_cast<O*>(p.out);
  SoftmaxFour<kLog, kVectors> four;
  four.n = p.dim, four.last = mine.end - 1;
  if constexpr (!kLog) {
    for (uint32_t row = mine.begin; row < mine.end; row += kSoftmaxRows) {
      const float4v factors = 1.0f / four.terms(x, row);
#pragma unroll
      for (uint32_t i = 0; i < kSoftmaxRows; ++i)
#pragma unroll
        for (int j = 0; j < kVectors; ++j) store16(out + four.at(row, i) + four.column(j), four.v[i][j] * factors[i]);
    }
  } else {
    // Sixteen rows between two calls of log, which keeps nothing in registers.
    for (uint32_t row = mine.begin; row < mine.end; row += kLanes) {
      const uint32_t rows = least(mine.end - row, kLanes);
      float tile[kLanes][kVectors * kLanes], sums[kLanes] = {};
      for (uint32_t t = 0; t < rows; t += kSoftmaxRows) {
        *reinterpret_cast<float4u*>(sums + t) = four.terms(x, row + t);
#pragma unroll
        for (uint32_t i = 0; i < kSoftmaxRows; ++i)
#pragma unroll
          for (int j = 0; j < kVectors; ++j) store16(tile[t + i] + j * kLanes, four.v[i][j]);
      }
      store16(sums, __spirv_ocl_log(load16(sums)));
      for (uint32_t i = 0; i < rows; ++i)
#pragma unroll
        for (int j = 0; j < kVectors; ++j)
          store16(out + four.at(row, i) + four.column(j), load16(tile[i] + j * kLanes) - sums[i]);
    }
  }
}
template <class I, class O, bool kLog> void softmax_short(const SoftmaxArgs& p) {
  if (p.dim <= kLanes)
    softmax_fours<I, O, kLog, 1>(p);
  else if (p.dim <= 2 * kLanes)
    softmax_fours<I, O, kLog, 2>(p);
  else if (p.dim <= 3 * kLanes)
    softmax_fours<I, O, kLog, 3>(p);
  else
    softmax_fours<I, O, kLog, 4>(p);
}

// The work-group's block of columns: calls f(Count<vectors>, offset of the first element, lane).
template <class F> XPU_INLINE void softmax_columns(const SoftmaxArgs& p, F f) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const uint32_t g = item.get_group(0), row = g / p.blocks, block = g - row * p.blocks;
  const size_t lane = item.get_local_id(0), inner = p.inner, base = row * static_cast<size_t>(p.dim) * inner;
  column_block<kSoftmaxVectors>(
      block * size_t{kSoftmaxVectors * kLanes}, inner, lane, p.once,
      [&](auto count, size_t first) { [[clang::always_inline]] f(count, base + first, lane); });
}

template <class I, class O, bool kLog> void softmax_col(const SoftmaxArgs& p) {
  using A = opmath_t<O>;
  softmax_columns(p, [&](auto count, size_t base, size_t lane) {
    constexpr int J = count.value;
    const size_t inner = p.inner;
    const I* x = static_cast<const I*>(p.x) + base;
    O* out = static_cast<O*>(p.out) + base;
    A top[J], sum[J];
#pragma unroll
    for (int j = 0; j < J; ++j) top[j] = -__builtin_inff(), sum[j] = 0;
    for (uint32_t d = 0; d < p.dim; ++d)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const A v = static_cast<A>(load(x + d * inner + j * kLanes, lane));
        top[j] = larger(top[j], v);
      }
    for (uint32_t d = 0; d < p.dim; ++d)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const A e = fast_exp(static_cast<A>(load(x + d * inner + j * kLanes, lane)) - top[j]);
        sum[j] += e;
        if constexpr (!kLog && kWideResult<O>) (out + d * inner + j * kLanes)[lane] = static_cast<O>(e);
      }
#pragma unroll
    for (int j = 0; j < J; ++j) sum[j] = kLog ? sycl::log(sum[j]) : A(1) / sum[j];
    for (uint32_t d = 0; d < p.dim; ++d)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const I* in = x + d * inner + j * kLanes;
        O* to = out + d * inner + j * kLanes;
        if constexpr (kLog)
          store(to, lane, static_cast<O>((static_cast<A>(load(in, lane)) - top[j]) - sum[j]));
        else if constexpr (kWideResult<O>)
          to[lane] = static_cast<O>(to[lane] * sum[j]);
        else
          store(to, lane, static_cast<O>(fast_exp(static_cast<A>(load(in, lane)) - top[j]) * sum[j]));
      }
  });
}

// I: type of gradient and output, O: type of the input's gradient.
template <class I, class O, bool kLog> struct SoftmaxGradient {
  using A = opmath_t<I>;
  static A term(A g, A y) { return kLog ? g : g * y; }
  static A value(A g, A y, A sum) { return kLog ? g - fast_exp(y) * sum : (g - sum) * y; }
};

template <class I, class O, bool kLog> void softmax_backward_row(const SoftmaxArgs& p) {
  using G = SoftmaxGradient<I, O, kLog>;
  using A = typename G::A;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.dim;
  const RowRange mine = group_rows(p.outer);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const I *g = static_cast<const I*>(p.x) + row * n, *y = static_cast<const I*>(p.y) + row * n;
    O* out = static_cast<O*>(p.out) + row * n;
    A s[4] = {0, 0, 0, 0};
    for_row(n, lane, [&](size_t r, int j) {
      s[j] += G::term(static_cast<A>(load(g + r, lane)), static_cast<A>(load(y + r, lane)));
    });
    const A sum = lane_sum(s);
    for_row(n, lane, [&](size_t r, int) {
      store(out + r, lane,
            static_cast<O>(G::value(static_cast<A>(load(g + r, lane)), static_cast<A>(load(y + r, lane)), sum)));
    });
  }
}

template <class I, class O, bool kLog> void softmax_backward_col(const SoftmaxArgs& p) {
  using G = SoftmaxGradient<I, O, kLog>;
  using A = typename G::A;
  softmax_columns(p, [&](auto count, size_t base, size_t lane) {
    constexpr int J = count.value;
    const size_t inner = p.inner;
    const I *g = static_cast<const I*>(p.x) + base, *y = static_cast<const I*>(p.y) + base;
    O* out = static_cast<O*>(p.out) + base;
    A sum[J];
#pragma unroll
    for (int j = 0; j < J; ++j) sum[j] = 0;
    for (uint32_t d = 0; d < p.dim; ++d)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const size_t at = d * inner + j * kLanes;
        sum[j] += G::term(static_cast<A>(load(g + at, lane)), static_cast<A>(load(y + at, lane)));
      }
    for (uint32_t d = 0; d < p.dim; ++d)
#pragma unroll
      for (int j = 0; j < J; ++j) {
        const size_t at = d * inner + j * kLanes;
        const A v = G::value(static_cast<A>(load(g + at, lane)), static_cast<A>(load(y + at, lane)), sum[j]);
        store(out + at, lane, static_cast<O>(v));
      }
  });
}

}  // namespace xpu

#include "kernels/sycl/reduce/softmax_team.hpp"
