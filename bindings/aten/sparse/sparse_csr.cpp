// Compressed layouts: row pointers, their validation, sums, products, and products sampled at a pattern.
#include <ATen/ExpandUtils.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/TensorIndexing.h>
#include <ATen/ops/_convert_indices_from_csr_to_coo.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/_to_sparse_csc_native.h>
#include <ATen/ops/_to_sparse_csr_native.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "bindings/aten/core/scalar_bits.hpp"
#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/sparse/sparse.hpp"
#include "kernels/ops/sparse.hpp"
#include "kernels/ops/sparse_csr.hpp"
#include "kernels/ops/sparse_product.hpp"
#include "kernels/runtime/device/device_error.hpp"

// Exported by torch, and declared in no header.
namespace at::native::sparse {
TORCH_API void sparse_sampled_addmm_check_inputs(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                                 const at::Scalar& beta, const at::Scalar& alpha,
                                                 const at::Tensor& result);
}  // namespace at::native::sparse

namespace xpu_ops::aten {
namespace {

// Kernels read int32 and int64; other integers are widened, as far as torch's CPU kernel takes them.
at::Tensor index_operand(const at::Tensor& t, const char* name) {
  if (t.scalar_type() == at::kInt || t.scalar_type() == at::kLong) return t.contiguous();
  TORCH_CHECK_NOT_IMPLEMENTED(at::isIntegralType(t.scalar_type(), false), "\"", name, "\" not implemented for '",
                              c10::toString(t.scalar_type()), "'");
  return t.to(at::kLong).contiguous();
}

ops::CompressProblem compress_problem(const at::Tensor& in, const at::Tensor& out, int64_t n, int64_t rows) {
  TORCH_CHECK_NOT_IMPLEMENTED(n < (int64_t{1} << 31) && rows < (int64_t{1} << 31),
                              "sparse matrices of more than 2^31 - 1 rows or elements on XPU");
  ops::CompressProblem p{};
  p.in = in.const_data_ptr();
  p.out = out.mutable_data_ptr();
  p.error = runtime::error_flag(runtime::current_queue().device);
  p.n = static_cast<uint32_t>(n);
  p.rows = static_cast<uint32_t>(rows);
  p.in32 = in.scalar_type() == at::kInt;
  p.out32 = out.scalar_type() == at::kInt;
  return p;
}

// The row number of each element, batch by batch, into `row`, which is dense.
void put_row_numbers(const at::Tensor& crow, const at::Tensor& col, const at::Tensor& row) {
  const int64_t nnz = col.size(-1), batches = nnz == 0 ? 0 : col.numel() / nnz;
  const at::Tensor pointers = crow.contiguous();
  if (crow.size(-1) == 1) row.zero_();  // no rows to number
  ops::CompressProblem p = compress_problem(pointers, row, nnz, crow.size(-1) - 1);
  p.in_batch = crow.size(-1);
  p.out_batch = nnz;
  ops::pointers_to_rows(runtime::current_queue(), batches, p);
}
at::Tensor row_numbers(const at::Tensor& crow, const at::Tensor& col, at::ScalarType type) {
  const at::Tensor row = new_empty({col.numel()}, type);
  put_row_numbers(crow, col, row);
  return row;
}

}  // namespace

// out[r]: how many of the sorted row numbers are below r.
void _convert_indices_from_coo_to_csr(const at::Tensor& self, int64_t size, bool, const at::Tensor& out) {
  const at::Tensor rows = index_operand(self, "convert_indices_from_coo_to_csr"),
                   result = out.is_contiguous() ? out : new_empty(out.sizes(), out.scalar_type());
  if (out.numel() == 0) return;
  // Pointers of rows past unsorted numbers would stay unset.
  if (self.numel() != 0) result.zero_();
  ops::rows_to_pointers(runtime::current_queue(), compress_problem(rows, result, rows.numel(), size));
  if (!result.is_same(out)) out.copy_(result);
}

// Rows of out: the batch numbers (dimensions before the last of crow), the row number, the column number.
void _convert_indices_from_csr_to_coo(const at::Tensor& crow, const at::Tensor& col, bool, bool transpose,
                                      const at::Tensor& out) {
  const at::Tensor pointers = index_operand(crow, "convert_indices_from_csr_to_coo");
  const int64_t dims = crow.dim() - 1;
  if (col.numel() == 0) return;
  TORCH_CHECK(dims >= 0 && crow.size(-1) > 0, "expected crow_indices of at least one element in a row, but got ",
              crow.sizes());
  TORCH_CHECK(crow.dim() == col.dim() && crow.sizes().slice(0, dims) == col.sizes().slice(0, dims),
              "expected crow_indices and col_indices of one batch shape, but got ", crow.sizes(), " and ", col.sizes());
  const at::Tensor place = out.select(0, dims + (transpose ? 1 : 0));
  if (place.is_contiguous())
    put_row_numbers(pointers, col, place);
  else
    place.copy_(row_numbers(pointers, col, out.scalar_type()));
  out.select(0, dims + (transpose ? 0 : 1)).copy_(col.reshape({-1}));
  for (int64_t d = 0; d < dims; ++d) {
    std::vector<int64_t> shape(col.dim(), 1);
    shape[d] = col.size(d);
    out.select(0, d).copy_(at::arange(col.size(d), out.options()).view(shape).expand(col.sizes()).reshape({-1}));
  }
}

void _validate_compressed_sparse_indices(bool is_crow, const at::Tensor& compressed_idx, const at::Tensor& plain_idx,
                                         int64_t cdim, int64_t dim, int64_t nnz) {
  const std::string name = is_crow ? "crow_indices" : "ccol_indices", plain = is_crow ? "col_indices" : "row_indices";
  const std::string dim_name = is_crow ? "ncols" : "nrows", cdim_name = is_crow ? "nrows" : "ncols";
  const at::Tensor pointers = compressed_idx.contiguous(), numbers = plain_idx.contiguous();
  TORCH_CHECK(cdim >= 0 && pointers.size(-1) == cdim + 1, name, " have wrong shape: ", name,
              ".shape[-1] = ", pointers.size(-1), " is not equal to ", cdim_name, " + 1 = ", cdim + 1);
  TORCH_CHECK(numbers.size(-1) == nnz, plain, " have wrong shape: ", plain, ".shape[-1] = ", numbers.size(-1),
              " is not equal to nnz = ", nnz);
  TORCH_CHECK_NOT_IMPLEMENTED(pointers.scalar_type() == at::kInt || pointers.scalar_type() == at::kLong,
                              "\"compressed_index_invariance_checks\" not implemented for '",
                              c10::toString(pointers.scalar_type()), "'");
  ops::CsrCheckProblem p{};
  p.lines = cdim, p.nnz = nnz, p.size = dim;
  p.batches = pointers.numel() / (cdim + 1);
  if (p.batches == 0) return;
  TORCH_CHECK(numbers.numel() == p.batches * nnz && pointers.scalar_type() == numbers.scalar_type(), "expected ",
              p.batches, " times ", nnz, " ", plain, " of the type of ", name);
  const int64_t all = pointers.numel(), work = all + numbers.numel();
  runtime::Queue& queue = runtime::current_queue();
  const ops::ItemChunks chunks = ops::plan_item_chunks(queue, all, work);
  const at::Tensor failed = new_empty({chunks.items}, at::kLong);
  p.pointers = pointers.const_data_ptr(), p.numbers = numbers.const_data_ptr();
  p.failed = failed.mutable_data_ptr<int64_t>();
  p.is32 = pointers.scalar_type() == at::kInt;
  ops::check_csr(queue, chunks, p);
  const at::Tensor found = failed.cpu();
  const int64_t* each = found.const_data_ptr<int64_t>();
  const std::string texts[] = {name + "[..., 0] == 0", name + "[..., -1] == nnz",
                               "0 <= " + name + "[..., 1:] - " + name + "[..., :-1] <= " + dim_name,
                               "0 <= " + plain + " < " + dim_name,
                               plain + "[..., " + name + "[..., i - 1]:" + name + "[..., i]] for all i = 1, ..., " +
                                   cdim_name + " are sorted and distinct along the last dimension values"};
  const int64_t first = *std::min_element(each, each + chunks.items);
  TORCH_CHECK(first >= 5, "`", texts[first < 5 ? first : 0], "` is not satisfied.");
}

// --- from compressed rows to compressed columns, and blocks ---

namespace {

bool by_rows(const at::Tensor& t) { return t.layout() == at::kSparseCsr || t.layout() == at::kSparseBsr; }
at::Tensor pointers_of(const at::Tensor& t) { return by_rows(t) ? t.crow_indices() : t.ccol_indices(); }
at::Tensor numbers_of(const at::Tensor& t) { return by_rows(t) ? t.col_indices() : t.row_indices(); }

// The elements (or blocks) of a matrix in the other order. `lines`: how many there are to point to.
std::array<at::Tensor, 3> flipped(const at::Tensor& pointers, const at::Tensor& numbers, const at::Tensor& values,
                                  int64_t lines) {
  const at::Tensor line = at::_convert_indices_from_csr_to_coo(pointers, numbers).select(0, 0);
  const at::Tensor order = sort_keys(numbers.to(at::kLong).unsqueeze(0), {lines}).places();
  return {row_pointers(numbers.index_select(0, order), lines, pointers.scalar_type() == at::kInt),
          line.index_select(0, order).to(numbers.scalar_type()), values.index_select(0, order)};
}

at::Tensor flip_layout(const at::Tensor& self, at::Layout layout) {
  const at::Tensor pointers = pointers_of(self), numbers = numbers_of(self), values = self.values();
  const int64_t batch_dims = pointers.dim() - 1;
  const bool blocked = layout == at::kSparseBsr || layout == at::kSparseBsc;
  const int64_t d = by_rows(self) ? 1 : 0, block = blocked ? values.size(batch_dims + 1 + d) : 1;
  const int64_t lines = self.size(batch_dims + d) / block;
  const auto options = values.options().layout(layout);
  if (batch_dims == 0) {
    const auto [p, n, v] = flipped(pointers, numbers, values, lines);
    return at::_sparse_compressed_tensor_unsafe(p, n, v, self.sizes(), options);
  }
  // Every batch has as many elements as the others.
  const at::Tensor all_p = pointers.flatten(0, batch_dims - 1), all_n = numbers.flatten(0, batch_dims - 1),
                   all_v = values.flatten(0, batch_dims - 1);
  std::vector<at::Tensor> ps, ns, vs;
  for (int64_t b = 0; b < all_p.size(0); ++b) {
    const auto [p, n, v] = flipped(all_p.select(0, b), all_n.select(0, b), all_v.select(0, b), lines);
    ps.push_back(p), ns.push_back(n), vs.push_back(v);
  }
  std::vector<int64_t> p_sizes = pointers.sizes().vec();
  p_sizes.back() = lines + 1;
  return at::_sparse_compressed_tensor_unsafe(at::stack(ps).view(p_sizes), at::stack(ns).view(numbers.sizes()),
                                              at::stack(vs).view(values.sizes()), self.sizes(), options);
}

// The blocks that hold elements of a CSR or CSC matrix, in its order.
at::Tensor to_blocks(const at::Tensor& self, at::IntArrayRef block, at::Layout layout) {
  TORCH_CHECK(self.dim() == 2 && self.dense_dim() == 0, "conversion to blocks of ", self.layout(),
              " tensors is only supported for matrices of scalars");
  TORCH_CHECK(
      block.size() == 2 && block[0] > 0 && block[1] > 0 && self.size(0) % block[0] == 0 && self.size(1) % block[1] == 0,
      "tensor sparse size (", self.size(0), ",", self.size(1), ") must be divisible by given blocksize (", block[0],
      ",", block[1], ")");
  const bool rows = by_rows(self);
  const at::Tensor pointers = pointers_of(self).contiguous(), numbers = numbers_of(self).contiguous(),
                   values = self.values().resolve_conj().contiguous();
  const int64_t down = block[rows ? 0 : 1], across = block[rows ? 1 : 0], lines = self.size(rows ? 0 : 1) / down,
                size = self.size(rows ? 1 : 0), nnz = values.numel();
  TORCH_CHECK_NOT_IMPLEMENTED(self.size(0) < INT32_MAX && self.size(1) < INT32_MAX && nnz < INT32_MAX,
                              "sparse matrices of more than 2^31 - 1 rows or elements on XPU");
  const auto index = pointers.options();
  const auto result = [&](const at::Tensor& p, const at::Tensor& n, const at::Tensor& v) {
    return at::_sparse_compressed_tensor_unsafe(p, n, v, self.sizes(), values.options().layout(layout));
  };
  if (nnz == 0 || lines == 0)
    return result(at::zeros({lines + 1}, index), at::zeros({0}, index),
                  at::zeros({0, block[0], block[1]}, values.options()));
  ops::CsrBlockProblem p{};
  p.pointers = pointers.const_data_ptr(), p.numbers = numbers.const_data_ptr(), p.values = values.const_data_ptr();
  p.nnz = nnz;
  p.in_stride = rows ? across : 1, p.rest_stride = rows ? 1 : down;
  p.down = static_cast<uint32_t>(down), p.across = static_cast<uint32_t>(across),
  p.lines = static_cast<uint32_t>(lines);
  p.width = static_cast<uint32_t>(size / across), p.size = static_cast<uint32_t>(size);
  p.is32 = pointers.scalar_type() == at::kInt;
  ops::CsrBlocks split(runtime::current_queue(), p);
  const at::Tensor counts = new_empty({split.items() + 1}, at::kLong);
  split.count(counts.mutable_data_ptr<int64_t>());
  const int64_t blocks = scan_counts(counts);
  const at::Tensor out_pointers = at::empty({lines + 1}, index), out_numbers = at::empty({blocks}, index),
                   out = at::zeros({blocks, block[0], block[1]}, values.options());
  split.fill(out.element_size(), counts.mutable_data_ptr<int64_t>(),
             {out_pointers.mutable_data_ptr(), out_numbers.mutable_data_ptr(), out.mutable_data_ptr()});
  return result(out_pointers, out_numbers, out);
}

}  // namespace

at::Tensor sparse_csr__to_sparse_csr(const at::Tensor& self, std::optional<int64_t> dense_dim) {
  if (self.layout() == at::kSparseCsc && !dense_dim.has_value()) return flip_layout(self, at::kSparseCsr);
  return at::native::sparse_compressed_to_sparse_csr(self, dense_dim);
}

at::Tensor sparse_csr__to_sparse_csc(const at::Tensor& self, std::optional<int64_t> dense_dim) {
  if (self.layout() == at::kSparseCsr && !dense_dim.has_value()) return flip_layout(self, at::kSparseCsc);
  return at::native::sparse_compressed_to_sparse_csc(self, dense_dim);
}

at::Tensor sparse_csr__to_sparse_bsr(const at::Tensor& self, at::IntArrayRef blocksize,
                                     std::optional<int64_t> dense_dim) {
  if (self.layout() == at::kSparseCsr) return to_blocks(self, blocksize, at::kSparseBsr);
  const bool flip = self.layout() == at::kSparseBsc && self.values().sizes().slice(self.dim() - 1, 2).equals(blocksize);
  return flip ? flip_layout(self, at::kSparseBsr)
              : at::native::sparse_compressed_to_sparse_bsr(self, blocksize, dense_dim);
}

at::Tensor sparse_csr__to_sparse_bsc(const at::Tensor& self, at::IntArrayRef blocksize,
                                     std::optional<int64_t> dense_dim) {
  if (self.layout() == at::kSparseCsc) return to_blocks(self, blocksize, at::kSparseBsc);
  const bool flip = self.layout() == at::kSparseBsr && self.values().sizes().slice(self.dim() - 1, 2).equals(blocksize);
  return flip ? flip_layout(self, at::kSparseBsc)
              : at::native::sparse_compressed_to_sparse_bsc(self, blocksize, dense_dim);
}

Rows2d rows_of_csr(const at::Tensor& self) {
  if (self.layout() == at::kSparse) return rows_of_coo(self);
  const at::Tensor csr = self.layout() == at::kSparseCsr   ? self
                         : self.layout() == at::kSparseCsc ? self.to_sparse_csr()
                                                           : self.to_sparse().to_sparse_csr();
  return {csr.crow_indices(), csr.col_indices(), csr.values(), self.size(0), self.size(1)};
}

namespace {

// Gives a sparse result the contents of a COO tensor.
void assign_coo(at::Tensor& out, const at::Tensor& coo) {
  at::Tensor result = coo;
  if (out.layout() == at::kSparseCsr)
    result = coo.to_sparse_csr();
  else if (out.layout() == at::kSparseCsc)
    result = coo.to_sparse_csc();
  else if (out.layout() == at::kSparseBsr)
    result = coo.to_sparse_bsr(at::sparse_csr::getBlockSize(out));
  else if (out.layout() == at::kSparseBsc)
    result = coo.to_sparse_bsc(at::sparse_csr::getBlockSize(out));
  else
    TORCH_CHECK(out.layout() == at::kSparse, "a result of layout ", out.layout(), " is not supported here");
  out.resize_as_sparse_(result);
  out.copy_(result);
}

at::Tensor as_coo(const at::Tensor& t) { return t.layout() == at::kSparse ? t : t.to_sparse(); }

bool is_strided(const at::Tensor& t) { return t.layout() == at::kStrided; }

// out = self + alpha * other, line by line. False where that does not apply, or the numbers of a line do not rise.
bool add_lines(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, const at::Tensor& out) {
  const at::ScalarType type = out.scalar_type();
  for (const at::Tensor& t : {self, other, out})
    if (t.layout() != self.layout() || (t.layout() != at::kSparseCsr && t.layout() != at::kSparseCsc)) return false;
  if (self.dim() != 2 || self.dense_dim() != 0 || at::promoteTypes(self.scalar_type(), other.scalar_type()) != type ||
      !ops::has_merge(to_dtype(type)))
    return false;
  const at::Tensor a_crow = pointers_of(self).contiguous(), a_col = numbers_of(self).contiguous(),
                   b_crow = pointers_of(other).to(a_crow.scalar_type()).contiguous(),
                   b_col = numbers_of(other).to(a_crow.scalar_type()).contiguous(),
                   a = self.values().to(type).resolve_conj().contiguous();
  at::Tensor b = other.values().to(type).resolve_conj().contiguous();
  if (!alpha.equal(1)) b = b.mul(alpha);
  const int64_t rows = a_crow.numel() - 1, most = a.numel() + b.numel();
  const bool is32 = a_crow.scalar_type() == at::kInt;
  if (rows == 0 || rows >= (int64_t{1} << 31) || most >= (int64_t{1} << 31)) return false;
  ops::CsrMergeProblem p{};
  p.a_crow = a_crow.const_data_ptr(), p.a_col = a_col.const_data_ptr(), p.a_values = a.const_data_ptr();
  p.b_crow = b_crow.const_data_ptr(), p.b_col = b_col.const_data_ptr(), p.b_values = b.const_data_ptr();
  p.a_nnz = a.numel(), p.b_nnz = b.numel();
  p.rows = static_cast<uint32_t>(rows), p.is32 = is32;
  runtime::Queue& queue = runtime::current_queue();
  const ops::ItemChunks chunks = ops::plan_item_chunks(queue, rows, most);
  const at::Tensor counts = new_empty({chunks.items + 1}, at::kLong);
  p.counts = counts.mutable_data_ptr<int64_t>();
  ops::count_merged(queue, chunks, p);
  const int64_t total = scan_counts(counts);
  if (total < 0) return false;
  const at::Tensor crow = new_empty({rows + 1}, a_crow.scalar_type()), col = new_empty({total}, a_crow.scalar_type()),
                   values = new_empty({total}, type);
  p.crow = crow.mutable_data_ptr(), p.col = col.mutable_data_ptr(), p.out = values.mutable_data_ptr();
  ops::fill_merged(queue, to_dtype(type), chunks, p);
  const at::ScalarType index = pointers_of(out).scalar_type();
  at::sparse_csr::get_sparse_csr_impl(out)->set_member_tensors(crow.to(index), col.to(index), values, self.sizes());
  return true;
}

}  // namespace

at::Tensor& sparse_csr_add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha,
                               at::Tensor& out) {
  const bool dense = is_strided(self) || is_strided(other);
  // A compressed result of a strided operand would come back here: its layout alone chooses this function.
  TORCH_CHECK(dense ? is_strided(out) : out.layout() == self.layout(), "torch.add: expected `out` of layout ",
              dense ? at::kStrided : self.layout(), " for tensor `self` of layout ", self.layout(),
              " and tensor `other` of layout ", other.layout(), ", but got ", out.layout());
  if (is_strided(self)) return at::add_out(out, self, as_coo(other), alpha);
  if (is_strided(other)) return at::add_out(out, other, as_coo(self), alpha);  // alpha is of the sparse one, as torch's
  TORCH_CHECK(self.sizes().equals(other.sizes()),
              "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape ",
              self.sizes(), " and tensor `other` with shape ", other.sizes());
  if (!add_lines(self, other, alpha, out)) assign_coo(out, at::add(as_coo(self), as_coo(other), alpha).coalesce());
  return out;
}

