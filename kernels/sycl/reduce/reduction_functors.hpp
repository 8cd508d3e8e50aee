// The functors of the reductions. A new one: a functor here, XPU_REDUCTION for it, one line in reduction.yaml.
#pragma once
#include "kernels/sycl/core/modulus.hpp"
#include "kernels/sycl/core/nan.hpp"
#include "kernels/sycl/reduce/reduction.hpp"
#include "kernels/sycl/reduce/reduction_team.hpp"

namespace xpu {

using xpu_ops::kAllOf;
using xpu_ops::kDivideByCount;
using xpu_ops::kSquareRoot;

template <class T> struct real_part { using type = T; };
template <class T> struct real_part<cplx<T>> { using type = T; };

// The type of sums of T: float for the 16-bit floats, 64 bits for integers.
template <class T> struct sum_acc { using type = int64_t; };
template <> struct sum_acc<float> { using type = float; };
template <> struct sum_acc<double> { using type = double; };
template <> struct sum_acc<half> { using type = float; };
template <> struct sum_acc<bf16> { using type = float; };
template <class T> struct sum_acc<cplx<T>> { using type = cplx<typename sum_acc<T>::type>; };
template <class T> using sum_acc_t = typename sum_acc<T>::type;

// The type in which values of T are compared.
template <class T> struct compare { using type = T; };
template <> struct compare<half> { using type = float; };
template <> struct compare<bf16> { using type = float; };
template <> struct compare<bool> { using type = uint8_t; };
template <class T> using compare_t = typename compare<T>::type;

template <class T> struct limits {  // integers
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T lowest = is_signed ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0);
  static constexpr T highest = static_cast<T>(~lowest);
};
template <> struct limits<float> { static constexpr float lowest = -__builtin_inff(), highest = __builtin_inff(); };
template <> struct limits<double> { static constexpr double lowest = -__builtin_inf(), highest = __builtin_inf(); };

template <class A> inline A parameter(const ReductionArgs& p) {
  if constexpr (sizeof(A) == 8)
    return sycl::bit_cast<double>(p.f64);
  else
    return p.f;
}

// ---- sums and products
template <class In_, class Out, bool kSkipNan> struct SumOp {
  using In = In_;
  using Acc = sum_acc_t<Out>;
  explicit SumOp(const ReductionArgs&) {}
  Acc identity() const { return Acc(0); }
  void add(Acc& a, In x, int64_t) const {
    const Acc v = static_cast<Acc>(x);
    if constexpr (kSkipNan)
      a = a + pick(is_nan(v), Acc(0), v);
    else
      a = a + v;
  }
  void combine(Acc& a, const Acc& b) const { a = a + b; }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const {
    if constexpr (is_float_v<Out> || is_complex_v<Out>)
      if (p.flags & kDivideByCount) {
        // Division by a real number, part by part: 0/0 of an empty mean is nan in both parts.
        using R = typename real_part<Acc>::type;
        const R n = static_cast<R>(p.count);
        if constexpr (is_complex_v<Out>)
          a = Acc(a.re / n, a.im / n);
        else
          a = a / n;
      }
    static_cast<Out*>(p.out0)[o] = static_cast<Out>(a);
  }
};
template <class I, class O> using Sum = SumOp<I, O, false>;
template <class I, class O> using NanSum = SumOp<I, O, true>;

template <class In_, class Out> struct Prod {
  using In = In_;
  using Factor = sum_acc_t<Out>;
  using Acc = product_state_t<Factor>;
  explicit Prod(const ReductionArgs&) {}
  Acc identity() const { return widened(Factor(1)); }
  void add(Acc& a, In x, int64_t) const { a = times(a, static_cast<Factor>(x)); }
  void combine(Acc& a, const Acc& b) const { a = a * b; }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const {
    static_cast<Out*>(p.out0)[o] = static_cast<Out>(narrowed(settled(a)));
  }
};

