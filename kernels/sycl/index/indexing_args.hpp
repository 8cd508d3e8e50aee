// Arguments of the kernels that move elements by index; shared by host and device.
#pragma once
#include "kernels/ops/problem/indexing.hpp"
#include "kernels/sycl/core/device_error_args.hpp"
#include "kernels/sycl/core/real_args.hpp"
#include "kernels/sycl/core/walk_args.hpp"

namespace xpu_ops {

enum class IndexMode : uint32_t {
  row = 0,   // one index per row, data operands walk the row with stride 1; a group of one item copies whole rows
  unit = 1,  // one index per item; index and plain operand have stride 1; offsets of a row's data fit 31 bits
  general = 2,
};

// indexed_read:  plain[o0] = data[o1 + index[o2] * stride]
// indexed_write: data[o1 + index[o2] * stride] = plain[o0]; last writer is not defined for equal indices
struct IndexedArgs {
  void* plain;
  void* data;
  IndexSource index;
  IndexMode mode;
  uint32_t rows_per_group;
  uint32_t piece;  // row, unit: items of a row that a work-group takes
  uint8_t shared;  // all rows have the same indices
  Walk<3> walk;    // plain, data, index
};

struct LinearizeArgs : ops::LinearizeProblem {
  uint32_t rows_per_group;
  Walk<kMaxIndices + 1> walk;  // out, then the index tensors; at most one dim in a row, contiguous in out
};

// Compaction of the set elements of a mask, in three launches: counts of chunks, their prefix, the write.
constexpr uint32_t kCompactChunk = 2048;
constexpr int kCompactDims = 16;
struct CompactArgs {
  const void* mask;  // contiguous elements
  uint64_t keep[2];  // bits of an element that make it true: clears the sign of a float zero
  uint32_t n, chunks;
  uint32_t* counts;  // chunks + 1; after the prefix: start of each chunk, then the total
  // write
  void* out;
  const void* src;     // contiguous
  int64_t out_size;    // nonzero_static: rows to write; masked_scatter: elements of the source
  int64_t out_stride;  // nonzero: distance of two dims in `out`
  DeviceError* error;
  uint32_t ndim;
  Divider dims[kCompactDims];  // innermost first
};

struct FillTailArgs {  // nonzero_static: rows past the total
  int64_t* out;
  const uint32_t* total;
  int64_t value, rows, stride;
  uint32_t ndim;
};

using AssertArgs = ops::AssertProblem;  // nothing is planned

}  // namespace xpu_ops
