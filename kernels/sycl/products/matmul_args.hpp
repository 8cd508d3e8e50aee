// Launch arguments of the matmul kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/matmul.hpp"

namespace xpu_ops {

struct Matrix {
  int64_t batch, row, col;  // strides in elements; 0 broadcasts
};

constexpr uint32_t kDotRows = 4;          // rows that a work-group of matmul_dot or matmul_across computes
constexpr uint32_t kAcrossColumns = 128;  // and columns of matmul_across
constexpr uint32_t kPairRows = 16;        // of matmul_dot with pairs of bf16
constexpr uint32_t kMostDotColumns = 256;

// out = alpha * a @ b + beta * c
struct MatmulArgs {
  const void *a, *b, *c;  // c may be null
  void* out;
  uint32_t m, n, k, row_blocks;
  uint32_t blocks;       // of rows in all batches
  uint32_t dot_columns;  // of a work-group of matmul_dot, a multiple of 16
  Matrix as, bs, cs, os;
  uint64_t alpha[2],
      beta[2];  // bits of the compute type (complex: two halves), so that no module needs double for them
};

// out[i] = parts[i], whole numbers, added to what `out` holds unless it is the first.
struct WholeArgs {
  const float* parts;
  int32_t* out;
  uint32_t n, first;
};

struct DotArgs : ops::DotProblem {
  void* partial;  // of the compute type, one per item
  uint32_t items;
  uint32_t chunk;  // elements that 16 neighbouring items share
};

}  // namespace xpu_ops
