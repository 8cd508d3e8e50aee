// COO tensors: coalescing by sorted keys, sums and products with dense and sparse tensors, masks, selection.
#include "bindings/aten/sparse/sparse.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "kernels/ops/sparse.hpp"
#include "kernels/runtime/device/device_error.hpp"

// Exported by torch, and declared in no header.
namespace at::native {
TORCH_API at::Tensor& _mul_dense_sparse_out(const at::Tensor& d, const at::Tensor& s, at::Tensor& res);
TORCH_API at::Tensor& _mul_sparse_sparse_zero_dim_out(const at::Tensor& zero_dim, const at::Tensor& other,
                                                      at::Tensor& res);
}  // namespace at::native

namespace xpu_ops::aten {
namespace {

uint32_t element_count(int64_t n) {
  TORCH_CHECK_NOT_IMPLEMENTED(n < (int64_t{1} << 31), "sparse tensors of more than 2^31 - 1 elements on XPU");
  return static_cast<uint32_t>(n);
}

// Keys of all dims, dim by dim; the last one makes room for the element's number.
void launch_keys(const at::Tensor& indices, at::IntArrayRef sizes, uint64_t* keys, uint32_t pack) {
  ops::make_keys(runtime::current_queue(), {.index = indices.const_data_ptr<int64_t>(),
                                            .dim_stride = indices.stride(0),
                                            .stride = indices.stride(1),
                                            .sizes = {sizes.data(), sizes.size()},
                                            .keys = keys,
                                            .n = element_count(indices.size(1)),
                                            .pack = pack});
}

}  // namespace

int64_t scan_counts(const at::Tensor& counts) {
  const int64_t chunks = counts.numel() - 1;
  ops::scan_counts(runtime::current_queue(), counts.mutable_data_ptr<int64_t>(), static_cast<uint32_t>(chunks));
  return counts.select(0, chunks).item<int64_t>();
}

namespace {

uint64_t* key_ptr(const at::Tensor& t) { return reinterpret_cast<uint64_t*>(t.mutable_data_ptr<int64_t>()); }

Sorted device_view(const SortedKeys& s) {
  return {reinterpret_cast<const uint64_t*>(s.entries.const_data_ptr<int64_t>()),
          s.order.defined() ? s.order.const_data_ptr<int64_t>() : nullptr, s.bits};
}

// The first element of every run of equal keys (and the end), and the keys of the runs. Reads one count back.
std::pair<at::Tensor, at::Tensor> key_runs(const SortedKeys& sorted) {
  runtime::Queue& queue = runtime::current_queue();
  ops::KeyRunProblem p{};
  p.sorted = device_view(sorted);
  p.n = element_count(sorted.entries.numel());
  const ops::ItemChunks chunks = ops::plan_item_chunks(queue, p.n, p.n);
  const at::Tensor counts = new_empty({chunks.items + 1}, at::kLong);
  p.counts = counts.mutable_data_ptr<int64_t>();
  ops::count_runs(queue, chunks, p);
  const int64_t runs = scan_counts(counts);
  at::Tensor starts = new_empty({runs + 1}, at::kLong), keys = new_empty({runs}, at::kLong);
  p.starts = starts.mutable_data_ptr<int64_t>();
  p.keys = key_ptr(keys);
  ops::emit_runs(queue, chunks, p);
  return {starts, keys};
}

at::Tensor sum_runs(const SortedKeys& sorted, const at::Tensor& starts, const at::Tensor& values_) {
  const at::Tensor values = values_.resolve_conj().contiguous();
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = starts.numel() - 1;
  at::Tensor out = new_empty(sizes, values.scalar_type());
  if (out.numel() == 0) return out;
  ops::RunSumProblem p{};
  p.sorted = device_view(sorted);
  p.starts = starts.const_data_ptr<int64_t>();
  p.values = values.const_data_ptr();
  p.out = out.mutable_data_ptr();
  p.runs = static_cast<uint32_t>(sizes[0]);
  p.columns = element_count(values.numel() / values.size(0));
  ops::sum_runs(runtime::current_queue(), dtype_of(values), p);
  return out;
}

}  // namespace

at::Tensor SortedKeys::places() const {
  return order.defined() ? order : entries.bitwise_and(at::Scalar((int64_t{1} << bits) - 1));
}

at::Tensor coo_keys(const at::Tensor& indices, at::IntArrayRef sizes) {
  if (sizes.empty()) return at::zeros({indices.size(1)}, indices.options());
  at::Tensor keys = new_empty({indices.size(1)}, at::kLong);
  launch_keys(indices, sizes, key_ptr(keys), 0);
  return keys;
}

SortedKeys sort_keys(const at::Tensor& indices, at::IntArrayRef sizes) {
  const int64_t n = indices.size(1);
  unsigned __int128 range = 1;
  for (int64_t size : sizes)
    range = std::min(range * static_cast<uint64_t>(size), static_cast<unsigned __int128>(1) << 64);
  const uint32_t bits = ops::bits_of(range), room = ops::bits_of(n);
  SortedKeys result;
  if (sizes.empty() || bits + room > 64) {
    std::tie(result.entries, result.order) = coo_keys(indices, sizes).sort(true, 0, false);
    return result;
  }
  result.bits = room;
  const at::Tensor from = new_empty({n}, at::kLong), to = new_empty({n}, at::kLong);
  launch_keys(indices, sizes, key_ptr(from), room);
  const uint64_t* sorted =
      ops::sort_words(runtime::current_queue(), key_ptr(from), key_ptr(to), element_count(n), bits, room);
  result.entries = sorted == key_ptr(from) ? from : to;
  return result;
}

Found find_keys(const at::Tensor& sorted, const at::Tensor& keys) {
  const Found found{new_empty({keys.numel()}, at::kLong), new_empty({keys.numel()}, at::kBool)};
  ops::KeyFindProblem p{};
  p.table = key_ptr(sorted);
  p.keys = key_ptr(keys);
  p.at = found.at.mutable_data_ptr<int64_t>();
  p.hit = found.hit.mutable_data_ptr<bool>();
  p.size = element_count(sorted.numel());
  p.n = element_count(keys.numel());
  ops::find_keys(runtime::current_queue(), p);
  return found;
}

Repeats repeat_by(const at::Tensor& counts) {
  const at::Tensor ends = counts.cumsum(0);
  const int64_t total = ends.numel() == 0 ? 0 : ends.select(0, ends.numel() - 1).item<int64_t>();
  const at::Tensor place = at::arange(total, ends.options());
  if (total == 0) return {place, place};
  const at::Tensor element = at::repeat_interleave(counts, std::optional<int64_t>(total));
  return {element, place.sub(ends.sub(counts).index_select(0, element))};
}

Ranges named_ranges(const at::Tensor& pointers, const at::Tensor& index, bool wrap) {
  ops::RangeProblem p{};
  p.pointers = pointers.const_data_ptr<int64_t>();
  p.index = index.const_data_ptr<int64_t>();
  p.stride = index.stride(0);
  p.size = pointers.numel() - 1;
  p.wrap = wrap;
  p.n = element_count(index.numel());
  runtime::Queue& queue = runtime::current_queue();
  const ops::ItemChunks chunks = ops::plan_item_chunks(queue, p.n, p.n);
  const at::Tensor counts = new_empty({chunks.items + 1}, at::kLong);
  p.counts = counts.mutable_data_ptr<int64_t>();
  ops::count_ranges(queue, chunks, p);
  const int64_t total = scan_counts(counts);
  if (total < 0) return {};
  Ranges r{new_empty({total}, at::kLong), new_empty({total}, at::kLong)};
  p.element = r.element.mutable_data_ptr<int64_t>();
  p.owner = r.owner.mutable_data_ptr<int64_t>();
  ops::fill_ranges(queue, chunks, p);
  return r;
}

at::Tensor make_coo(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes, bool coalesced) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(indices.size(0), values.dim() - 1, sizes, indices, values,
                                                      values.options().layout(at::kSparse),
                                                      coalesced || indices.size(1) < 2);
}

