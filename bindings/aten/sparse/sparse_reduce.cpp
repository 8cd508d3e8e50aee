// Gradients of sums over sparse dims, and softmax over the elements that share their other indices.
#include <numeric>

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_unique.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_norm.h>
#include <ATen/ops/zeros.h>

#include "bindings/aten/sparse/sparse.hpp"
#include "kernels/ops/sparse.hpp"
#include "kernels/ops/sparse_csr.hpp"

namespace xpu_ops::aten {

at::Tensor sparse_linalg_vector_norm(const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dim,
                                     bool keepdim, std::optional<at::ScalarType> dtype) {
  return at::native_norm(self, ord, dim.value_or(at::IntArrayRef{}), keepdim, dtype);
}

at::Tensor sparse__sparse_sum_backward(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef dim) {
  const at::Tensor input = self.coalesce(), indices = input._indices(), values = input._values();
  const int64_t sparse_dims = input.sparse_dim();
  const auto summed = at::dim_list_to_bitset(dim, input.dim());
  std::vector<int64_t> kept, kept_sizes, dense_summed;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (d >= sparse_dims && summed[d]) dense_summed.push_back(d + 1 - sparse_dims);
    if (d >= sparse_dims || summed[d]) continue;
    kept.push_back(d);
    kept_sizes.push_back(input.size(d));
  }
  const auto with_dense_dims = [&](at::Tensor g) {
    for (int64_t d : dense_summed) g = g.unsqueeze(d);
    return g;
  };
  if (kept.empty()) {
    TORCH_CHECK(!grad.is_sparse(),
                "_sparse_sum_backward: expected grad Tensor to be dense since all sparse dims are summed");
    return make_coo(indices.clone(), with_dense_dims(grad.unsqueeze(0)).expand(values.sizes()).contiguous(),
                    input.sizes(), true);
  }
  TORCH_CHECK(grad.is_sparse(), "_sparse_sum_backward: expected grad Tensor to be sparse, but got dense");
  const at::Tensor from = grad.coalesce();
  at::Tensor result;
  if (from._nnz() == 0) {
    result = at::zeros(values.sizes(), from._values().options());
  } else {
    const at::Tensor where = at::empty_like(indices.narrow(0, 0, static_cast<int64_t>(kept.size())));
    for (size_t i = 0; i < kept.size(); ++i) where.select(0, static_cast<int64_t>(i)).copy_(indices.select(0, kept[i]));
    const Found found = find_keys(coo_keys(from._indices(), kept_sizes), coo_keys(where, kept_sizes));
    at::Tensor hit = found.hit;
    result = with_dense_dims(from._values().index_select(0, found.at)).expand(values.sizes()).contiguous();
    while (hit.dim() < result.dim()) hit = hit.unsqueeze(-1);
    result.masked_fill_(hit.logical_not(), 0);
  }
  return make_coo(indices.clone(), result, input.sizes(), true);
}

// --- along the dims of a CSR matrix ---

