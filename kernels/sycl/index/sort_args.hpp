// Launch arguments of the sorting kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

// Dense rows of `length` elements. Entries are {key, index} pairs: 8 bytes for keys up to 32 bits, 16 for longer ones.
struct SortArgs {
  const void* in;
  void* values;      // sorted values; may be null
  int64_t* indices;  // where they came from; may be null
  void* entries[2];  // radix: two buffers of rows * length entries
  uint32_t* counts;  // radix: digit counts
  uint32_t* moved;   // radix by teams: [rows], which buffer has the sorted entries
  uint32_t rows, length;
  void* range;      // radix over one row by several items: smallest key, distance to the largest, both of each chunk
  uint32_t chunks;  // how many
  uint32_t chunk;   // elements of one
  uint32_t pass;    // number of the digit
  uint32_t descending;
  uint32_t take;  // elements of a row to write: all, or the first k
  xpu::Divider by_length, by_take;
};

// topk by a threshold from lane maxima; dense rows.
constexpr uint32_t kScanDigits = 256;  // of one item that adds up counts
constexpr uint32_t kTopkScan = 16;     // the most that one item keeps in order
struct TopkArgs {
  const void* in;
  void* values;
  int64_t* indices;
  void* candidates;  // [rows, capacity] entries
  uint32_t* flags;   // [rows]: spare words
  uint32_t rows, length, k;
  uint32_t capacity;
  uint32_t largest;
  uint32_t rows_per_item;         // scan
  uint32_t chunks = 1;            // parts of a row, whose results are [rows, chunks, k]
  const int64_t* from = nullptr;  // [rows, length]: indices of the elements, which are results of parts
};

// Ends of runs over sorted rows: mode, unique.
struct RunArgs {
  const void* sorted;    // dense, [rows, length]
  const int64_t* order;  // indices that sorted it; unique: null where it is sorted
  void* values;
  int64_t* indices;  // mode: where the value is; unique: inverse
  // unique, by chunks of one item each
  const int64_t* place;  // where the inverse of an element belongs; may be null
  int64_t* counts;       // lengths of the runs
  uint32_t* first;       // first element of each run; only for counts
  uint32_t* starts;      // [chunks + 1]: runs that begin before each chunk, their number
  uint32_t* noted;       // [chunks, room]: where runs begin, as long as there is room; may be null
  uint32_t chunks, chunk, room;
  uint32_t rows, length;
  uint32_t out;    // unique: number of runs
  uint32_t width;  // unique over slices: elements of one
  uint32_t limit;  // merge: length of a sorted run
};

// kthvalue and median without sorting, of long rows by counts of the digits of their keys.
constexpr uint32_t kSelectBits = 11;
constexpr uint32_t kSelectSlots = (1u << kSelectBits) + 16;  // of one chunk: the digits, and the number of NaN
constexpr uint32_t kSelectLanes = 16;
constexpr uint32_t kSelectShort = 2047;  // elements of the longest row that one item takes

struct SelectState {
  uint64_t prefix;  // the digits found so far
  uint32_t k;       // number among the elements that have them
  uint32_t unused;
};

struct SelectArgs {
  const void* in;  // dense, [rows, length]
  void* values;
  int64_t* indices;    // may be null
  uint32_t* counts;    // [rows, chunks, kSelectSlots]
  SelectState* state;  // [rows]
  uint32_t rows, length;
  uint32_t chunks, chunk;  // parts of a row, and elements of one, short rows: rows of an item
  uint32_t pass;           // number of the digit, the highest first
  uint32_t k;              // which element (from 0); medians find theirs
  uint32_t mode;           // as of PickArgs
  // topk: `take` elements of a row from the one that was found on, in the order of the row: [rows, take]
  uint32_t take, largest;
  const int64_t* from;  // [rows, length]: indices of what was sorted, where `indices` has its order
};

// kthvalue and median over sorted rows.
struct PickArgs {
  const void* sorted;
  const int64_t* order;
  void* values;
  int64_t* indices;  // may be null
  uint32_t rows, length;
  uint32_t k;     // which element (from 0); medians find theirs
  uint32_t mode;  // 0 kthvalue, 1 median, 2 nanmedian
};

}  // namespace xpu_ops
