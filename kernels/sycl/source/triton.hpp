// Functions that kernels lowered from Triton IR call (xpu_ops/triton). A program is a work-group of sub-groups of 16,
// of one on a CPU device.
#pragma once
#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/lanes.hpp"
#include "kernels/sycl/math/activation.hpp"
#include "kernels/sycl/math/math.hpp"
#include "kernels/sycl/math/special.hpp"
#include "kernels/sycl/source/triton_library.hpp"

namespace xpu::tri {

#define TRI __attribute__((always_inline)) inline

constexpr size_t kLanes = 16;
constexpr int kSubGroup = 3;

// Local memory is ordered between the items of the sub-group.
TRI void sync() { __spirv_ControlBarrier(kSubGroup, kSubGroup, 0x10 | 0x80 | 0x100 | 0x200); }

// The same for all items of a work-group of several sub-groups.
TRI void sync_parts() {
  constexpr int kWorkGroup = 2;
  __spirv_ControlBarrier(kWorkGroup, kWorkGroup, 0x10 | 0x80 | 0x100 | 0x200);
}

// Whether storing n elements from y on changes no element of x before that is read: x is n elements, of which each item
// reads those whose places it stores, one sub-group from the first to the last.
template <bool one_sub_group = true, class X, class Y> TRI bool apart(const X* x, const Y* y, size_t n) {
  const auto from = reinterpret_cast<uint64_t>(x), to = reinterpret_cast<uint64_t>(y);
  const bool behind = sizeof(X) == sizeof(Y) && (one_sub_group ? to <= from : to == from);
  return from + n * sizeof(X) <= to || to + n * sizeof(Y) <= from || behind;
}

// ---- exchange between lanes, by the bits of the value

template <int N> struct Bits { using type = uint32_t; };
template <> struct Bits<8> { using type = uint64_t; };
template <class T> TRI auto to_bits(T v) {
  if constexpr (sizeof(T) == 1)
    return static_cast<uint32_t>(__builtin_bit_cast(uint8_t, v));
  else if constexpr (sizeof(T) == 2)
    return static_cast<uint32_t>(__builtin_bit_cast(uint16_t, v));
  else
    return __builtin_bit_cast(typename Bits<sizeof(T)>::type, v);
}
template <class T, class B> TRI T from_bits(B b) {
  if constexpr (sizeof(T) == 1)
    return __builtin_bit_cast(T, static_cast<uint8_t>(b));
  else if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(T, static_cast<uint16_t>(b));
  else
    return __builtin_bit_cast(T, b);
}
template <class T> TRI T exchange(T v, uint32_t mask) {
  return from_bits<T>(__spirv_GroupNonUniformShuffleXor(kSubGroup, to_bits(v), mask));
}
// The 16 x 16 matrix whose rows are x, one element per lane, is transposed.
template <class T> TRI void transpose(T (&x)[kLanes], size_t lane) {
  transpose_lanes(x, lane, [](T v, uint32_t mask) { return exchange(v, mask); });
}
// Of the lane `by` below; the value of a lane that has none there means nothing.
template <class T> TRI T below(T v, uint32_t by) {
  const uint32_t lane = __spirv_BuiltInSubgroupLocalInvocationId();
  return from_bits<T>(__spirv_GroupNonUniformShuffle(kSubGroup, to_bits(v), (lane - by) & 15u));
}
// The first lane's value, which the compiler then knows to be the same in all.
template <class T> TRI T uniform(T v) { return from_bits<T>(__spirv_GroupBroadcast(kSubGroup, to_bits(v), 0u)); }
template <class T> TRI T of_lane(T v, uint32_t lane) {
  return from_bits<T>(__spirv_GroupNonUniformShuffle(kSubGroup, to_bits(v), lane));
}

// A contiguous, equal share of the rows for each program.
template <class T> struct Rows {
  T first, last;
  TRI Rows(T program, T rows, T programs) {
    const uint64_t all = rows > 0 ? rows : 0, share = all / programs + (all % programs != 0), begin = program * share;
    first = static_cast<T>(begin < all ? begin : all);
    last = static_cast<T>(begin + share < all ? begin + share : all);
  }
};

// ---- integers wrap; a division by zero gives zero, so that no operand ends the process

template <class T> using Unsigned = unsigned_of_t<T>;
#define TRI_WRAP(NAME, OP)                                                               \
  template <class T> TRI T NAME(T a, T b) {                                              \
    if constexpr (sizeof(T) < 4)                                                         \
      return static_cast<T>(static_cast<uint32_t>(a) OP static_cast<uint32_t>(b));       \
    else                                                                                 \
      return static_cast<T>(static_cast<Unsigned<T>>(a) OP static_cast<Unsigned<T>>(b)); \
  }
TRI_WRAP(add, +)
TRI_WRAP(sub, -)
TRI_WRAP(mul, *)
#undef TRI_WRAP
template <> TRI bool add(bool a, bool b) { return a != b; }
template <> TRI bool sub(bool a, bool b) { return a != b; }
template <> TRI bool mul(bool a, bool b) { return a && b; }
template <class T> TRI T div_s(T a, T b) { return b == T(0) ? T(0) : b == T(-1) ? sub(T(0), a) : T(a / b); }
template <class T> TRI T rem_s(T a, T b) { return b == T(0) || b == T(-1) ? T(0) : T(a % b); }
template <class T> TRI T div_u(T a, T b) {
  using U = Unsigned<T>;
  return b == T(0) ? T(0) : static_cast<T>(static_cast<U>(a) / static_cast<U>(b));
}
template <class T> TRI T rem_u(T a, T b) {
  using U = Unsigned<T>;
  return b == T(0) ? T(0) : static_cast<T>(static_cast<U>(a) % static_cast<U>(b));
}
// A power of two s so that 1 / (d s) is a normal number where d is a number but 0.
TRI float scale_of(float d) {
  const float size = sycl::fabs(d);
  return size < 0x1p-60f ? 0x1p64f : size > 0x1p60f ? 0x1p-64f : 1.0f;
}
template <class T> TRI T floor_div_s(T a, T b) {
  const T q = div_s(a, b);
  return b != T(0) && rem_s(a, b) != T(0) && (a < T(0)) != (b < T(0)) ? T(q - 1) : q;
}
template <class T> TRI T ceil_div_s(T a, T b) {
  const T q = div_s(a, b);
  return b != T(0) && rem_s(a, b) != T(0) && (a < T(0)) == (b < T(0)) ? T(q + 1) : q;
}
// Shifts by the width or more: what LLVM calls poison is 0 here, or the sign.
template <class T> TRI T shl(T a, T b) {
  using U = Unsigned<T>;
  return static_cast<U>(b) < sizeof(T) * 8 ? static_cast<T>(static_cast<U>(a) << static_cast<U>(b)) : T(0);
}
template <class T> TRI T shr_u(T a, T b) {
  using U = Unsigned<T>;
  return static_cast<U>(b) < sizeof(T) * 8 ? static_cast<T>(static_cast<U>(a) >> static_cast<U>(b)) : T(0);
}
template <class T> TRI T shr_s(T a, T b) {
  using U = Unsigned<T>;
  const U last = sizeof(T) * 8 - 1;
  return static_cast<T>(a >> (static_cast<U>(b) < last ? static_cast<U>(b) : last));
}
template <> TRI bool shl(bool a, bool b) { return a && !b; }
template <> TRI bool shr_u(bool a, bool b) { return a && !b; }
template <> TRI bool shr_s(bool a, bool b) { return a; }
template <> TRI bool div_s(bool a, bool b) { return a && b; }
template <> TRI bool rem_s(bool, bool) { return false; }
template <> TRI bool div_u(bool a, bool b) { return a && b; }
template <> TRI bool rem_u(bool, bool) { return false; }
template <class T> TRI T max_s(T a, T b) { return a > b ? a : b; }
template <class T> TRI T min_s(T a, T b) { return a < b ? a : b; }
template <class T> TRI T max_u(T a, T b) { return static_cast<Unsigned<T>>(a) > static_cast<Unsigned<T>>(b) ? a : b; }
template <class T> TRI T min_u(T a, T b) { return static_cast<Unsigned<T>>(a) < static_cast<Unsigned<T>>(b) ? a : b; }
TRI int32_t mul_hi_u(int32_t a, int32_t b) {
  return static_cast<int32_t>((static_cast<uint64_t>(static_cast<uint32_t>(a)) * static_cast<uint32_t>(b)) >> 32);
}
TRI int64_t mul_hi_u(int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b), low = 0xffffffffull;
  const uint64_t m = (x >> 32) * (y & low), n = (x & low) * (y >> 32), l = (x & low) * (y & low);
  return static_cast<int64_t>((x >> 32) * (y >> 32) + (m >> 32) + (n >> 32) +
                              (((m & low) + (n & low) + (l >> 32)) >> 32));
}
template <class T> TRI T mul_hi_s(T a, T b) {
  return sub(sub(mul_hi_u(a, b), a < T(0) ? b : T(0)), b < T(0) ? a : T(0));
}
template <class T> TRI T abs_i(T a) { return a < T(0) ? sub(T(0), a) : a; }
template <class T> TRI int32_t popcount(T a) { return __builtin_popcountll(to_bits(a)); }

