// Counts of a work-group in local memory. They are integers, so that the order of its items does not show.
#pragma once
#include <sycl/atomic_ref.hpp>
#include <sycl/ext/oneapi/work_group_static.hpp>
#include <sycl/group_barrier.hpp>

#include "kernels/sycl/core/counts_args.hpp"
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"

namespace xpu {

using xpu_ops::kLocalBins;

XPU_INLINE void count_one(uint32_t& count) {
  sycl::atomic_ref<uint32_t, sycl::memory_order::relaxed, sycl::memory_scope::device>(count).fetch_add(1u);
}

// Calls visit(i, counts) for each element in [begin, end), then give(bin, count) for each of `bins`. 1-D.
template <class F, class G> XPU_INLINE void count_by_group(size_t begin, size_t end, uint32_t bins, F visit, G give) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto group = item.get_group();
  const uint32_t lane = static_cast<uint32_t>(item.get_local_id(0)),
                 local = static_cast<uint32_t>(item.get_local_range(0));
  syclexp::work_group_static<uint32_t[kLocalBins]> shared;
  uint32_t* counts = shared;
  for (uint32_t b = lane; b < bins; b += local) counts[b] = 0;
  sycl::group_barrier(group);
  for (size_t i = begin + lane; i < end; i += local) visit(static_cast<uint32_t>(i), counts);
  sycl::group_barrier(group);
  for (uint32_t b = lane; b < bins; b += local) give(b, counts[b]);
}

// The share of `n` elements of this work-group, counted into a table of its own: [work-group, bins]. bin_of(i): the bin
// of element i, `bins` for none.
template <class F> XPU_INLINE void count_share(uint32_t n, uint32_t bins, int64_t* tables, F bin_of) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t g = item.get_group(0), share = (n + item.get_group_range(0) - 1) / item.get_group_range(0),
               begin = g * share, end = begin + share < n ? begin + share : n;
  count_by_group(
      begin, end, bins,
      [&](uint32_t i, uint32_t* counts) {
        const uint32_t bin = bin_of(i);
        if (bin < bins) count_one(counts[bin]);
      },
      [&](uint32_t b, uint32_t count) { tables[g * bins + b] = count; });
}

}  // namespace xpu
