// Counts before an item of a work-group, and a list of counts as the places where each begins.
#pragma once
#include <sycl/group_algorithm.hpp>

#include "kernels/sycl/core/team.hpp"

namespace xpu {

// A work-group as one team.
XPU_INLINE Team whole_team() {
  return team_of(static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_local_range(0)));
}

// The sum of the values of the items before this one, and of all. For a team that is the work-group.
XPU_INLINE uint32_t team_before(const Team& t, uint32_t v, uint32_t* parts, uint32_t& total) {
  auto sg = syclex::this_work_item::get_sub_group();
  auto group = syclex::this_work_item::get_work_group<1>();
  uint32_t before = sycl::exclusive_scan_over_group(sg, v, sycl::plus<uint32_t>());
  const uint32_t all = sycl::reduce_over_group(sg, v, sycl::plus<uint32_t>());
  sycl::group_barrier(group);  // all have read what was here
  if (is_first_lane()) parts[t.part] = all;
  sycl::group_barrier(group);
  total = 0;
  for (uint32_t i = 0; i < t.parts; ++i) {
    before += i < t.part ? parts[i] : 0;
    total += parts[i];
  }
  return before;
}

// Turns n counts into the sums of those before each, and the sum of all behind them. For one work-group.
XPU_INLINE void counts_to_places(uint32_t* counts, uint32_t n) {
  syclexp::work_group_static<uint32_t[kTeamParts]> local;
  uint32_t* parts = local;
  const Team t = whole_team();
  uint32_t sum = 0;
  // uniform over the group: all go to the end of the list
  for (uint32_t first = 0; first < n; first += t.lanes) {
    const uint32_t i = first + t.lane, count = i < n ? counts[i] : 0;
    uint32_t all;
    const uint32_t before = team_before(t, count, parts, all);
    if (i < n) counts[i] = sum + before;
    sum += all;
  }
  if (t.leads()) counts[n] = sum;
}

}  // namespace xpu