void set_coo(const at::Tensor& r, const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes,
             bool coalesced) {
  TORCH_CHECK(r.is_sparse(), "Expected result to be sparse (COO), but got ", r.layout());
  at::SparseTensorImpl* impl = get_sparse_impl(r);
  impl->raw_resize_(indices.size(0), values.dim() - 1, sizes);
  impl->set_indices_and_values_unsafe(indices, values.to(r.scalar_type()));
  impl->set_nnz_and_narrow(indices.size(1));
  r._coalesced_(coalesced || indices.size(1) < 2);
}

at::Tensor sparse__coalesce(const at::Tensor& self) {
  const int64_t nnz = self._nnz();
  if (nnz < 2) return self.clone()._coalesced_(true);
  const at::Tensor indices = self._indices(), values = self._values();
  if (self.sparse_dim() == 0)
    return make_coo(new_empty({0, 1}, at::kLong), values.sum(0, true, values.scalar_type()), self.sizes(), true);
  const SortedKeys sorted = sort_keys(indices, sparse_sizes(self));
  const auto [starts, keys] = key_runs(sorted);
  const at::Tensor out = new_empty({indices.size(0), keys.numel()}, at::kLong);
  const at::IntArrayRef sizes = sparse_sizes(self);
  ops::split_keys(runtime::current_queue(), key_ptr(keys), {sizes.data(), sizes.size()},
                  static_cast<uint32_t>(keys.numel()), out.mutable_data_ptr<int64_t>());
  return make_coo(out, sum_runs(sorted, starts, values), self.sizes(), true);
}

