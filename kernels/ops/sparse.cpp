#include "kernels/ops/sparse.hpp"

#include <algorithm>
#include <utility>

#include "gen/kernels/sparse_kernels.hpp"
#include "kernels/ops/sparse_product.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/sparse/sparse_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kKeyItems = 1024;                      // of a work-group
constexpr int64_t kItemFilling = 4, kItemShare = 2048;  // items per compute unit, elements that are worth one
constexpr uint32_t kFewKeys = 4096, kFewBits = 8, kManyBits = 11;  // digits that few and many keys are sorted by
constexpr size_t kRunItems = 256, kRunColumns = 64;

void launch_keys(runtime::Queue& queue, runtime::KernelSlot& kernel, const KeyArgs& args) {
  const size_t local = std::min<size_t>(kKeyItems, runtime::policy_of(queue).elementwise_group);
  runtime::launch(queue, kernel, ceil_div(args.n, local), local, args);
}

}  // namespace

size_t seen_bytes(uint32_t items, uint32_t columns) {
  const size_t words = ceil_div(columns, 64);
  return items * (words + ceil_div(words, 64)) * sizeof(uint64_t);
}

ItemChunks plan_item_chunks(int64_t n, int64_t work, const runtime::Policy& policy) {
  ItemChunks plan;
  const int64_t items =
      std::clamp<int64_t>(work / kItemShare, 1, std::min(kItemFilling * policy.units, std::max<int64_t>(n, 1)));
  plan.chunk = static_cast<int64_t>(ceil_div(n, items));
  plan.items = plan.chunk == 0 ? 1 : static_cast<uint32_t>(ceil_div(n, plan.chunk));
  return plan;
}

ItemChunks plan_item_chunks(runtime::Queue& queue, int64_t n, int64_t work) {
  return plan_item_chunks(n, work, runtime::policy_of(queue));
}

uint32_t bits_of(unsigned __int128 n) {
  uint32_t bits = 0;
  while (bits < 64 && (static_cast<unsigned __int128>(1) << bits) < n) ++bits;
  return std::max(bits, 1u);
}

void make_keys(runtime::Queue& queue, const KeyProblem& p) {
  KeyArgs args{};
  args.keys = p.keys;
  args.error = runtime::error_flag(queue.device);
  args.n = p.n;
  args.stride = p.stride;
  for (size_t d = 0; d < p.sizes.size(); ++d) {
    args.index = p.index + static_cast<int64_t>(d) * p.dim_stride;
    args.size = p.sizes[d];
    args.dim = static_cast<uint32_t>(d);
    args.first = d == 0;
    args.pack = d + 1 == p.sizes.size() ? p.pack : 0;
    launch_keys(queue, kernels::coo_key, args);
  }
}

void split_keys(runtime::Queue& queue, uint64_t* keys, std::span<const int64_t> sizes, uint32_t n, int64_t* out) {
  KeyArgs args{};
  args.keys = keys;
  args.n = n;
  for (size_t d = sizes.size(); d-- > 0;) {
    args.out = out + d * n;
    args.size = sizes[d];
    args.first = d == 0;
    launch_keys(queue, kernels::coo_unkey, args);
  }
}

KeySortPlan plan_key_sort(uint32_t n, uint32_t bits, const runtime::Policy& policy) {
  KeySortPlan plan;
  plan.chunks = plan_item_chunks(n, n, policy);
  plan.passes = static_cast<uint32_t>(ceil_div(bits, n < kFewKeys ? kFewBits : kManyBits));
  plan.digit = static_cast<uint32_t>(ceil_div(bits, plan.passes));
  return plan;
}

uint64_t* sort_words(runtime::Queue& queue, uint64_t* from, uint64_t* to, uint32_t n, uint32_t bits, uint32_t shift) {
  const KeySortPlan plan = plan_key_sort(n, bits, runtime::policy_of(queue));
  RadixArgs args{};
  args.n = n;
  args.chunks = plan.chunks.items;
  args.chunk = static_cast<uint32_t>(plan.chunks.chunk);
  args.digit = plan.digit;
  const runtime::Scratch counts((size_t{args.chunks} << args.digit) * sizeof(uint32_t));
  args.counts = counts.get<uint32_t>();
  for (uint32_t pass = 0; pass < plan.passes; ++pass) {
    args.shift = shift + pass * args.digit;
    args.from = from;
    args.to = to;
    runtime::launch(queue, kernels::key_count, args.chunks, 1, args);
    runtime::launch(queue, kernels::key_scan, 1, 1, args);
    runtime::launch(queue, kernels::key_scatter, args.chunks, 1, args);
    std::swap(from, to);
  }
  return from;
}

void scan_counts(runtime::Queue& queue, int64_t* counts, uint32_t chunks) {
  KeyRunArgs args{};
  args.counts = counts;
  args.chunks = chunks;
  runtime::launch(queue, kernels::run_scan, 1, 1, args);
}

void count_runs(runtime::Queue& queue, const ItemChunks& chunks, const KeyRunProblem& problem) {
  runtime::launch(queue, kernels::run_count, chunks.items, 1, chunked<KeyRunArgs>(problem, chunks));
}

void emit_runs(runtime::Queue& queue, const ItemChunks& chunks, const KeyRunProblem& problem) {
  runtime::launch(queue, kernels::run_emit, chunks.items, 1, chunked<KeyRunArgs>(problem, chunks));
}

RunSumPlan plan_sum_runs(uint32_t runs, uint32_t columns, const runtime::Policy& policy) {
  RunSumPlan plan;
  plan.runs_per_group = plan_group_rows(runs, policy);
  plan.local = columns == 1 ? kRunItems : kRunColumns;
  plan.groups0 = columns == 1 ? 1 : ceil_div(runs, plan.runs_per_group);
  plan.groups1 = ceil_div(columns == 1 ? runs : columns, plan.local);
  return plan;
}

void sum_runs(runtime::Queue& queue, DType type, const RunSumProblem& problem) {
  const RunSumPlan plan = plan_sum_runs(problem.runs, problem.columns, runtime::policy_of(queue));
  const RunSumArgs args{problem, plan.runs_per_group};
  runtime::launch2(queue, kernels::run_sum[type], plan.groups0, plan.groups1, 1, plan.local, args);
}

void find_keys(runtime::Queue& queue, const KeyFindProblem& problem) {
  const Spread s = spread(problem.n, runtime::policy_of(queue));
  const KeyFindArgs args{problem, s.chunk};
  runtime::launch(queue, kernels::key_find, s.groups, s.local, args);
}

void dense_at(runtime::Queue& queue, size_t element, const DenseAtProblem& problem) {
  const Spread s = spread(problem.n, runtime::policy_of(queue));
  const DenseAtArgs args{problem, s.chunk};
  runtime::launch(queue, kernels::dense_at[raw_dtype(element)], s.groups, s.local, args);
}

void count_ranges(runtime::Queue& queue, const ItemChunks& chunks, const RangeProblem& problem) {
  runtime::launch(queue, kernels::range_count, chunks.items, 1, chunked<RangeArgs>(problem, chunks));
}

void fill_ranges(runtime::Queue& queue, const ItemChunks& chunks, const RangeProblem& problem) {
  runtime::launch(queue, kernels::range_fill, chunks.items, 1, chunked<RangeArgs>(problem, chunks));
}

}  // namespace xpu_ops::ops
