// Linear systems: with LU factors, triangular, least squares; determinants and inverses.
#include <array>
#include <cctype>

#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_det_native.h>
#include <ATen/ops/_linalg_slogdet_native.h>
#include <ATen/ops/_linalg_solve_ex_native.h>
#include <ATen/ops/linalg_inv_ex_native.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros.h>

#include "bindings/aten/linalg.hpp"
#include "bindings/aten/linalg_small.hpp"
#include "kernels/mkl/lapack.hpp"

namespace xpu_ops::aten {

using namespace linalg;

void linalg_lu_solve(const at::Tensor& LU, const at::Tensor& pivots, const at::Tensor& B, bool left, bool adjoint,
                     const at::Tensor& result) {
  if (LU.numel() == 0 || result.numel() == 0) return;
  at::Tensor rhs = B.expand_as(result);
  if (!left) {  // A^H X^H = B^H
    adjoint = !adjoint;
    rhs = rhs.mH();
  }
  const at::Tensor factor = as_columns(LU.expand(batch_shape(result, {LU.size(-2), LU.size(-1)})));
  const at::Tensor places = pivots.expand(batch_shape(result, {pivots.size(-1)})).contiguous();
  const bool direct = left && is_columns(result);
  const at::Tensor x = direct ? result : empty_columns(rhs.sizes(), rhs.scalar_type());
  x.copy_(rhs);
  const auto trans = !adjoint ? mkl::Trans::none : LU.is_complex() ? mkl::Trans::adjoint : mkl::Trans::transpose;
  linalg::lu_solve(factor, places, x, trans);
  if (!direct) result.copy_(left ? x : x.mH());
}

void _linalg_solve_ex(const at::Tensor& A, const at::Tensor& B, bool left, bool check_errors, const at::Tensor& result,
                      const at::Tensor& LU, const at::Tensor& pivots, const at::Tensor& info) {
  if (left && result.numel() > 0) {
    const bool vector = at::native::linalg_solve_is_vector_rhs(LU, B);
    const at::Tensor x = vector ? result.unsqueeze(-1) : result, b = vector ? B.unsqueeze(-1) : B;
    if (small::solve(A, b.expand(x.sizes()), x, LU, pivots, info)) {
      if (check_errors) at::_linalg_check_errors(info, "torch.linalg.solve_ex", A.dim() == 2);
      return;
    }
  }
  Shared<at::native::structured__linalg_solve_ex_out>().impl(A, B, left, check_errors, result, LU, pivots, info);
}

void linalg_inv_ex(const at::Tensor& A, bool check_errors, const at::Tensor& inverse, const at::Tensor& info) {
  if (A.numel() > 0 && small::solve(A, {}, inverse, {}, {}, info)) {
    if (check_errors) at::_linalg_check_errors(info, "linalg.inv_ex", A.dim() == 2);
    return;
  }
  Shared<at::native::structured_linalg_inv_ex_out>().impl(A, check_errors, inverse, info);
}

namespace {

// The determinants' gradients expect the factors of the transpose where the matrix lies by rows.
at::Tensor factorised(const at::Tensor& a) { return a.is_contiguous() && !a.is_complex() ? a.mT() : a; }

// On oneMKL, with the determinants; false where results have a layout that it does not write.
bool determinants(const at::Tensor& a, const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& info,
                  std::initializer_list<at::Tensor> results, const mkl::Determinants& wanted) {
  if (!is_columns(lu) || !pivots.is_contiguous()) return false;
  for (const at::Tensor& t : results) {
    if (!t.is_contiguous()) return false;
  }
  lu.copy_(factorised(a));
  const int64_t n = lu.size(-1);
  mkl::lu(runtime::current_queue(), dtype_of(lu), /*pivot=*/true, n, n, matrices(lu),
          pivots.mutable_data_ptr<int32_t>(), at::native::batchCount(lu), info.mutable_data_ptr<int32_t>(), wanted);
  return true;
}

}  // namespace

void _linalg_det(const at::Tensor& A, const at::Tensor& result, const at::Tensor& LU, const at::Tensor& pivots) {
  if (A.numel() > 0) {
    const at::Tensor info = new_empty(batch_shape(A), at::kInt);
    if (small::lu(factorised(A), true, LU, pivots, info, result)) return;
    if (determinants(A, LU, pivots, info, {result}, {.values = result.data_ptr()})) return;
  }
  Shared<at::native::structured__linalg_det_out>().impl(A, result, LU, pivots);
}

void _linalg_slogdet(const at::Tensor& A, const at::Tensor& sign, const at::Tensor& logabsdet, const at::Tensor& LU,
                     const at::Tensor& pivots) {
  if (A.numel() > 0 && !small::serves(A)) {
    const at::Tensor info = new_empty(batch_shape(A), at::kInt);
    if (determinants(A, LU, pivots, info, {sign, logabsdet},
                     {.signs = sign.data_ptr(), .logarithms = logabsdet.data_ptr()}))
      return;
  }
  Shared<at::native::structured__linalg_slogdet_out>().impl(A, sign, logabsdet, LU, pivots);
}

// ---- Triangular

namespace {

// A matrix as BLAS reads it: by columns, or its transpose, or its adjoint.
struct Factor {
  at::Tensor data;
  mkl::Trans trans = mkl::Trans::none;
  bool upper;
};

Factor factor_of(const at::Tensor& a, bool upper) {
  if (a.is_neg()) return {copy_columns(a), mkl::Trans::none, upper};
  const bool rows = a.is_contiguous(), columns = a.mT().is_contiguous();
  if (columns && !a.is_conj()) return {a, mkl::Trans::none, upper};
  if (rows) return {a, a.is_conj() ? mkl::Trans::adjoint : mkl::Trans::transpose, !upper};
  return {copy_columns(a), mkl::Trans::none, upper};
}

}  // namespace

at::Tensor& linalg_solve_triangular_out(const at::Tensor& self, const at::Tensor& B, bool upper, bool left,
                                        bool unitriangular, at::Tensor& out) {
  at::native::checkInputsSolver(self, B, left, "linalg.solve_triangular");
  TORCH_CHECK(self.scalar_type() == B.scalar_type(),
              "linalg.solve_triangular: Expected self and B to have the same dtype, but got ", self.scalar_type(),
              " and ", B.scalar_type());
  check_scalar_type(out, B.scalar_type());
  const auto [rhs, a] = at::native::_linalg_broadcast_batch_dims(B, self, /*name=*/nullptr);
  if (a.is_conj() && a.mT().is_contiguous()) {  // at::linalg_solve_triangular solves the transposed system then
    at::native::resize_output(out, rhs.sizes());
  } else if (at::native::resize_output_check(out, rhs.sizes())) {
    out.resize_(rhs.mT().sizes(), at::MemoryFormat::Contiguous);
    out.transpose_(-2, -1);
  }
  if (out.numel() == 0) return out;
  if (!self.is_conj() && small::triangular(a, rhs, left, upper, /*transpose=*/false, unitriangular, out)) return out;
  const bool direct = is_columns(out) && !out.is_same(self);
  const at::Tensor x = direct ? out : empty_columns(rhs.sizes(), rhs.scalar_type());
  if (!x.is_same(B)) x.copy_(rhs);
  const Factor factor = factor_of(self.dim() == 2 ? self : a, upper);
  linalg::solve_triangular(factor.data, x, left, factor.upper, factor.trans, unitriangular);
  if (!direct) out.copy_(x);
  return out;
}

at::Tensor linalg_solve_triangular(const at::Tensor& self, const at::Tensor& B, bool upper, bool left,
                                   bool unitriangular) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  return linalg_solve_triangular_out(self, B, upper, left, unitriangular, out);
}

