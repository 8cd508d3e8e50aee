// Cholesky, LU, QR and LDL: structured operators get their results from torch's metas, matrices by columns.
#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_lu_native.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/zeros.h>

#include "bindings/aten/linalg.hpp"
#include "bindings/aten/linalg_small.hpp"
#include "kernels/mkl/lapack.hpp"
#include "kernels/ops/linalg.hpp"

namespace xpu_ops::aten {

using namespace linalg;

// ---- Cholesky

void linalg_cholesky_ex(const at::Tensor& A, bool upper, bool check_errors, const at::Tensor& L,
                        const at::Tensor& info) {
  if (L.numel() == 0) {
    info.zero_();
    return;
  }
  if (!small::cholesky(A, upper, L, info) && !linalg::cholesky_of(A, L, info, upper)) {
    at::Tensor result = L;
    upper ? at::triu_out(result, A) : at::tril_out(result, A);
    linalg::cholesky(L, info, upper);
  }
  if (check_errors) at::_linalg_check_errors(info, "linalg.cholesky_ex", A.dim() == 2);
}

at::Tensor cholesky(const at::Tensor& self, bool upper) {
  TORCH_WARN_ONCE(
      "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be "
      "removed in a future PyTorch release.");
  if (self.numel() == 0) return at::empty_like(self, LEGACY_CONTIGUOUS_MEMORY_FORMAT);
  at::native::squareCheckInputs(self, "cholesky");
  at::Tensor result = empty_columns(self.sizes(), self.scalar_type());
  const at::Tensor info = new_empty(batch_shape(self), at::kInt);
  const bool done = small::cholesky(self, upper, result, info) || linalg::cholesky_of(self, result, info, upper);
  if (!done) linalg::cholesky(result.copy_(self), info, upper);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  if (!done) upper ? result.triu_() : result.tril_();
  return result;
}

at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  check_type("cholesky", out, self.scalar_type());
  return give(aten::cholesky(self, upper), out);
}

at::Tensor _cholesky_solve_helper(const at::Tensor& self, const at::Tensor& A, bool upper) {
  const at::Tensor result = empty_columns(self.sizes(), self.scalar_type());
  if (result.numel() == 0 || small::cholesky_solve(A, upper, self, result, {})) return result;
  const at::Tensor factor = as_columns(A);
  result.copy_(self);
  mkl::cholesky_solve(runtime::current_queue(), dtype_of(self), upper, A.size(-1), self.size(-1), matrices(factor),
                      matrices(result), at::native::batchCount(self));
  return result;
}

at::Tensor cholesky_inverse(const at::Tensor& self, bool upper) {
  at::native::squareCheckInputs(self, "cholesky_inverse");
  const at::Tensor result = empty_columns(self.sizes(), self.scalar_type());
  if (result.numel() == 0) return result;
  const at::Tensor info = new_empty(batch_shape(self), at::kInt);
  if (!small::cholesky_solve(self, upper, {}, result, info)) {
    result.copy_(self);
    mkl::cholesky_inverse(runtime::current_queue(), dtype_of(self), upper, self.size(-1), matrices(result),
                          at::native::batchCount(self), info.mutable_data_ptr<int32_t>());
  }
  at::_linalg_check_errors(info, "cholesky_inverse", self.dim() == 2);
  return result;
}

at::Tensor& cholesky_inverse_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  at::native::squareCheckInputs(self, "cholesky_inverse");
  check_type("cholesky_inverse", out, self.scalar_type());
  return give(cholesky_inverse(self, upper), out);
}

// ---- LU

void linalg_lu_factor_ex(const at::Tensor& A, bool pivot, bool check_errors, const at::Tensor& LU,
                         const at::Tensor& pivots, const at::Tensor& info) {
  if (A.numel() == 0) {
    info.zero_();
    return;
  }
  if (!small::lu(A, pivot, LU, pivots, info, {})) {
    if (!LU.is_same(A)) LU.copy_(A);
    linalg::lu(LU, pivots, info, pivot);
  }
  if (check_errors) at::_linalg_check_errors(info, "torch.linalg.lu_factor_ex", A.dim() == 2);
}

void linalg_lu(const at::Tensor& A, bool pivot, const at::Tensor& P, const at::Tensor& L, const at::Tensor& U) {
  Shared<at::native::structured_linalg_lu_out>().impl(A, pivot, P, L, U);
}

namespace {

at::Tensor permutation_of(const at::Tensor& pivots, at::IntArrayRef shape) {
  const at::Tensor order = new_empty(shape, at::kLong);
  const at::Tensor swaps = pivots.contiguous();
  if (order.numel() == 0) return order;
  ops::PermutationProblem problem{};
  problem.pivots = swaps.const_data_ptr<int32_t>();
  problem.permutation = order.mutable_data_ptr<int64_t>();
  problem.rows = shape.back();
  problem.batch = order.numel() / problem.rows;
  problem.swaps = swaps.size(-1);
  ops::lu_permutation(runtime::current_queue(), problem);
  return order;
}

}  // namespace

