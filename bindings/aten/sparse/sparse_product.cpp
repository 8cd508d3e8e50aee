// Products of sparse matrices: by compressed rows with dense ones, by expansion of the matching elements with sparse
// ones; triangular systems.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_convert_indices_from_coo_to_csr.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "bindings/aten/core/scalar_bits.hpp"
#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/sparse/sparse.hpp"
#include "kernels/ops/sparse_csr.hpp"
#include "kernels/ops/sparse_product.hpp"
#include "kernels/runtime/device/device_error.hpp"

namespace xpu_ops::aten {
namespace {

void check_types(const at::Tensor& values, const at::Tensor& dense, const at::Tensor& out) {
  for (const at::Tensor& t : {dense, out}) check_scalar_type(t, values.scalar_type());
}

}  // namespace

at::Tensor row_pointers(const at::Tensor& rows, int64_t count, bool as_int32) {
  return at::_convert_indices_from_coo_to_csr(rows, count, as_int32);
}

Rows2d rows_of_coo(const at::Tensor& self) {
  const int64_t rows = self.size(0), inner = self.size(1);
  at::Tensor row = self._indices().select(0, 0), column = self._indices().select(0, 1), values = self._values();
  if (!self.is_coalesced() && self._nnz() > 1) {
    const at::Tensor order = sort_keys(row.unsqueeze(0), {rows}).places();
    row = row.index_select(0, order);
    column = column.index_select(0, order);
    values = values.index_select(0, order);
  }
  return {row_pointers(row, rows, false), column, values, rows, inner};
}

void spmm(const Rows2d& a, const at::Tensor& dense_, const at::Tensor& self, const at::Scalar& beta,
          const at::Scalar& alpha, const at::Tensor& out_) {
  const at::Tensor values = a.values.resolve_conj().contiguous();
  ops::check_spmm(dtype_of(values));
  check_types(values, dense_, out_);
  const int64_t columns = out_.size(1);
  if (out_.numel() == 0) return;
  at::Tensor dense = dense_.resolve_conj();
  if (dense.stride(1) != 1) dense = dense.contiguous();
  const at::Tensor out = out_.stride(1) == 1 && out_.stride(0) >= columns && !out_.is_alias_of(dense)
                             ? out_
                             : new_empty(out_.sizes(), out_.scalar_type());
  const at::Tensor pointers = a.pointers.contiguous(), column = a.columns.to(pointers.scalar_type()).contiguous();
  TORCH_CHECK_NOT_IMPLEMENTED(
      a.rows < (int64_t{1} << 31) && a.inner < (int64_t{1} << 31) && columns < (int64_t{1} << 31),
      "sparse matrices of more than 2^31 - 1 rows or columns on XPU");
  runtime::Queue& queue = runtime::current_queue();
  ops::SpmmProblem p{};
  p.crow = pointers.const_data_ptr();
  p.col = column.const_data_ptr();
  p.values = values.const_data_ptr();
  p.dense = dense.const_data_ptr();
  p.dense_row = dense.stride(0);
  at::Tensor addend;
  if (self.defined() && !is_zero(beta)) {
    addend = self.resolve_conj();
    // In place, an element may only be read by the item that writes it, and once.
    if (addend.is_alias_of(out) && !(addend.is_same(out) && ops::spmm_in_place(columns))) addend = addend.clone();
    p.self = addend.const_data_ptr();
    p.self_row = addend.stride(0);
    p.self_col = addend.stride(1);
  }
  p.out = out.mutable_data_ptr();
  p.out_row = out.stride(0);
  p.nnz = values.numel();
  p.error = runtime::error_flag(queue.device);
  put_scalar(p.alpha, alpha, values.scalar_type());
  put_scalar(p.beta, beta, values.scalar_type());
  p.rows = static_cast<uint32_t>(a.rows);
  p.inner = static_cast<uint32_t>(a.inner);
  p.columns = static_cast<uint32_t>(columns);
  p.is32 = pointers.scalar_type() == at::kInt;
  ops::spmm(queue, dtype_of(values), p);
  if (!out.is_same(out_)) out_.copy_(out);
}

namespace {

bool by_dense_rows(const Rows2d& a, const Rows2d& b) {
  return a.values.scalar_type() == b.values.scalar_type() &&
         ops::plan_spgemm_serves(dtype_of(a.values), a.rows, a.inner, b.inner, current_policy());
}

// The product by compressed rows, its columns in `indices`: all of it, or the second row of [2, nnz], whose first gets
// the numbers of the rows.
struct DenseRowsProduct { at::Tensor pointers, indices, values; };
DenseRowsProduct spgemm_rows(const Rows2d& a, const Rows2d& b, bool row_numbers) {
  const at::Tensor a_crow = a.pointers.to(at::kLong).contiguous(), a_col = a.columns.to(at::kLong).contiguous(),
                   b_crow = b.pointers.to(at::kLong).contiguous(), b_col = b.columns.to(at::kLong).contiguous(),
                   a_values = a.values.resolve_conj().contiguous(), b_values = b.values.resolve_conj().contiguous();
  ops::SpgemmProblem p{};
  p.a_crow = a_crow.const_data_ptr<int64_t>(), p.a_col = a_col.const_data_ptr<int64_t>();
  p.b_crow = b_crow.const_data_ptr<int64_t>(), p.b_col = b_col.const_data_ptr<int64_t>();
  p.a_values = a_values.const_data_ptr(), p.b_values = b_values.const_data_ptr();
  p.a_nnz = a_values.numel(), p.b_nnz = b_values.numel();
  p.rows = static_cast<uint32_t>(a.rows), p.inner = static_cast<uint32_t>(a.inner);
  p.columns = static_cast<uint32_t>(b.inner);
  ops::Spgemm product(runtime::current_queue(), p);
  const at::Tensor counts = new_empty({a.rows}, at::kLong);
  product.count(counts.mutable_data_ptr<int64_t>());
  const at::Tensor crow = new_empty({a.rows + 1}, at::kLong);
  crow.select(0, 0).zero_();
  at::Tensor ends = crow.narrow(0, 1, a.rows);
  at::cumsum_out(ends, counts, 0);
  const int64_t total = crow.select(0, a.rows).item<int64_t>();
  const at::Tensor indices = row_numbers ? new_empty({2, total}, at::kLong) : new_empty({total}, at::kLong);
  const at::Tensor values = new_empty({total}, a_values.scalar_type());
  auto* place = indices.mutable_data_ptr<int64_t>();
  product.fill(dtype_of(values), counts.mutable_data_ptr<int64_t>(),
               {crow.const_data_ptr<int64_t>(), row_numbers ? place : nullptr, place + (row_numbers ? total : 0),
                values.mutable_data_ptr()});
  return {crow, indices, values};
}

}  // namespace

at::Tensor spgemm(const Rows2d& a, const Rows2d& b) {
  TORCH_CHECK(a.values.scalar_type() == b.values.scalar_type(), "mat1 dtype ", a.values.scalar_type(),
              " does not match mat2 dtype ", b.values.scalar_type());
  if (by_dense_rows(a, b)) {
    const DenseRowsProduct r = spgemm_rows(a, b, true);
    return make_coo(r.indices, r.values, {a.rows, b.inner}, true);
  }
  const at::Tensor inner = a.columns.to(at::kLong), pointers = b.pointers.to(at::kLong);
  const at::Tensor first = pointers.index_select(0, inner);
  const auto [element, number] = repeat_by(pointers.index_select(0, inner.add(1)).sub(first));
  const at::Tensor other = first.index_select(0, element).add_(number);
  const at::Tensor rows = at::_convert_indices_from_csr_to_coo(a.pointers, a.columns).select(0, 0).to(at::kLong);
  const at::Tensor indices =
      at::stack({rows.index_select(0, element), b.columns.to(at::kLong).index_select(0, other)}, 0);
  const at::Tensor values = a.values.index_select(0, element).mul(b.values.index_select(0, other));
  return make_coo(indices, values, {a.rows, b.inner}, false).coalesce();
}

std::optional<Rows2d> spgemm_compressed(const Rows2d& a, const Rows2d& b) {
  if (!by_dense_rows(a, b)) return std::nullopt;
  const DenseRowsProduct r = spgemm_rows(a, b, false);
  return Rows2d{r.pointers, r.indices, r.values, a.rows, b.inner};
}

// --- COO ---

namespace {

at::Tensor& coo_addmm(at::Tensor& out, const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                      const at::Scalar& beta, const at::Scalar& alpha) {
  TORCH_CHECK(out.layout() == at::kStrided,
              "addmm_sparse_dense: expected strided result tensor, got tensor with layout ", out.layout());
  TORCH_CHECK(self.layout() == at::kStrided,
              "addmm_sparse_dense: expected 't' to have strided layout, got tensor with layout ", self.layout());
  TORCH_CHECK(mat1.is_sparse() && !mat2.is_sparse(), "addmm: expected a sparse 'mat1' and a dense 'mat2', but got ",
              mat1.layout(), " and ", mat2.layout());
  TORCH_CHECK(mat1.sparse_dim() == 2, "addmm: matrices expected, got ", mat1.sparse_dim(), "D tensor");
  TORCH_CHECK(mat1.dense_dim() == 0, "addmm: scalar values expected, got ", mat1.dense_dim(), "D values");
  TORCH_CHECK(mat2.dim() == 2, "addmm: matrices expected, got ", mat2.dim(), "D tensor");
  const int64_t rows = mat1.size(0), inner = mat1.size(1), columns = mat2.size(1);
  TORCH_CHECK(mat2.size(0) == inner, "addmm: Argument #3 (dense): Expected dim 0 size ", inner, ", got ", mat2.size(0));
  TORCH_CHECK(self.size(0) == rows, "addmm: Argument #1 (t): Expected dim 0 size ", rows, ", got ", self.size(0));
  TORCH_CHECK(self.size(1) == columns, "addmm: Argument #1 (t): Expected dim 1 size ", columns, ", got ", self.size(1));
  out.resize_({rows, columns});
  if (mat1._nnz() == 0) return at::mul_out(out, self, at::scalar_tensor(beta, out.options().device(at::kCPU)));
  spmm(rows_of_coo(mat1), mat2, self, beta, alpha, out);
  return out;
}

// Rows that have elements, as a matrix of those alone; mat is coalesced.
std::pair<at::Tensor, Rows2d> filled_rows(const at::Tensor& mat) {
  const auto [row, inverse, counts] = at::unique_consecutive(mat._indices().select(0, 0), false, true);
  const at::Tensor pointers = at::cat({at::zeros({1}, counts.options()), counts.cumsum(0)});
  return {row, {pointers, mat._indices().select(0, 1), mat._values(), row.numel(), mat.size(1)}};
}

void check_matrices(const char* name, const at::Tensor& sparse, const at::Tensor& dense) {
  TORCH_CHECK(sparse.is_sparse() && !dense.is_sparse(), name, ": expected a sparse and a dense matrix, but got ",
              sparse.layout(), " and ", dense.layout());
  TORCH_CHECK(sparse.sparse_dim() == 2, name, ": Argument #2: matrices expected, got ", sparse.sparse_dim(),
              "D tensor");
  TORCH_CHECK(sparse.dense_dim() == 0, name, ": Argument #2: scalar values expected, got ", sparse.dense_dim(),
              "D values");
  TORCH_CHECK(dense.dim() == 2, name, ": Argument #3: matrices expected, got ", dense.dim(), "D tensor");
  TORCH_CHECK(dense.size(0) == sparse.size(1), name, ": Argument #3: Expected dim 0 size ", sparse.size(1), ", got ",
              dense.size(0));
}

}  // namespace

at::Tensor& sparse_addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                             const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  if (self.layout() != at::kStrided) return coo_addmm(out, self, mat1, mat2, beta, alpha);  // refuses it
  const auto expanded = at::expand_size(self, {mat1.size(0), mat2.size(1)}, "addmm_out");
  return coo_addmm(out, *expanded, mat1, mat2, beta, alpha);
}