// --- sums ---

namespace {

void check_result_type(const char* name, at::ScalarType common, const at::Tensor& out) {
  TORCH_CHECK(canCast(common, out.scalar_type()), "Can't convert result type ", common, " to output ",
              out.scalar_type(), " in ", name, " operation");
}

void add_dense(const at::Tensor& dense, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(dense.sizes().equals(other.sizes()),
              "add: expected 'self' and 'other' to have same size, but self has size ", dense.sizes(),
              " while other has size ", other.sizes(),
              " (FYI: dense-sparse addition does not currently support broadcasting)");
  const at::ScalarType common = at::promoteTypes(dense.scalar_type(), other.scalar_type());
  check_result_type("add", common, out);
  if (!out.is_same(dense)) out.resize_(dense.sizes());
  if (other._nnz() == 0 || other.numel() == 0) {
    if (!out.is_same(dense)) out.copy_(dense);
    return;
  }
  const bool direct = out.scalar_type() == common && out.is_contiguous();
  at::Tensor sum = direct ? out : dense.to(common).contiguous();
  if (!direct && sum.is_alias_of(dense)) sum = sum.clone();
  if (direct && !out.is_same(dense)) out.copy_(dense);
  // Long rows are added in turn, as they come; of short ones each result takes one sum.
  const bool in_turn = other._values().numel() >= other._nnz() * 8 && common != at::kBool;
  const at::Tensor sparse = in_turn ? other : other.coalesce();
  const at::Tensor keys = coo_keys(sparse._indices(), sparse_sizes(sparse));
  const at::Tensor values = sparse._values().to(common).reshape({sparse._nnz(), -1});
  const at::Tensor rows = sum.view({-1, values.size(1)});
  if (in_turn)
    rows.index_add_(0, keys, values, alpha);
  else
    rows.index_copy_(0, keys, rows.index_select(0, keys).add_(values, alpha));
  if (!direct) out.copy_(sum);
}

}  // namespace

