// Work-groups of several sub-groups, the form that a GPU wants, for kernels that are made at run time. Included by
// kernels/sycl/source/generated.hpp. core/team.hpp has the same for modules, where the number of items is known at a
// launch.
#pragma once

namespace xpu::gen {

// f(c) for c0 <= c < c1, kItems neighbours side by side.
template <long kItems, class F> GEN_FN void team(long c0, long c1, long item, F f) {
  for (long c = c0 + item; c < c1; c += kItems) [[clang::always_inline]]
    f(c);
}
// f(c, slot) with four accumulators per item.
template <long kItems, class F> GEN_FN void team_by4(long c0, long c1, long item, F f) {
  strided_by4(c0 + item, c1, kItems, f);
}

// The values of all items of a work-group joined: every item gets the result. Sub-groups meet in local memory, in an
// order that depends on their number alone.
template <class Op, long kItems, class T> GEN_FN T across_team(T v) {
  constexpr long kParts = kItems / kLanes;
  static_assert((kParts & (kParts - 1)) == 0 && kParts <= kLanes);
  syclexp::work_group_static<T[kParts]> memory;
  T* const room = memory;
  v = across<Op>(v);
  sycl::group_barrier(sycl::work_group{});  // an earlier result has been read
  if (is_first_lane()) room[sub_group_number()] = v;
  sycl::group_barrier(sycl::work_group{});
  v = room[sub_group_lane() % kParts];
#pragma unroll
  for (uint32_t m = kParts / 2; m > 0; m /= 2) v = Op{}(v, other_lane(v, m));
  return v;
}

}  // namespace xpu::gen