at::Tensor& sparse_csr_addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(mat1.dim() == 2, "mat1 must be a matrix, got ", mat1.dim(), "-D tensor");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix, got ", mat2.dim(), "-D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  const std::vector<int64_t> sizes{mat1.size(0), mat2.size(1)};
  at::Tensor addend = self;
  if (!out.is_same(self) && is_strided(self)) addend = *at::expand_size(self, sizes, "addmm");
  TORCH_CHECK(addend.dim() == 2 && addend.sizes().equals(sizes), "The input tensor must be a matrix with size ",
              sizes[0], "x", sizes[1], ", but got a ", addend.dim(), "-D tensor with size ", addend.sizes());
  const bool no_self = beta.toComplexDouble() == 0.;
  if (!is_strided(out)) {
    TORCH_CHECK(!is_strided(mat1) && !is_strided(mat2) && !is_strided(self),
                "addmm: a sparse result needs sparse operands, but got ", self.layout(), ", ", mat1.layout(), " and ",
                mat2.layout());
    if (out.layout() == at::kSparseCsr && (no_self || self._nnz() == 0)) {
      if (const std::optional<Rows2d> rows = spgemm_compressed(rows_of_csr(mat1), rows_of_csr(mat2))) {
        const at::ScalarType index = out.crow_indices().scalar_type();
        at::Tensor values = rows->values;
        if (!alpha.equal(1)) values = values.mul(alpha);
        at::sparse_csr::get_sparse_csr_impl(out)->set_member_tensors(rows->pointers.to(index), rows->columns.to(index),
                                                                     values.to(out.scalar_type()), sizes);
        return out;
      }
    }
    at::Tensor product = spgemm(rows_of_csr(mat1), rows_of_csr(mat2));
    if (!alpha.equal(1)) product = product.mul(alpha);
    if (!no_self && self._nnz() != 0) product = at::add(as_coo(self).mul(beta), product).coalesce();
    assign_coo(out, product);
    return out;
  }
  if (!out.is_same(self)) resize_out(out, sizes, {}, mat1.options().layout(at::kStrided));
  if (out.numel() == 0) return out;
  if ((!is_strided(mat1) && mat1._nnz() == 0) || (!is_strided(mat2) && mat2._nnz() == 0))
    return no_self ? out.zero_() : at::mul_out(out, addend, at::scalar_tensor(beta, out.options().device(at::kCPU)));
  if (is_strided(mat2)) {
    spmm(rows_of_csr(mat1), mat2, addend, beta, alpha, out);
  } else if (is_strided(mat1)) {  // the transposed product
    spmm(rows_of_csr(mat2.transpose(0, 1)), mat1.t(), addend.t(), beta, alpha, out.t());
  } else {
    const at::Tensor product = spgemm(rows_of_csr(mat1), rows_of_csr(mat2));
    const at::Tensor scaled = no_self ? at::zeros(sizes, out.options()) : addend.mul(beta);
    at::add_out(out, scaled, product, alpha);
  }
  return out;
}