at::Tensor sparse_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                        const at::Scalar& alpha) {
  at::Tensor out = at::empty({0}, self.options());
  return sparse_addmm_out(self, mat1, mat2, beta, alpha, out);
}

at::Tensor& sparse_addmm_(at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                          const at::Scalar& alpha) {
  TORCH_CHECK(self.dim() == 2, "addmm: matrices expected, got ", self.dim(), "D tensor");
  return coo_addmm(self, self, mat1, mat2, beta, alpha);
}

at::Tensor& sparse_bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  TORCH_CHECK(!mat2.is_sparse(), "bmm_sparse: Tensor 'mat2' must be dense");
  TORCH_CHECK(self.dense_dim() == 0, "bmm_sparse: Tensor 'self' must have 0 dense dims, but has ", self.dense_dim());
  TORCH_CHECK(self.sparse_dim() == 3, "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has ", self.sparse_dim());
  TORCH_CHECK(mat2.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", mat2.dim());
  TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  const int64_t batches = self.size(0), rows = self.size(1), inner = self.size(2), columns = mat2.size(2);
  out.resize_({batches, rows, columns});
  if (self._nnz() == 0) return out.zero_();
  // One matrix with the batches along its diagonal.
  const at::Tensor sparse = self.coalesce(), indices = sparse._indices();
  const at::Tensor batch = indices.select(0, 0);
  const Rows2d a{row_pointers(batch.mul(rows).add_(indices.select(0, 1)), batches * rows, false),
                 batch.mul(inner).add_(indices.select(0, 2)), sparse._values(), batches * rows, batches * inner};
  const at::Tensor flat = out.is_contiguous() ? out : new_empty(out.sizes(), out.scalar_type());
  spmm(a, mat2.reshape({batches * inner, columns}), {}, 0, 1, flat.view({batches * rows, columns}));
  if (!flat.is_same(out)) out.copy_(flat);
  return out;
}

