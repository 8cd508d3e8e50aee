// Cumulative operators along contiguous lines as loops of the host: those of kernels/sycl/reduce/scan.hpp in its order.
#pragma once
#include "kernels/host/math.hpp"
#include "kernels/sycl/reduce/scan.hpp"

namespace xpu_ops::host {

// Four lanes: sixteen are four of these, which shift into each other without a trip through memory.
template <class S> struct Quad { typedef S type __attribute__((vector_size(4 * sizeof(S)))); };
template <class S> struct Places { typedef int64_t type __attribute__((vector_size(4 * sizeof(S)))); };
template <> struct Places<float> { typedef int32_t type __attribute__((vector_size(16))); };

template <class T> [[gnu::always_inline]] inline void shift(auto& to, const auto& before, const auto& v, int by) {
  using I = typename Places<T>::type;
  to = by == 1 ? __builtin_shuffle(before, v, I{3, 4, 5, 6}) : __builtin_shuffle(before, v, I{2, 3, 4, 5});
}

// Four lanes that are a number each.
template <class T> struct NumberLanes {
  using V = typename Quad<T>::type;
  using S = V;

  [[gnu::always_inline]] static void load(S& s, const T* x) { __builtin_memcpy(&s, x, sizeof s); }
  [[gnu::always_inline]] static void shifted(S& to, const S& before, const S& s, int by) {
    shift<T>(to, before, s, by);
  }
  [[gnu::always_inline]] static void store(T* x, const S& s) { __builtin_memcpy(x, &s, sizeof s); }
};

// Four lanes of a functor: their values, how they are joined, and the carry that all of a block meet. `nothing` changes
// nobody.
template <class T> struct SumLanes : NumberLanes<T> {
  using O = xpu::SumScan<T>;
  using V = typename Quad<T>::type;
  using S = V;
  static_assert(std::is_same_v<T, typename O::S>);
  typename O::Carry carry{};

  // Not even -0.
  [[gnu::always_inline]] static void nothing(S& s) { s = -V{}; }
  [[gnu::always_inline]] static void join(S& to, const S& a, const S& b) { to = a + b; }
  [[gnu::always_inline]] void apply(S& s) const {
    if constexpr (sizeof(carry) == sizeof(T))
      s = carry + s;
    else
      s = carry.hi + (carry.lo + s);
  }
  [[gnu::always_inline]] void extend(const S& last, bool begins) {
    carry = begins ? O::start(last[3]) : O::extend(carry, last[3]);
  }
};

// Of doubles.
template <class T> struct ProductLanes : NumberLanes<T> {
  using V = typename Quad<T>::type;
  using S = V;
  T carry{};

  [[gnu::always_inline]] static void nothing(S& s) { s = V{} + T(1); }
  [[gnu::always_inline]] static void join(S& to, const S& a, const S& b) { to = a * b; }
  [[gnu::always_inline]] void apply(S& s) const { s = carry * s; }
  [[gnu::always_inline]] void extend(const S& last, bool begins) { carry = begins ? last[3] : carry * last[3]; }
};

// A product beside its error (kernels/sycl/core/wide.hpp).
template <> struct ProductLanes<float> {
  using V = typename Quad<float>::type;
  struct S { V hi, lo; };
  S carry{};  // the same in all lanes

  // Only the sign of an error of 0 changes, which no result has.
  [[gnu::always_inline]] static void nothing(S& s) { s = {V{} + 1.0f, V{}}; }
  [[gnu::always_inline]] static void load(S& s, const float* x) {
    __builtin_memcpy(&s.hi, x, sizeof s.hi);
    s.lo = V{};
  }
  [[gnu::always_inline]] static void shifted(S& to, const S& before, const S& s, int by) {
    shift<float>(to.hi, before.hi, s.hi, by);
    shift<float>(to.lo, before.lo, s.lo, by);
  }
  [[gnu::always_inline]] static void join(S& to, const S& a, const S& b) {
    const V product = a.hi * b.hi, low = a.lo * b.hi;
    V error, rest;
    for (int l = 0; l < 4; ++l) {
      error[l] = fma(a.hi[l], b.hi[l], -product[l]);
      rest[l] = fma(a.hi[l], b.lo[l], low[l]);
    }
    error += rest;
    to = {product, error - error == 0.0f ? error : V{}};
  }
  [[gnu::always_inline]] void apply(S& s) const { join(s, carry, s); }
  [[gnu::always_inline]] void extend(const S& last, bool begins) {
    const S all{V{} + last.hi[3], V{} + last.lo[3]};
    S next = all;
    if (!begins) join(next, carry, all);
    const V sum = next.hi + next.lo;  // xpu::rebalanced
    const auto kept = (sum - sum == 0.0f) & (next.lo != 0.0f);
    carry = {kept ? sum : next.hi, kept ? next.lo - (sum - next.hi) : V{}};
  }
  [[gnu::always_inline]] static void store(float* x, const S& s) {
    const V v = s.lo == 0.0f ? s.hi : s.hi + s.lo;
    __builtin_memcpy(x, &v, sizeof v);
  }
};

// A line is one chunk: what is small is not cut.
template <class L, class T> [[gnu::always_inline]] inline void scan_line(const ScanArgs& p, uint32_t lines) {
  using S = typename L::S;
  static_assert(xpu::kScanLanes == 16);
  S nothing;
  L::nothing(nothing);
  const uint32_t length = static_cast<uint32_t>(p.length);
  for (uint32_t line = 0; line < lines; ++line) {
    const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(line) * length;
    T* out = static_cast<T*>(p.out) + static_cast<int64_t>(line) * length;
    L lanes;
    for (uint32_t i = 0; i < length; i += 16) {
      const uint32_t n = length - i < 16 ? length - i : 16;
      T piece[16] = {};
      const T* from = in + i;
      if (n < 16) {
        for (uint32_t l = 0; l < n; ++l) piece[l] = from[l];
        from = piece;
      }
      S v[4], w[4], before;
      for (int q = 0; q < 4; ++q) L::load(v[q], from + 4 * q);
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        L::shifted(before, q ? v[q - 1] : nothing, v[q], 1);
        L::join(w[q], before, v[q]);
      }
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        L::shifted(before, q ? w[q - 1] : nothing, w[q], 2);
        L::join(v[q], before, w[q]);
      }
#pragma GCC unroll 4
      for (int q = 3; q > 0; --q) L::join(v[q], v[q - 1], v[q]);
#pragma GCC unroll 4
      for (int q = 3; q > 1; --q) L::join(v[q], v[q - 2], v[q]);
      const S last = v[3];
      if (i > 0)
        for (S& x : v) lanes.apply(x);
      lanes.extend(last, i == 0);
      T* const to = n == 16 ? out + i : piece;
      for (int q = 0; q < 4; ++q) L::store(to + 4 * q, v[q]);
      if (n < 16)
        for (uint32_t l = 0; l < n; ++l) out[i + l] = piece[l];
    }
  }
}

