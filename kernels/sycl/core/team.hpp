// Kernels of devices that want many items per work-group. A team, one sub-group or all of a work-group, goes through
// one row: work-groups of several rows where rows are short, and a tree in local memory where they are long.
#pragma once
#include <sycl/ext/oneapi/work_group_static.hpp>
#include <sycl/group_barrier.hpp>

#include "kernels/sycl/core/lanes.hpp"
#include "kernels/sycl/core/strides.hpp"
#include "kernels/sycl/reduce/reduction.hpp"

namespace xpu {

constexpr uint32_t kTeamParts = 16;  // most sub-groups of a team

struct Team {
  uint32_t lane, lanes;   // this item's place, and the items of the team: a multiple of kLanes
  uint32_t part, parts;   // the same of its sub-group
  uint32_t first, count;  // number of this team among all of the launch, and theirs
  // One item of the team.
  bool leads() const { return part == 0 && is_first_lane(); }
};

// 1-D. lanes: kLanes, or the size of the work-group.
XPU_INLINE Team team_of(uint32_t lanes) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto sg = item.get_sub_group();
  const uint32_t parts = lanes / kLanes, own = sg.get_group_linear_id(), team = own / parts, part = own - team * parts;
  const uint32_t teams = static_cast<uint32_t>(item.get_local_range(0)) / lanes;
  return {part * kLanes + static_cast<uint32_t>(sub_group_lane()),
          lanes,
          part,
          parts,
          static_cast<uint32_t>(item.get_group(0)) * teams + team,
          static_cast<uint32_t>(item.get_group_range(0)) * teams};
}

// The values of all items, joined in an order that depends on the number of items alone. Not reached by all teams of a
// work-group, unless there is one.
template <class A, class F> XPU_INLINE A team_join(const Team& t, A v, F join) {
  auto sg = syclex::this_work_item::get_sub_group();
#pragma unroll
  for (uint32_t m = kLanes / 2; m > 0; m /= 2) v = join(v, exchange(sg, v, m));
  // uniform over the group: a team of several sub-groups is the work-group
  if (t.parts > 1) {
    auto group = syclex::this_work_item::get_work_group<1>();
    syclexp::work_group_static<A[kTeamParts]> shared;
    A* parts = shared;
    sycl::group_barrier(group);  // all have read what was here
    if (is_first_lane()) parts[t.part] = v;
    sycl::group_barrier(group);
    v = parts[0];
    for (uint32_t i = 1; i < t.parts; ++i) v = join(v, parts[i]);
  }
  return v;
}
template <class A> XPU_INLINE A team_sum(const Team& t, A v) {
  return team_join(t, v, [](A a, A b) { return a + b; });
}
template <class A> XPU_INLINE A team_max(const Team& t, A v) {
  return team_join(t, v, [](A a, A b) { return larger(a, b); });
}

// Calls f(element, j) for this item's elements of a row of n, j < 4 the accumulator to use.
template <class F> XPU_INLINE void for_team(const Team& t, size_t n, F f) {
  strided_by4(size_t{t.lane}, n, size_t{t.lanes}, f);
}

// A row that the registers of a team hold, kHeld elements per item.
constexpr uint32_t kHeld = 16;
template <int kCount, class F> XPU_INLINE void for_held(const Team& t, uint32_t n, F f) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const uint32_t at = static_cast<uint32_t>(j) * t.lanes + t.lane;
    if (at < n) [[clang::always_inline]]
      f(at, j);
  }
}

}  // namespace xpu
