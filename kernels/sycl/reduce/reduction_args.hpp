// One reduction as the device sees it: kept dimensions, reduced dimensions, and how the reduced elements are divided
// into splits whose partial results a second kernel combines. Dimension 0 is the one that varies fastest. Strides in
// elements.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

constexpr int kReductionDims = 4;
constexpr uint32_t kLanes = 16;      // items of a `row` work-group, and its sub-group size
constexpr uint32_t kRows = 4;        // outputs that share a `row` work-group where rows are short
constexpr uint32_t kColumns = 4;     // columns an item takes in ColMode::columns
constexpr size_t kMaxAccBytes = 32;  // the largest accumulator

// How a `col` kernel finds its elements (a `row` kernel ignores it).
enum class ColMode : uint32_t {
  gather,   // one item per output, any strides
  columns,  // one work-group over adjacent columns of one row of outputs; at least local size x kColumns of them
  flat,     // few dense columns: the items of all splits are adjacent, and split s takes every splits-th row
};

struct ReductionArgs {
  const void* in = nullptr;
  void* out0 = nullptr;
  void* out1 = nullptr;
  void* partial = nullptr;  // accumulators [splits][kept_count]; null: one split, results go to out0 (and out1)

  uint32_t kept_count = 1;  // outputs
  Divider by_kept = {};     // division by it
  uint32_t kept_rank = 0;
  Divider kept[kReductionDims] = {};  // a real division would be done item by item
  int64_t in_kept[kReductionDims] = {};
  int64_t out0_kept[kReductionDims] = {};
  int64_t out1_kept[kReductionDims] = {};

  // The reduced elements of one output are outer_count x inner_count, numbered outer * inner_count + inner.
  uint32_t inner_count = 1;
  uint32_t outer_count = 1;
  uint32_t tail =
      0;  // inner elements of the last outer one, where one dimension was cut in two; 0: as many as of others
  uint32_t outer_rank = 0;
  Divider outer[kReductionDims] = {};
  int64_t in_outer[kReductionDims] = {};
  int64_t in_inner = 0;

  uint32_t splits = 1;
  Divider inner_splits = {};  // split s takes block s % inner_splits of inner and block s / inner_splits of outer
  uint32_t inner_block = 1;
  uint32_t outer_block = 1;
  ColMode mode = ColMode::gather;
  uint32_t blocks = 1;  // `col`: work-groups over dimension 0 in ColMode::columns; `row`: see short_rows; `team`: items
  // `row`: a task is kRows outputs, neighbours in dimension 0 with contiguous elements, in `blocks` blocks a row; if 0,
  // one output and split
  uint32_t short_rows = 0;
  uint32_t tasks = 1;  // `row` and `team`: neighbouring ones that a work-group, or a team, takes; 0: see `team`

  int64_t count = 0;  // reduced elements of one output
  float f = 0;        // what the operation needs (exponent, correction), for accumulators in float ...
  int64_t f64 = 0;    // ... and the bits of it in double: a double here would demand fp64 of every module; any,
                      // count_nonzero: the bits that tell an element from zero
  uint32_t flags = 0;
};

// ReductionArgs::flags, by operation.
constexpr uint32_t kDivideByCount = 1;  // sum: mean
constexpr uint32_t kSquareRoot = 1;     // var: std
constexpr uint32_t kAllOf = 1;          // any: all

}  // namespace xpu_ops
