// Compressed layouts: pointers and row numbers, checks, blocks, sums. Plans (pure host code) and launches. What comes
// in two launches, counts and elements, is one item per chunk of plan_item_chunks(), with scan_counts() between them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/sparse.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {

struct CsrBlockArgs;

namespace ops {

void pointers_to_rows(runtime::Queue& queue, int64_t batches, const CompressProblem& problem);
void rows_to_pointers(runtime::Queue& queue, const CompressProblem& problem);

void check_csr(runtime::Queue& queue, const ItemChunks& chunks, const CsrCheckProblem& problem);
void solve_csr(runtime::Queue& queue, DType type, const CsrSolveProblem& problem);

// Blocks of a compressed matrix: count(), then scan_counts() of the counts, then fill().
class CsrBlocks {
 public:
  CsrBlocks(runtime::Queue& queue, const CsrBlockProblem& problem);
  uint32_t items() const { return chunks_.items; }
  void count(int64_t* counts);  // [items + 1]
  void fill(size_t element, int64_t* counts, const CsrBlockResult& result);

 private:
  CsrBlockArgs args(int64_t* counts, const CsrBlockResult& result) const;

  runtime::Queue& queue_;
  CsrBlockProblem problem_;
  ItemChunks chunks_;
  runtime::Scratch seen_, places_;
};

void count_merged(runtime::Queue& queue, const ItemChunks& chunks, const CsrMergeProblem& problem);
bool has_merge(DType type);
void fill_merged(runtime::Queue& queue, DType type, const ItemChunks& chunks, const CsrMergeProblem& problem);

void reduce_csr_rows(runtime::Queue& queue, DType type, const ItemChunks& chunks, const CsrReduceProblem& problem);

}  // namespace ops
}  // namespace xpu_ops