at::Tensor& sparse_add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  if (!self.is_sparse()) {
    add_dense(self, other, alpha, out);
    return out;
  }
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes().equals(other.sizes()), "add: expected sizes of 'self' and 'other' to match, but ",
              self.sizes(), " != ", other.sizes());
  const at::ScalarType common = at::promoteTypes(self.scalar_type(), other.scalar_type());
  check_result_type("add", common, out);
  if (other._nnz() == 0) return out.copy_(self);
  if (self._nnz() == 0) {
    const at::Tensor scaled = other._values().mul(alpha);
    set_coo(out, other._indices(), scaled, other.sizes(), other.is_coalesced());
    return out;
  }
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim() && self.dense_dim() == other.dense_dim(),
              "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
              " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  at::Tensor addend = other._values().to(common);
  if (!alpha.equal(1)) addend = addend.mul(alpha);
  at::Tensor sum = make_coo(at::cat({self._indices(), other._indices()}, 1),
                            at::cat({self._values().to(common), addend}, 0), self.sizes(), false);
  if (self.is_coalesced() && other.is_coalesced()) sum = sum.coalesce();  // as the CPU's merge of both
  set_coo(out, sum._indices(), sum._values(), self.sizes(), sum.is_coalesced());
  return out;
}

// --- products, masks ---

namespace {

// Whether dense_at takes them: elements that are numbers, of few dims.
bool has_places_in(const at::Tensor& dense, const at::Tensor& t) {
  return dense.sizes().equals(t.sizes()) && t.dense_dim() == 0 && t.sparse_dim() > 0 &&
         t.sparse_dim() <= static_cast<int64_t>(kDenseAtDims) && t._nnz() != 0 && t.numel() != 0 && !dense.is_conj() &&
         !dense.is_neg();
}

at::Tensor dense_at(const at::Tensor& dense, const at::Tensor& indices) {
  const at::Tensor out = new_empty({indices.size(1)}, dense.scalar_type());
  runtime::Queue& queue = runtime::current_queue();
  ops::DenseAtProblem p{};
  p.index = indices.const_data_ptr<int64_t>();
  p.index_stride = indices.stride(0), p.index_step = indices.stride(1);
  p.dense = dense.const_data_ptr();
  p.out = out.mutable_data_ptr();
  p.error = runtime::error_flag(queue.device);
  p.n = element_count(indices.size(1));
  p.dims = static_cast<uint32_t>(dense.dim());
  for (int64_t d = 0; d < dense.dim(); ++d) p.size[d] = dense.size(d), p.stride[d] = dense.stride(d);
  ops::dense_at(queue, dense.element_size(), p);
  return out;
}

// Dense times sparse of one size: the elements of the sparse one. Returns false if the caller must use
// torch's composition.
bool mul_places(const at::Tensor& dense, const at::Tensor& sparse, at::Tensor& out) {
  const at::ScalarType common = at::promoteTypes(dense.scalar_type(), sparse.scalar_type());
  if (!has_places_in(dense, sparse) || !out.is_sparse() || !canCast(common, out.scalar_type())) return false;
  const at::Tensor values = dense_at(dense, sparse._indices()).to(common);
  set_coo(out, sparse._indices().clone(), values.mul_(sparse._values()), sparse.sizes(), sparse.is_coalesced());
  return true;
}

}  // namespace