void triangular_solve(const at::Tensor& self, const at::Tensor& A, bool upper, bool transpose, bool unitriangular,
                      const at::Tensor& X, const at::Tensor& M) {
  TORCH_WARN_ONCE(
      "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular"
      "and will be removed in a future PyTorch release.");
  const auto [rhs, a] = at::native::_linalg_broadcast_batch_dims(self, A, "triangular_solve");
  if (X.numel() > 0 && small::triangular(a, rhs, /*left=*/true, upper, transpose, unitriangular, X)) {
    M.copy_(a);
    return;
  }
  const at::Tensor x = is_columns(X) ? X : empty_columns(X.sizes(), X.scalar_type());
  const at::Tensor copy = is_columns(M) ? M : empty_columns(M.sizes(), M.scalar_type());
  x.copy_(rhs);
  copy.copy_(a);
  linalg::solve_triangular(copy, x, /*left=*/true, upper, transpose ? mkl::Trans::transpose : mkl::Trans::none,
                           unitriangular);
  if (!x.is_same(X)) X.copy_(x);
  if (!copy.is_same(M)) M.copy_(copy);
}

// ---- Least squares

namespace {

constexpr const char* kLstsq = "torch.linalg.lstsq";

mkl::LstsqDriver driver_of(std::optional<std::string_view> name) {
  static constexpr std::array<std::pair<std::string_view, mkl::LstsqDriver>, 4> kDrivers{
      {{"gels", mkl::LstsqDriver::gels},
       {"gelsy", mkl::LstsqDriver::gelsy},
       {"gelsd", mkl::LstsqDriver::gelsd},
       {"gelss", mkl::LstsqDriver::gelss}}};
  if (!name) return mkl::LstsqDriver::gelsy;
  std::string lower(*name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [known, driver] : kDrivers) {
    if (lower == known) return driver;
  }
  TORCH_CHECK(false, kLstsq, ": parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
}

struct LstsqResult { at::Tensor solution, residuals, rank, singular_values; };

void check_lstsq(const at::Tensor& self, const at::Tensor& b) {
  TORCH_CHECK(self.dim() >= 2, kLstsq, ": input must have at least 2 dimensions.");
  at::native::checkFloatingOrComplex(self, kLstsq);
  TORCH_CHECK(b.dim() >= 1, kLstsq, ": other must have at least 1 dimension.");
  TORCH_CHECK(self.scalar_type() == b.scalar_type(), kLstsq,
              ": Expected input and other to have the same dtype, but got input's dtype ", self.scalar_type(),
              " and other's dtype ", b.scalar_type());
  const int64_t more = self.dim() - b.dim();
  TORCH_CHECK(0 <= more && more <= 1, kLstsq,
              ": input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1");
  const bool vector = at::native::linalg_solve_is_vector_rhs(self, b);
  TORCH_CHECK(self.size(-2) == b.size(vector ? -1 : -2),
              vector ? "torch.linalg.lstsq: input.size(-2) should match other.size(-1)"
                     : "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
}

// Of results for a broadcast batch, those of self's own; zeros where right sides of no batch left none.
at::Tensor own(at::Tensor t, const at::Tensor& self) {
  for (int64_t d = 0; d < self.dim() - 2; ++d) {
    std::vector<int64_t> sizes = t.sizes().vec();
    if (sizes[d] < self.size(d)) {
      sizes[d] = self.size(d);
      t = at::zeros(sizes, t.options());
    } else if (sizes[d] != self.size(d)) {
      t = t.narrow(d, 0, self.size(d));
    }
  }
  return t;
}

// Sums of squares of what LAPACK leaves below the solution.
at::Tensor residuals_of(const at::Tensor& below) {
  const at::Tensor squares = below.is_complex() ? at::real(below.mul(below.conj())) : below.mul(below);
  return squares.sum(-2);
}

LstsqResult lstsq(const at::Tensor& self, const at::Tensor& other, double rcond, mkl::LstsqDriver driver) {
  const bool vector = at::native::linalg_solve_is_vector_rhs(self, other);
  const at::Tensor b = vector ? other.unsqueeze(-1) : other;
  const int64_t m = self.size(-2), n = self.size(-1), nrhs = b.size(-1), k = std::min(m, n);
  const at::ScalarType type = self.scalar_type(), real = c10::toRealValueType(type);
  const bool singular = driver == mkl::LstsqDriver::gelsd || driver == mkl::LstsqDriver::gelss;
  const bool ranked = driver != mkl::LstsqDriver::gels;

  at::DimVector shape(at::native::broadcast_batch_size(self, b, self.dim() - 2));
  const at::DimVector batch = shape;
  shape.append({std::max(m, n), nrhs});
  const at::Tensor x = empty_columns(shape, type);
  x.narrow(-2, 0, m).copy_(b);
  at::DimVector a_shape = batch;
  a_shape.append({m, n});
  const at::Tensor a = copy_columns(self.expand(a_shape));
  LstsqResult r;
  r.residuals = new_empty({0}, real);
  r.rank = ranked ? new_empty(batch, at::kLong) : new_empty({0}, at::kLong);
  at::DimVector values_shape = batch;
  values_shape.push_back(k);
  r.singular_values = singular ? new_empty(values_shape, real) : new_empty({0}, real);
  const int64_t count = at::native::batchCount(a);
  if (a.numel() == 0 || x.numel() == 0) {
    // LAPACK's xGELSD and xGELSS leave right sides of no columns as they are: the residuals are their squares.
    if (!singular || n > 0) x.zero_();
    if (ranked) r.rank.zero_();
  } else {
    const at::Tensor info = new_empty(batch, at::kInt);
    mkl::lstsq(runtime::current_queue(), to_dtype(type), driver, m, n, nrhs, matrices(a), matrices(x), rcond,
               ranked ? r.rank.mutable_data_ptr<int64_t>() : nullptr,
               singular ? r.singular_values.mutable_data_ptr() : nullptr, count, info.mutable_data_ptr<int32_t>());
    at::_linalg_check_errors(info, kLstsq, info.numel() <= 1);
  }
  const bool full = !singular || r.rank.eq(n).all().item<bool>();
  if (m > n && driver != mkl::LstsqDriver::gelsy && full) r.residuals = residuals_of(x.narrow(-2, n, m - n));
  r.solution = x.narrow(-2, 0, n);
  if (m == 0) r.solution.zero_();
  if (vector) r.solution = r.solution.squeeze(-1);
  if (ranked) r.rank = own(r.rank, self);
  if (singular) r.singular_values = own(r.singular_values, self);
  return r;
}

}  // namespace

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> linalg_lstsq_out(
    const at::Tensor& self, const at::Tensor& b, std::optional<double> rcond, std::optional<std::string_view> driver,
    at::Tensor& solution, at::Tensor& residuals, at::Tensor& rank, at::Tensor& singular_values) {
  check_lstsq(self, b);
  const at::ScalarType real = c10::toRealValueType(self.scalar_type());
  check_type(kLstsq, solution, self.scalar_type(), "solution");
  check_type(kLstsq, residuals, real, "solution");
  check_type(kLstsq, rank, at::kLong, "rank");
  check_type(kLstsq, singular_values, real, "singular_values");
  const double tolerance =
      rcond ? *rcond : at::native::_get_epsilon(real) * static_cast<double>(std::max(self.size(-2), self.size(-1)));
  const LstsqResult r = lstsq(self, b, tolerance, driver_of(driver));
  // As upstream's, a solution that has no elements yet becomes a view of the columns that the residuals were in, too.
  if (solution.numel() == 0 && solution.scalar_type() == r.solution.scalar_type())
    solution.set_(r.solution.storage(), r.solution.storage_offset(), r.solution.sizes(), r.solution.strides());
  else
    give(r.solution, solution);
  return {solution, give(r.residuals, residuals), give(r.rank, rank), give(r.singular_values, singular_values)};
}

}  // namespace xpu_ops::aten
