// Launch arguments of the sparse kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/device_error_args.hpp"
#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

// One dimension of sparse indices and the running number of each element: key = key * size + index, or its inverse.
struct KeyArgs {
  const int64_t* index;
  int64_t* out;  // inverse: the index of each key along this dimension
  uint64_t* keys;
  DeviceError* error;
  int64_t stride, size;
  uint32_t n, dim;
  uint32_t first;  // the outermost dimension
  uint32_t pack;   // not 0: bits to shift the finished key by, to make room for the element's number
};

constexpr uint32_t kDenseAtDims = 3;

// out[i] = dense at the indices of element i.
struct DenseAtArgs {
  const int64_t* index;
  const void* dense;
  void* out;
  DeviceError* error;
  int64_t index_stride, index_step;  // from dimension to dimension, from element to element
  int64_t size[kDenseAtDims], stride[kDenseAtDims];
  uint32_t n, dims, chunk;
};

// The places of dense rows with these numbers.
struct RowPlaceArgs {
  const int64_t* row;
  int64_t *out_row, *out_column;
  uint32_t columns;
};

// Sorted elements: key and place in one word, or keys and places side by side where one has no room for both.
struct Sorted {
  const uint64_t* entries;
  const int64_t* order;  // null: the place is in the low `bits` of an entry
  uint32_t bits;
};

// Where each key is among sorted ones, or would be. An item takes `chunk` keys in turn.
struct KeyFindArgs {
  const uint64_t *table, *keys;
  int64_t* at;  // below `size`, whatever was found
  bool* hit;
  uint32_t size, n, chunk;
};

// Radix sort of words by the digit of `digit` bits above `shift`. counts is [digit, chunk].
struct RadixArgs {
  const uint64_t* from;
  uint64_t* to;
  uint32_t* counts;
  uint32_t n, chunks, chunk, shift, digit;
};

// Runs of equal keys: counted by chunk, numbered, and written.
struct KeyRunArgs {
  Sorted sorted;
  int64_t* counts;  // [chunks + 1]
  int64_t* starts;  // [runs + 1]
  uint64_t* keys;   // [runs]
  uint32_t n, chunks, chunk;
};

// out[run] = sum of the rows of `values` that belong to it, in their order.
struct RunSumArgs {
  Sorted sorted;
  const int64_t* starts;
  const void* values;
  void* out;
  uint32_t runs, columns;
  uint32_t runs_per_group;
};

// Sorted row numbers and pointers to the first element of each row, in both directions, batch by batch.
struct CompressArgs {
  const void* in;
  void* out;
  int64_t in_batch, out_batch;  // elements from batch to batch
  DeviceError* error;
  uint32_t n, rows;  // elements and rows of one batch
  uint32_t chunk;    // elements or rows that an item takes in turn
  uint32_t in32, out32;
};

// out = beta * self + alpha * (compressed rows) @ dense; the columns of dense and out lie side by side.
struct SpmmArgs {
  const void *crow, *col, *values, *dense, *self;  // self may be null
  void* out;
  int64_t dense_row, out_row, self_row, self_col, nnz;
  DeviceError* error;
  uint64_t alpha[2], beta[2];  // bits of the compute type, as in MatmulArgs
  uint32_t rows, inner, columns;
  uint32_t rows_per_group;  // or an item, where there are few columns
  uint32_t is32;
};

enum class SpmmReduce : uint32_t { sum, mean, amax, amin };

// The same with another reduction of each row's products; an empty row gives 0, its `arg` is nnz.
struct SpmmReduceArgs {
  const void *crow, *col, *values, *dense;
  void *out, *arg;  // arg of the index type, for amax and amin
  int64_t dense_row, nnz;
  DeviceError* error;
  SpmmReduce op;
  uint32_t rows, inner, columns, is32;
  uint32_t rows_per_group;
};

// out[k] = beta * values[k] + alpha * dot(a[row[k]], b[col[k]]); rows of both are dense.
struct SampledArgs {
  const void* row;  // of each element; sampled_rows: the row pointers
  const void *col, *a, *b, *values;
  void* out;
  DeviceError* error;
  uint64_t alpha[2], beta[2];
  uint32_t nnz, rows, columns, inner;
  uint32_t chunk;  // elements that a group takes in turn
  uint32_t is32;
};

// Row by row; what a work-item needs is one row of the result, dense.
struct SpgemmArgs {
  const int64_t *a_crow, *a_col, *b_crow, *b_col;
  const void *a_values, *b_values;
  int64_t a_nnz, b_nnz;
  int64_t* counts;             // [rows]: elements of each row of the result
  const int64_t* crow;         // [rows + 1]: where they begin
  int64_t *out_row, *out_col;  // out_row may be null
  void* out;
  void* sums;      // [items, columns] accumulators
  uint64_t* seen;  // [items, words and words of words]
  DeviceError* error;
  uint32_t rows, inner, columns;
  uint32_t items, chunk;  // rows of one item
  uint8_t few;            // so few columns that each may have a word of its own to count by
};

// The sum of two compressed matrices, whose columns rise in every row.
struct CsrMergeArgs {
  const void *a_crow, *a_col, *a_values, *b_crow, *b_col, *b_values;
  void *crow, *col, *out;
  int64_t* counts;  // [items + 1]: elements of the rows of each item, negative if refused; then where they begin
  int64_t a_nnz, b_nnz;
  uint32_t rows, items, chunk, is32;
};

// The numbers in [pointers[index[i]], pointers[index[i] + 1]) for each i in turn, and i beside each.
struct RangeArgs {
  const int64_t *pointers, *index;
  int64_t *element, *owner;
  int64_t* counts;  // as above
  int64_t stride, size;
  uint32_t n, items, chunk;
  uint32_t wrap;  // indices below 0 count from the end
};

// The sum or product of each row that has elements.
struct CsrReduceArgs {
  const void *crow, *values;
  void *pointers, *col, *out;
  int64_t* counts;  // [items]: rows of each that have elements
  int64_t nnz;
  uint32_t rows, items, chunk, is32, product;
};

// Solves a triangular system in place, one right side per item; what lies in the other triangle is not read.
struct CsrSolveArgs {
  const void *crow, *col, *values;
  void* x;  // [rows, sides]: the right sides, then the solutions
  int64_t nnz;
  uint32_t rows, sides;
  uint32_t is32, upper, transposed, unit;
};

// Pointers [batches, lines + 1] to numbers [batches, nnz] below size.
struct CsrCheckArgs {
  const void *pointers, *numbers;
  int64_t* failed;  // [items]: the first invariant of five that does not hold, or 5
  int64_t batches, lines, nnz, size, chunk;
  uint32_t items, is32;
};

// Blocks of `down` lines and `across` numbers that hold elements.
struct CsrBlockArgs {
  const void *pointers, *numbers, *values;
  void *out_pointers, *out_numbers, *out;
  int64_t* counts;  // as above
  int64_t* places;  // [items, width]
  uint64_t* seen;   // [items, words and words of words]
  DeviceError* error;
  int64_t nnz;
  int64_t in_stride, rest_stride;  // of a block: from line to line, and from number to number
  Divider across;
  uint32_t down, lines, width, size;  // lines of blocks, blocks across, numbers
  uint32_t items, chunk, is32;
};

}  // namespace xpu_ops
