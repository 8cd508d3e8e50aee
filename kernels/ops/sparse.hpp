// COO tensors: keys of elements, their order, runs of equal ones, places. Plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/sparse.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// Few items with `chunk` of `n` each in turn. `work`: elements that they read in all.
struct ItemChunks {
  uint32_t items = 1;
  int64_t chunk = 1;
};
ItemChunks plan_item_chunks(int64_t n, int64_t work, const runtime::Policy& policy);
ItemChunks plan_item_chunks(runtime::Queue& queue, int64_t n, int64_t work);
// The launch struct of a problem whose items take a chunk each.
template <class Args, class Problem>
Args chunked(const Problem& problem, const ItemChunks& chunks) {
  return {problem, chunks.items, static_cast<uint32_t>(chunks.chunk)};
}

// Bytes that an item per `items` notes its columns in: their bits, and those of all words of them.
size_t seen_bytes(uint32_t items, uint32_t columns);

// Bits of the largest of n numbers.
uint32_t bits_of(unsigned __int128 n);

// Keys of n elements, dimension by dimension; the last one makes room for the element's number, of `pack` bits.
// `index`: the first index of each dimension, dim_stride apart, and stride from element to element.
struct KeyProblem {
  const int64_t* index;
  int64_t dim_stride, stride;
  std::span<const int64_t> sizes;
  uint64_t* keys;
  uint32_t n, pack;
};
void make_keys(runtime::Queue& queue, const KeyProblem& problem);
// The indices of n keys, n apart from dimension to dimension. Keys are lost.
void split_keys(runtime::Queue& queue, uint64_t* keys, std::span<const int64_t> sizes, uint32_t n, int64_t* out);

// Stable radix sort of words by the `bits` above the low `shift`.
struct KeySortPlan {
  ItemChunks chunks;
  uint32_t passes = 1, digit = 1;
};
KeySortPlan plan_key_sort(uint32_t n, uint32_t bits, const runtime::Policy& policy);
// Returns which of the two has the result; the other is lost.
uint64_t* sort_words(runtime::Queue& queue, uint64_t* from, uint64_t* to, uint32_t n, uint32_t bits, uint32_t shift);

// counts[chunks], turned into where each begins; counts[chunks] becomes their sum.
void scan_counts(runtime::Queue& queue, int64_t* counts, uint32_t chunks);
// Runs of equal keys, in two launches with the scan of counts between them. `chunks`: of plan_item_chunks().
void count_runs(runtime::Queue& queue, const ItemChunks& chunks, const KeyRunProblem& problem);
void emit_runs(runtime::Queue& queue, const ItemChunks& chunks, const KeyRunProblem& problem);

struct RunSumPlan {
  uint32_t runs_per_group = 1;
  size_t groups0 = 1, groups1 = 1, local = 1;
};
RunSumPlan plan_sum_runs(uint32_t runs, uint32_t columns, const runtime::Policy& policy);
void sum_runs(runtime::Queue& queue, DType type, const RunSumProblem& problem);

void find_keys(runtime::Queue& queue, const KeyFindProblem& problem);
void dense_at(runtime::Queue& queue, size_t element, const DenseAtProblem& problem);

// Ranges named by indices, in two launches with the scan of counts between them. `chunks` as above.
void count_ranges(runtime::Queue& queue, const ItemChunks& chunks, const RangeProblem& problem);
void fill_ranges(runtime::Queue& queue, const ItemChunks& chunks, const RangeProblem& problem);

}  // namespace xpu_ops::ops
