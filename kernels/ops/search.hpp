// Binary search, membership and histograms: launches.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/search_args.hpp"

namespace xpu_ops::plan::inline search_family {

void search_sorted(runtime::Queue& queue, DType type, const SearchArgs& args);
void is_in(runtime::Queue& queue, DType type, const IsinArgs& args);
void find_bins(runtime::Queue& queue, DType type, const BinArgs& args);
// Counts in bins of one width into `out`, without a bin per element in memory. Tables of the arguments are left as they
// are.
void count_even_bins(runtime::Queue& queue, DType type, BinCountArgs args, int64_t* out);

}  // namespace xpu_ops::plan::inline search_family