at::Tensor& sparse_csr_baddbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                                   const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  for (const at::Tensor& t : {self, batch2, out})
    TORCH_CHECK(is_strided(t), "baddbmm: expected strided tensors beside a sparse compressed batch1, but got ",
                t.layout());
  TORCH_CHECK(!is_strided(batch1) && batch1.dim() == 3 && batch2.dim() == 3,
              "baddbmm: expected a batch of compressed matrices and 3-D batch2, but got ", batch1.layout(), " of ",
              batch1.dim(), "-D and ", batch2.dim(), "-D");
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1),
              "Expected size for first two dimensions of batch2 tensor to be: [", batch1.size(0), ", ", batch1.size(2),
              "] but got: [", batch2.size(0), ", ", batch2.size(1), "].");
  const std::vector<int64_t> sizes{batch1.size(0), batch1.size(1), batch2.size(2)};
  const at::Tensor addend = *at::expand_size(self, sizes, "baddbmm");
  if (!out.is_same(self)) resize_out(out, sizes, {}, batch2.options());
  for (int64_t i = 0; i < sizes[0]; ++i) {
    at::Tensor to = out.select(0, i);
    at::addmm_out(to, addend.select(0, i), batch1.select(0, i), batch2.select(0, i), beta, alpha);
  }
  return out;
}

