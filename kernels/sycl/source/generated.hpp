// The prelude of kernels compiled at run time (xpu_ops.jit, torch.compile): parsed once a compiler process, before each
// source. The loops are those that the CPU device runs well: one sub-group of 16 lanes per work-group, side by side in
// memory, whole vectors first and then one masked remainder, indices of 64 bits.
#pragma once
#include <sycl/ext/oneapi/work_group_static.hpp>
#include <sycl/group_barrier.hpp>

#include "kernels/sycl/core/complex.hpp"
#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/lanes.hpp"
#include "kernels/sycl/core/philox.hpp"
#include "kernels/sycl/core/strides.hpp"
#include "kernels/sycl/math/integer_division.hpp"

namespace xpu::gen {

#define GEN_INLINE __attribute__((always_inline))
#define GEN_FN GEN_INLINE inline

constexpr long kLanes = 16;

// ---- Elements. Floats of 16 bits are widened where they are loaded and rounded where they are stored.

template <class T> GEN_FN T ld(const T* p, long i) { return p[i]; }
GEN_FN float ld(const half* p, long i) { return static_cast<float>(p[i]); }
GEN_FN float ld(const bf16* p, long i) {
  return sycl::bit_cast<float>(static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(p)[i]) << 16);
}
GEN_FN bool ld(const bool* p, long i) { return reinterpret_cast<const uint8_t*>(p)[i] != 0; }

template <class T, class V> GEN_FN void st(T* p, long i, V v) { p[i] = static_cast<T>(v); }
template <class V> GEN_FN void st(half* p, long i, V v) { p[i] = static_cast<half>(static_cast<float>(v)); }
template <class V> GEN_FN void st(bf16* p, long i, V v) {
  reinterpret_cast<uint16_t*>(p)[i] = bf16(static_cast<float>(v)).bits;
}
template <class V> GEN_FN void st(bool* p, long i, V v) { reinterpret_cast<uint8_t*>(p)[i] = v != V(0); }

// The first lane's value, stored by all of them.
template <class T, class V> GEN_FN void st_first(T* p, long i, V v) { st(p, i, from_lane(v, 0)); }

// ---- Loops. Slot<j> names the accumulator to use.

struct Span { long begin, end; };
// The `each` neighbours of n that belong to this work-group.
GEN_FN Span part(long n, long each) {
  const long begin = static_cast<long>(__spirv_BuiltInWorkgroupId(0)) * each;
  return {begin, begin + each < n ? begin + each : n};
}

// f(c) for c0 <= c < c1.
template <class F> GEN_FN void lanes(long c0, long c1, long lane, F f) {
  long c = c0;
  for (; c + kLanes <= c1; c += kLanes) [[clang::always_inline]]
    f(c + lane);
  if (c + lane < c1) [[clang::always_inline]]
    f(c + lane);
}

// f(c, slot) for c < n with four accumulators. The rest has another one than the vectors before it: where both add to
// the same and n is known, the CPU device's compiler joins the two steps and the lanes past the end lose what they had.
template <class F> GEN_FN void lanes_by4(long n, long lane, F f) {
  long c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes) {
    [[clang::always_inline]] f(c + lane, Slot<0>{});
    [[clang::always_inline]] f(c + kLanes + lane, Slot<1>{});
    [[clang::always_inline]] f(c + 2 * kLanes + lane, Slot<2>{});
    [[clang::always_inline]] f(c + 3 * kLanes + lane, Slot<3>{});
  }
  for (; c + kLanes <= n; c += kLanes) [[clang::always_inline]]
    f(c + lane, Slot<0>{});
  if (c + lane < n) [[clang::always_inline]]
    f(c + lane, Slot<1>{});
}

// f(c, in, slot) for c < n by all lanes together: those past the end take the last element and are told so.
template <class F> GEN_FN void lanes_in_order(long n, long lane, F f) {
  for (long c = 0; c < n; c += kLanes) {
    const bool in = c + lane < n;
    [[clang::always_inline]] f(in ? c + lane : n - 1, in, Slot<0>{});
  }
}

