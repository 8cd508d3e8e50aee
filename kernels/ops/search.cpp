#include "kernels/ops/search.hpp"

#include "gen/kernels/search_kernels.hpp"
#include "kernels/ops/items.hpp"
#include "kernels/ops/scatter.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::plan::inline search_family {

void search_sorted(runtime::Queue& queue, DType type, const SearchArgs& args) {
  launch_items(queue, kernels::searchsorted[type], args.n, args);
}

void is_in(runtime::Queue& queue, DType type, const IsinArgs& args) {
  launch_items(queue, kernels::isin[type], args.n, args);
}

void find_bins(runtime::Queue& queue, DType type, const BinArgs& args) {
  launch_items(queue, kernels::histogram_bin[type], args.n, args);
}

void count_even_bins(runtime::Queue& queue, DType type, BinCountArgs args, int64_t* out) {
  const CountPlan plan = plan_counts(args.n, args.bins, runtime::device_info(queue.device).policy);
  const runtime::Scratch counts(size_t{plan.tables} * args.bins * sizeof(int64_t));
  args.counts = counts.get<int64_t>();
  args.tables = plan.tables;
  const runtime::KernelTable& kernel = plan.by_group ? kernels::histogram_local : kernels::histogram_count;
  runtime::launch(queue, kernel[type], plan.groups, plan.local, args);
  merge_counts(queue, args.counts, plan.tables, args.bins, out);
}

}  // namespace xpu_ops::plan::inline search_family