void lu_unpack(const at::Tensor& LU, const at::Tensor& pivots, bool unpack_data, bool unpack_pivots,
               const at::Tensor& P, const at::Tensor& L, const at::Tensor& U) {
  const int64_t m = LU.size(-2), n = LU.size(-1);
  at::Tensor low = L, high = U;
  if (unpack_data && (m > n || LU.is_same(L))) {  // in this order: LU may be L
    at::triu_out(high, m == n ? LU : LU.narrow(-2, 0, n), 0);
    at::tril_out(low, LU, -1);
    L.diagonal(0, -2, -1).fill_(1.);
  } else if (unpack_data) {
    at::tril_out(low, m == n ? LU : LU.narrow(-1, 0, m), -1);
    L.diagonal(0, -2, -1).fill_(1.);
    at::triu_out(high, LU, 0);
  }
  if (!unpack_pivots) return;
  TORCH_CHECK(pivots.dim() + 1 == LU.dim() &&
                  pivots.sizes().slice(0, pivots.dim() - 1) == LU.sizes().slice(0, LU.dim() - 2) &&
                  pivots.size(-1) <= m,
              "lu_unpack: expected LU_pivots of the batch of LU_data and at most ", m, " pivots per matrix, but got ",
              pivots.sizes(), " for ", LU.sizes());
  const at::Tensor order = permutation_of(pivots, P.sizes().slice(0, P.dim() - 1));
  P.zero_();
  P.scatter_(-2, order.unsqueeze(-2), 1.);
}

// ---- QR

void linalg_qr(const at::Tensor& A, std::string_view mode, const at::Tensor& Q, const at::Tensor& R) {
  const auto [compute_q, reduced] = at::native::_parse_qr_mode(mode);
  const int64_t m = A.size(-2), n = A.size(-1);
  if (A.numel() > 0 && small::qr(A, compute_q ? Q : at::Tensor(), R)) return;
  const at::Tensor tau = new_empty(batch_shape(A, {std::min(m, n)}), A.scalar_type());
  // Factorised in Q or in R, whichever has A's shape.
  const bool in_q = compute_q && Q.size(-1) == n, in_r = !in_q && R.size(-2) == m;
  const at::Tensor work = in_q ? Q : in_r ? R : empty_columns(A.sizes(), A.scalar_type());
  work.copy_(A);
  linalg::geqrf(work, tau);
  if (in_r) {
    if (compute_q && m < n) {
      Q.copy_(work.narrow(-1, 0, m));
    } else if (compute_q) {
      Q.narrow(-1, 0, n).copy_(work);
    }
    R.triu_();
  } else {
    at::Tensor upper = R;
    at::triu_out(upper, work.narrow(-2, 0, R.size(-2)));
  }
  if (compute_q) linalg::orgqr(Q, tau);
}

std::tuple<at::Tensor, at::Tensor> geqrf(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  const at::Tensor a = copy_columns(self);
  const at::Tensor tau = new_empty(batch_shape(self, {std::min(self.size(-2), self.size(-1))}), self.scalar_type());
  linalg::geqrf(a, tau);
  return {a, tau};
}

std::tuple<at::Tensor&, at::Tensor&> geqrf_a(const at::Tensor& self, at::Tensor& a, at::Tensor& tau) {
  check_type("torch.geqrf", a, self.scalar_type(), "a");
  check_type("torch.geqrf", tau, self.scalar_type(), "tau");
  const auto [qr, scales] = aten::geqrf(self);
  return {give(qr, a), give(scales, tau)};
}

at::Tensor linalg_householder_product(const at::Tensor& input, const at::Tensor& tau) {
  constexpr const char* kName = "torch.linalg.householder_product: ";
  TORCH_CHECK(input.dim() >= 2, kName, "input must have at least 2 dimensions.");
  TORCH_CHECK(input.size(-2) >= input.size(-1), kName,
              "input.shape[-2] must be greater than or equal to input.shape[-1]");
  TORCH_CHECK(input.size(-1) >= tau.size(-1), kName, "input.shape[-1] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(input.dim() - tau.dim() == 1, kName,
              "Expected tau to have one dimension less than input, but got tau.ndim equal to ", tau.dim(),
              " and input.ndim is equal to ", input.dim());
  const auto batch = input.sizes().slice(0, input.dim() - 2), given = tau.sizes().slice(0, tau.dim() - 1);
  TORCH_CHECK(given == batch, kName, "Expected batch dimensions of tau to be equal to input.shape[:-2], but got ",
              given);
  TORCH_CHECK(tau.scalar_type() == input.scalar_type(), kName, "tau dtype ", tau.scalar_type(),
              " does not match input dtype ", input.scalar_type());
  const at::Tensor result = copy_columns(input);
  linalg::orgqr(result, tau.contiguous());
  return result;
}