// f(r, slot) for r < n, the same r in all lanes, with two accumulators.
template <class F> GEN_FN void steps_by2(long n, F f) {
  long r = 0;
  for (; r + 2 <= n; r += 2) {
    [[clang::always_inline]] f(r, Slot<0>{});
    [[clang::always_inline]] f(r + 1, Slot<1>{});
  }
  if (r < n) [[clang::always_inline]]
    f(r, Slot<0>{});
}

// Columns c0 <= c < c1 by four vectors at a time: f(count, each), where each(g) calls g(c, slot) `count` times.
template <class F> GEN_FN void columns_by4(long c0, long c1, long lane, F f) {
  long c = c0;
  for (; c + 4 * kLanes <= c1; c += 4 * kLanes) [[clang::always_inline]]
    f(Slot<4>{}, [&](auto g) GEN_INLINE {
      [[clang::always_inline]] g(c + lane, Slot<0>{});
      [[clang::always_inline]] g(c + kLanes + lane, Slot<1>{});
      [[clang::always_inline]] g(c + 2 * kLanes + lane, Slot<2>{});
      [[clang::always_inline]] g(c + 3 * kLanes + lane, Slot<3>{});
    });
  const auto one = [&](auto g) GEN_INLINE { [[clang::always_inline]] g(c + lane, Slot<0>{}); };
  for (; c + kLanes <= c1; c += kLanes) [[clang::always_inline]]
    f(Slot<1>{}, one);
  if (c + lane < c1) [[clang::always_inline]]
    f(Slot<1>{}, one);
}

// ---- Scalar functions whose results differ from those of C++ operators

// Index arithmetic: divisors are positive.
GEN_FN long index_floor_div(long a, long b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
GEN_FN long index_mod(long a, long b) {
  const long r = a % b;
  return r < 0 ? r + b : r;
}

// As the printer of index expressions names them: sizes of scaled images, in double.
namespace expr {
#define GEN_EXPR(NAME) \
  GEN_FN double NAME(double a) { return sycl::NAME(a); }
GEN_EXPR(floor)
GEN_EXPR(ceil)
GEN_EXPR(trunc)
GEN_EXPR(sqrt)
GEN_EXPR(log2)
GEN_EXPR(sin)
GEN_EXPR(cos)
GEN_EXPR(tan)
GEN_EXPR(sinh)
GEN_EXPR(cosh)
GEN_EXPR(tanh)
GEN_EXPR(asin)
GEN_EXPR(acos)
GEN_EXPR(atan)
GEN_FN double nearbyint(double a) { return sycl::rint(a); }
GEN_FN long lrint(double a) { return static_cast<long>(sycl::rint(a)); }
GEN_FN double pow(double a, double b) { return sycl::pow(a, b); }
template <class T> GEN_FN T abs(T a) { return a < 0 ? -a : a; }
#undef GEN_EXPR
}  // namespace expr

// a 2^n, rounded once. A factor of a small result keeps all bits of the mantissa, so that only the last one rounds.
template <class T> GEN_FN T ldexp(T a, int32_t n) {
  using U = float_bits_t<T>;
  constexpr int bias = float_bits<T>::bias, mantissa = float_bits<T>::mantissa, down = bias - 1 - (mantissa + 1);
  const auto power = [](int32_t e) __attribute__((always_inline)) {
    return sycl::bit_cast<T>(static_cast<U>(static_cast<U>(e + bias) << mantissa));
  };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int32_t step = n > bias ? bias : n < 1 - bias ? -down : 0;
    a *= power(step);
    n -= step;
  }
  return a * power(n > bias ? bias : n < 1 - bias ? 1 - bias : n);
}

// ---- Reductions

struct Sum {
  template <class T> GEN_INLINE T operator()(T a, T b) const { return a + b; }
};
struct Prod {
  template <class T> GEN_INLINE T operator()(T a, T b) const { return a * b; }
};
struct Max {
  template <class T> GEN_INLINE T operator()(T a, T b) const { return maximum(a, b); }
};
struct Min {
  template <class T> GEN_INLINE T operator()(T a, T b) const { return minimum(a, b); }
};
struct Or {
  template <class T> GEN_INLINE T operator()(T a, T b) const { return a | b; }
};
struct Xor {
  template <class T> GEN_INLINE T operator()(T a, T b) const { return a ^ b; }
};