// ---- extrema; nan wins
// Whether v is strictly better than a, or the first nan: one comparison that a nan does not pass, and its opposite.
template <bool kMax, class V> inline bool beats(V v, V a) { return !(kMax ? v <= a : v >= a) && !is_nan(a); }

template <class T, bool kMax> struct Extremum {
  using In = T;
  using Acc = compare_t<T>;
  explicit Extremum(const ReductionArgs&) {}
  static Acc worst() { return kMax ? limits<Acc>::lowest : limits<Acc>::highest; }
  Acc identity() const { return worst(); }
  static void merge(Acc& a, Acc x) { a = kMax ? larger(a, x) : smaller(a, x); }
  void add(Acc& a, In x, int64_t) const { merge(a, static_cast<Acc>(x)); }
  template <int kCount> void add_fours(Acc& a, const In (&x)[kCount], int64_t, uint32_t) const {
    Acc best = static_cast<Acc>(x[0]);
#pragma unroll
    for (int j = 1; j < kCount; ++j) best = beats<kMax>(static_cast<Acc>(x[j]), best) ? static_cast<Acc>(x[j]) : best;
    a = beats<kMax>(best, a) ? best : a;
  }
  void combine(Acc& a, const Acc& b) const { merge(a, b); }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const {
    static_cast<T*>(p.out0)[o] = static_cast<T>(a);
  }
};
template <class T> using Amax = Extremum<T, true>;
template <class T> using Amin = Extremum<T, false>;

template <class T> struct AMinMax {
  using In = T;
  using V = compare_t<T>;
  using Acc = Acc2<V, V>;
  explicit AMinMax(const ReductionArgs&) {}
  Acc identity() const { return {Amin<T>::worst(), Amax<T>::worst()}; }
  void add(Acc& a, In x, int64_t) const {
    const V v = static_cast<V>(x);
    Amin<T>::merge(a.a, v);
    Amax<T>::merge(a.b, v);
  }
  void combine(Acc& a, const Acc& b) const {
    Amin<T>::merge(a.a, b.a);
    Amax<T>::merge(a.b, b.b);
  }
  void store(const ReductionArgs& p, int64_t o0, int64_t o1, Acc a) const {
    static_cast<T*>(p.out0)[o0] = static_cast<T>(a.a);
    static_cast<T*>(p.out1)[o1] = static_cast<T>(a.b);
  }
};

// The value and the first index of it: out0 values (may be null), out1 indices. The first nan beats everything.
template <class T, bool kMax> struct ArgExtremum {
  using In = T;
  using V = compare_t<T>;
  using Acc = Acc2<V, int64_t>;
  // An accumulator that no element has beaten keeps this index. If it stays, all elements equal the worst value.
  static constexpr int64_t kNone = limits<int64_t>::highest;
  explicit ArgExtremum(const ReductionArgs&) {}
  Acc identity() const { return {Extremum<T, kMax>::worst(), kNone}; }
  // An accumulator meets its elements in order: only a strictly better one replaces it.
  void add(Acc& a, In x, int64_t index) const {
    const V v = static_cast<V>(x);
    const bool wins = (kMax ? v > a.a : v < a.a) || (is_nan(v) && !is_nan(a.a));
    a.a = wins ? v : a.a;
    a.b = wins ? index : a.b;
  }
  template <int kCount> void add_fours(Acc& a, const In (&x)[kCount], int64_t index, uint32_t step) const {
    V best = static_cast<V>(x[0]);
    uint32_t at = 0;
#pragma unroll
    for (uint32_t j = 1; j < kCount; ++j) {
      const V v = static_cast<V>(x[j]);
      const bool wins = beats<kMax>(v, best);
      best = wins ? v : best;
      at = wins ? j / 4 * step + j % 4 : at;
    }
    const bool wins = beats<kMax>(best, a.a);
    a.a = wins ? best : a.a;
    a.b = wins ? index + at : a.b;
  }
  void combine(Acc& a, const Acc& b) const {
    const bool na = is_nan(a.a), nb = is_nan(b.a);
    const bool better = (kMax ? b.a > a.a : b.a < a.a) && !na;
    const bool equal = b.a == a.a || (na && nb);
    a = pick(better || (nb && !na) || (equal && b.b < a.b), b, a);
  }
  void store(const ReductionArgs& p, int64_t o0, int64_t o1, Acc a) const {
    if (p.out0) static_cast<T*>(p.out0)[o0] = static_cast<T>(a.a);
    static_cast<int64_t*>(p.out1)[o1] = a.b == kNone ? 0 : a.b;
  }
};
template <class T> using ArgMax = ArgExtremum<T, true>;
template <class T> using ArgMin = ArgExtremum<T, false>;