// ---- floats

template <class T> TRI opmath_t<T> up(T v) { return static_cast<opmath_t<T>>(v); }
// The number that is not NaN; the other one of two NaN.
template <class T> TRI T max_number(T a, T b) { return a != a ? b : (b > a ? b : a); }
template <class T> TRI T min_number(T a, T b) { return a != a ? b : (b < a ? b : a); }
template <class T> TRI T max_nan(T a, T b) { return a != a ? a : (b > a || b != b ? b : a); }
template <class T> TRI T min_nan(T a, T b) { return a != a ? a : (b < a || b != b ? b : a); }
template <class T> TRI T clamp_number(T x, T low, T high) { return min_number(max_number(x, low), high); }
template <class T> TRI T clamp_nan(T x, T low, T high) { return x != x ? x : clamp_number(x, low, high); }
TRI bf16 bf16_of(uint16_t bits) {
  bf16 v;
  v.bits = bits;
  return v;
}
// float to bf16, towards zero.
TRI bf16 to_bf16_rtz(float v) { return bf16_of(static_cast<uint16_t>(sycl::bit_cast<uint32_t>(v) >> 16)); }
TRI half to_half_rtz(float v) {
  const half h = static_cast<half>(v);
  const bool over = sycl::fabs(static_cast<float>(h)) > sycl::fabs(v) && sycl::fabs(v) < __builtin_inff();
  return over ? sycl::bit_cast<half>(static_cast<uint16_t>(sycl::bit_cast<uint16_t>(h) - 1)) : h;
}

