// Problems of the normalisations; no type of the device, no torch. Statistics and coefficients are in the accumulator's
// type: float, or double for double inputs. Pointers may be null where a comment says so.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/real_args.hpp"

namespace xpu_ops::ops {

// Layer norm and RMS norm over contiguous rows.
struct LayerNormProblem {
  const void* x = nullptr;
  const void* dy = nullptr;      // backward
  const void* weight = nullptr;  // may be null
  const void* bias = nullptr;    // may be null
  void* y = nullptr;             // forward: result; backward: gradient of the input
  void* mean = nullptr;          // [rows]; null for RMS norm
  void* rstd = nullptr;          // [rows]
  uint32_t rows = 0, cols = 0;
  Real eps;
};

// Over the rows of contiguous matrices, one after the other in memory, column by column: sums of dy and of
// dy * (x - shift) * scale, or mean and squared differences of x.
struct ColumnSumProblem {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* row_shift = nullptr;     // [rows], may be null
  const void* row_scale = nullptr;     // [rows], may be null
  const void* column_shift = nullptr;  // [cols], may be null
  void* out0 = nullptr;                // [batches][cols] sums of dy * (x - shift) * scale; may be null
  void* out1 = nullptr;                // [batches][cols] sums of dy; may be null
  uint32_t rows = 0, cols = 0;         // of one matrix
  uint32_t batches = 1;
  uint32_t groups = 1;  // moments: of columns
};

// The same two sums along each row: dy * (x - shift[row % period]) and dy.
struct RowSumProblem {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* shift = nullptr;  // [period], may be null
  void* out0 = nullptr;         // [rows]
  void* out1 = nullptr;         // [rows]
  uint32_t rows = 0, cols = 0, period = 1;
};

// w = v * g / |v| by rows; the gradients of v (out) and g where dw is given.
struct WeightNormProblem {
  const void* v = nullptr;
  const void* dw = nullptr;  // backward
  const void* g = nullptr;   // [rows], accumulator's type, as the next two
  void* norms = nullptr;     // [rows]; backward reads it
  void* grad_g = nullptr;    // [rows], backward
  void* out = nullptr;
  uint32_t rows = 0, cols = 0;
};

// y = a * (x - m) + b, or y = a * dy + d * (x - m) + b. Coefficients belong to rows (row % period) or to the columns of
// one of the matrices that lie one after the other, of `rows` rows each.
struct NormApplyProblem {
  const void* x = nullptr;
  const void* dy = nullptr;
  void* y = nullptr;
  const void *a = nullptr, *m = nullptr, *b = nullptr, *d = nullptr;
  uint32_t rows = 0, cols = 0, period = 1;
  uint32_t by_column = 0;
  uint32_t batches = 1;  // matrices, each with columns' coefficients of its own
};

// Per-channel work of batch norm and per-group work of group norm: from statistics to coefficients.
struct NormCoefProblem {
  const void* mean = nullptr;    // statistics [channels], or [batch * groups]
  const void* var = nullptr;     // biased variance, or null where rstd is given
  void* rstd = nullptr;          // written from var, or read
  const void* weight = nullptr;  // [channels], may be null
  const void* bias = nullptr;    // [channels], may be null
  void* running_mean = nullptr;  // may be null
  void* running_var = nullptr;   // may be null
  const void* sum0 = nullptr;    // backward: sums of dy * (x - mean) (batch norm) or of dy * x (group norm)
  const void* sum1 = nullptr;    // backward: sums of dy
  void* save_mean = nullptr;     // may be null
  void *a = nullptr, *m = nullptr, *b = nullptr, *d = nullptr;
  void* grad_weight = nullptr;  // may be null
  void* grad_bias = nullptr;    // may be null
  uint32_t channels = 0, batch = 1, groups = 1;
  uint32_t train = 0;
  uint32_t sum_rows = 1;                // batch norm: sum0 and sum1 are [sum_rows][channels], added here
  Real eps, momentum, count, unbiased;  // unbiased: count / (count - 1)
};

}  // namespace xpu_ops::ops