at::Tensor& linalg_householder_product_out(const at::Tensor& input, const at::Tensor& tau, at::Tensor& out) {
  const at::Tensor result = linalg_householder_product(input, tau);
  check_type("torch.linalg.householder_product", out, input.scalar_type());
  return give(result, out);
}

namespace {

void check_ormqr(const at::Tensor& self, const at::Tensor& tau, const at::Tensor& other, bool left) {
  constexpr const char* kName = "torch.ormqr: ";
  TORCH_CHECK(self.dim() >= 2, kName, "input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 2, kName, "other must have at least 2 dimensions.");
  const int64_t side = left ? -2 : -1;
  TORCH_CHECK(other.size(side) == self.size(-2), kName, "other.shape[", side, "] must be equal to input.shape[-2]");
  TORCH_CHECK(tau.size(-1) == std::min(other.size(side), self.size(-1)), kName,
              "tau.shape[-1] must be equal to min(other.shape[", side, "], input.shape[-1])");
  TORCH_CHECK(self.dim() - tau.dim() == 1, kName,
              "Expected tau to have one dimension less than input, but got tau.ndim equal to ", tau.dim(),
              " and input.ndim is equal to ", self.dim());
  TORCH_CHECK(self.dim() == other.dim(), kName,
              "Expected other to have the same number of dimensions as input, but got other.ndim equal to ",
              other.dim(), " and input.ndim is equal to ", self.dim());
  const auto batch = self.sizes().slice(0, self.dim() - 2);
  const auto of_tau = tau.sizes().slice(0, tau.dim() - 1), of_other = other.sizes().slice(0, other.dim() - 2);
  TORCH_CHECK(of_tau == batch, kName, "Expected batch dimensions of tau to be equal to input.shape[:-2], but got ",
              of_tau);
  TORCH_CHECK(of_other == batch, kName, "Expected batch dimensions of other to be equal to input.shape[:-2], but got ",
              of_other);
  TORCH_CHECK(tau.scalar_type() == self.scalar_type(), kName,
              "Expected input and tau to have the same dtype, but input has dtype", self.scalar_type(),
              " and tau has dtype ", tau.scalar_type());
  TORCH_CHECK(other.scalar_type() == self.scalar_type(), kName,
              "Expected input and other to have the same dtype, but input has dtype", self.scalar_type(),
              " and other has dtype ", other.scalar_type());
}

}  // namespace

at::Tensor ormqr(const at::Tensor& self, const at::Tensor& input2, const at::Tensor& input3, bool left,
                 bool transpose) {
  check_ormqr(self, input2, input3, left);
  const at::Tensor result = copy_columns(input3), a = as_columns(self), tau = input2.contiguous();
  if (result.numel() == 0 || tau.size(-1) == 0) return result;
  mkl::multiply_q(runtime::current_queue(), dtype_of(result), left, transpose, result.size(-2), result.size(-1),
                  tau.size(-1), matrices(a), tau.const_data_ptr(), matrices(result), at::native::batchCount(result));
  return result;
}

at::Tensor& ormqr_out(const at::Tensor& self, const at::Tensor& input2, const at::Tensor& input3, bool left,
                      bool transpose, at::Tensor& out) {
  check_ormqr(self, input2, input3, left);
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "torch.ormqr: Expected input and result to have the same dtype, but input has dtype", self.scalar_type(),
              " and result has dtype ", out.scalar_type());
  return give(aten::ormqr(self, input2, input3, left, transpose), out);
}

// ---- LDL

void linalg_ldl_factor_ex(const at::Tensor& self, bool hermitian, bool check_errors, const at::Tensor& LD,
                          const at::Tensor& pivots, const at::Tensor& info) {
  info.zero_();
  if (self.numel() == 0) return;
  at::Tensor result = LD;
  at::tril_out(result, self);
  mkl::ldl(runtime::current_queue(), dtype_of(LD), hermitian, /*upper=*/false, LD.size(-1), matrices(LD),
           pivots.mutable_data_ptr<int32_t>(), at::native::batchCount(LD), info.mutable_data_ptr<int32_t>());
  if (check_errors) at::_linalg_check_errors(info, "torch.linalg.ldl_factor_ex", self.dim() == 2);
}

void linalg_ldl_solve(const at::Tensor& LD, const at::Tensor& pivots, const at::Tensor& B, bool hermitian,
                      const at::Tensor& result) {
  if (LD.numel() == 0 || pivots.numel() == 0 || result.numel() == 0) return;
  result.copy_(B);
  const at::Tensor factor = as_columns(LD.expand(batch_shape(result, {LD.size(-2), LD.size(-1)})));
  const at::Tensor places = pivots.expand(batch_shape(result, {pivots.size(-1)})).contiguous();
  mkl::ldl_solve(runtime::current_queue(), dtype_of(result), hermitian, /*upper=*/false, result.size(-2),
                 result.size(-1), matrices(factor), places.const_data_ptr<int32_t>(), matrices(result),
                 at::native::batchCount(result));
}

}  // namespace xpu_ops::aten
