// Problems of operands with a scale per block; no type of the device, no torch.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/lowprecision.hpp"

namespace xpu_ops::ops {

// Rows of k values, side by side in each row; two of e2m1 share a byte, the even one low. Value (r, c) has the scale of
// row r / scale_rows and block c / block.
struct BlockScaleProblem {
  const void* in = nullptr;
  const void* scale = nullptr;
  void* out = nullptr;  // rows x k, dense
  int64_t in_row = 0;   // bytes from row to row
  // Elements from one scale to the next. `tiles` says that they are swizzled instead: tiles of 128 rows by 4 blocks,
  // `tiles` of them side by side; in a tile 32 rows, the four rows 32 apart, the blocks.
  int64_t scale_row = 0, scale_block = 0;
  uint32_t rows = 0, k = 0;
  uint32_t block = 0, scale_rows = 1, tiles = 0;
};

// out = a @ w.T: a and out of float32, w as `scales` says, whose rows, k and places of scales count.
struct BlockRowsProblem {
  WeightProblem weight;
  BlockScaleProblem scales;
};

// out = (a @ w.T) * factors + bias with the scales of both operands, where factors and bias are there. out and what
// counts the work as `weight` says; a block of k values is a scale per row.
struct BlockDotsProblem {
  WeightProblem weight;
  BlockScaleProblem a, w;
  const float* factor[2] = {};
  const float* bias = nullptr;  // of each column
};

}  // namespace xpu_ops::ops