// ---- truth: of the bits of an element, those that tell it from zero (of a float, all but the sign) are given
template <class T> struct Bits {
  T mask;
  explicit Bits(const ReductionArgs& p) : mask(static_cast<T>(p.f64)) {}
  bool operator()(T v) const { return (v & mask) != 0; }
};
template <> struct Bits<cplx<double>> {
  explicit Bits(const ReductionArgs&) {}
  bool operator()(cplx<double> v) const { return v.re != 0 || v.im != 0; }
};

// any, or all: none that is zero. Writes one byte, which serves both result types of torch: bool, and uint8 for uint8.
template <class T> struct Any {
  using In = T;
  using Acc = uint32_t;
  Bits<T> truth;
  uint32_t all;
  explicit Any(const ReductionArgs& p) : truth(p), all(p.flags & kAllOf) {}
  Acc identity() const { return 0; }
  void add(Acc& a, In x, int64_t) const { a |= static_cast<uint32_t>(truth(x)) ^ all; }
  void combine(Acc& a, const Acc& b) const { a |= b; }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const { static_cast<uint8_t*>(p.out0)[o] = a ^ all; }
};

template <class T> struct CountNonzero {
  using In = T;
  using Acc = int64_t;
  Bits<T> truth;
  explicit CountNonzero(const ReductionArgs& p) : truth(p) {}
  Acc identity() const { return 0; }
  void add(Acc& a, In x, int64_t) const { a += truth(x); }
  void combine(Acc& a, const Acc& b) const { a += b; }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const { static_cast<int64_t*>(p.out0)[o] = a; }
};

// ---- exclusive or of the bits that a value has as a double or as a 64-bit integer
inline uint64_t bits_of_double(float x) {  // without double arithmetic: every device has these kernels
  constexpr uint32_t kOne = 1u << 23, kInfinity = 255u << 23;
  const uint32_t u = sycl::bit_cast<uint32_t>(x), size = u & 0x7fffffffu;
  // A subnormal float is a normal double: the whole number `size` times 2^-149. That number as a float has its
  // fraction.
  const uint32_t whole = sycl::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(size)));
  const uint32_t bits = size < kOne ? whole : size;
  const uint32_t bias = size >= kInfinity ? 2047 - 255 : size >= kOne ? 1023 - 127 : size ? 1023 - 127 - 149 : 0;
  // Halves of 32 bits: not every processor shifts vectors of 64 bits fast.
  const uint32_t high = (u & 0x80000000u) | ((bits >> 3) + (bias << 20));
  return static_cast<uint64_t>(high) << 32 | bits << 29;
}
template <class T> inline uint64_t hash_bits(T x) {
  if constexpr (std::is_same_v<T, double>)
    return sycl::bit_cast<uint64_t>(x);
  else if constexpr (is_float_v<T>)
    return bits_of_double(static_cast<float>(x));
  else
    return static_cast<uint64_t>(static_cast<int64_t>(x));
}