at::Tensor sparse_bmm(const at::Tensor& self, const at::Tensor& mat2) {
  at::Tensor out = at::empty({0}, mat2.options());
  return sparse_bmm_out(self, mat2, out);
}

at::Tensor& sparse_hspmm_out(const at::Tensor& mat1, const at::Tensor& mat2, at::Tensor& out) {
  check_matrices("hspmm", mat1, mat2);
  const at::Tensor sparse = mat1.coalesce();
  const int64_t columns = mat2.size(1);
  const auto [row, a] = filled_rows(sparse);
  const at::Tensor values = new_empty({row.numel(), columns}, mat2.scalar_type());
  spmm(a, mat2, {}, 0, 1, values);
  set_coo(out, row.unsqueeze(0), values, {mat1.size(0), columns}, false);
  return out;
}

at::Tensor sparse_hspmm(const at::Tensor& mat1, const at::Tensor& mat2) {
  at::Tensor out = at::empty({0}, mat1.options());
  return sparse_hspmm_out(mat1, mat2, out);
}

at::Tensor& sparse_sspaddmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  check_matrices("sspaddmm", mat1, mat2);
  const std::vector<int64_t> sizes{mat1.size(0), mat2.size(1)};
  // smm hands its empty result over as self
  const bool nothing = self.is_same(out) && self._nnz() == 0;
  if (!nothing) {
    TORCH_CHECK(self.size(0) == sizes[0], "sspaddmm: Argument #1: Expected dim 0 size ", sizes[0], ", got ",
                self.size(0));
    TORCH_CHECK(self.size(1) == sizes[1], "sspaddmm: Argument #1: Expected dim 1 size ", sizes[1], ", got ",
                self.size(1));
  }
  const at::Tensor sparse = mat1.coalesce();
  const auto [row, a] = filled_rows(sparse);
  // Everything goes where it belongs at once: self's elements, then those of the product.
  const int64_t before = nothing ? 0 : self._nnz(), rows = row.numel(), count = rows * sizes[1];
  const at::ScalarType type = sparse._values().scalar_type();
  const at::Tensor indices = new_empty({2, before + count}, at::kLong), values = new_empty({before + count}, type);
  spmm(a, mat2, {}, 0, alpha, values.narrow(0, before, count).view({rows, sizes[1]}));
  if (count != 0) {
    TORCH_CHECK_NOT_IMPLEMENTED(rows < INT32_MAX && sizes[1] < INT32_MAX, "sspaddmm of 2^31 and more columns on XPU");
    ops::RowPlaceProblem p{};
    p.row = row.const_data_ptr<int64_t>();
    p.out_row = indices.mutable_data_ptr<int64_t>() + before;
    p.out_column = p.out_row + before + count;
    p.columns = static_cast<uint32_t>(sizes[1]);
    ops::row_places(runtime::current_queue(), rows, p);
  }
  if (before != 0) {
    indices.narrow(1, 0, before).copy_(self._indices());
    values.narrow(0, 0, before).copy_(self._values().mul(beta));
  }
  set_coo(out, indices, values, sizes, false);
  return out;
}