namespace {

at::Tensor reduced(const at::Tensor& values, const at::Tensor& where, int64_t count, bool product) {
  at::Tensor out = at::full({count}, product ? 1 : 0, values.options());
  return product ? out.index_reduce_(0, where, values, "prod") : out.index_add_(0, where, values);
}

// One value for each row that has elements.
at::Tensor each_row(const at::Tensor& self, const at::Tensor& values_, at::IntArrayRef sizes, bool product) {
  const at::Tensor crow = self.crow_indices().contiguous(), values = values_.resolve_conj().contiguous();
  TORCH_CHECK(values.dim() == 1, "reduction operations on CSR tensors need values that are scalars");
  TORCH_CHECK_NOT_IMPLEMENTED(self.size(0) < INT32_MAX && values.numel() < INT32_MAX,
                              "sparse matrices of more than 2^31 - 1 rows or elements on XPU");
  ops::CsrReduceProblem p{};
  p.rows = static_cast<uint32_t>(self.size(0)), p.nnz = values.numel(), p.product = product;
  p.crow = crow.const_data_ptr(), p.values = values.const_data_ptr();
  p.is32 = crow.scalar_type() == at::kInt;
  runtime::Queue& queue = runtime::current_queue();
  const ops::ItemChunks chunks = ops::plan_item_chunks(queue, p.rows, p.nnz + p.rows);
  // Room for as many as there may be, so that nothing waits for the count.
  const int64_t most = p.rows;
  const at::Tensor counts = new_empty({chunks.items}, at::kLong),
                   pointers = new_empty(crow.sizes(), crow.scalar_type());
  at::Tensor col = new_empty({most}, crow.scalar_type()), out = new_empty({most}, values.scalar_type());
  p.counts = counts.mutable_data_ptr<int64_t>();
  p.pointers = pointers.mutable_data_ptr(), p.col = col.mutable_data_ptr(), p.out = out.mutable_data_ptr();
  ops::reduce_csr_rows(queue, dtype_of(values), chunks, p);
  const at::Tensor found = counts.cpu();
  const int64_t* each = found.const_data_ptr<int64_t>();
  const int64_t rows = std::accumulate(each, each + chunks.items, int64_t{0});
  if (rows < most) col = col.narrow(0, 0, rows), out = out.narrow(0, 0, rows);
  if (rows < most / 2) col = col.clone(), out = out.clone();  // much of the room would stay unused
  return at::_sparse_compressed_tensor_unsafe(pointers, col, out, sizes, out.options().layout(at::kSparseCsr));
}

at::Tensor csr_reduce(const at::Tensor& self, at::IntArrayRef dims, bool keepdim, std::optional<at::ScalarType> dtype,
                      bool product) {
  TORCH_CHECK(self.layout() == at::kSparseCsr && self.dim() == 2, "expected a CSR matrix, but got ", self.layout());
  TORCH_CHECK(keepdim, "reduction operations on CSR tensors with keepdim=False is unsupported");
  const auto along = at::dim_list_to_bitset(dims, 2);
  const at::ScalarType given = self.scalar_type();
  const at::Tensor values = self.values().to(dtype.value_or(at::isIntegralType(given, true) ? at::kLong : given));
  const at::Tensor crow = self.crow_indices(), col = self.col_indices();
  const int64_t nnz = values.numel();
  std::vector<int64_t> sizes{along[0] ? 1 : self.size(0), along[1] ? 1 : self.size(1)};
  const auto result = [&](const at::Tensor& pointers, const at::Tensor& numbers, const at::Tensor& v) {
    return at::_sparse_compressed_tensor_unsafe(pointers.to(crow.scalar_type()), numbers.to(col.scalar_type()), v,
                                                sizes, v.options().layout(at::kSparseCsr));
  };
  if (nnz == 0) return result(at::zeros({sizes[0] + 1}, crow.options()), col, values);
  const auto ends = [&] { return at::arange(2, crow.options()); };
  if (along[0] && along[1])
    return result(ends(), at::zeros({1}, col.options()),
                  (product ? values.prod() : values.sum()).reshape({1}).to(values.dtype()));
  if (along[0]) {
    const auto [numbers, which] = at::_unique(col, true, true);
    return result(ends().mul(numbers.numel()), numbers, reduced(values, which, numbers.numel(), product));
  }
  if (!along[1]) return result(crow, col, values);
  return each_row(self, values, sizes, product);
}

}  // namespace

at::Tensor sparse_csr__sparse_csr_sum_dim_dtype(const at::Tensor& self, at::IntArrayRef dim, bool keepdim,
                                                std::optional<at::ScalarType> dtype) {
  return csr_reduce(self, dim, keepdim, dtype, false);
}

at::Tensor sparse_csr__sparse_csr_prod_dim_dtype(const at::Tensor& self, at::IntArrayRef dim, bool keepdim,
                                                 std::optional<at::ScalarType> dtype) {
  return csr_reduce(self, dim, keepdim, dtype, true);
}

// --- softmax ---

