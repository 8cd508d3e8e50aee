// Problems of the fused operators; no type of the device, no torch.
#pragma once
#include "kernels/ops/problem/normalization.hpp"

namespace xpu_ops::ops {

// norm.x = x + residual, then norm of it. norm.x is written first.
struct AddNormProblem {
  const void* x = nullptr;
  const void* residual = nullptr;
  LayerNormProblem norm;
};

// y = rotation of the pairs of x; up to three leading dims [rows / size1 / size2, size1, size2], the last of stride 1.
struct RotaryProblem {
  const void* x = nullptr;
  const void* cos = nullptr;
  const void* sin = nullptr;
  void* y = nullptr;
  int64_t x_strides[3] = {0, 0, 0}, y_strides[3] = {0, 0, 0}, cos_strides[3] = {0, 0, 0}, sin_strides[3] = {0, 0, 0};
  uint32_t rows = 0, size1 = 1, size2 = 1;
  uint32_t half = 0;                          // pairs
  uint32_t table_step = 1, table_second = 0;  // pair j finds its table entries at j * step and j * step + second
  uint32_t inverse = 0;                       // the transposed rotation
};

}  // namespace xpu_ops::ops