at::Tensor& sparse_mul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  if (!other.is_sparse() && self.is_sparse() && mul_places(other, self, out)) return out;
  if (!self.is_sparse() && other.is_sparse() && mul_places(self, other, out)) return out;
  if (!other.is_sparse()) return at::native::_mul_dense_sparse_out(other, self, out);
  if (!self.is_sparse()) return at::native::_mul_dense_sparse_out(self, other, out);
  if (other.dim() == 0) return at::native::_mul_sparse_sparse_zero_dim_out(other, self, out);
  if (self.dim() == 0) return at::native::_mul_sparse_sparse_zero_dim_out(self, other, out);
  TORCH_CHECK(self.sparse_dim() == other.sparse_dim() && sparse_sizes(self).equals(sparse_sizes(other)),
              "mul: expected 'self' and 'other' to have same sizes when both are sparse, but ", self.sizes(),
              " != ", other.sizes());
  const at::ScalarType common = at::promoteTypes(self.scalar_type(), other.scalar_type());
  check_result_type("mul", common, out);
  const std::vector<int64_t> sizes = at::infer_size(self.sizes(), other.sizes());
  if (self._nnz() == 0 || other._nnz() == 0) {
    std::vector<int64_t> dense(sizes.begin() + self.sparse_dim() - 1, sizes.end());
    dense[0] = 0;
    set_coo(out, new_empty({self.sparse_dim(), 0}, at::kLong), new_empty(dense, common), sizes, true);
    return out;
  }
  // The result has the elements of one that the other has, too; that one may repeat elements.
  const bool swap = self.is_coalesced() && !(other.is_coalesced() && self._nnz() <= other._nnz());
  const at::Tensor& source = swap ? other : self;
  const at::Tensor table = (swap ? self : other).coalesce();
  const Found found =
      find_keys(coo_keys(table._indices(), sparse_sizes(table)), coo_keys(source._indices(), sparse_sizes(source)));
  const at::Tensor kept = found.hit.nonzero().select(1, 0);
  const at::Tensor a = source._values().index_select(0, kept).to(common),
                   b = table._values().index_select(0, found.at.index_select(0, kept)).to(common);
  set_coo(out, source._indices().index_select(1, kept), a.mul(b), sizes, source.is_coalesced());
  return out;
}

at::Tensor sparse_sparse_mask(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.is_sparse(), "sparse_mask(): can only be called with a sparse mask, but got ", mask.layout());
  TORCH_CHECK(self.sizes().equals(mask.sizes()), "sparse_mask(): operands have incompatible sizes; self has size ",
              self.sizes(), " but mask has size ", mask.sizes());
  if (self.is_same(mask)) return self;
  const at::Tensor indices = mask._indices();
  std::vector<int64_t> sizes = mask._values().sizes().vec();
  if (mask.numel() == 0 || mask._nnz() == 0)
    return make_coo(indices.clone(), new_empty(sizes, self.scalar_type()), mask.sizes(), mask.is_coalesced());
  if (!self.is_sparse() && has_places_in(self, mask))
    return make_coo(indices.clone(), dense_at(self, indices), mask.sizes(), mask.is_coalesced());
  const at::Tensor keys = coo_keys(indices, sparse_sizes(mask));
  if (!self.is_sparse()) {
    int64_t width = 1;
    for (size_t d = 1; d < sizes.size(); ++d) width *= sizes[d];
    const at::Tensor values = self.reshape({-1, width}).index_select(0, keys).view(sizes);
    return make_coo(indices.clone(), values, mask.sizes(), mask.is_coalesced());
  }
  TORCH_CHECK(self.sparse_dim() == mask.sparse_dim(),
              "sparse_mask(): operands have incompatible sparse dimensions; self has ", self.sparse_dim(),
              " but mask has ", mask.sparse_dim());
  if (self._nnz() == 0)
    return make_coo(indices.clone(), at::zeros(sizes, self._values().options()), mask.sizes(), mask.is_coalesced());
  const at::Tensor table = self.coalesce();
  const Found found = find_keys(coo_keys(table._indices(), sparse_sizes(table)), keys);
  at::Tensor hit = found.hit;
  for (size_t d = 1; d < sizes.size(); ++d) hit = hit.unsqueeze(-1);
  const at::Tensor values = table._values().index_select(0, found.at).masked_fill_(hit.logical_not(), 0);
  return make_coo(indices.clone(), values, mask.sizes(), mask.is_coalesced());
}