at::Tensor& sparse_csr_bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  return sparse_csr_baddbmm_out(at::zeros({}, mat2.options()), self, mat2, 0, 1, out);
}

at::Tensor sparse_csr__spsolve(const at::Tensor& A, const at::Tensor& B, bool left) {
  TORCH_CHECK(left, "_spsolve: the option left=False is not supported for sparse matrices");
  return at::linalg_solve(A.to_dense(), B, left);
}

at::Tensor& sparse_csr_addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec,
                                 const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(mat.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got ", self.dim(), ", ", mat.dim(),
              ", ", vec.dim());
  TORCH_CHECK(mat.size(1) == vec.size(0), "size mismatch, got input (", self.numel(), "), mat (", mat.size(0), "x",
              mat.size(1), "), vec (", vec.size(0), ")");
  const auto addend = at::expand_size(self, {mat.size(0)}, "addmv");
  if (!out.is_same(self)) resize_out(out, {mat.size(0)}, {}, vec.options());
  if (out.numel() == 0) return out;
  spmm(rows_of_csr(mat), vec.unsqueeze(1), addend->unsqueeze(1), beta, alpha, out.unsqueeze(1));
  return out;
}

// --- sampled at the pattern of a CSR tensor, of any number of batches ---

namespace {

// out = alpha * (a @ b) at the elements of `pattern`, plus beta times its values, which it may be.
void sampled_product(const at::Tensor& pattern, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                     const at::Scalar& alpha, const at::Tensor& out_) {
  const at::Tensor values = pattern.values().contiguous();
  const at::Tensor out = out_.is_contiguous() ? out_ : new_empty(values.sizes(), values.scalar_type());
  if (out.numel() == 0) return;
  const int64_t inner = mat1.size(-1), rows = pattern.size(-2), columns = pattern.size(-1);
  const at::Tensor a = mat1.resolve_conj().contiguous(), b = mat2.transpose(-2, -1).resolve_conj().contiguous();
  const int64_t dims = pattern.dim() - 2;
  const bool by_rows = dims == 0 && ops::plan_sampled_rows_serve(dtype_of(values), inner, current_policy());
  at::Tensor row, column = pattern.col_indices().contiguous();
  if (by_rows) {
    row = pattern.crow_indices().contiguous();
  } else if (dims == 0) {
    row = row_numbers(pattern.crow_indices(), column, column.scalar_type());
  } else {  // batches of rows one after the other
    const at::Tensor indices = at::_convert_indices_from_csr_to_coo(pattern.crow_indices(), column);
    const at::Tensor batch = coo_keys(indices.narrow(0, 0, dims).to(at::kLong), pattern.sizes().slice(0, dims));
    row = batch.mul(rows).add_(indices.select(0, dims));
    column = batch.mul(columns).add_(indices.select(0, dims + 1));
  }
  ops::SampledProblem p{};
  p.row = row.const_data_ptr();
  p.col = column.const_data_ptr();
  p.a = a.const_data_ptr();
  p.b = b.const_data_ptr();
  p.values = beta.toComplexDouble() == 0. ? nullptr : values.const_data_ptr();
  p.out = out.mutable_data_ptr();
  put_scalar(p.alpha, alpha, values.scalar_type());
  put_scalar(p.beta, beta, values.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(out.numel() < (int64_t{1} << 31), "more than 2^31 - 1 sampled products on XPU");
  p.nnz = static_cast<uint32_t>(out.numel());
  const int64_t batches = pattern.numel() / (rows * columns);
  p.rows = static_cast<uint32_t>(batches * rows);
  p.columns = static_cast<uint32_t>(batches * columns);
  p.inner = static_cast<uint32_t>(inner);
  p.is32 = row.scalar_type() == at::kInt;
  ops::sampled_product(runtime::current_queue(), dtype_of(values), by_rows, p);
  if (!out.is_same(out_)) out_.copy_(out);
}

// `self` once for each batch of the products, where it has fewer.
at::Tensor over_batches(const at::Tensor& self, const at::Tensor& mat1) {
  if (mat1.dim() <= self.dim()) return self;
  const auto expanded = [&](const at::Tensor& t) {
    std::vector<int64_t> sizes(mat1.sizes().begin(), mat1.sizes().end() - 2);
    sizes.push_back(t.size(-1));
    return t.expand(sizes).contiguous();
  };
  std::vector<int64_t> sizes(mat1.sizes().begin(), mat1.sizes().end() - 2);
  sizes.insert(sizes.end(), {self.size(-2), self.size(-1)});
  return at::_sparse_compressed_tensor_unsafe(expanded(self.crow_indices()), expanded(self.col_indices()),
                                              expanded(self.values()), sizes, self.options());
}

}  // namespace

at::Tensor& sparse_csr_sparse_sampled_addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                                const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  at::native::sparse::sparse_sampled_addmm_check_inputs(self, mat1, mat2, beta, alpha, out);
  if (!out.is_same(self)) {
    const at::Tensor pattern = over_batches(self, mat1);
    out.resize_as_sparse_(pattern);
    out.copy_(pattern);
  }
  if (mat1.numel() == 0 || mat2.numel() == 0) {
    out.mul_(beta);
    return out;
  }
  sampled_product(out, mat1, mat2, beta, alpha, out.values());
  return out;
}

