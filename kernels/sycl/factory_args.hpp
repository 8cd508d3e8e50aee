// Launch structs of the factories.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

// arange, range, linspace and logspace. Integers go by the int64 fields. Real types go by *_hi + *_lo, which is a
// double split into two floats, so that a kernel without fp64 keeps its precision; fp64 kernels read the doubles. Those
// are kept as their bits: a double in the struct alone would make a kernel need fp64.
struct SequenceArgs {
  void* dst;
  int64_t start, step;
  uint64_t start64, end64, step64, base64;
  float start_hi, start_lo, end_hi, end_lo, step_hi, step_lo;
  float start_im, end_im, step_im;  // complex: start, end and step have these imaginary parts
  uint64_t start_im64, end_im64, step_im64;
  float base;
  uint32_t n;       // elements of this launch
  uint32_t first;   // index of the first one
  uint32_t half_n;  // linspace counts from the end at and after this index
  uint32_t last;    // index of the last element of the whole sequence
  uint32_t once;    // 1: see whole_or_part
};

// tril and triu of rows x cols matrices.
struct TriangleArgs {
  void* dst;
  const void* src;
  Divider cols, rows;
  int32_t diagonal;
  uint32_t n;
};

// tril_indices and triu_indices: one work-group a row.
struct TriangleIndexArgs {
  void* dst;
  int64_t first_row, cols, offset, n;  // n: entries of each of the two result rows
};

// complex and polar.
struct ComplexArgs {
  void* dst;
  const void *a, *b;
  uint32_t n;
};

// repeat_interleave: dst[i] = the first j with cumulative[j] > i.
struct RepeatArgs {
  void* dst;
  const void* cumulative;
  uint32_t n, count;
  uint32_t chunk;  // results of one item
};

}  // namespace xpu_ops
