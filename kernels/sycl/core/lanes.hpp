// The items of a sub-group: which one decides what is stored after values were exchanged, and blocks turned in
// registers.
#pragma once
#include <sycl/group_algorithm.hpp>
#include <sycl/sub_group.hpp>

#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"

namespace xpu {

// The item's place in its sub-group. After an exchange (lane_sum, permute_group_by_xor ...) a test that decides who
// stores reads it from here. Behind a test of the work-item's local id the CPU device's compiler may run no item but
// those that pass it, and the exchange before then reads what nobody wrote. tests/build/test_lanes.py has the rule.
inline size_t sub_group_lane() { return syclex::this_work_item::get_sub_group().get_local_linear_id(); }
// Which sub-group of its work-group an item is in.
inline size_t sub_group_number() { return syclex::this_work_item::get_sub_group().get_group_linear_id(); }
inline bool is_first_lane() { return sub_group_lane() == 0; }
// One lane's value, in all lanes: if all store it to one place, that is one scalar store. Behind a test of the lane the
// CPU device's compiler makes a scatter of it, for which the loads of the next row wait (1.3 to 3 times as long).
template <class T> inline T from_lane(const T& v, uint32_t lane) {
  return sycl::group_broadcast(syclex::this_work_item::get_sub_group(), v, lane);
}
template <class T, class A> inline void store_first(T* at, const A& v) { *at = static_cast<T>(from_lane(v, 0)); }

// The 16 x 16 matrix whose rows are x, one element per lane, is transposed. other_lane(v, mask) is v of the lane whose
// number differs by these bits.
template <class T, class F> XPU_INLINE void transpose_lanes(T (&x)[16], size_t lane, F other_lane) {
#pragma unroll
  for (uint32_t s = 0; s < 4; ++s) {
    const uint32_t m = 8u >> s;
    const bool upper = lane & m;
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) {
      if (i & m) continue;
      const T a = x[i], b = x[i | m], got = other_lane(upper ? a : b, m);
      x[i] = upper ? got : a;
      x[i | m] = upper ? b : got;
    }
  }
}
template <class T> XPU_INLINE void transpose_lanes(T (&x)[16], size_t lane) {
  const auto sg = syclex::this_work_item::get_sub_group();
  transpose_lanes(x, lane, [=](T v, uint32_t mask) { return sycl::permute_group_by_xor(sg, v, mask); });
}

}  // namespace xpu
