// Problems of sparse matrices; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops {

struct DeviceError;

constexpr uint32_t kDenseAtDims = 3;

// Sorted elements: key and place in one word, or keys and places side by side where one has no room for both.
struct Sorted {
  const uint64_t* entries;
  const int64_t* order;  // null: the place is in the low `bits` of an entry
  uint32_t bits;
};

enum class SpmmReduce : uint32_t { sum, mean, amax, amin };

namespace ops {

// out[i] = dense at the indices of element i.
struct DenseAtProblem {
  const int64_t* index;
  const void* dense;
  void* out;
  DeviceError* error;
  int64_t index_stride, index_step;  // from dimension to dimension, from element to element
  int64_t size[kDenseAtDims], stride[kDenseAtDims];
  uint32_t n, dims;
};

// The places of dense rows with these numbers.
struct RowPlaceProblem {
  const int64_t* row;
  int64_t *out_row, *out_column;
  uint32_t columns;
};

// Where each key is among sorted ones, or would be.
struct KeyFindProblem {
  const uint64_t *table, *keys;
  int64_t* at;  // below `size`, whatever was found
  bool* hit;
  uint32_t size, n;
};

// Runs of equal keys: counted by chunk, numbered, and written.
struct KeyRunProblem {
  Sorted sorted;
  int64_t* counts;  // [items + 1], of the chunks
  int64_t* starts;  // [runs + 1]
  uint64_t* keys;   // [runs]
  uint32_t n;
};

// out[run] = sum of the rows of `values` that belong to it, in their order.
struct RunSumProblem {
  Sorted sorted;
  const int64_t* starts;
  const void* values;
  void* out;
  uint32_t runs, columns;
};

// Sorted row numbers and pointers to the first element of each row, in both directions, batch by batch.
struct CompressProblem {
  const void* in;
  void* out;
  int64_t in_batch, out_batch;  // elements from batch to batch
  DeviceError* error;
  uint32_t n, rows;  // elements and rows of one batch
  uint32_t in32, out32;
};

// out = beta * self + alpha * (compressed rows) @ dense; the columns of dense and out lie side by side.
struct SpmmProblem {
  const void *crow, *col, *values, *dense, *self;  // self may be null
  void* out;
  int64_t dense_row, out_row, self_row, self_col, nnz;
  DeviceError* error;
  uint64_t alpha[2], beta[2];  // bits of the compute type, so that no module needs double for them
  uint32_t rows, inner, columns;
  uint32_t is32;
};

// The same with another reduction of each row's products; an empty row gives 0, its `arg` is nnz.
struct SpmmReduceProblem {
  const void *crow, *col, *values, *dense;
  void *out, *arg;  // arg of the index type, for amax and amin
  int64_t dense_row, nnz;
  DeviceError* error;
  SpmmReduce op;
  uint32_t rows, inner, columns, is32;
};

// out[k] = beta * values[k] + alpha * dot(a[row[k]], b[col[k]]); rows of both are dense.
struct SampledProblem {
  const void* row;  // of each element; sampled_rows: the row pointers
  const void *col, *a, *b, *values;
  void* out;
  uint64_t alpha[2], beta[2];
  uint32_t nnz, rows, columns, inner;
  uint32_t is32;
};

// A product of two compressed matrices, and where it goes.
struct SpgemmProblem {
  const int64_t *a_crow, *a_col, *b_crow, *b_col;
  const void *a_values, *b_values;
  int64_t a_nnz, b_nnz;
  uint32_t rows, inner, columns;
};
struct SpgemmResult {
  const int64_t* crow;         // [rows + 1]: where the elements of each row begin
  int64_t *out_row, *out_col;  // out_row may be null
  void* out;
};

// The sum of two compressed matrices, whose columns rise in every row.
struct CsrMergeProblem {
  const void *a_crow, *a_col, *a_values, *b_crow, *b_col, *b_values;
  void *crow, *col, *out;
  int64_t* counts;  // [items + 1]: elements of the rows of each item, negative if refused; then where they begin
  int64_t a_nnz, b_nnz;
  uint32_t rows, is32;
};

// The numbers in [pointers[index[i]], pointers[index[i] + 1]) for each i in turn, and i beside each.
struct RangeProblem {
  const int64_t *pointers, *index;
  int64_t *element, *owner;
  int64_t* counts;  // as above
  int64_t stride, size;
  uint32_t n;
  uint32_t wrap;  // indices below 0 count from the end
};

// The sum or product of each row that has elements.
struct CsrReduceProblem {
  const void *crow, *values;
  void *pointers, *col, *out;
  int64_t* counts;  // [items]: rows of each that have elements
  int64_t nnz;
  uint32_t rows, is32, product;
};

// Solves a triangular system in place, one right side per item; what lies in the other triangle is not read.
struct CsrSolveProblem {
  const void *crow, *col, *values;
  void* x;  // [rows, sides]: the right sides, then the solutions
  int64_t nnz;
  uint32_t rows, sides;
  uint32_t is32, upper, transposed, unit;
};

// Pointers [batches, lines + 1] to numbers [batches, nnz] below size.
struct CsrCheckProblem {
  const void *pointers, *numbers;
  int64_t* failed;  // [items]: the first invariant of five that does not hold, or 5
  int64_t batches, lines, nnz, size;
  uint32_t is32;
};

// Blocks of `down` lines and `across` numbers that hold elements.
struct CsrBlockProblem {
  const void *pointers, *numbers, *values;
  int64_t nnz;
  int64_t in_stride, rest_stride;             // of a block: from line to line, and from number to number
  uint32_t down, across, lines, width, size;  // sizes of a block, lines of blocks, blocks across, numbers
  uint32_t is32;
};
struct CsrBlockResult { void *out_pointers, *out_numbers, *out; };

}  // namespace ops
}  // namespace xpu_ops
