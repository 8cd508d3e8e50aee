// Writes by index with a defined result for equal indices: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/dtype.hpp"
#include "kernels/ops/indexing.hpp"
#include "kernels/ops/problem/scatter.hpp"
#include "kernels/sycl/index/scatter_args.hpp"

namespace xpu_ops::ops {

enum class Reduce { assign, add, mul, max, min };

// Sequential over `steps` indices in every column; see ColumnArgs. `columns` have strides {data, src, index}.
struct ColumnProblem {
  Reduce op;
  DType type;
  size_t element;  // bytes of one; all that `assign` reads of the type
  void* data;
  const void* src;
  IndexSource index;
  int64_t steps, src_step, index_step;
  std::optional<int64_t> skip;  // this index is left out
  Dims3 columns;
};

// sorted: an item per index, or a work-group per some of them, after a sort of the indices of each column. last: the
// same for `assign`, after a mark of the last index of each place. team: a sub-group per column, or a work-group.
struct ColumnPlan {
  ColumnArgs args;
  bool sorted = false, last = false, team = false;
  uint32_t sorts = 0;  // columns with indices of their own
  bool dealt = false;  // the indices are dealt to args.parts items, by chunks of `chunk`
  uint32_t chunk = 0, chunks = 0;
  // Over rows and parts of the indices, over the columns of a row; sorted: over columns, over indices, or as without
  // where columns lie side by side.
  size_t groups0 = 0, groups1 = 0, local = 1;
};
// No size may be 0.
ColumnPlan plan_columns(const ColumnProblem& problem, const runtime::Policy& policy);
void scatter_columns(runtime::Queue& queue, const ColumnProblem& problem);

// How many tables of counts, each of the share of one item or one work-group.
struct CountPlan {
  bool by_group = false;
  uint32_t tables = 1;
  size_t groups = 1, local = 1;
};
CountPlan plan_counts(int64_t n, int64_t bins, const runtime::Policy& policy);
// How often each of [0, bins) occurs; other values are left out.
void count_indices(runtime::Queue& queue, const CountProblem& problem);
void merge_counts(runtime::Queue& queue, int64_t* counts, uint32_t tables, uint32_t bins, int64_t* out);

void segment_reduce(runtime::Queue& queue, DType type, const SegmentProblem& problem);
void segment_reduce_backward(runtime::Queue& queue, DType type, const SegmentProblem& problem);

}  // namespace xpu_ops::ops