template <class T> struct Hash {
  using In = T;
  using Acc = int64_t;
  explicit Hash(const ReductionArgs&) {}
  Acc identity() const { return 0; }
  void add(Acc& a, In x, int64_t) const { a ^= static_cast<int64_t>(hash_bits(x)); }
  void combine(Acc& a, const Acc& b) const { a ^= b; }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const { static_cast<int64_t*>(p.out0)[o] = a; }
};

// ---- variance (Welford; combining two as Chan et al. 1983): out0 var or std, out1 (may be null) mean
template <class T> struct Variance {
  using In = T;
  using A = opmath_t<T>;
  using Acc = Acc3<A, A, A>;            // mean, sum of squared differences, count
  static constexpr bool kFours = true;  // a division per element is what a row takes longest for
  A correction;
  explicit Variance(const ReductionArgs& p) : correction(parameter<A>(p)) {}
  Acc identity() const { return {0, 0, 0}; }
  void add(Acc& a, In x, int64_t) const {
    const A v = static_cast<A>(x), d = v - a.a;
    a.c += A(1);
    a.a += d / a.c;
    a.b += d * (v - a.a);
  }
  // Mean and squared differences of some, then one division for all of them. By differences from the first one: those
  // of equal elements are exactly zero.
  template <int kCount> void add_fours(Acc& a, const In (&x)[kCount], int64_t, uint32_t) const {
    const A first = static_cast<A>(x[0]);
    A sum = 0, squares = 0;
#pragma unroll
    for (int j = 1; j < kCount; ++j) sum += static_cast<A>(x[j]) - first;
    const A mean = sum * A(1.0f / kCount);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const A d = static_cast<A>(x[j]) - first - mean;
      squares += d * d;
    }
    combine(a, Acc{first + mean, squares, A(static_cast<float>(kCount))});
  }
  void combine(Acc& a, const Acc& b) const {
    const A n = a.c + b.c, share = b.c / n, d = b.a - a.a;
    const Acc both{a.a + d * share, a.b + b.b + d * d * a.c * share, n};
    a = pick(b.c == 0, a, pick(a.c == 0, b, both));
  }
  Acc finished(const ReductionArgs& p, Acc a) const {
    const A divisor = a.c > correction ? a.c - correction : A(0), mean = a.c == 0 ? a.b / a.c : a.a;
    const A v = a.b / divisor;
    return {mean, p.flags & kSquareRoot ? sycl::sqrt(v) : v, a.c};
  }
  void store(const ReductionArgs& p, int64_t o0, int64_t o1, Acc a) const {
    static_cast<T*>(p.out0)[o0] = static_cast<T>(a.b);
    if (p.out1) static_cast<T*>(p.out1)[o1] = static_cast<T>(a.a);
  }
};

// ---- norms: |x| in the accumulator's type; of complex elements the 2-norm alone
enum class NormKind { one, two, power, highest, lowest };

template <class In_, class Out, NormKind kind> struct Norm {
  using In = In_;
  using Acc = sum_acc_t<Out>;
  Acc power;
  explicit Norm(const ReductionArgs& p) : power(0) {
    if constexpr (kind == NormKind::power) power = parameter<Acc>(p);
  }
  Acc identity() const {
    if constexpr (kind == NormKind::highest) return Acc(0);
    if constexpr (kind == NormKind::lowest) return limits<Acc>::highest;
    return Acc(0);
  }
  static Acc magnitude(In x) { return sycl::fabs(static_cast<Acc>(x)); }
  void add(Acc& a, In x, int64_t) const {
    if constexpr (kind == NormKind::one) {
      a += magnitude(x);
    } else if constexpr (kind == NormKind::two) {
      if constexpr (is_complex_v<In>) {
        a += squared_modulus(static_cast<Acc>(x.re), static_cast<Acc>(x.im));
      } else {
        const Acc v = static_cast<Acc>(x);
        a += v * v;
      }
    } else if constexpr (kind == NormKind::power) {
      a += sycl::pow(magnitude(x), power);
    } else {
      combine(a, magnitude(x));
    }
  }
  void combine(Acc& a, const Acc& b) const {
    if constexpr (kind == NormKind::highest)
      a = larger(a, b);
    else if constexpr (kind == NormKind::lowest)
      a = smaller(a, b);
    else
      a += b;
  }
  Acc finished(const ReductionArgs&, Acc a) const {
    if constexpr (kind == NormKind::two) return sycl::sqrt(a);
    if constexpr (kind == NormKind::power) return sycl::pow(a, Acc(1) / power);
    return a;
  }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const {
    static_cast<Out*>(p.out0)[o] = static_cast<Out>(a);
  }
};
template <class I, class O> using Norm1 = Norm<I, O, NormKind::one>;
template <class I, class O> using Norm2 = Norm<I, O, NormKind::two>;
template <class I, class O> using NormP = Norm<I, O, NormKind::power>;
template <class I, class O> using NormMax = Norm<I, O, NormKind::highest>;
template <class I, class O> using NormMin = Norm<I, O, NormKind::lowest>;

