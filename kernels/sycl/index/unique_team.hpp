// Runs of equal elements or slices (unique.hpp) for devices that want many items per work-group: a chunk per
// work-group. Included by sort.hpp.
#pragma once
#include "kernels/sycl/index/sort_team.hpp"
#include "kernels/sycl/index/unique.hpp"

namespace xpu {

template <class T> void unique_count_team(const RunArgs& p) {
  const Team t = whole_team();
  const uint32_t begin = t.first * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  uint32_t n = 0;
  for (uint32_t i = begin + t.lane; i < end; i += t.lanes) n += run_begins<T>(p, i) ? 1 : 0;
  n = team_sum(t, n);
  if (t.leads()) p.starts[t.first] = n;
}

// One work-group.
inline void unique_scan_team(const RunArgs& p) { counts_to_places(p.starts, p.chunks); }

template <class T> void unique_write_team(const RunArgs& p) {
  syclexp::work_group_static<uint32_t[kTeamParts]> local;
  uint32_t* parts = local;
  const Team t = whole_team();
  const uint32_t begin = t.first * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  uint32_t runs = p.starts[t.first];
  // uniform over the group: all go to the end of the chunk
  for (uint32_t first = begin; first < end; first += t.lanes) {
    const uint32_t i = first + t.lane, begins = i < end && run_begins<T>(p, i) ? 1 : 0;
    uint32_t all;
    const uint32_t run = runs + team_before(t, begins, parts, all) + begins - 1;
    runs += all;
    if (begins) {
      const T* s = static_cast<const T*>(p.sorted) + (p.order ? p.order[i] : i) * p.width;
      for (uint32_t j = 0; j < p.width; ++j) static_cast<T*>(p.values)[size_t{run} * p.width + j] = s[j];
      if (p.first) p.first[run] = i;
    }
    if (i < end && p.indices) p.indices[p.place ? p.place[i] : i] = run;
  }
}

}  // namespace xpu