at::Tensor sparse__sparse_sparse_matmul(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.is_sparse() && other.is_sparse());
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2);
  TORCH_CHECK(self.dense_dim() == 0, "sparse_mm: scalar values expected, mat1 got ", self.dense_dim(), "D values");
  TORCH_CHECK(other.dense_dim() == 0, "sparse_mm: scalar values expected, mat2 got ", other.dense_dim(), "D values");
  TORCH_CHECK(self.size(1) == other.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  return spgemm(rows_of_coo(self.coalesce()), rows_of_coo(other.coalesce()));
}

// --- a triangular system ---

std::tuple<at::Tensor&, at::Tensor&> sparse_csr_triangular_solve_X(const at::Tensor& self, const at::Tensor& A,
                                                                   bool upper, bool transpose, bool unitriangular,
                                                                   at::Tensor& X, at::Tensor& M) {
  TORCH_CHECK(A.layout() == at::kSparseCsr || A.layout() == at::kSparseBsr,
              "triangular_solve: unsupported sparse layout.");
  TORCH_CHECK(self.layout() == at::kStrided && self.dim() == 2 && A.dim() == 2 && A.size(0) == A.size(1) &&
                  A.size(0) == self.size(0),
              "triangular_solve: expected a square matrix and as many rows of the right side, but got ", A.sizes(),
              " and ", self.sizes());
  check_types(A, self, X);
  resize_out(M, {0}, {}, self.options());
  resize_out(X, self.sizes(), {}, self.options());
  if (X.numel() == 0) return {X, M};
  if (A._nnz() == 0) {  // as torch's other devices, also with a diagonal of ones
    X.fill_(std::numeric_limits<double>::quiet_NaN());
    return {X, M};
  }
  const Rows2d rows = rows_of_csr(A);
  const at::Tensor crow = rows.pointers.contiguous(), col = rows.columns.to(crow.scalar_type()).contiguous(),
                   values = rows.values.resolve_conj().contiguous(),
                   x = self.resolve_conj().clone(at::MemoryFormat::Contiguous);
  ops::CsrSolveProblem p{};
  p.crow = crow.const_data_ptr(), p.col = col.const_data_ptr(), p.values = values.const_data_ptr();
  p.x = x.mutable_data_ptr();
  p.nnz = values.numel();
  p.rows = static_cast<uint32_t>(x.size(0)), p.sides = static_cast<uint32_t>(x.size(1));
  p.is32 = crow.scalar_type() == at::kInt;
  p.upper = upper, p.transposed = transpose, p.unit = unitriangular;
  ops::solve_csr(runtime::current_queue(), dtype_of(x), p);
  X.copy_(x);
  return {X, M};
}

}  // namespace xpu_ops::aten
