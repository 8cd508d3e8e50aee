// Binary search, membership and histograms: launches.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/ops/problem/search.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

void search_sorted(runtime::Queue& queue, DType type, const SearchProblem& problem);
void is_in(runtime::Queue& queue, DType type, const IsinProblem& problem);
void find_bins(runtime::Queue& queue, DType type, const BinProblem& problem);
// Counts in bins of one width into `out`, without a bin per element in memory.
void count_even_bins(runtime::Queue& queue, DType type, const BinCountProblem& problem, int64_t* out);

}  // namespace xpu_ops::ops
