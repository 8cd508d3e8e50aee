// Normalisations: how rows and columns are divided (pure host code), and the launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/normalization.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// Work-groups for `rows` rows of one sub-group each.
size_t row_groups(int64_t rows, const runtime::Policy& policy);

// How the rows of `batches` [rows, cols] matrices are split.
struct ColumnSumPlan {
  uint32_t blocks = 1;             // work-groups over columns
  uint32_t block = 1, splits = 1;  // rows of a split, and their number
  size_t groups = 0;
};
ColumnSumPlan plan_column_sums(int64_t batches, int64_t rows, int64_t cols, const runtime::Policy& policy);

// The sums over rows in out0 and out1, of type `out`.
void column_sums(runtime::Queue& queue, DType type, DType out, const ColumnSumProblem& problem);
// Biased variance (out0) and mean (out1) of each of `groups` groups of neighbouring columns of each matrix.
void column_group_moments(runtime::Queue& queue, DType type, const ColumnSumProblem& problem);
// The two sums along each row.
void row_sums(runtime::Queue& queue, DType type, const RowSumProblem& problem);

struct ApplyPlan {
  bool by_row = false;                         // one sub-group per row
  size_t groups0 = 0, groups1 = 1, local = 1;  // over rows, over columns
  uint32_t rows_per_group = 1, parts = 1;
};
// `most_items`: of a work-group of the device.
ApplyPlan plan_norm_apply(const NormApplyProblem& problem, const runtime::Policy& policy);
void norm_apply(runtime::Queue& queue, DType type, const NormApplyProblem& problem);

// Layer norm, or RMS norm where `mean` is null; `parameter`: of weight and bias.
void layer_norm(runtime::Queue& queue, DType type, DType parameter, const LayerNormProblem& problem);
// Groups of rows with partial sums: few enough that these cost little, many enough for the compute units and for short
// chains of additions.
size_t plan_layer_sums(int64_t rows, const runtime::Policy& policy);
// Gradient of the input, and the sums over rows for weight and bias where those are not null.
void layer_norm_backward(runtime::Queue& queue, DType type, DType parameter, const LayerNormProblem& problem,
                         void* grad_weight, void* grad_bias);

// The gradients where `dw` is given.
void weight_norm(runtime::Queue& queue, DType type, const WeightNormProblem& problem);

// Coefficients of norm_apply from statistics, and the gradients of parameters.
void batch_norm_coefficients(runtime::Queue& queue, DType type, DType parameter, const NormCoefProblem& problem);
void batch_norm_backward_coefficients(runtime::Queue& queue, DType type, DType parameter,
                                      const NormCoefProblem& problem);
void group_norm_coefficients(runtime::Queue& queue, DType type, DType parameter, const NormCoefProblem& problem);
void group_norm_backward_coefficients(runtime::Queue& queue, DType type, DType parameter,
                                      const NormCoefProblem& problem);
void group_norm_backward_parameters(runtime::Queue& queue, DType type, DType parameter, const NormCoefProblem& problem);

}  // namespace xpu_ops::ops
