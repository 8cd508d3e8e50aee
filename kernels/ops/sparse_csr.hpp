// Compressed layouts: pointers and row numbers, checks, blocks, sums. Plans (pure host code) and launches. What comes
// in two launches, counts and elements, is one item per chunk of plan_item_chunks(), with scan_counts() between them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/sparse/sparse_args.hpp"

namespace xpu_ops::plan::inline sparse_csr_family {

// All of the arguments but the chunk is given.
void pointers_to_rows(runtime::Queue& queue, int64_t batches, CompressArgs args);
void rows_to_pointers(runtime::Queue& queue, CompressArgs args);

void check_csr(runtime::Queue& queue, const CsrCheckArgs& args);
void solve_csr(runtime::Queue& queue, DType type, const CsrSolveArgs& args);

// Blocks of a compressed matrix: count(), then scan_counts() of args.counts, then fill().
class CsrBlocks {
 public:
  CsrBlockArgs args;
  // Sizes and operands of the arguments are given; items and scratch memory are planned.
  CsrBlocks(runtime::Queue& queue, const CsrBlockArgs& args);
  void count();
  void fill(size_t element);

 private:
  runtime::Queue& queue_;
  runtime::Scratch seen_, places_;
};

void count_merged(runtime::Queue& queue, const CsrMergeArgs& args);
bool has_merge(DType type);
void fill_merged(runtime::Queue& queue, DType type, const CsrMergeArgs& args);

void reduce_csr_rows(runtime::Queue& queue, DType type, const CsrReduceArgs& args);

}  // namespace xpu_ops::plan::inline sparse_csr_family