at::Tensor sparse_csr_sparse_sampled_addmm(const at::Tensor& pattern, const at::Tensor& mat1, const at::Tensor& mat2,
                                           const at::Scalar& beta, const at::Scalar& alpha) {
  at::native::sparse::sparse_sampled_addmm_check_inputs(pattern, mat1, mat2, beta, alpha, pattern);
  const at::Tensor self = over_batches(pattern, mat1);
  const at::Tensor values = new_empty(self.values().sizes(), self.scalar_type());
  if (mat1.numel() == 0 || mat2.numel() == 0)
    values.copy_(self.values()).mul_(beta);
  else
    sampled_product(self, mat1, mat2, beta, alpha, values);
  // The CPU's result has indices of 64 bits whatever self has.
  return at::_sparse_compressed_tensor_unsafe(self.crow_indices().to(at::kLong, false, true),
                                              self.col_indices().to(at::kLong, false, true), values, self.sizes(),
                                              self.options());
}

// --- products with another reduction of the rows ---

namespace {

SpmmReduce reduction(c10::string_view name) {
  if (name == "sum") return SpmmReduce::sum;
  if (name == "mean") return SpmmReduce::mean;
  if (name == "amax") return SpmmReduce::amax;
  TORCH_CHECK(name == "amin", "reduce argument must be either sum, mean, amax or amin, got ", name);
  return SpmmReduce::amin;
}

bool keeps_places(SpmmReduce op) { return op == SpmmReduce::amax || op == SpmmReduce::amin; }

}  // namespace

