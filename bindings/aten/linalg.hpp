// Helpers of the adapters of linear algebra: tensors of column-major matrices, and calls that work on them in place.
#pragma once
#include <ATen/TensorMeta.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <c10/util/MaybeOwned.h>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/mkl/table.hpp"

namespace xpu_ops::aten::linalg {

// Matrices in batches, each column-major and one behind the other.
inline bool is_columns(const at::Tensor& t) { return t.mT().is_contiguous() && !t.is_conj() && !t.is_neg(); }
mkl::Matrices matrices(const at::Tensor& columns);
// An uninitialised one of these sizes.
at::Tensor empty_columns(at::IntArrayRef sizes, at::ScalarType type);
// A copy, or the tensor itself where it is one already.
at::Tensor copy_columns(const at::Tensor& t);
at::Tensor as_columns(const at::Tensor& t);
// Leading sizes of matrices, with more sizes behind.
at::DimVector batch_shape(const at::Tensor& t, std::initializer_list<int64_t> then = {});

// `to` becomes `from` in an out= call of an operator without a structured form.
at::Tensor& give(const at::Tensor& from, at::Tensor& to);
void check_type(const char* name, const at::Tensor& out, at::ScalarType type, const char* what = "result");

// In place, on columns; `info` is int32 and contiguous, one element per matrix.
void cholesky(const at::Tensor& a, const at::Tensor& info, bool upper);
// The factor of a into `factor`, where that takes one step (mkl/lapack.hpp).
bool cholesky_of(const at::Tensor& a, const at::Tensor& factor, const at::Tensor& info, bool upper);
void lu(const at::Tensor& a, const at::Tensor& pivots, const at::Tensor& info, bool pivot);
void lu_solve(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& b, mkl::Trans trans);
void solve_triangular(const at::Tensor& a, const at::Tensor& b, bool left, bool upper, mkl::Trans trans, bool unit);
void geqrf(const at::Tensor& a, const at::Tensor& tau);
void orgqr(const at::Tensor& a, const at::Tensor& tau);

// The body that torch wrote once for all devices, in other operators, of a structured operator.
template <class Structured>
struct Shared final : Structured {
  void set_output_strided(int64_t, at::IntArrayRef, at::IntArrayRef, at::TensorOptions) override {}
  void set_output_raw_strided(int64_t, at::IntArrayRef, at::IntArrayRef, at::TensorOptions) override {}
  const at::Tensor& maybe_get_output(int64_t) override {
    TORCH_INTERNAL_ASSERT(false, "the body of a shared operator names its results");
  }
};

}  // namespace xpu_ops::aten::linalg
