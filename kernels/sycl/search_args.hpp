// Arguments of binary search, membership and binning; shared by host and device.
#pragma once
#include <cstdint>

namespace xpu_ops {

struct SearchArgs {
  const void* values;     // contiguous
  const void* bounds;     // contiguous rows of bounds_length
  const int64_t* sorter;  // or null
  void* out;              // int64 or int32
  uint32_t n, row_values, bounds_length;
  uint8_t right, out32, one_row;
};

struct IsinArgs {
  const void* elements;
  const void* test;  // sorted if `sorted`
  bool* out;
  uint32_t n, tests;
  uint8_t sorted, invert;
};

// Folds the bin of one coordinate into the flat bin of each sample; -1: outside.
enum class BinSearch : uint32_t { linear = 0, linear_then_local = 1, binary = 2 };
struct BinArgs {
  const void* values;
  const void* edges;  // bins + 1, ascending
  int64_t* flat;
  int64_t value_stride;
  uint32_t n, bins;
  BinSearch search;
  uint8_t first;
};

// Counts one coordinate by bins of one width: each item a share of the values, in a table of its own.
struct BinCountArgs {
  const void* values;
  const void* edges;  // bins + 1
  int64_t* counts;    // tables x bins
  int64_t value_stride;
  uint32_t n, bins, tables;
};

}  // namespace xpu_ops