// Integers are the same in any order, and the next needs no more than one step.
template <class T, bool kProduct> [[gnu::always_inline]] inline void whole_line(const ScanArgs& p, uint32_t lines) {
  using U = std::make_unsigned_t<T>;
  const uint32_t length = static_cast<uint32_t>(p.length);
  for (uint32_t line = 0; line < lines; ++line) {
    const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(line) * length;
    T* out = static_cast<T*>(p.out) + static_cast<int64_t>(line) * length;
    U all = kProduct ? 1 : 0;
    for (uint32_t i = 0; i < length; ++i) {
      all = kProduct ? all * static_cast<U>(in[i]) : all + static_cast<U>(in[i]);
      out[i] = static_cast<T>(all);
    }
  }
}

template <class T> [[gnu::always_inline]] inline void cumsum_line(const ScanArgs& p, uint32_t lines) {
  if constexpr (std::is_integral_v<T>)
    whole_line<T, false>(p, lines);
  else
    scan_line<SumLanes<T>, T>(p, lines);
}
template <class T> [[gnu::always_inline]] inline void cumprod_line(const ScanArgs& p, uint32_t lines) {
  if constexpr (std::is_integral_v<T>)
    whole_line<T, true>(p, lines);
  else
    scan_line<ProductLanes<T>, T>(p, lines);
}

// Extremes are the same in any order, and few elements of a line are one.
template <class T, bool kMax> [[gnu::always_inline]] inline void extreme_line(const ScanArgs& p, uint32_t lines) {
  const uint32_t length = static_cast<uint32_t>(p.length);
  for (uint32_t line = 0; line < lines; ++line) {
    const int64_t base = static_cast<int64_t>(line) * length;
    const T* in = static_cast<const T*>(p.in) + base;
    T* out = static_cast<T*>(p.out) + base;
    int64_t* indices = p.indices + base;
    T best = in[0];
    int64_t at = 0;
    for (uint32_t i = 0; i < length; ++i) {
      const T x = in[i];
      // A number is no better than a NaN, and every NaN is better than what came before it.
      if ((kMax ? x >= best : x <= best) || x != x) best = x, at = i;
      out[i] = best;
      indices[i] = at;
    }
  }
}
template <class T> [[gnu::always_inline]] inline void cummax_line(const ScanArgs& p, uint32_t lines) {
  extreme_line<T, true>(p, lines);
}
template <class T> [[gnu::always_inline]] inline void cummin_line(const ScanArgs& p, uint32_t lines) {
  extreme_line<T, false>(p, lines);
}

}  // namespace xpu_ops::host