std::tuple<at::Tensor, at::Tensor> sparse_csr__sparse_mm_reduce_impl(const at::Tensor& self, const at::Tensor& other,
                                                                     c10::string_view reduce) {
  const SpmmReduce op = reduction(reduce);
  TORCH_CHECK(self.layout() == at::kSparseCsr && is_strided(other),
              "sparse_mm_reduce: expected self to be CSR and other dense, but got ", self.layout(), " and ",
              other.layout());
  TORCH_CHECK(self.dense_dim() == 0, "sparse_mm_reduce: expected non-hybrid self tensor.");
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2, "sparse_mm_reduce: expected matrices, got ", self.dim(), "-D and ",
              other.dim(), "-D tensors.");
  TORCH_CHECK(self.size(1) == other.size(0), "sparse_mm_reduce: shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  const at::Tensor crow = self.crow_indices().contiguous(), col = self.col_indices().contiguous(),
                   values = self.values().contiguous(), dense = other.contiguous();
  TORCH_CHECK(values.scalar_type() == dense.scalar_type(),
              "sparse_mm_reduce: expected self and other of one type, got ", values.scalar_type(), " and ",
              dense.scalar_type());
  const std::vector<int64_t> sizes{self.size(0), other.size(1)};
  at::Tensor out = new_empty(sizes, dense.scalar_type());
  at::Tensor arg = new_empty(keeps_places(op) ? at::IntArrayRef(sizes) : at::IntArrayRef{0}, col.scalar_type());
  if (out.numel() == 0) return {out, arg};
  runtime::Queue& queue = runtime::current_queue();
  ops::SpmmReduceProblem p{};
  p.crow = crow.const_data_ptr();
  p.col = col.const_data_ptr();
  p.values = values.const_data_ptr();
  p.dense = dense.const_data_ptr();
  p.out = out.mutable_data_ptr();
  p.arg = keeps_places(op) ? arg.mutable_data_ptr() : nullptr;
  p.dense_row = dense.size(1);
  p.nnz = values.numel();
  p.error = runtime::error_flag(queue.device);
  p.op = op;
  p.rows = static_cast<uint32_t>(sizes[0]);
  p.inner = static_cast<uint32_t>(self.size(1));
  p.columns = static_cast<uint32_t>(sizes[1]);
  p.is32 = crow.scalar_type() == at::kInt;
  ops::spmm_reduce(queue, dtype_of(values), keeps_places(op), p);
  return {out, arg};
}

