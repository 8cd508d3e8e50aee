// Helpers of the adapters of the normalisations.
#pragma once
#include <limits>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/problem/normalization.hpp"

namespace xpu_ops::aten {

// The type of statistics of T.
inline at::ScalarType stat_type(at::ScalarType t) { return t == at::kDouble ? at::kDouble : at::kFloat; }

inline at::Tensor or_undefined(const std::optional<at::Tensor>& t) { return t ? *t : at::Tensor(); }
inline const void* data_or_null(const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }

// Contiguous and of a type that the kernels pair with T: its own, or float with a 16-bit float.
inline at::ScalarType parameter_type(at::ScalarType t, const at::Tensor& parameter) {
  if (!parameter.defined()) return t;
  const bool small = t == at::kHalf || t == at::kBFloat16;
  return small && parameter.scalar_type() == at::kFloat ? at::kFloat : t;
}
// Types that torch's norms take: parameters have that of the input, or all are float beside a 16-bit float.
inline void check_parameter_types(const char* name, const at::Tensor& input,
                                  std::initializer_list<const at::Tensor*> parameters) {
  const at::ScalarType own = input.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(own), "\"", name, "\" not implemented for '", own, "'");
  const at::Tensor* first = nullptr;
  for (const at::Tensor* p : parameters) {
    if (!p->defined()) continue;
    if (!first) first = p;
    check_scalar_type(*p, parameter_type(own, *first));
  }
}
inline at::Tensor as_parameter(const at::Tensor& t, at::ScalarType type) {
  return t.defined() ? t.to(type).contiguous() : t;
}

inline void check_rows(int64_t rows, int64_t cols) {
  TORCH_CHECK_NOT_IMPLEMENTED(rows < INT32_MAX && cols < INT32_MAX,
                              "normalisation of 2^31 and more rows is not supported");
}

// For each column of each of `batches` [rows, cols] matrices: the sums over rows of dy * (x - shift) * scale (first)
// and of dy (second), both of `type`; each is optional. Shifts and scale are those of a single matrix.
struct ColumnSums {
  at::Tensor row_shift, row_scale, column_shift;
  at::ScalarType type;
  int64_t batches = 1;
  bool first = true, second = true;
};
std::pair<at::Tensor, at::Tensor> column_sums(const at::Tensor& x, const at::Tensor& dy, int64_t rows, int64_t cols,
                                              const ColumnSums& options);

// Biased variance and mean of each group of neighbouring columns of each of `batches` [rows, cols] matrices.
void column_group_moments(const at::Tensor& x, int64_t batches, int64_t rows, int64_t cols, int64_t groups,
                          const at::Tensor& var, const at::Tensor& mean);

// y = a * (x - m) + b, with dy: y = a * dy + d * (x - m) + b; coefficients by row % period or by column, those of each
// of `batches` matrices that make up the rows.
struct Coefficients {
  at::Tensor a, m, b, d;
  int64_t period = 1;
  bool by_column = false;
  int64_t batches = 1;
};
void norm_apply(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& y, int64_t rows, int64_t cols,
                const Coefficients& coefficients);

}  // namespace xpu_ops::aten
