#include "kernels/ops/sparse_csr.hpp"

#include "gen/kernels/sparse_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/sparse/sparse_args.hpp"

namespace xpu_ops::ops {

void pointers_to_rows(runtime::Queue& queue, int64_t batches, const CompressProblem& problem) {
  const Spread s = spread(problem.rows, runtime::policy_of(queue));
  const CompressArgs args{problem, s.chunk};
  runtime::launch2(queue, kernels::pointers_to_rows, batches, s.groups, 1, s.local, args);
}

void rows_to_pointers(runtime::Queue& queue, const CompressProblem& problem) {
  const Spread s = spread(size_t{problem.n} + 1, runtime::policy_of(queue));
  const CompressArgs args{problem, s.chunk};
  runtime::launch(queue, kernels::rows_to_pointers, s.groups, s.local, args);
  runtime::check_kernel_errors(queue);
}

void check_csr(runtime::Queue& queue, const ItemChunks& chunks, const CsrCheckProblem& problem) {
  const CsrCheckArgs args{problem, chunks.chunk, chunks.items};
  runtime::launch(queue, kernels::csr_check, args.items, 1, args);
}

void solve_csr(runtime::Queue& queue, DType type, const CsrSolveProblem& problem) {
  runtime::launch(queue, kernels::csr_solve[type], runtime::ceil_div(problem.sides, 16), 16, problem);
}

CsrBlocks::CsrBlocks(runtime::Queue& queue, const CsrBlockProblem& problem)
    : queue_(queue),
      problem_(problem),
      chunks_(plan_item_chunks(queue, problem.lines, problem.nnz)),
      seen_(seen_bytes(chunks_.items, problem.width)),
      places_(size_t{chunks_.items} * problem.width * sizeof(int64_t)) {}

CsrBlockArgs CsrBlocks::args(int64_t* counts, const CsrBlockResult& result) const {
  return {problem_,
          result,
          counts,
          places_.get<int64_t>(),
          seen_.get<uint64_t>(),
          runtime::error_flag(queue_.device),
          make_divider(problem_.across),
          chunks_.items,
          static_cast<uint32_t>(chunks_.chunk)};
}

void CsrBlocks::count(int64_t* counts) {
  runtime::launch(queue_, kernels::csr_block_count, chunks_.items, 1, args(counts, {}));
}

void CsrBlocks::fill(size_t element, int64_t* counts, const CsrBlockResult& result) {
  runtime::launch(queue_, kernels::csr_block_fill[raw_dtype(element)], chunks_.items, 1, args(counts, result));
  runtime::check_kernel_errors(queue_);
}

void count_merged(runtime::Queue& queue, const ItemChunks& chunks, const CsrMergeProblem& problem) {
  runtime::launch(queue, kernels::csr_merge_count, chunks.items, 1, chunked<CsrMergeArgs>(problem, chunks));
}

bool has_merge(DType type) { return kernels::csr_merge_fill.has(type); }

void fill_merged(runtime::Queue& queue, DType type, const ItemChunks& chunks, const CsrMergeProblem& problem) {
  runtime::launch(queue, kernels::csr_merge_fill[type], chunks.items, 1, chunked<CsrMergeArgs>(problem, chunks));
}

void reduce_csr_rows(runtime::Queue& queue, DType type, const ItemChunks& chunks, const CsrReduceProblem& problem) {
  const CsrReduceArgs args = chunked<CsrReduceArgs>(problem, chunks);
  runtime::launch(queue, kernels::csr_reduce_count, args.items, 1, args);
  runtime::launch(queue, kernels::csr_reduce_fill[type], args.items, 1, args);
}

}  // namespace xpu_ops::ops
