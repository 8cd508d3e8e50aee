// Eigenvalues and singular values.
#include <cctype>

#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/real.h>

#include "bindings/aten/linalg.hpp"
#include "kernels/mkl/lapack.hpp"

namespace xpu_ops::aten {

using namespace linalg;

void _linalg_svd(const at::Tensor& A, bool full_matrices, bool compute_uv, std::optional<std::string_view> /*driver*/,
                 const at::Tensor& U, const at::Tensor& S, const at::Tensor& Vh) {
  if (A.numel() == 0) {
    // Of an empty matrix any unitary matrices are singular vectors.
    for (const at::Tensor& vectors : {U, Vh}) {
      if (!compute_uv || !full_matrices || vectors.numel() == 0) continue;
      vectors.zero_();
      vectors.diagonal(0, -2, -1).fill_(1.);
    }
    return;
  }
  const at::Tensor work = copy_columns(A), info = new_empty(batch_shape(A), at::kInt);
  const auto ready = [](const at::Tensor& t) { return is_columns(t) ? t : empty_columns(t.sizes(), t.scalar_type()); };
  const at::Tensor s = S.is_contiguous() ? S : new_empty(S.sizes(), S.scalar_type());
  const at::Tensor u = compute_uv ? ready(U) : U, vh = compute_uv ? ready(Vh) : Vh;
  const char job = !compute_uv ? 'N' : full_matrices ? 'A' : 'S';
  mkl::svd(runtime::current_queue(), dtype_of(A), job, A.size(-2), A.size(-1), matrices(work), s.mutable_data_ptr(),
           compute_uv ? matrices(u) : mkl::Matrices{}, compute_uv ? matrices(vh) : mkl::Matrices{},
           at::native::batchCount(A), info.mutable_data_ptr<int32_t>());
  if (!s.is_same(S)) S.copy_(s);
  if (!u.is_same(U)) U.copy_(u);
  if (!vh.is_same(Vh)) Vh.copy_(vh);
  at::_linalg_check_errors(info, "linalg.svd", A.dim() == 2);
}

void _linalg_eigh(const at::Tensor& A, std::string_view UPLO, bool compute_v, const at::Tensor& eigenvalues,
                  const at::Tensor& eigenvectors) {
  if (A.numel() == 0) return;
  const bool upper = std::toupper(static_cast<unsigned char>(UPLO[0])) == 'U';
  const bool direct = compute_v && is_columns(eigenvectors);
  const at::Tensor v = direct ? eigenvectors : empty_columns(A.sizes(), A.scalar_type());
  v.copy_(A);
  const at::Tensor w =
      eigenvalues.is_contiguous() ? eigenvalues : new_empty(eigenvalues.sizes(), eigenvalues.scalar_type());
  const at::Tensor info = new_empty(batch_shape(A), at::kInt);
  mkl::eigh(runtime::current_queue(), dtype_of(A), compute_v, upper, A.size(-1), matrices(v), w.mutable_data_ptr(),
            at::native::batchCount(A), info.mutable_data_ptr<int32_t>());
  if (!w.is_same(eigenvalues)) eigenvalues.copy_(w);
  if (compute_v && !direct) eigenvectors.copy_(v);
  at::_linalg_check_errors(info, "linalg.eigh", A.dim() == 2);
}

namespace {

struct Eigen { at::Tensor values, vectors; };

Eigen eigen(const at::Tensor& self, bool vectors, const char* name) {
  const at::ScalarType type = c10::toComplexType(self.scalar_type());
  Eigen result;
  result.values = new_empty(batch_shape(self, {self.size(-1)}), type);
  if (vectors) result.vectors = empty_columns(self.sizes(), type);
  if (self.numel() == 0) return result;
  const at::Tensor a = copy_columns(self), info = new_empty(batch_shape(self), at::kInt);
  mkl::eig(runtime::current_queue(), dtype_of(self), vectors, self.size(-1), matrices(a),
           result.values.mutable_data_ptr(), vectors ? matrices(result.vectors) : mkl::Matrices{},
           at::native::batchCount(self), info.mutable_data_ptr<int32_t>());
  at::_linalg_check_errors(info, name, self.dim() == 2);
  return result;
}

// What a real tensor can take of complex results.
const at::Tensor real_if_it_can(const at::Tensor& from, const at::Tensor& to, const char* what) {
  if (to.is_complex()) return from;
  TORCH_CHECK(at::imag(from).eq(0).all().item<bool>(), "torch.linalg.eig: imaginary part of ", what,
              " is non-zero, can't safely cast ", what, " to non-complex dtype.");
  return at::real(from);
}

void check_eigen_type(const char* name, const at::Tensor& self, const at::Tensor& out, const char* what) {
  check_type(name, out, c10::toComplexType(self.scalar_type()), what);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> linalg_eig(const at::Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.eig");
  TORCH_CHECK(at::isfinite(self).all().item<bool>(), "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  Eigen r = eigen(self, true, "torch.linalg.eig");
  return {std::move(r.values), std::move(r.vectors)};
}

std::tuple<at::Tensor&, at::Tensor&> linalg_eig_out(const at::Tensor& self, at::Tensor& eigenvalues,
                                                    at::Tensor& eigenvectors) {
  const auto [values, vectors] = linalg_eig(self);
  check_eigen_type("torch.linalg.eig", self, eigenvalues, "eigenvalues");
  check_eigen_type("torch.linalg.eig", self, eigenvectors, "eigenvectors");
  return {give(real_if_it_can(values, eigenvalues, "eigenvalues"), eigenvalues),
          give(real_if_it_can(vectors, eigenvectors, "eigenvectors"), eigenvectors)};
}

at::Tensor _linalg_eigvals(const at::Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.eigvals");
  TORCH_CHECK(at::isfinite(self).all().item<bool>(),
              "torch.linalg.eigvals: input tensor should not contain infs or NaNs.");
  return eigen(self, false, "torch.linalg.eigvals").values;
}

at::Tensor& linalg_eigvals_out(const at::Tensor& self, at::Tensor& out) {
  const at::Tensor values = _linalg_eigvals(self);
  check_eigen_type("torch.linalg.eigvals", self, out, "eigenvalues");
  return give(real_if_it_can(values, out, "eigenvalues"), out);
}

}  // namespace xpu_ops::aten
