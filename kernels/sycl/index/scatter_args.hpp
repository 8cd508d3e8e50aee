// Arguments of the kernels that write by index with a defined result for equal indices; shared by host and device.
#pragma once
#include "kernels/ops/problem/scatter.hpp"
#include "kernels/sycl/index/indexing_args.hpp"

namespace xpu_ops {

// Each item owns one column: everything that can meet in one destination. It runs through the `steps` indices in order,
//   data[o0 + index[o2 + j * index_step] * index.stride]  op=  src[o1 + j * src_step]
// so equal indices combine in the order of the source, with no atomics. Where columns are few, `parts` items share one
// and each takes the indices in its own range. An item may have a tile of columns: an inner loop within an outer one,
// of which either runs through the indices, the other through the columns. With `keys`, the sorted indices of each
// column, an item per index combines what meets in one place. With `starts`, index and src of the only column are dealt
// to the parts in their order (ColumnDealArgs), and each item takes those of its own. In the kernels of teams a
// sub-group owns a column or, where its indices are many, a work-group.
constexpr uint32_t kHeldBytes = 1 << 14;  // of a column that a work-group holds in local memory
constexpr uint32_t kMeetPlaces =
    1 << 12;  // words of local memory in which the entries of a column meet, by their place
struct ColumnStep { int64_t data, src, index; };
struct ColumnArgs {
  void* data;
  const void* src;
  IndexSource index;
  int64_t src_step, index_step;
  int64_t part_size;
  int64_t skip;  // this index is left out (embedding's padding_idx)
  uint32_t steps, parts;
  uint8_t uniform;  // the index does not depend on the column
  uint8_t unit;     // columns of data and src are adjacent (with uniform)
  uint32_t tile;    // columns of one item; of a work-group where `uniform` and `unit`
  uint32_t take;    // columns of one nest: the tile where they lie evenly, else 1; with `keys` and `unit`: indices
  uint8_t across;   // the inner loop runs through the columns
  uint8_t sift;     // the indices of the part are found first, so that nothing branches on them (one column)
  uint8_t meets;    // teams: a work-group has a column
  uint8_t held;     // the same: in local memory, read and written once
  ColumnStep inner, outer;
  Walk<3> walk;                      // columns: data, src, index
  const int32_t* keys = nullptr;     // [columns, steps], [steps] where `uniform`; left out: index.size
  const int64_t* places = nullptr;   // of the keys among the steps; without them each place occurs once, in any order
  const uint32_t* starts = nullptr;  // [parts + 1]
  const uint32_t* order = nullptr;   // [steps]: of slices, the steps that are dealt in place of src
};

// The indices and values of one column in the order of the parts that they fall into, and within one in their own. Each
// item walks a chunk of them. Indices that are left out are dropped.
constexpr uint32_t kDealtParts = 64;  // the most of them
struct ColumnDealArgs {
  IndexSource index;
  const void* src;
  int64_t src_step, index_step, skip;
  uint32_t steps, chunk, chunks, parts;
  Divider by_part_size;
  uint32_t* counts;  // [chunks, parts]
  uint32_t* starts;  // [parts + 1]
  int32_t* ids;      // [steps]
  void* values;      // [steps]: of src, or the numbers of the steps
};

// The indices of each column as they are sorted: [columns, steps], index.size where they are left out.
struct ColumnKeyArgs {
  IndexSource index;
  int32_t* keys;
  int64_t index_step, skip;
  uint32_t steps;
  Walk<3> walk;  // as above
};

// Steps whose place a later one takes are left out of the keys.
struct ColumnLastArgs {
  int32_t* keys;   // [steps]; left out: size
  uint32_t* last;  // [size], zeros
  int32_t size;
  uint32_t steps;
};

// Counts into one private table a work-item or work-group (rows of `counts`), summed by count_merge.
struct CountArgs : ops::CountProblem {
  int64_t* counts;  // tables x bins
  uint32_t tables;
};

using SegmentArgs = ops::SegmentProblem;  // nothing is planned

}  // namespace xpu_ops
