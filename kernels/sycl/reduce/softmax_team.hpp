// softmax and log_softmax along the innermost dimension, and their gradients, for devices that want many items per
// work-group. A row of up to kHeld elements per item is read once, where it can be moved by fours. Included by
// softmax.hpp.
#pragma once
#include "kernels/sycl/core/team_row.hpp"

namespace xpu {

// The maximum so far, and the sum of exponentials relative to it.
template <class A> struct SoftmaxSum { A top, sum; };
template <class A> XPU_INLINE SoftmaxSum<A> join(SoftmaxSum<A> a, SoftmaxSum<A> b) {
  constexpr A lowest = -__builtin_inff();
  const A top = larger(a.top, b.top), shift = top == lowest ? A(0) : top;  // -inf - -inf is a nan
  return {top, a.sum * fast_exp(a.top - shift) + b.sum * fast_exp(b.top - shift)};
}
template <class A> inline SoftmaxSum<A> exchange(sycl::sub_group sg, const SoftmaxSum<A>& v, uint32_t m) {
  return {exchange(sg, v.top, m), exchange(sg, v.sum, m)};
}

// A row in registers, kCount elements per item.
template <uint32_t kCount, bool kLog, class I, class O>
XPU_INLINE void softmax_held(const Team& t, const I* x, O* out, uint32_t n) {
  using A = opmath_t<O>;
  A v[kCount], top = -__builtin_inff(), sum = 0;
#pragma unroll
  for (uint32_t j = 0; j < kCount; j += 4)
    if (holds(t, n, j)) read_four(x, four_at(t, j), v + j);
#pragma unroll
  for (uint32_t j = 0; j < kCount; ++j)
    if (holds(t, n, j)) top = larger(top, v[j]);
  top = team_max(t, top);
#pragma unroll
  for (uint32_t j = 0; j < kCount; ++j) {
    if (!holds(t, n, j)) continue;
    v[j] -= top;
    const A e = fast_exp(v[j]);
    if constexpr (!kLog) v[j] = e;
    sum += e;
  }
  sum = team_sum(t, sum);
  const A last = kLog ? sycl::log(sum) : A(1) / sum;
#pragma unroll
  for (uint32_t j = 0; j < kCount; j += 4) {
    if (!holds(t, n, j)) continue;
#pragma unroll
    for (uint32_t k = j; k < j + 4; ++k) v[k] = kLog ? v[k] - last : v[k] * last;
    write_four(out, four_at(t, j), v + j);
  }
}

// Four neighbouring rows of a sub-group, a four per item of each: the exchanges of one wait for those of the others.
template <class I, class O, bool kLog> XPU_INLINE void softmax_rows(const Team& t, const SoftmaxArgs& p, uint32_t row) {
  using A = opmath_t<O>;
  constexpr uint32_t kRows = xpu_ops::kSoftmaxRows;
  static_assert(kRows == 4);
  const uint32_t at = 4 * t.lane;
  const bool inside = at < p.dim;
  A v[kRows][4], top[kRows], sum[kRows];
#pragma unroll
  for (uint32_t k = 0; k < kRows; ++k) {
    // The last row again where there are no four.
    const I* x = static_cast<const I*>(p.x) + size_t{least(row + k, p.outer - 1)} * p.dim;
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) v[k][j] = -__builtin_inff();
    if (inside) read_four(x, at, v[k]);
  }
#pragma unroll
  for (uint32_t k = 0; k < kRows; ++k) top[k] = lane_max(larger(larger(v[k][0], v[k][1]), larger(v[k][2], v[k][3])));
#pragma unroll
  for (uint32_t k = 0; k < kRows; ++k) {
    sum[k] = 0;
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) {
      const A shifted = v[k][j] - top[k], e = fast_exp(shifted);
      v[k][j] = kLog ? shifted : e;
      sum[k] += inside ? e : A(0);
    }
  }
  const A all = lane_sum(sum[0], sum[1], sum[2], sum[3], sub_group_lane());
  const A last = kLog ? sycl::log(all) : A(1) / all;
#pragma unroll
  for (uint32_t k = 0; k < kRows; ++k) {
    const A own = from_lane(last, k * (kLanes / kRows));
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) v[k][j] = kLog ? v[k][j] - own : v[k][j] * own;
    if (inside) write_four(static_cast<O*>(p.out) + size_t{least(row + k, p.outer - 1)} * p.dim, at, v[k]);
  }
}

