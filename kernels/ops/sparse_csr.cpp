#include "kernels/ops/sparse_csr.hpp"

#include "gen/kernels/sparse_kernels.hpp"
#include "kernels/ops/sparse.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::plan::inline sparse_csr_family {
namespace {

CsrBlockArgs with_items(runtime::Queue& queue, CsrBlockArgs args) {
  const ItemChunks plan = plan_item_chunks(queue, args.lines, args.nnz);
  args.items = plan.items;
  args.chunk = static_cast<uint32_t>(plan.chunk);
  args.error = runtime::error_flag(queue.device);
  return args;
}

// Bits of all columns, and of all words of them.
size_t seen_bytes(const CsrBlockArgs& args) {
  const size_t words = runtime::ceil_div(args.width, 64);
  return args.items * (words + runtime::ceil_div(words, 64)) * sizeof(uint64_t);
}

}  // namespace

void pointers_to_rows(runtime::Queue& queue, int64_t batches, CompressArgs args) {
  const Spread s = spread(args.rows, runtime::device_info(queue.device).policy);
  args.chunk = s.chunk;
  runtime::launch2(queue, kernels::pointers_to_rows, batches, s.groups, 1, s.local, args);
}

void rows_to_pointers(runtime::Queue& queue, CompressArgs args) {
  const Spread s = spread(size_t{args.n} + 1, runtime::device_info(queue.device).policy);
  args.chunk = s.chunk;
  runtime::launch(queue, kernels::rows_to_pointers, s.groups, s.local, args);
  runtime::check_kernel_errors(queue);
}

void check_csr(runtime::Queue& queue, const CsrCheckArgs& args) {
  runtime::launch(queue, kernels::csr_check, args.items, 1, args);
}

void solve_csr(runtime::Queue& queue, DType type, const CsrSolveArgs& args) {
  runtime::launch(queue, kernels::csr_solve[type], runtime::ceil_div(args.sides, 16), 16, args);
}

CsrBlocks::CsrBlocks(runtime::Queue& queue, const CsrBlockArgs& given)
    : args(with_items(queue, given)),
      queue_(queue),
      seen_(seen_bytes(args)),
      places_(size_t{args.items} * args.width * sizeof(int64_t)) {
  args.seen = seen_.get<uint64_t>();
  args.places = places_.get<int64_t>();
}

void CsrBlocks::count() { runtime::launch(queue_, kernels::csr_block_count, args.items, 1, args); }

void CsrBlocks::fill(size_t element) {
  runtime::launch(queue_, kernels::csr_block_fill[raw_dtype(element)], args.items, 1, args);
  runtime::check_kernel_errors(queue_);
}

void count_merged(runtime::Queue& queue, const CsrMergeArgs& args) {
  runtime::launch(queue, kernels::csr_merge_count, args.items, 1, args);
}

bool has_merge(DType type) { return kernels::csr_merge_fill.has(type); }

void fill_merged(runtime::Queue& queue, DType type, const CsrMergeArgs& args) {
  runtime::launch(queue, kernels::csr_merge_fill[type], args.items, 1, args);
}

void reduce_csr_rows(runtime::Queue& queue, DType type, const CsrReduceArgs& args) {
  runtime::launch(queue, kernels::csr_reduce_count, args.items, 1, args);
  runtime::launch(queue, kernels::csr_reduce_fill[type], args.items, 1, args);
}

}  // namespace xpu_ops::plan::inline sparse_csr_family
