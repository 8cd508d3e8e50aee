// softmax and log_softmax with their gradients: `row` where the dimension is contiguous, `col` where it is strided.
#pragma once
#include "kernels/sycl/core/columns.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/softmax_args.hpp"

namespace xpu {

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
      m[j] = v > m[j] || v != v ? v : m[j];
    });
    m[0] = m[1] > m[0] || m[1] != m[1] ? m[1] : m[0];
    m[2] = m[3] > m[2] || m[3] != m[3] ? m[3] : m[2];
    const A top = lane_max(m[2] > m[0] || m[2] != m[2] ? m[2] : m[0]);
    for_row(n, lane, [&](size_t r, int j) {
      const A e = fast_exp(static_cast<A>(load(x + r, lane)) - top);
      s[j] += e;
      if constexpr (!kLog && kWideResult<O>) (out + r)[lane] = static_cast<O>(e);
    });
    const A sum = lane_sum((s[0] + s[1]) + (s[2] + s[3]));
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
        top[j] = v > top[j] || v != v ? v : top[j];
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
    const A sum = lane_sum((s[0] + s[1]) + (s[2] + s[3]));
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