template <class I, class O, bool kLog> XPU_INLINE void softmax_team(const SoftmaxArgs& p) {
  using A = opmath_t<O>;
  constexpr A lowest = -__builtin_inff();
  const Team t = team_of(p.team);
  const size_t n = p.dim;
  const bool fours = by_fours(static_cast<const I*>(p.x), n) && by_fours(static_cast<const O*>(p.out), n);
  if (fours && p.rows > 1) {
    for (uint32_t row = t.first * p.rows; row < p.outer; row += t.count * p.rows) softmax_rows<I, O, kLog>(t, p, row);
    return;
  }
  // uniform over the group: a team of several sub-groups is the work-group
  for (uint32_t row = t.first; row < p.outer; row += t.count) {
    const I* x = static_cast<const I*>(p.x) + row * n;
    O* out = static_cast<O*>(p.out) + row * n;
    if (fours && n <= kHeld * size_t{t.lanes}) {
      if (n > 4 * size_t{t.lanes})
        softmax_held<kHeld, kLog>(t, x, out, p.dim);
      else
        softmax_held<4, kLog>(t, x, out, p.dim);
      continue;
    }
    // One pass for maximum and sum, by fours: one factor for what came before.
    SoftmaxSum<A> s{lowest, 0};
    const auto add_four = [&](const A(&v)[4]) {
      const A top = larger(larger(s.top, larger(v[0], v[1])), larger(v[2], v[3])), shift = top == lowest ? A(0) : top;
      s.sum *= fast_exp(s.top - shift);
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) s.sum += fast_exp(v[j] - shift);
      s.top = top;
    };
    size_t r = fours ? 4 * t.lane : t.lane;
    const size_t step = t.lanes;
    for (; fours && r < n; r += 4 * step) {
      A v[4];
      read_four(x, r, v);
      add_four(v);
    }
    for (; r + 3 * step < n; r += 4 * step) {
      A v[4];
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) v[j] = static_cast<A>(load(x, r + j * step));
      add_four(v);
    }
    for (; r < n; r += step) s = join(s, SoftmaxSum<A>{static_cast<A>(load(x, r)), A(1)});
    s = team_join(t, s, [](SoftmaxSum<A> a, SoftmaxSum<A> b) { return join(a, b); });
    const A last = kLog ? sycl::log(s.sum) : A(1) / s.sum;
    const auto result = [&](A value) { return kLog ? value - s.top - last : fast_exp(value - s.top) * last; };
    if (!fours)
      for_team(t, n, [&](size_t at, int) { store(out, at, static_cast<O>(result(static_cast<A>(load(x, at))))); });
    for (r = 4 * t.lane; fours && r < n; r += 4 * step) {
      A v[4];
      read_four(x, r, v);
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) v[j] = result(v[j]);
      write_four(out, r, v);
    }
  }
}

template <class I, class O, bool kLog> XPU_INLINE void softmax_backward_team(const SoftmaxArgs& p) {
  using G = SoftmaxGradient<I, O, kLog>;
  using A = typename G::A;
  constexpr uint32_t kPairs = kHeld / 2;
  const Team t = team_of(p.team);
  const size_t n = p.dim;
  // uniform over the group: a team of several sub-groups is the work-group
  for (uint32_t row = t.first; row < p.outer; row += t.count) {
    const I *g = static_cast<const I*>(p.x) + row * n, *y = static_cast<const I*>(p.y) + row * n;
    O* out = static_cast<O*>(p.out) + row * n;
    if (n <= kPairs * size_t{t.lanes}) {
      A a[kPairs], b[kPairs], sum = 0;
      for_held<kPairs>(t, p.dim, [&](uint32_t at, int j) {
        a[j] = static_cast<A>(load(g, at)), b[j] = static_cast<A>(load(y, at));
        sum += G::term(a[j], b[j]);
      });
      sum = team_sum(t, sum);
      for_held<kPairs>(t, p.dim,
                       [&](uint32_t at, int j) { store(out, at, static_cast<O>(G::value(a[j], b[j], sum))); });
      continue;
    }
    A s[4] = {0, 0, 0, 0};
    for_team(t, n,
             [&](size_t at, int j) { s[j] += G::term(static_cast<A>(load(g, at)), static_cast<A>(load(y, at))); });
    const A sum = team_sum(t, (s[0] + s[1]) + (s[2] + s[3]));
    for_team(t, n, [&](size_t at, int) {
      store(out, at, static_cast<O>(G::value(static_cast<A>(load(g, at)), static_cast<A>(load(y, at)), sum)));
    });
  }
}

}  // namespace xpu