// ---- log(sum(exp(x))) in one pass: the maximum so far and the sum relative to it
template <class T> struct LogSumExp {
  using In = T;
  using A = opmath_t<T>;
  using Acc = Acc2<A, A>;
  explicit LogSumExp(const ReductionArgs&) {}
  Acc identity() const { return {limits<A>::lowest, 0}; }
  // exp(x - max), where equal infinities differ by nothing.
  static A scaled(A x, A max) { return x == max ? A(1) : sycl::exp(x - max); }
  void add(Acc& a, In x, int64_t) const {
    const A v = static_cast<A>(x), top = v > a.a ? v : a.a;
    a.b = a.b * scaled(a.a, top) + scaled(v, top);
    a.a = top;
  }
  void combine(Acc& a, const Acc& b) const {
    const A top = b.a > a.a ? b.a : a.a;
    a.b = a.b * scaled(a.a, top) + b.b * scaled(b.a, top);
    a.a = top;
  }
  Acc finished(const ReductionArgs&, Acc a) const { return {a.a + sycl::log(a.b), a.b}; }
  void store(const ReductionArgs& p, int64_t o, int64_t, Acc a) const {
    static_cast<T*>(p.out0)[o] = static_cast<T>(a.a);
  }
};

// The four kernels of a functor; `Part` is Row, Col, Final or Shared.
#define XPU_REDUCTION(NAME, OP) \
  template <class T, class Part> void NAME(const ReductionArgs& p) { Part::template run<OP<T>>(p); }
#define XPU_REDUCTION2(NAME, OP) \
  template <class I, class O, class Part> void NAME(const ReductionArgs& p) { Part::template run<OP<I, O>>(p); }

XPU_REDUCTION2(reduce_sum, Sum)
XPU_REDUCTION2(reduce_nansum, NanSum)
XPU_REDUCTION2(reduce_prod, Prod)
XPU_REDUCTION(reduce_amax, Amax)
XPU_REDUCTION(reduce_amin, Amin)
XPU_REDUCTION(reduce_aminmax, AMinMax)
XPU_REDUCTION(reduce_argmax, ArgMax)
XPU_REDUCTION(reduce_argmin, ArgMin)
XPU_REDUCTION(reduce_any, Any)
XPU_REDUCTION(reduce_count_nonzero, CountNonzero)
XPU_REDUCTION(reduce_hash, Hash)
XPU_REDUCTION(reduce_var, Variance)
XPU_REDUCTION2(reduce_norm1, Norm1)
XPU_REDUCTION2(reduce_norm2, Norm2)
XPU_REDUCTION2(reduce_normp, NormP)
XPU_REDUCTION2(reduce_norm_max, NormMax)
XPU_REDUCTION2(reduce_norm_min, NormMin)
XPU_REDUCTION(reduce_logsumexp, LogSumExp)

}  // namespace xpu
