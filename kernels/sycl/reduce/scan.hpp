// Cumulative operators. A contiguous line is scanned by one sub-group in blocks of its width; long lines are cut into
// chunks whose totals come first. Other axes: one item per line, neighbours read neighbours. Always the same order of
// sums.
#pragma once
#include <limits>
#include <sycl/group_algorithm.hpp>

#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/lanes.hpp"
#include "kernels/sycl/core/nan.hpp"
#include "kernels/sycl/core/wide.hpp"
#include "kernels/sycl/reduce/scan_args.hpp"

namespace xpu {

using xpu_ops::ScanArgs;
using xpu_ops::ScanForm;

// The width of a work-group that scans a line: a constant, so that the compiler sees fixed shuffles.
inline constexpr uint32_t kScanLanes = 16;

template <class S> inline S lane_shift(S v, uint32_t d) {
  return sycl::shift_group_right(syclex::this_work_item::get_sub_group(), v, d);
}
template <class S> inline cplx<S> lane_shift(cplx<S> v, uint32_t d) {
  return {lane_shift(v.re, d), lane_shift(v.im, d)};
}
template <class S> inline S lane_last(S v) {
  return sycl::group_broadcast(syclex::this_work_item::get_sub_group(), v, kScanLanes - 1);
}
template <class S> inline cplx<S> lane_last(cplx<S> v) { return {lane_last(v.re), lane_last(v.im)}; }

// A value with the position it came from.
template <class S> struct Placed {
  S v;
  int32_t at;
};
template <class S> inline Placed<S> lane_shift(Placed<S> v, uint32_t d) {
  return {lane_shift(v.v, d), lane_shift(v.at, d)};
}
template <class S> inline Placed<S> lane_last(Placed<S> v) { return {lane_last(v.v), lane_last(v.at)}; }

template <class R> inline Wide<R> lane_shift(Wide<R> v, uint32_t d) {
  return {lane_shift(v.hi, d), lane_shift(v.lo, d)};
}
inline WideComplex lane_shift(WideComplex v, uint32_t d) { return {lane_shift(v.re, d), lane_shift(v.im, d)}; }
template <class R> inline Wide<R> lane_last(Wide<R> v) { return {lane_last(v.hi), lane_last(v.lo)}; }
inline WideComplex lane_last(WideComplex v) { return {lane_last(v.re), lane_last(v.im)}; }

// Sums of small integers are kept in 32 bits, which is what the sub-group moves.
template <class T> struct scan_state { using type = opmath_t<T>; };
template <> struct scan_state<uint8_t> { using type = int32_t; };
template <> struct scan_state<int8_t> { using type = int32_t; };
template <> struct scan_state<int16_t> { using type = int32_t; };
template <> struct scan_state<bool> { using type = int32_t; };

// Uniform pointer, 64-bit lane: neighbours then read one vector (see reduction.hpp).
template <class T> inline T scan_read(const T* x, size_t lane) { return x[lane]; }
inline bf16 scan_read(const bf16* x, size_t lane) {
  bf16 v;
  v.bits = reinterpret_cast<const uint16_t*>(x)[lane];
  return v;
}
template <class T> inline void scan_write(T* x, size_t lane, T v) { x[lane] = v; }
inline void scan_write(bf16* x, size_t lane, bf16 v) { reinterpret_cast<uint16_t*>(x)[lane] = v.bits; }

template <class T> struct ScanBase {
  using S = typename scan_state<T>::type;
  using Carry = S;
  static S load(const T* in, size_t lane, int64_t) { return static_cast<S>(scan_read(in, lane)); }
  static void store(const ScanArgs& p, int64_t at, size_t lane, S v) {
    scan_write(static_cast<T*>(p.out) + at, lane, static_cast<T>(v));
  }
};

// Everything before a block, with the rounding error of its sum: a long float sum stays as exact as its last block.
template <class S> struct Compensated { S hi, lo; };
template <class S> struct RoundedSum {
  using Carry = Compensated<S>;
  static Carry start(S v) { return {v, S(0.0f)}; }
  static Carry extend(Carry c, S v) {
    S sum = c.hi + v, back = sum - c.hi, error = (c.hi - (sum - back)) + (v - back);
    // An infinite sum has no error term.
    return {sum, error == error ? c.lo + error : S(0.0f)};
  }
  static S apply(Carry c, S v) { return c.hi + (c.lo + v); }
};
template <class S> struct ExactSum {
  using Carry = S;
  static Carry start(S v) { return v; }
  static Carry extend(Carry c, S v) { return c + v; }
  static S apply(Carry c, S v) { return c + v; }
};
template <class S> struct sum_carry : ExactSum<S> {};
template <> struct sum_carry<float> : RoundedSum<float> {};
template <> struct sum_carry<double> : RoundedSum<double> {};
template <class R> struct sum_carry<cplx<R>> : RoundedSum<cplx<R>> {};

template <class T> struct SumScan : ScanBase<T>, sum_carry<typename ScanBase<T>::S> {
  using S = typename ScanBase<T>::S;
  using Carry = typename sum_carry<S>::Carry;
  static S join(S a, S b) { return a + b; }
};

// Operators whose carry is just another state.
template <class Op, class S> struct PlainCarry {
  using Carry = S;
  static S start(S v) { return v; }
  static S extend(S c, S v) { return Op::join(c, v); }
  static S apply(S c, S v) { return Op::join(c, v); }
};

// The error of a product back below its last place, once per block: long products gather one in which what a product of
// two errors leaves out would show.
template <class S> inline S rebalanced(S v) { return v; }
template <class R> inline Wide<R> rebalanced(Wide<R> v) {
#pragma clang fp contract(off)
  const R sum = v.hi + v.lo;
  const bool kept = sum - sum == R(0) && v.lo != R(0);  // no infinity, and a zero keeps its sign
  return {kept ? sum : v.hi, kept ? v.lo - (sum - v.hi) : R(0)};
}
inline WideComplex rebalanced(WideComplex v) { return {rebalanced(v.re), rebalanced(v.im)}; }
template <class S> inline constexpr bool rebalances_v =
    std::is_same_v<S, Wide<float>> || std::is_same_v<S, WideComplex>;

// Float is wide: each block would add its rounding error to all that follow.
template <class T> struct ProdScan : PlainCarry<ProdScan<T>, product_state_t<typename scan_state<T>::type>> {
  using Factor = typename scan_state<T>::type;
  using S = product_state_t<Factor>;
  using Carry = S;
  static S load(const T* in, size_t lane, int64_t at) {
    Factor v = static_cast<Factor>(scan_read(in, lane));
    // Products begin with one, as upstream's: of a complex number with an infinite part the other becomes NaN.
    if constexpr (is_complex_v<Factor>)
      if (at == 0) v = Factor(1) * v;
    return widened(v);
  }
  static void store(const ScanArgs& p, int64_t at, size_t lane, S v) {
    scan_write(static_cast<T*>(p.out) + at, lane, static_cast<T>(narrowed(v)));
  }
  static S join(S a, S b) { return a * b; }
};

// log(exp(a) + exp(b)) of complex numbers; the larger real part is taken out. NaN in one part is NaN in both.
template <class R> inline cplx<R> log_add(cplx<R> a, cplx<R> b) {
  if (is_nan(a) || is_nan(b)) return {std::numeric_limits<R>::quiet_NaN(), std::numeric_limits<R>::quiet_NaN()};
  cplx<R> low = a.re < b.re ? a : b, high = a.re < b.re ? b : a;
  const R inf = std::numeric_limits<R>::infinity();
  if (low.re == high.re && low.re == -inf) return low;
  if (low.re != high.re && (low.re == -inf || high.re == inf)) return high;  // plus nothing, of whatever angle
  // Equal real parts, infinite ones too, leave only the angle.
  R size = low.re == high.re ? R(1) : sycl::exp(low.re - high.re), angle = low.im - high.im;
  cplx<R> sum = {size * sycl::cos(angle) + R(1), size * sycl::sin(angle)};
  return cplx<R>(sycl::log(sycl::hypot(sum.re, sum.im)), sycl::atan2(sum.im, sum.re)) + high;
}

// top + log(sum): a real state that rounds at the result's size once, at the end, and not with every element.
template <class R> struct LogSum { R top, sum; };
template <class R> inline LogSum<R> lane_shift(LogSum<R> v, uint32_t d) {
  return {lane_shift(v.top, d), lane_shift(v.sum, d)};
}
template <class R> inline LogSum<R> lane_last(LogSum<R> v) { return {lane_last(v.top), lane_last(v.sum)}; }
template <class S> struct log_state { using type = LogSum<S>; };
template <class R> struct log_state<cplx<R>> { using type = cplx<R>; };

template <class T> struct LogSumScan : PlainCarry<LogSumScan<T>, typename log_state<opmath_t<T>>::type> {
  using M = opmath_t<T>;
  using S = typename log_state<M>::type;
  using Carry = S;
  static S load(const T* in, size_t lane, int64_t) {
    if constexpr (is_complex_v<M>) {
      const S v = static_cast<S>(scan_read(in, lane));
      return is_nan(v) ? S(v.re + v.im, v.re + v.im) : v;
    } else {
      return {static_cast<M>(scan_read(in, lane)), M(1)};
    }
  }
  static void store(const ScanArgs& p, int64_t at, size_t lane, S v) {
    if constexpr (is_complex_v<M>)
      scan_write(static_cast<T*>(p.out) + at, lane, static_cast<T>(v));
    else
      scan_write(static_cast<T*>(p.out) + at, lane, static_cast<T>(v.top + sycl::log(v.sum)));
  }
  template <class R> static cplx<R> join(cplx<R> a, cplx<R> b) { return log_add(a, b); }
  template <class R> static LogSum<R> join(LogSum<R> a, LogSum<R> b) {
    if (is_nan(a.top) || is_nan(b.top)) return {a.top + b.top, R(1)};
    LogSum<R> low = a.top < b.top ? a : b, high = a.top < b.top ? b : a;
    // Equal tops may both be infinite: no difference then.
    R factor = low.top == high.top ? R(1) : sycl::exp(low.top - high.top);
    return {high.top, high.sum + low.sum * factor};
  }
};

// The latest of equal extremes, and the latest NaN, as upstream has it.
template <class T, bool kMax> struct ExtremeScan
    : PlainCarry<ExtremeScan<T, kMax>, Placed<typename scan_state<T>::type>> {
  using V = typename scan_state<T>::type;
  using S = Placed<V>;
  using Carry = S;
  static S load(const T* in, size_t lane, int64_t at) {
    return {static_cast<V>(scan_read(in, lane)), static_cast<int32_t>(at)};
  }
  static void store(const ScanArgs& p, int64_t at, size_t lane, S s) {
    scan_write(static_cast<T*>(p.out) + at, lane, static_cast<T>(s.v));
    (p.indices + at)[lane] = s.at;
  }
  static S join(S a, S b) {
    bool later = is_nan(b.v) || (!is_nan(a.v) && (kMax ? b.v >= a.v : b.v <= a.v));
    return {later ? b.v : a.v, later ? b.at : a.at};
  }
};
template <class T> struct MaxScan : ExtremeScan<T, true> {};
template <class T> struct MinScan : ExtremeScan<T, false> {};

template <class O> inline typename O::S over_lanes(typename O::S v) {
#pragma unroll
  for (uint32_t d = 1; d < kScanLanes; d *= 2) {
    typename O::S before = lane_shift(v, d);
    if (sub_group_lane() >= d) v = O::join(before, v);
  }
  return v;
}

// The carry of a chunk, for those that follow.
template <class O> inline typename O::S total_of(typename O::Carry carry) {
  if constexpr (sizeof(carry) == sizeof(typename O::S))
    return reinterpret_cast<typename O::S&>(carry);
  else
    return carry.hi + carry.lo;
}

// States in which any order gives the same.
template <class S> struct exact_state : std::is_integral<S> {};
template <class S> struct exact_state<Placed<S>> : std::true_type {};

// A sub-group takes the chunks of a line in turn: the bits of a sub-group per chunk, in one pass.
template <class T, template <class> class Op> XPU_INLINE void scan_chunks(const ScanArgs& p) {
  using O = Op<T>;
  using S = typename O::S;
  constexpr bool kTotals = !exact_state<S>::value;
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  const int64_t length = static_cast<int64_t>(p.length);
  typename O::Carry carry{};
  for (uint32_t part = 0; part < p.chunks; ++part) {
    const int64_t first = static_cast<int64_t>(part) * p.chunk, left = length - first;
    const int64_t base = static_cast<int64_t>(group_id()) * length + first;
    const uint32_t count = left < static_cast<int64_t>(p.chunk) ? static_cast<uint32_t>(left) : p.chunk;
    const T* in = static_cast<const T*>(p.in) + base;
    const typename O::Carry before = carry;
    typename O::Carry total{};  // of the chunk so far
    auto block = [&](uint32_t i, size_t at, bool inside, bool begins) __attribute__((always_inline)) {
      const bool carried = !begins || part > 0;
      const S v = over_lanes<O>(O::load(in + i, at, first + i + static_cast<int64_t>(at))), all = lane_last(v);
      if (inside) O::store(p, base + i, at, carried ? O::apply(carry, v) : v);
      carry = rebalanced(carried ? O::extend(carry, all) : O::start(all));
      if constexpr (kTotals) total = rebalanced(begins ? O::start(all) : O::extend(total, all));
    };
    block(0, lane, true, true);  // a chunk has a whole block
    uint32_t i = kScanLanes;
    for (; i + kScanLanes <= count; i += kScanLanes) block(i, lane, true, false);
    if (i < count) block(i, i + lane < count ? lane : count - 1 - i, i + sub_group_lane() < count, false);
    if constexpr (kTotals) carry = part > 0 ? O::extend(before, total_of<O>(total)) : O::start(total_of<O>(total));
  }
}

// A sub-group per (line, chunk): one per work-group, or with kTeam several, whose items take neighbouring elements.
template <class T, template <class> class Op, bool kTeam = false> XPU_INLINE void scan_line(const ScanArgs& p) {
  using O = Op<T>;
  using S = typename O::S;
  if constexpr (!kTeam)
    if (p.form == ScanForm::in_turn) return scan_chunks<T, Op>(p);
  const bool totals_only = p.form == ScanForm::totals;
  size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  uint32_t unit = group_id();
  if constexpr (kTeam) {
    auto sg = syclex::this_work_item::get_sub_group();
    lane = sub_group_lane();
    unit = unit * sg.get_group_linear_range() + sg.get_group_linear_id();
    if (unit >= p.lines * p.chunks) return;
  }
  uint32_t line = unit / p.chunks, part = unit - line * p.chunks;
  int64_t first = static_cast<int64_t>(part) * p.chunk, left = static_cast<int64_t>(p.length) - first;
  int64_t base = static_cast<int64_t>(line) * static_cast<int64_t>(p.length) + first;
  uint32_t count = left <= 0 ? 0 : left < static_cast<int64_t>(p.chunk) ? static_cast<uint32_t>(left) : p.chunk;
  const T* in = static_cast<const T*>(p.in) + base;
  S* totals = static_cast<S*>(p.partial) + static_cast<int64_t>(line) * p.chunks;
  typename O::Carry carry{};
  bool carried = false;
  // Blocks of all lanes load and store without a mask; only the last one may be short, its spare lanes repeat its end.
  auto loaded = [&](uint32_t i, size_t at) __attribute__((always_inline)) {
    return O::load(in + i, at, first + i + static_cast<int64_t>(at));
  };
  auto store = [&](uint32_t i, size_t at, S v)
                   __attribute__((always_inline)) { O::store(p, base + i, at, carried ? O::apply(carry, v) : v); };
  auto carry_on = [&](S total) __attribute__((always_inline)) {
    carry = rebalanced(carried ? O::extend(carry, total) : O::start(total));
    carried = true;
  };
  // Integers are joined in any order: by lanes, which are joined at the end.
  constexpr bool kByLanes = kTeam && std::is_integral_v<S>;
  const auto by_lanes = [&](uint32_t blocks, auto&& read) __attribute__((always_inline)) {
    S all = read(0u);
#pragma unroll 8
    for (uint32_t b = 1; b < blocks; ++b) all = O::join(all, read(b * kScanLanes));
    carry_on(lane_last(over_lanes<O>(all)));
  };
  if (!totals_only) {
    uint32_t c = 0;
    if constexpr (kByLanes) {
      if (const uint32_t blocks = part / kScanLanes; blocks > 0) {
        by_lanes(blocks, [&](uint32_t at) { return totals[at + lane]; });
        c = blocks * kScanLanes;
      }
    }
    if constexpr (kTeam)  // a GPU waits long for each
      for (; c + kScanLanes <= part; c += kScanLanes) carry_on(lane_last(over_lanes<O>(totals[c + lane])));
    for (; c < part; ++c) carry_on(totals[c]);
  }
  auto block = [&](uint32_t i, size_t at, bool inside) __attribute__((always_inline)) {
    const S v = over_lanes<O>(loaded(i, at));
    if (inside && !totals_only) store(i, at, v);
    carry_on(lane_last(v));
  };
  uint32_t i = 0;
  if constexpr (kByLanes) {
    if (const uint32_t blocks = count / kScanLanes; totals_only && blocks > 0) {
      by_lanes(blocks, [&](uint32_t at) { return loaded(at, lane); });
      i = blocks * kScanLanes;
    }
  }
  if constexpr (kTeam) {
    constexpr uint32_t kEach = sizeof(S) > 8 ? 2 : 4;
    constexpr uint32_t kStep = kEach * kScanLanes;
    S next[kEach];  // loaded while the step before it is joined
    const auto load = [&](uint32_t from) __attribute__((always_inline)) {
#pragma unroll
      for (uint32_t j = 0; j < kEach; ++j) next[j] = loaded(from, kEach * lane + j);
    };
    if (i + kStep <= count) load(i);
    for (; i + kStep <= count; i += kStep) {
      S v[kEach];
#pragma unroll
      for (uint32_t j = 0; j < kEach; ++j) v[j] = next[j];
      if (i + 2 * kStep <= count) load(i + kStep);
#pragma unroll
      for (uint32_t j = 1; j < kEach; ++j) v[j] = O::join(v[j - 1], v[j]);
      const S all = over_lanes<O>(v[kEach - 1]), before = lane_shift(all, 1);
      if (!totals_only) {
#pragma unroll
        for (uint32_t j = 0; j < kEach; ++j)
          store(i, kEach * lane + j, sub_group_lane() > 0 ? O::join(before, v[j]) : v[j]);
      }
      carry_on(lane_last(all));
    }
  }
  for (; i + kScanLanes <= count; i += kScanLanes) block(i, lane, true);
  if (i < count) {
    if (totals_only) {
      // A short block's total must not hold its end twice: one item at a time.
      for (; i < count; ++i) {
        S v = O::load(in + i, 0, first + i);
        carry = carried ? O::extend(carry, v) : O::start(v);
        carried = true;
      }
    } else {
      block(i, i + lane < count ? lane : count - 1 - i, i + sub_group_lane() < count);
    }
  }
  if (totals_only && is_first_lane()) totals[part] = total_of<O>(carry);
}

// Group (outer, part of inner); an item walks one line with stride inner.
template <class T, template <class> class Op> XPU_INLINE void scan_axis(const ScanArgs& p) {
  using O = Op<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), i0 = item.get_group(1) * local, lane = item.get_local_id(1);
  const int64_t length = static_cast<int64_t>(p.length), step = p.inner;
  whole_or_part(i0 + local <= p.inner, i0 + lane < p.inner, item.get_local_range(0), [&] {
    int64_t at = static_cast<int64_t>(item.get_group(0)) * length * step + static_cast<int64_t>(i0);
    const T* in = static_cast<const T*>(p.in);
    auto carry = O::start(O::load(in + at, lane, 0));
    O::store(p, at, lane, O::load(in + at, lane, 0));
    for (int64_t k = 1; k < length;) {
      const int64_t block = rebalances_v<typename O::Carry> ? kScanLanes : length;
      for (const int64_t end = length - k < block ? length : k + block; k < end; ++k) {
        at += step;
        carry = O::extend(carry, O::load(in + at, lane, k));
        if constexpr (sizeof(carry) == sizeof(typename O::S)) {
          O::store(p, at, lane, carry);
        } else {
          O::store(p, at, lane, carry.hi + carry.lo);
        }
      }
      carry = rebalanced(carry);
    }
  });
}

#define XPU_SCAN(name, op)                                                              \
  template <class T> void name##_line(const ScanArgs& p) { scan_line<T, op>(p); }       \
  template <class T> void name##_team(const ScanArgs& p) { scan_line<T, op, true>(p); } \
  template <class T> void name##_axis(const ScanArgs& p) { scan_axis<T, op>(p); }
XPU_SCAN(cumsum, SumScan)
XPU_SCAN(cumprod, ProdScan)
XPU_SCAN(logcumsumexp, LogSumScan)
XPU_SCAN(cummax, MaxScan)
XPU_SCAN(cummin, MinScan)
#undef XPU_SCAN

}  // namespace xpu
