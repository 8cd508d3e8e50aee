// Sorting dense rows, and what is read off sorted rows: which kernel, in which parts (pure host code), and the
// launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/index/sort_args.hpp"

namespace xpu_ops::ops {

// Rows of at most 2^31 - 1 elements.
struct SortProblem {
  DType type;
  const void* in;  // dense, [rows, length]
  void* values;    // dense, [rows, take]; may be null
  int64_t* indices;
  int64_t rows, length, take;  // take: elements of a row to write
  bool descending;
};

struct SortPlan {
  // rank: an item per element counts the smaller ones. row: an item per row. chunks: one row by many items, the next
  // after it. team, team_chunks: the same by work-groups.
  enum class Kernel { none, rank_flat, rank, row_short, row_long, chunks, team, team_chunks } kernel = Kernel::none;
  int64_t batch = 0;               // rows of a launch
  uint32_t chunks = 1, chunk = 0;  // parts of a row, and elements of one
  uint32_t passes = 0;             // digits of a key
  uint32_t digits = 0;             // chunks: values of one
  size_t half = 0;                 // bytes of one of the two buffers of entries
  size_t counts = 0;               // digit counts
  size_t local = 1;                // items of a team
};
SortPlan plan_sort(const SortProblem& problem, const runtime::Policy& policy);
void sort(runtime::Queue& queue, const SortProblem& problem);

// The first k elements of each row in sorted order. `descending`: the largest.
struct TopkPlan {
  // scan: an item keeps the best of a row in order. few, many: a sub-group ranks what reaches a bound. take: selected,
  // then sorted.
  enum class Kernel { none, scan, few, many, take, sort } kernel = Kernel::none;
  uint32_t rows_per_item = 0;  // scan
  uint32_t capacity = 0;       // few, many: candidates of a row
  uint32_t chunks = 1;         // many: parts of a row, whose results are merged by another launch
};
TopkPlan plan_topk(const SortProblem& problem, const runtime::Policy& policy);
void topk(runtime::Queue& queue, const SortProblem& problem);

enum class PickMode : uint32_t { kth, median, nan_median };  // as PickArgs numbers them

// One element of each row in sorted order; no row is empty.
struct PickProblem {
  DType type;
  const void* in;
  void* values;
  int64_t* indices;  // may be null
  int64_t rows, length;
  int64_t k;  // from 0; medians find theirs
  PickMode mode;
};

struct PickPlan {
  // row: an item per row finds the element. select: counts of digits, by chunks. sorted: after sorting.
  enum class Kernel { none, row, select, sorted } kernel = Kernel::none;
  uint32_t rows_per_item = 0;      // row
  uint32_t chunks = 1, chunk = 0;  // select: parts of a row, and elements of one
  uint32_t passes = 0;
};
PickPlan plan_pick(const PickProblem& problem, const runtime::Policy& policy);
void pick(runtime::Queue& queue, const PickProblem& problem);

// The most frequent value of each row and the last place that has it.
void mode(runtime::Queue& queue, DType type, const void* in, void* values, int64_t* indices, int64_t rows,
          int64_t length);

// Runs of equal slices among `count` dense slices of `width` elements, taken in `order` (null: as they lie). The run of
// the i-th belongs to place[i] of the inverse (null: i).
struct RunsProblem {
  DType type;
  const void* slices;
  const int64_t *order, *place;
  int64_t count, width;
};

struct RunsPlan {
  uint32_t chunks = 0, chunk = 0;
  uint32_t room = 0;  // places of runs that a chunk notes
};
RunsPlan plan_runs(const RunsProblem& problem, const runtime::Policy& policy);

class Runs {
 public:
  Runs(runtime::Queue& queue, const RunsProblem& problem);  // waits for the number of runs
  int64_t total() const { return args_.out; }
  // values: [total, width]. inverse: [count], counts: [total]; either may be null.
  void write(void* values, int64_t* inverse, int64_t* counts);

 private:
  runtime::Queue& queue_;
  DType type_;
  RunsPlan plan_;
  runtime::Scratch starts_, noted_;
  RunArgs args_{};
};

// Sorts the numbers in `order` by the slices they name, lexicographically and stably. Returns the one of the two
// buffers of `count` numbers that has the result.
int64_t* order_slices(runtime::Queue& queue, DType type, const void* slices, int64_t count, int64_t width,
                      int64_t* order, int64_t* spare);

}  // namespace xpu_ops::ops