std::tuple<at::Tensor, at::Tensor> sparse_csr__sparse_mm_reduce_impl_backward(
    const at::Tensor& self, const at::Tensor& grad_out, const at::Tensor& weight, c10::string_view reduce,
    const at::Tensor& arg_out, std::array<bool, 2> output_mask) {
  const SpmmReduce op = reduction(reduce);
  const at::Tensor values = self.values(), crow = self.crow_indices(), col = self.col_indices();
  at::Tensor grad = grad_out, grad_values, grad_other;
  if (keeps_places(op)) {
    // Each element of the result goes back to the one it came from; an empty row has none.
    const at::Tensor from = arg_out.to(at::kLong), none = from.ge(values.numel());
    const at::Tensor place = from.masked_fill(none, 0).view({-1}), column = col.to(at::kLong).index_select(0, place);
    const at::Tensor width = at::arange(grad.size(1), place.options()).expand(grad.sizes()).reshape({-1});
    const at::Tensor flow = grad.masked_fill(none, 0).reshape({-1});
    if (output_mask[0])
      grad_values = at::zeros_like(values).index_add_(0, place, flow.mul(weight.index({column, width})));
    if (output_mask[1])
      grad_other = at::zeros(weight.sizes(), weight.options())
                       .index_put_({column, width}, flow.mul(values.index_select(0, place)), true);
  } else {
    if (op == SpmmReduce::mean)
      grad = grad.div(crow.narrow(0, 1, self.size(0))
                          .sub(crow.narrow(0, 0, self.size(0)))
                          .clamp_min_(1)
                          .unsqueeze(1)
                          .to(grad.scalar_type()));
    if (output_mask[0]) {
      grad_values = new_empty(values.sizes(), values.scalar_type());
      sampled_product(self, grad, weight.t(), 0, 1, grad_values);
    }
    if (output_mask[1]) {
      grad_other = new_empty(weight.sizes(), weight.scalar_type());
      spmm(rows_of_csr(self.transpose(0, 1)), grad, {}, 0, 1, grad_other);
    }
  }
  at::Tensor grad_self;
  if (grad_values.defined())
    grad_self = at::_sparse_compressed_tensor_unsafe(crow.clone(), col.clone(), grad_values, self.sizes(),
                                                     values.options().layout(at::kSparseCsr));
  return {grad_self, grad_other};
}

}  // namespace xpu_ops::aten
