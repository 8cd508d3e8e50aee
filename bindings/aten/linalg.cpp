#include "bindings/aten/linalg.hpp"

#include <ATen/native/Resize.h>

#include "bindings/aten/linalg_small.hpp"
#include "kernels/mkl/lapack.hpp"

namespace xpu_ops::aten::linalg {

mkl::Matrices matrices(const at::Tensor& t) {
  const at::ScalarType real = c10::toRealValueType(t.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(real == at::kFloat || real == at::kDouble, "\"linalg\" not implemented for '",
                              c10::toString(t.scalar_type()), "'");
  const int64_t rows = std::max<int64_t>(1, t.size(-2));
  return {t.data_ptr(), rows, t.size(-2) * t.size(-1)};
}

at::Tensor empty_columns(at::IntArrayRef sizes, at::ScalarType type) {
  return new_strided(sizes, at::native::batched_matrix_contiguous_strides(sizes, /*f_contig=*/true), type);
}

at::Tensor copy_columns(const at::Tensor& t) {
  at::Tensor copy = empty_columns(t.sizes(), t.scalar_type());
  copy.copy_(t);
  return copy;
}

at::Tensor as_columns(const at::Tensor& t) { return is_columns(t) ? t : copy_columns(t); }

at::DimVector batch_shape(const at::Tensor& t, std::initializer_list<int64_t> then) {
  at::DimVector shape(t.sizes().begin(), t.sizes().end() - 2);
  shape.append(then);
  return shape;
}

at::Tensor& give(const at::Tensor& from, at::Tensor& to) {
  at::native::resize_output(to, from.sizes());
  return to.copy_(from);
}

void check_type(const char* name, const at::Tensor& out, at::ScalarType type, const char* what) {
  TORCH_CHECK(at::canCast(type, out.scalar_type()), name, ": Expected ", what, " to be safely castable from ", type,
              " dtype, but got ", what, " with dtype ", out.scalar_type());
}

void cholesky(const at::Tensor& a, const at::Tensor& info, bool upper) {
  if (a.numel() == 0) {
    info.zero_();
    return;
  }
  if (small::cholesky(a, upper, a, info)) return;
  mkl::cholesky(runtime::current_queue(), dtype_of(a), upper, a.size(-1), matrices(a), at::native::batchCount(a),
                info.mutable_data_ptr<int32_t>());
}

bool cholesky_of(const at::Tensor& a, const at::Tensor& factor, const at::Tensor& info, bool upper) {
  if (a.dim() != 2 || a.is_alias_of(factor)) return false;
  return mkl::cholesky_of(runtime::current_queue(), dtype_of(a), upper, a.size(0),
                          {a.const_data_ptr(), a.stride(0), a.stride(1)}, matrices(factor),
                          info.mutable_data_ptr<int32_t>());
}

void lu(const at::Tensor& a, const at::Tensor& pivots, const at::Tensor& info, bool pivot) {
  if (a.numel() == 0) {
    info.zero_();
    return;
  }
  if (small::lu(a, pivot, a, pivots, info, {})) return;
  mkl::lu(runtime::current_queue(), dtype_of(a), pivot, a.size(-2), a.size(-1), matrices(a),
          pivots.mutable_data_ptr<int32_t>(), at::native::batchCount(a), info.mutable_data_ptr<int32_t>());
}

void lu_solve(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& b, mkl::Trans trans) {
  if (b.numel() == 0) return;
  mkl::lu_solve(runtime::current_queue(), dtype_of(b), trans, b.size(-2), b.size(-1), matrices(lu),
                pivots.const_data_ptr<int32_t>(), matrices(b), at::native::batchCount(b));
}

void solve_triangular(const at::Tensor& a, const at::Tensor& b, bool left, bool upper, mkl::Trans trans, bool unit) {
  if (b.numel() == 0) return;
  mkl::Matrices factors{a.data_ptr(), std::max<int64_t>(1, a.size(-1)), a.size(-1) * a.size(-1)};
  if (a.dim() == 2) factors.stride = 0;  // one for all
  mkl::solve_triangular(runtime::current_queue(), dtype_of(b), left, upper, trans, unit, b.size(-2), b.size(-1),
                        factors, matrices(b), at::native::batchCount(b));
}

void geqrf(const at::Tensor& a, const at::Tensor& tau) {
  if (a.numel() == 0 || small::geqrf(a, a, tau)) return;
  mkl::qr(runtime::current_queue(), dtype_of(a), a.size(-2), a.size(-1), matrices(a), tau.mutable_data_ptr(),
          at::native::batchCount(a));
}

void orgqr(const at::Tensor& a, const at::Tensor& tau) {
  if (a.numel() == 0) return;
  mkl::householder(runtime::current_queue(), dtype_of(a), a.size(-2), a.size(-1), tau.size(-1), matrices(a),
                   tau.const_data_ptr(), at::native::batchCount(a));
}

}  // namespace xpu_ops::aten::linalg
