#include "kernels/ops/search.hpp"

#include "gen/kernels/search_kernels.hpp"
#include "kernels/ops/items.hpp"
#include "kernels/ops/scatter.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/sycl/index/search_args.hpp"

namespace xpu_ops::ops {

void search_sorted(runtime::Queue& queue, DType type, const SearchProblem& problem) {
  launch_items(queue, kernels::searchsorted[type], problem.n, problem);
}

void is_in(runtime::Queue& queue, DType type, const IsinProblem& problem) {
  launch_items(queue, kernels::isin[type], problem.n, problem);
}

void find_bins(runtime::Queue& queue, DType type, const BinProblem& problem) {
  launch_items(queue, kernels::histogram_bin[type], problem.n, problem);
}

void count_even_bins(runtime::Queue& queue, DType type, const BinCountProblem& problem, int64_t* out) {
  const CountPlan plan = plan_counts(problem.n, problem.bins, runtime::policy_of(queue));
  const runtime::Scratch counts(size_t{plan.tables} * problem.bins * sizeof(int64_t));
  const BinCountArgs args{problem, counts.get<int64_t>(), plan.tables};
  const runtime::KernelTable& kernel = plan.by_group ? kernels::histogram_local : kernels::histogram_count;
  runtime::launch(queue, kernel[type], plan.groups, plan.local, args);
  merge_counts(queue, args.counts, plan.tables, problem.bins, out);
}

}  // namespace xpu_ops::ops
