// Launch arguments of the sparse kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/sparse.hpp"
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

struct DenseAtArgs : ops::DenseAtProblem {
  uint32_t chunk;  // elements that an item takes in turn
};

using RowPlaceArgs = ops::RowPlaceProblem;  // nothing is planned

struct KeyFindArgs : ops::KeyFindProblem {
  uint32_t chunk;  // keys that an item takes in turn
};

// Radix sort of words by the digit of `digit` bits above `shift`. counts is [digit, chunk].
struct RadixArgs {
  const uint64_t* from;
  uint64_t* to;
  uint32_t* counts;
  uint32_t n, chunks, chunk, shift, digit;
};

struct KeyRunArgs : ops::KeyRunProblem { uint32_t chunks, chunk; };

struct RunSumArgs : ops::RunSumProblem { uint32_t runs_per_group; };

struct CompressArgs : ops::CompressProblem {
  uint32_t chunk;  // elements or rows that an item takes in turn
};

struct SpmmArgs : ops::SpmmProblem {
  uint32_t rows_per_group;  // or an item, where there are few columns
};

struct SpmmReduceArgs : ops::SpmmReduceProblem { uint32_t rows_per_group; };

struct SampledArgs : ops::SampledProblem {
  DeviceError* error;
  uint32_t chunk;  // elements that a group takes in turn
};

// Row by row; what a work-item needs is one row of the result, dense.
struct SpgemmArgs : ops::SpgemmProblem, ops::SpgemmResult {
  int64_t* counts;  // [rows]: elements of each row of the result
  void* sums;       // [items, columns] accumulators
  uint64_t* seen;   // [items, words and words of words]
  DeviceError* error;
  uint32_t items, chunk;  // rows of one item
  uint8_t few;            // so few columns that each may have a word of its own to count by
};

struct CsrMergeArgs : ops::CsrMergeProblem { uint32_t items, chunk; };

struct RangeArgs : ops::RangeProblem { uint32_t items, chunk; };

struct CsrReduceArgs : ops::CsrReduceProblem { uint32_t items, chunk; };

using CsrSolveArgs = ops::CsrSolveProblem;  // nothing is planned

struct CsrCheckArgs : ops::CsrCheckProblem {
  int64_t chunk;
  uint32_t items;
};

struct CsrBlockArgs : ops::CsrBlockProblem, ops::CsrBlockResult {
  int64_t* counts;  // [items + 1]: blocks of the lines of each item; then where they begin
  int64_t* places;  // [items, width]
  uint64_t* seen;   // [items, words and words of words]
  DeviceError* error;
  Divider by_across;
  uint32_t items, chunk;
};

}  // namespace xpu_ops