// ---- atomics on global memory

#define TRI_GLOBAL __attribute__((opencl_global))
constexpr int kDevice = 1, kOrder = 0x8 | 0x200;

#define TRI_RMW(NAME, BUILTIN, TYPE)                                                                      \
  template <class T> TRI T rmw_##NAME(T* p, T v) {                                                        \
    using U = TYPE;                                                                                       \
    return static_cast<T>(__spirv_Atomic##BUILTIN((TRI_GLOBAL U*)p, kDevice, kOrder, static_cast<U>(v))); \
  }
TRI_RMW(add, IAdd, T)
TRI_RMW(and, And, T)
TRI_RMW(or, Or, T)
TRI_RMW(xor, Xor, T)
TRI_RMW(max, SMax, T)
TRI_RMW(min, SMin, T)
TRI_RMW(umax, UMax, Unsigned<T>)
TRI_RMW(umin, UMin, Unsigned<T>)
#undef TRI_RMW
template <class T> TRI T cas(T* p, T expected, T desired) {
  if constexpr (sizeof(T) < 4) {  // in the word around it
    const uint64_t address = reinterpret_cast<uint64_t>(p);
    auto* word = reinterpret_cast<uint32_t*>(address & ~uint64_t{3});
    const uint32_t shift = static_cast<uint32_t>(address & 3) * 8, mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
    uint32_t seen = *word;
    while (((seen & mask) >> shift) == to_bits(expected)) {
      const uint32_t next = (seen & ~mask) | (to_bits(desired) << shift);
      const uint32_t found =
          __spirv_AtomicCompareExchange((TRI_GLOBAL uint32_t*)word, kDevice, kOrder, 0x2 | 0x200, next, seen);
      if (found == seen) return expected;
      seen = found;
    }
    return from_bits<T>((seen & mask) >> shift);
  } else {
    using B = typename Bits<sizeof(T)>::type;
    const B found = __spirv_AtomicCompareExchange((TRI_GLOBAL B*)p, kDevice, kOrder, 0x2 | 0x200, to_bits(desired),
                                                  to_bits(expected));
    return from_bits<T>(found);
  }
}
// f of what is there takes its place.
template <class T, class F> TRI T update(T* p, F f) {
  T seen = *p;
  while (true) {
    const T found = cas(p, seen, f(seen));
    if (to_bits(found) == to_bits(seen)) return seen;
    seen = found;
  }
}
template <class T> TRI T rmw_fadd(T* p, T v) {
  return update(p, [=](T seen) __attribute__((always_inline)) { return T(up(seen) + up(v)); });
}
template <class T> TRI T rmw_exch(T* p, T v) {
  return update(p, [=](T) __attribute__((always_inline)) { return v; });
}