// Moments so far: mean, sum of squared deviations, weight (Chan, Golub, LeVeque 1979).
template <class T> struct Moments { T mean, m2, n; };
struct MergeMoments {
  template <class T> GEN_INLINE Moments<T> operator()(Moments<T> a, Moments<T> b) const {
    const T n = a.n + b.n, w = n == T(0) ? T(0) : b.n / n, d = b.mean - a.mean;
    return {a.mean + d * w, a.m2 + b.m2 + d * d * a.n * w, n};
  }
};
template <class T> GEN_FN void add_sample(Moments<T>& a, T v) {
  a.n += T(1);
  const T d = v - a.mean;
  a.mean += d / a.n;
  a.m2 += d * (v - a.mean);
}

// The extreme so far and where it is. NaN wins; of equals the first.
template <class T> struct Place {
  T value;
  long index;
};
template <bool kMax> struct Better {
  template <class T> GEN_INLINE Place<T> operator()(Place<T> a, Place<T> b) const {
    const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
    const bool tie = a.value == b.value || (nan_a && nan_b);
    const bool beats = kMax ? a.value > b.value : a.value < b.value;
    const bool first = nan_a != nan_b ? nan_a : tie ? a.index < b.index : beats;
    return {first ? a.value : b.value, first ? a.index : b.index};
  }
};

template <class T> GEN_FN T other_lane(T v, uint32_t mask) {
  return sycl::permute_group_by_xor(syclex::this_work_item::get_sub_group(), v, mask);
}
template <class T> GEN_FN Moments<T> other_lane(Moments<T> v, uint32_t mask) {
  return {other_lane(v.mean, mask), other_lane(v.m2, mask), other_lane(v.n, mask)};
}
template <class T> GEN_FN Place<T> other_lane(Place<T> v, uint32_t mask) {
  return {other_lane(v.value, mask), other_lane(v.index, mask)};
}

// The accumulators of one item joined.
template <class Op, class T, int N> GEN_FN T join(const T (&a)[N]) {
  if constexpr (N == 1)
    return a[0];
  else if constexpr (N == 2)
    return Op{}(a[0], a[1]);
  else
    return Op{}(Op{}(a[0], a[1]), Op{}(a[2], a[3]));
}
// The values of all lanes joined: every lane gets the result.
template <class Op, class T> GEN_FN T across(T v) {
#pragma unroll
  for (uint32_t m = kLanes / 2; m > 0; m /= 2) v = Op{}(v, other_lane(v, m));
  return v;
}

// ---- Scans. What `combine` joins are neighbours, the earlier first.

template <class T> struct Carry {
  T value{};
  bool any = false;
};
// The result at the next element, one lane per row.
template <class T, class F> GEN_FN T scan_next(Carry<T>& so_far, T v, F combine) {
  so_far.value = so_far.any ? combine(so_far.value, v) : v;
  so_far.any = true;
  return so_far.value;
}
// The results at the next elements of one row, one per lane. Garbage in a lane reaches only those behind it.
template <class T, class F> GEN_FN T scan_lanes(Carry<T>& so_far, T v, long lane, F combine) {
  T sum = v;  // of the lanes with which this one has exchanged
#pragma unroll
  for (uint32_t m = 1; m < kLanes; m *= 2) {
    const T other = sum.other(m);
    if (lane & m) {
      v = combine(other, v);
      sum = combine(other, sum);
    } else {
      sum = combine(sum, other);
    }
  }
  if (so_far.any) {
    v = combine(so_far.value, v);
    sum = combine(so_far.value, sum);
  }
  so_far.value = sum;
  so_far.any = true;
  return v;
}

// ---- Blocks of transposed operands

