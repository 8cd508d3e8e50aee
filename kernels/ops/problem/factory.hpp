// Problems of the factories; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// arange, range, linspace and logspace. Integers go by the int64 fields. Real types go by *_hi + *_lo, which is a
// double split into two floats, so that a kernel without fp64 keeps its precision; fp64 kernels read the doubles. Those
// are kept as their bits: a double in the struct alone would make a kernel need fp64.
struct SequenceProblem {
  void* dst;
  int64_t start, step;
  uint64_t start64, end64, step64, base64;
  float start_hi, start_lo, end_hi, end_lo, step_hi, step_lo;
  float start_im, end_im, step_im;  // complex: start, end and step have these imaginary parts
  uint64_t start_im64, end_im64, step_im64;
  float base;
  uint32_t half_n;  // linspace counts from the end at and after this index
};

// tril and triu of height x width matrices.
struct TriangleProblem {
  void* dst;
  const void* src;
  uint32_t height, width;
  int32_t diagonal;
};

// tril_indices and triu_indices.
struct TriangleIndexProblem {
  void* dst;
  int64_t first_row, cols, offset, n;  // n: entries of each of the two result rows
};

// complex and polar.
struct ComplexProblem {
  void* dst;
  const void *a, *b;
};

// repeat_interleave: dst[i] = the first j with cumulative[j] > i.
struct RepeatProblem {
  void* dst;
  const void* cumulative;
  uint32_t n, count;
};

}  // namespace xpu_ops::ops