// self where the mask has an element, zeros elsewhere; `accumulate_matches`: once for every such element.
at::Tensor sparse__sparse_mask_projection(const at::Tensor& self, const at::Tensor& mask, bool accumulate_matches) {
  TORCH_CHECK(mask.is_sparse() && self.is_sparse(), "_sparse_mask_projection(): expects two sparse COO tensors");
  TORCH_CHECK(self.sizes().equals(mask.sizes()),
              "_sparse_mask_projection(): operands have incompatible sizes; self has size ", self.sizes(),
              " but mask has size ", mask.sizes());
  const at::Tensor values = self._values();
  if (self._nnz() == 0) return self.clone();
  at::Tensor times;
  if (mask._nnz() == 0) {
    times = at::zeros({self._nnz()}, values.options());
  } else {
    const at::Tensor ones = at::scalar_tensor(1, values.options()).expand({mask._nnz()});
    const at::Tensor table = make_coo(mask._indices(), ones, sparse_sizes(mask), mask.is_coalesced()).coalesce();
    const Found found =
        find_keys(coo_keys(table._indices(), sparse_sizes(mask)), coo_keys(self._indices(), sparse_sizes(self)));
    times =
        accumulate_matches ? table._values().index_select(0, found.at).mul(found.hit) : found.hit.to(values.dtype());
  }
  while (times.dim() < values.dim()) times = times.unsqueeze(-1);
  return make_coo(self._indices().clone(), values.mul(times), self.sizes(), self.is_coalesced());
}

at::Tensor sparse_index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  TORCH_CHECK_INDEX(self.dim() != 0, "index_select() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK_INDEX(
      index.dim() == 1 && index.layout() == at::kStrided && at::isIntegralType(index.scalar_type(), false),
      "index_select() argument index must be 1-D strided (non-sparse) long-tensor.");
  dim = at::maybe_wrap_dim(dim, self.dim());
  std::vector<int64_t> sizes = self.sizes().vec();
  const int64_t size = sizes[dim];
  sizes[dim] = index.size(0);
  const at::Tensor indices = self._indices(), values = self._values();
  if (dim >= self.sparse_dim())
    return make_coo(indices, values.index_select(dim - self.sparse_dim() + 1, index), sizes, self.is_coalesced());
  const auto refuse = [&] {
    TORCH_CHECK_INDEX(false, "index_select(): index contains values out of range for tensor of dimension ", dim,
                      " with size ", size);
  };
  at::Tensor chosen = index.to(at::kLong);
  const bool pointed = size <= 4 * (self._nnz() + index.numel());  // a table of all indices is no waste
  if (self.is_coalesced() && dim == 0 && pointed && index.numel() != 0 && self._nnz() != 0) {
    // Elements of one index lie side by side: those of each place of `index` in turn.
    const auto [element, place] = named_ranges(row_pointers(indices.select(0, 0), size, false), chosen, true);
    if (!element.defined()) refuse();
    const at::Tensor picked = indices.index_select(1, element);
    picked.select(0, 0).copy_(place);
    return make_coo(picked, values.index_select(0, element), sizes, false);
  }
  chosen = at::where(chosen.lt(0), chosen.add(size), chosen);
  if (index.numel() != 0 && !chosen.ge(0).logical_and_(chosen.lt(size)).all().item<bool>()) refuse();
  if (index.numel() == 0 || self._nnz() == 0)
    return make_coo(new_empty({self.sparse_dim(), 0}, at::kLong), values.narrow(0, 0, 0).clone(), sizes, false);
  // An element appears once for each place of `index` that names it.
  const auto [sorted, order] = chosen.sort(true, 0, false);
  const at::Tensor own = indices.select(0, dim);
  if (pointed) {
    const auto [number, element] = named_ranges(row_pointers(sorted, size, false), own, false);
    TORCH_CHECK_INDEX(number.defined(), "index_select(): indices of the tensor are out of range for dimension ", dim,
                      " with size ", size);
    const at::Tensor picked = indices.index_select(1, element);
    picked.select(0, dim).copy_(order.index_select(0, number));
    return make_coo(picked, values.index_select(0, element), sizes, false);
  }
  const at::Tensor low = at::searchsorted(sorted, own.contiguous()),
                   high = at::searchsorted(sorted, own.contiguous(), false, true);
  const auto [element, number] = repeat_by(high.sub(low));
  const at::Tensor picked = indices.index_select(1, element);
  picked.select(0, dim).copy_(order.index_select(0, low.index_select(0, element).add_(number)));
  return make_coo(picked, values.index_select(0, element), sizes, false);
}

}  // namespace xpu_ops::aten