// to[n - n0][c - c0] = at(c, n) where neighbours in memory have neighbouring n. Each lane writes what it reads later:
// the columns that `lanes(c0, c1, ...)` gives it. No attribute on a call in an unrolled loop: the compiler crashes on
// that where it reads this header precompiled.
template <int kPitch, class T, class F> GEN_FN void copy_block(T* to, long c0, long c1, long n0, long n1, long lane,
                                                               F at) {
  for (long c = c0; c < c1; c += kLanes)
    for (long n = n0; n < n1; n += kLanes) {
      T* row = to + (n - n0) * kPitch + (c - c0);
      if (n + kLanes <= n1 && c + kLanes <= c1) {
        T x[kLanes];
#pragma unroll
        for (int i = 0; i < kLanes; ++i) x[i] = at(c + i, n + lane);
        transpose_lanes(x, static_cast<size_t>(lane));
#pragma unroll
        for (int i = 0; i < kLanes; ++i) (row + i * kPitch)[lane] = x[i];
      } else if (c + lane < c1) {
        const long end = n + kLanes < n1 ? n + kLanes : n1;
        for (long k = n; k < end; ++k) (row + (k - n) * kPitch)[lane] = at(c + lane, k);
      }
    }
}

// copy_block for all rows of an operand whose columns hold kCount neighbours in memory each, such as the channels of an
// image: vectors of them are read, and change lanes.
template <int kPitch, int kCount, class T, class F> GEN_FN void copy_channels(T* to, long c0, long c1, long lane,
                                                                              F at) {
  const auto sg = syclex::this_work_item::get_sub_group();
  long c = c0;
  for (; c + kLanes <= c1; c += kLanes) {
    const T* from = &at(c, 0);
    T x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = (from + i * kLanes)[lane];
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const uint32_t place = static_cast<uint32_t>(lane) * kCount + n, source = place % kLanes;
      T v = sycl::select_from_group(sg, x[0], source);
#pragma unroll
      for (int i = 1; i < kCount; ++i) {
        const T other = sycl::select_from_group(sg, x[i], source);
        v = place / kLanes == static_cast<uint32_t>(i) ? other : v;
      }
      (to + n * kPitch + (c - c0))[lane] = v;
    }
  }
  if (c + lane < c1)
    for (int n = 0; n < kCount; ++n) (to + n * kPitch + (c - c0))[lane] = at(c + lane, n);
}

// at(c, n) = from[n - n0][c - c0], the same in the other direction. Each lane reads what it wrote.
template <int kPitch, class T, class F>
GEN_FN void write_block(const T* from, long c0, long c1, long n0, long n1, long lane, F at) {
  for (long n = n0; n < n1; n += kLanes)
    for (long c = c0; c < c1; c += kLanes) {
      const T* row = from + (n - n0) * kPitch + (c - c0);
      if (n + kLanes <= n1 && c + kLanes <= c1) {
        T x[kLanes];
#pragma unroll
        for (int i = 0; i < kLanes; ++i) x[i] = (row + i * kPitch)[lane];
        transpose_lanes(x, static_cast<size_t>(lane));
#pragma unroll
        for (int i = 0; i < kLanes; ++i) at(c + i, n + lane) = x[i];
      } else if (c + lane < c1) {
        const long end = n + kLanes < n1 ? n + kLanes : n1;
        for (long k = n; k < end; ++k) at(c + lane, k) = (row + (k - n) * kPitch)[lane];
      }
    }
}

// ---- Random numbers by seed and element, as upstream's inductor_prims: one counter per element

GEN_FN Random4 draw(long seed, long offset) {
  return philox(static_cast<uint64_t>(seed), 0, static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32));
}
GEN_FN float rand(long seed, long offset) { return uniform24(draw(seed, offset).v[0]); }
GEN_FN float randn(long seed, long offset) {
  const Random4 r = draw(seed, offset);
  return normal_pair(r.v[0], r.v[1]).a;
}
// low <= result < high. All 64 bits, so that the remainder of no range prefers the lower numbers.
GEN_FN long randint(long seed, long offset, long low, long high) {
  const Random4 r = draw(seed, offset);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t v = static_cast<uint64_t>(r.v[1]) << 32 | r.v[0];
  return static_cast<long>(v % range + static_cast<uint64_t>(low));
}

// ---- Errors

// Reports the text of that number at the next synchronisation. False where the condition does not hold.
GEN_FN bool check(bool condition, DeviceError* error, long text) {
  if (!condition) report_error(error, DeviceErrorCode::assertion, 0, text, 0);
  return condition;
}

}  // namespace xpu::gen

#include "kernels/sycl/core/teams.hpp"

using xpu::bf16;
using xpu::half;
