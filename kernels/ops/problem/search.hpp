// Problems of binary search, membership and binning; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops {

enum class BinSearch : uint32_t { linear = 0, linear_then_local = 1, binary = 2 };

namespace ops {

struct SearchProblem {
  const void* values;     // contiguous
  const void* bounds;     // contiguous rows of bounds_length
  const int64_t* sorter;  // or null
  void* out;              // int64 or int32
  uint32_t n, row_values, bounds_length;
  uint8_t right, out32, one_row;
};

struct IsinProblem {
  const void* elements;
  const void* test;  // sorted if `sorted`
  bool* out;
  uint32_t n, tests;
  uint8_t sorted, invert;
};

// Folds the bin of one coordinate into the flat bin of each sample; -1: outside.
struct BinProblem {
  const void* values;
  const void* edges;  // bins + 1, ascending
  int64_t* flat;
  int64_t value_stride;
  uint32_t n, bins;
  BinSearch search;
  uint8_t first;
};

// Counts one coordinate by bins of one width.
struct BinCountProblem {
  const void* values;
  const void* edges;  // bins + 1
  int64_t value_stride;
  uint32_t n, bins;
};

}  // namespace ops
}  // namespace xpu_ops