template <size_t N> struct alignas(64) Pool { char bytes[N]; };

// ---- c += a b, blocks in rows; the lanes are columns, 8 rows of two vectors stay in registers

template <class C> struct Accumulator { using type = C; };
template <> struct Accumulator<half> { using type = float; };
template <> struct Accumulator<bf16> { using type = float; };

template <int R, int V, int N, int K, class C, class A, class B>
TRI void dot_tile(C* c, const A* a, const B* b, size_t lane) {
  using Acc = typename Accumulator<C>::type;
  Acc acc[R][V];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int v = 0; v < V; ++v) acc[r][v] = static_cast<Acc>((c + r * N + v * 16)[lane]);
  for (int k = 0; k < K; ++k) {
    Acc y[V];
#pragma unroll
    for (int v = 0; v < V; ++v) y[v] = static_cast<Acc>((b + k * N + v * 16)[lane]);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Acc x = static_cast<Acc>(a[r * K + k]);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if constexpr (is_std_float_v<Acc>)
          acc[r][v] = sycl::fma(x, y[v], acc[r][v]);
        else
          acc[r][v] += x * y[v];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int v = 0; v < V; ++v) (c + r * N + v * 16)[lane] = static_cast<C>(acc[r][v]);
}

// The sub-groups of a work-group, `parts`, take tiles by turns.
template <int M, int N, int K, class C, class A, class B>
TRI void dot(C* c, const A* a, const B* b, size_t lane, size_t part = 0, size_t parts = 1) {
  constexpr int R = M < 8 ? M : 8, V = N >= 32 ? 2 : 1;
  static_assert(M % R == 0);
  if (N < 16 && lane >= N) return;
  size_t tile = 0;
  for (int n = 0; n < N; n += 16 * V)
    for (int m = 0; m < M; m += R)
      if (parts == 1 || tile++ % parts == part) dot_tile<R, V, N, K>(c + m * N + n, a + m * K, b + n, lane);
}

#undef TRI_GLOBAL

// ---- operands of a scaled dot (OCP Microscaling Formats 1.0), as float

template <class F> struct Plain {
  static constexpr int per_byte = 1;
  template <class T> TRI static float value(T v, size_t) {
    if constexpr (sizeof(T) == sizeof(F))
      return static_cast<float>(__builtin_bit_cast(F, v));
    else
      return static_cast<float>(v);
  }
};
struct E2M1 {
  static constexpr int per_byte = 2;
  template <class T> TRI static float value(T v, size_t half) {
    const uint32_t b = (static_cast<uint32_t>(v) >> (half * 4)) & 15u, e = (b >> 1) & 3u, m = b & 1u;
    const float a = e == 0 ? 0.5f * static_cast<float>(m)
                           : (1.0f + 0.5f * static_cast<float>(m)) * static_cast<float>(1u << (e - 1));
    return b & 8u ? -a : a;
  }
};
// c (rows, columns) from a, of which two neighbours along `packed` (0 or 1) share a byte where the format has 4 bits.
// The scale of an element is scale[at][k / group], k its place along `depth` (0 or 1), at the other one. `item` is one
// of `items`.
template <class Format, class T>
TRI void scaled(float* c, const T* a, const int8_t* scale, int rows, int columns, int depth, int group, int packed,
                size_t item, int items = 16) {
  for (int i = static_cast<int>(item); i < rows * columns; i += items) {
    const int r = i / columns, q = i % columns, k = depth == 0 ? r : q, at = depth == 0 ? q : r;
    int from = i, half = 0;
    if constexpr (Format::per_byte == 2) {
      from = packed == 0 ? r / 2 * columns + q : r * (columns / 2) + q / 2;
      half = (packed == 0 ? r : q) % 2;
    }
    float v = Format::value(a[from], static_cast<size_t>(half));
    if (scale) {
      f8e8m0fnu s;
      s.bits = static_cast<uint8_t>(scale[at * ((depth == 0 ? rows : columns) / group) + k / group]);
      v *= static_cast<float>(s);
    }
    c[i] = v;
  }
}

}  // namespace xpu::tri

extern "C++" __attribute__((sycl_device)) int __spirv_ocl_printf(const __attribute__((opencl_constant)) char*, ...);