namespace {

// The number of the line along `dim` that each element lies on, and how many lines there are.
std::pair<at::Tensor, int64_t> lines(const at::Tensor& t, int64_t dim) {
  std::vector<int64_t> sizes = sparse_sizes(t).vec();
  at::Tensor indices = t._indices().clone();
  indices.select(0, dim).zero_();
  sizes[dim] = 1;
  const auto [keys, line] = at::_unique(coo_keys(indices, sizes), true, true);
  return {line, keys.numel()};
}

at::Tensor line_sum(const at::Tensor& values, const at::Tensor& line, int64_t count) {
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = count;
  return at::zeros(sizes, values.options()).index_add_(0, line, values).index_select(0, line);
}

at::Tensor coo_softmax(const at::Tensor& self, int64_t dim_, bool half_to_float, bool log) {
  TORCH_CHECK(!half_to_float, "softmax with half to float conversion is not supported on XPU");
  const int64_t dim = at::maybe_wrap_dim(dim_, self.dim());
  const at::Tensor input = self.coalesce(), values = input._values();
  if (input.numel() == 0) return at::empty_like(input);
  if (input._nnz() == 0) return input.clone();
  TORCH_CHECK_NOT_IMPLEMENTED(values.is_floating_point(), "\"softmax\" not implemented for '", values.scalar_type(),
                              "'");
  if (dim >= input.sparse_dim()) {
    const int64_t d = dim - input.sparse_dim() + 1;
    return make_coo(input._indices().clone(), log ? at::_log_softmax(values, d, false) : at::_softmax(values, d, false),
                    input.sizes(), true);
  }
  const auto [line, count] = lines(input, dim);
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = count;
  const at::Tensor top = at::full(sizes, -std::numeric_limits<double>::infinity(), values.options())
                             .index_reduce_(0, line, values, "amax");
  // A line of -inf alone has no softmax: NaN, as -inf minus itself.
  const at::Tensor shifted = values.sub(top.index_select(0, line)), exp = shifted.exp();
  const at::Tensor sum = line_sum(exp, line, count);
  return make_coo(input._indices().clone(), log ? shifted.sub(sum.log()) : exp.div(sum), input.sizes(), true);
}

at::Tensor coo_softmax_backward(const at::Tensor& grad_, const at::Tensor& output_, int64_t dim_, bool log) {
  const int64_t dim = at::maybe_wrap_dim(dim_, output_.dim());
  const at::Tensor output = output_.coalesce(), values = output._values();
  if (output._nnz() == 0 || values.numel() == 0) return output.clone();
  const at::Tensor grad = grad_.sparse_mask(output)._values();
  at::Tensor result;
  if (dim >= output.sparse_dim()) {
    const int64_t d = dim - output.sparse_dim() + 1;
    result = log ? at::_log_softmax_backward_data(grad, values, d, values.scalar_type())
                 : at::_softmax_backward_data(grad, values, d, values.scalar_type());
  } else {
    const auto [line, count] = lines(output, dim);
    result = log ? grad.sub(values.exp().mul(line_sum(grad, line, count)))
                 : values.mul(grad.sub(line_sum(values.mul(grad), line, count)));
  }
  return make_coo(output._indices().clone(), result, output.sizes(), true);
}

}  // namespace

at::Tensor sparse__sparse_softmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return coo_softmax(self, dim, half_to_float, false);
}

at::Tensor sparse__sparse_log_softmax(const at::Tensor& self, int64_t dim, bool half_to_float) {
  return coo_softmax(self, dim, half_to_float, true);
}

at::Tensor sparse__sparse_softmax_backward_data(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim,
                                                const at::Tensor&) {
  return coo_softmax_backward(grad_output, output, dim, false);
}

at::Tensor sparse__sparse_log_softmax_backward_data(const at::Tensor& grad_output, const at::Tensor& output,
                                                    int64_t dim, const at::Tensor&) {
  return coo_softmax_backward(grad_output, output, dim, true);
}

}  // namespace xpu_ops::aten
