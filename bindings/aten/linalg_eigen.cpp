// Eigenvalues, singular values, the polar decomposition, and the exponential of a matrix.
#include <array>
#include <cctype>

#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/real.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "bindings/aten/linalg.hpp"
#include "bindings/aten/linalg_small.hpp"
#include "kernels/mkl/lapack.hpp"

namespace xpu_ops::aten {

using namespace linalg;

void _linalg_svd(const at::Tensor& A, bool full_matrices, bool compute_uv, std::optional<std::string_view> driver,
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
  TORCH_CHECK(!driver.has_value(),
              "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
  const at::Tensor info = new_empty(batch_shape(A), at::kInt);
  const at::Tensor none;
  if (small::svd(A, compute_uv ? U : none, S, compute_uv ? Vh : none, info)) {
    at::_linalg_check_errors(info, "linalg.svd", A.dim() == 2);
    return;
  }
  const at::Tensor work = copy_columns(A);
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
  const at::Tensor info = new_empty(batch_shape(A), at::kInt);
  if (small::eigh(A, upper, eigenvalues, compute_v ? eigenvectors : at::Tensor(), info)) {
    at::_linalg_check_errors(info, "linalg.eigh", A.dim() == 2);
    return;
  }
  const bool direct = compute_v && is_columns(eigenvectors);
  const at::Tensor v = direct ? eigenvectors : empty_columns(A.sizes(), A.scalar_type());
  v.copy_(A);
  const at::Tensor w =
      eigenvalues.is_contiguous() ? eigenvalues : new_empty(eigenvalues.sizes(), eigenvalues.scalar_type());
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

// The part of complex results that a real tensor can take.
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
  return eigen(self, false, "torch.linalg.eigvals").values;
}

at::Tensor& linalg_eigvals_out(const at::Tensor& self, at::Tensor& out) {
  const at::Tensor values = _linalg_eigvals(self);
  check_eigen_type("torch.linalg.eigvals", self, out, "eigenvalues");
  return give(real_if_it_can(values, out, "eigenvalues"), out);
}

// ---- The polar decomposition, of singular values

void linalg_polar(const at::Tensor& A, const at::Tensor& U, const at::Tensor& H) {
  const auto [u, s, vh] = at::linalg_svd(A, false);
  U.copy_(at::matmul(u, vh));
  const at::Tensor h = at::matmul(vh.mH().mul(s.unsqueeze(-2)), vh);
  H.copy_(h.add(h.mH()).mul_(0.5));  // Hermitian to the last bit
}

// ---- The exponential: scaling, a Taylor polynomial of products, squaring

namespace {

constexpr int kDegree = 16, kStep = 4;  // powers of the polynomial; of these, as many as are kept
// Norms up to which the polynomial is as exact as the type: Al-Mohy and Higham, Computing the Action of the Matrix
// Exponential, 2011, table 3.1, for degree 15.
constexpr double kNormF32 = 2.2, kNormF64 = 0.64;

// Coefficients [kStep, kStep] of A^(kStep row + 1 + column), of the powers between two multiples of kStep. The last
// column is that of the next multiple, and belongs to the last row alone.
struct Taylor {
  std::array<double, kStep> constants{};
  std::array<double, kStep * kStep> rows{};
  constexpr Taylor() {
    double c = 1;
    for (int k = 0; k <= kDegree; ++k) {
      if (k > 0) c /= k;
      if (k == kDegree) {
        rows[kStep * kStep - 1] = c;
      } else if (k % kStep == 0) {
        constants[k / kStep] = c;
      } else {
        rows[k / kStep * kStep + k % kStep - 1] = c;
      }
    }
  }
};
constexpr Taylor kTaylor;

template <size_t n>
at::Tensor numbers(const std::array<double, n>& values, at::IntArrayRef shape, const at::Tensor& like) {
  return at::tensor(at::ArrayRef<double>(values), at::kDouble).reshape(shape).to(like.options());
}

// exp of matrices [batch, n, n] whose norms are small enough, by Paterson and Stockmeyer.
at::Tensor polynomial(const at::Tensor& a) {
  const int64_t batch = a.size(0), n = a.size(-1);
  const at::Tensor powers = at::empty({kStep, batch, n, n}, a.options());
  powers[0].copy_(a);
  for (int k = 1; k < kStep; ++k) powers[k].copy_(at::bmm(powers[k / 2], powers[k - 1 - k / 2]));
  const at::Tensor parts =
      at::mm(numbers(kTaylor.rows, {kStep, kStep}, a), powers.view({kStep, batch * n * n})).view(powers.sizes());
  parts.diagonal(0, -2, -1).add_(numbers(kTaylor.constants, {kStep, 1, 1}, a));
  at::Tensor result = parts[kStep - 1];
  for (int k = kStep - 2; k >= 0; --k) result = at::baddbmm(parts[k], result, powers[kStep - 1]);
  return result;
}

}  // namespace

at::Tensor linalg_matrix_exp(const at::Tensor& self) {
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  const int64_t n = self.size(-1);
  if (self.numel() == 0) return at::empty_like(self, LEGACY_CONTIGUOUS_MEMORY_FORMAT);
  if (n == 1) return self.exp();
  const bool half = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  const at::Tensor a = (half ? self.to(at::kFloat) : self).reshape({-1, n, n});
  const double bound = c10::toRealValueType(a.scalar_type()) == at::kFloat ? kNormF32 : kNormF64;
  // exp(A) = exp(A / 2^s)^(2^s), with an s for each matrix; NaN and infinity need none to stay what they are.
  const at::Tensor norm = at::abs(a).sum(-2).amax(-1);
  const at::Tensor halvings = norm.div(bound).log2_().ceil_().nan_to_num_(0, 0, 0).clamp_min_(0).view({-1, 1, 1});
  at::Tensor result = polynomial(a.mul(at::exp2(halvings.neg())));
  const auto most = static_cast<int64_t>(halvings.max().item<double>());
  for (int64_t k = 0; k < most; ++k) {
    const at::Tensor square = at::bmm(result, result);
    result = a.size(0) == 1 ? square : at::where(halvings.gt(k), square, result);
  }
  return result.view(self.sizes()).to(self.scalar_type());
}

}  // namespace xpu_ops::aten
