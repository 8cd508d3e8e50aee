// Pieces of kernels in which one sub-group of kLanes items, a work-group of its own, goes through one contiguous row.
#pragma once
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/nan.hpp"
#include "kernels/sycl/reduce/reduction.hpp"

namespace xpu {

template <class T, class I> inline void store(T* x, I i, T v) { x[i] = v; }
template <class I> inline void store(bf16* x, I i, bf16 v) { reinterpret_cast<uint16_t*>(x)[i] = v.bits; }

// The rows of this work-group: neighbours in memory, one after the other.
struct RowRange { uint32_t begin, end; };
XPU_INLINE RowRange group_rows(uint32_t rows) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const uint32_t groups = static_cast<uint32_t>(item.get_group_range(0)), g = static_cast<uint32_t>(item.get_group(0));
  const uint32_t each = rows / groups, more = rows - each * groups;  // the first `more` groups take one more
  const uint32_t begin = g * each + least(g, more);
  return {begin, begin + each + (g < more ? 1u : 0u)};
}

// Calls f(offset, j) for every element of a row of n, where this item's element is (pointer + offset)[lane] and j < 4
// names the accumulator to use. Offsets are uniform, so that the loads become vector loads.
template <class F> XPU_INLINE void for_row(size_t n, size_t lane, F f) {
  size_t r = 0;
  for (; r + 4 * kLanes <= n; r += 4 * kLanes) {
    [[clang::always_inline]] f(r, 0);
    [[clang::always_inline]] f(r + kLanes, 1);
    [[clang::always_inline]] f(r + 2 * kLanes, 2);
    [[clang::always_inline]] f(r + 3 * kLanes, 3);
  }
  for (; r + kLanes <= n; r += kLanes) [[clang::always_inline]]
    f(r, 0);
  if (r + sub_group_lane() < n) [[clang::always_inline]]
    f(r, 1);
}

template <class A> inline A lane_sum(A v) {
  auto sg = syclex::this_work_item::get_sub_group();
#pragma unroll
  for (uint32_t m = kLanes / 2; m > 0; m /= 2) v = v + exchange(sg, v, m);
  return v;
}

// The sum of a row over all lanes: add(offset, sum) adds what this item's element gives, offsets as in for_row. Long
// rows are summed in parts, so that the sum does not outgrow its last terms.
constexpr size_t kRowPart = 1 << 15;
template <class A, class F> XPU_INLINE A row_sum(size_t n, size_t lane, F add) {
  A total = 0;
  for (size_t begin = 0; begin < n; begin += kRowPart) {
    A s[4] = {0, 0, 0, 0};
    for_row(n - begin < kRowPart ? n - begin : kRowPart, lane,
            [&](size_t r, int j) { [[clang::always_inline]] add(begin + r, s[j]); });
    total += (s[0] + s[1]) + (s[2] + s[3]);
  }
  return lane_sum(total);
}

// The sums of four values over the lanes in 5 exchanges: lanes 4 i to 4 i + 3 get that of the i-th. All by value: a
// choice between two variables is one between their addresses, which puts them into memory.
template <class A> XPU_INLINE A lane_sum(A v0, A v1, A v2, A v3, size_t lane) {
  auto sg = syclex::this_work_item::get_sub_group();
  const bool upper8 = lane & 8, upper4 = lane & 4;
  const A a = (upper8 ? A(v2) : A(v0)) + exchange(sg, upper8 ? A(v0) : A(v2), 8);
  const A b = (upper8 ? A(v3) : A(v1)) + exchange(sg, upper8 ? A(v1) : A(v3), 8);
  A sum = (upper4 ? A(b) : A(a)) + exchange(sg, upper4 ? A(a) : A(b), 4);
  sum = sum + exchange(sg, sum, 2);
  return sum + exchange(sg, sum, 1);
}

template <class A> inline A lane_max(A v) {
  auto sg = syclex::this_work_item::get_sub_group();
#pragma unroll
  for (uint32_t m = kLanes / 2; m > 0; m /= 2) {
    const A o = exchange(sg, v, m);
    v = larger(v, o);
  }
  return v;
}

// Of the four accumulators of a row, too.
template <class A> XPU_INLINE A lane_sum(const A (&v)[4]) { return lane_sum((v[0] + v[1]) + (v[2] + v[3])); }
template <class A> XPU_INLINE A lane_max(const A (&v)[4]) {
  return lane_max(larger(larger(v[0], v[1]), larger(v[2], v[3])));
}

// exp(x) for x <= 88 to 0.7 ULP; what would be subnormal is 0. Three times as fast as sycl::exp on the CPU device.
// F: float or a vector of it, U: its bits.
template <class F, class U> XPU_INLINE F fast_exp_of(F x) {
  const F shifted = x * 1.44269504f + 12582912.0f,
          n = shifted - 12582912.0f;  // n: nearest integer, in the low bits
  const F r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  F y = 0.00138145394f;  // (exp(r) - 1 - r) / r^2, fitted for the least relative error
  y = y * r + 0.00836874545f;
  y = y * r + 0.041668389f;
  y = y * r + 0.166665211f;
  y = y * r + 0.49999994f;
  y = y * (r * r) + r + 1.0f;
  const F power = __builtin_bit_cast(F, (__builtin_bit_cast(U, shifted) << 23) + 0x3f800000u);
  return x < -87.3f ? F(0.0f) : y * power;
}
XPU_INLINE float fast_exp(float x) { return fast_exp_of<float, uint32_t>(x); }
inline double fast_exp(double x) { return sycl::exp(x); }

}  // namespace xpu
