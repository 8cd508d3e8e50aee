// index, gather, take, index_select, index_put, masks, nonzero: from tensors to element moves.
#include "bindings/aten/indexing.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/scalar_tensor.h>

namespace xpu_ops::aten {
namespace {

Dims3 dims_of(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b, at::IntArrayRef c) {
  Dims3 dims;
  for (size_t d = 0; d < sizes.size(); ++d) dims.push_back({sizes[d], {a[d], b[d], c[d]}});
  return dims;
}

// One index tensor of an advanced index, already broadcast over the iteration space.
struct IndexOperand {
  const void* ptr;
  bool is32;
  int64_t size, stride;          // of the indexed dim, in elements
  std::vector<int64_t> strides;  // over the iteration space
};

// Elements from the first that the operands reach to the last.
int64_t reach_of(const std::vector<IndexOperand>& operands) {
  int64_t reach = 1;
  for (const auto& o : operands) reach += (o.size - 1) * o.stride;
  return reach;
}

// Folds several index operands into one tensor of element offsets over the dims that any of them varies in. Returns the
// tensor; `strides` receives its strides over the iteration space.
at::Tensor linearize(const std::vector<int64_t>& sizes, const std::vector<IndexOperand>& operands,
                     std::vector<int64_t>& strides) {
  if (operands.size() > kMaxIndices) {  // the first ones become one
    const auto rest = operands.begin() + kMaxIndices;
    const std::vector<IndexOperand> first(operands.begin(), rest);
    IndexOperand folded{nullptr, false, reach_of(first), 1, {}};
    const at::Tensor offsets = linearize(sizes, first, folded.strides);
    folded.ptr = offsets.const_data_ptr();
    std::vector<IndexOperand> fewer{std::move(folded)};
    fewer.insert(fewer.end(), rest, operands.end());
    return linearize(sizes, fewer, strides);
  }
  strides.assign(sizes.size(), 0);
  int64_t numel = 1;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    bool varies = false;
    for (const auto& o : operands) varies |= o.strides[d] != 0;
    if (!varies) continue;
    strides[d] = numel;
    numel *= sizes[d];
  }
  at::Tensor out = new_empty({numel}, at::kLong);
  if (numel == 0) return out;
  ops::LinearDims dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] == 0) continue;
    WalkDim<kMaxIndices + 1> dim{sizes[d], {strides[d]}};
    for (size_t k = 0; k < operands.size(); ++k) dim.strides[k + 1] = operands[k].strides[d];
    dims.push_back(dim);
  }
  ops::LinearizeProblem problem{};
  problem.out = out.mutable_data_ptr<int64_t>();
  runtime::Queue& queue = runtime::current_queue();
  problem.error = runtime::error_flag(queue.device);
  problem.count = static_cast<uint32_t>(operands.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    problem.index[k] = operands[k].ptr;
    problem.size[k] = operands[k].size;
    problem.stride[k] = operands[k].stride;
    problem.dim[k] = static_cast<uint32_t>(k);
    problem.is32[k] = operands[k].is32;
  }
  ops::linearize(queue, problem, dims);
  return out;
}

// The index operand of a move: the given one, or the folded offsets of several (kept alive in `keep`).
IndexSource combine(const std::vector<int64_t>& sizes, const std::vector<IndexOperand>& operands,
                    std::vector<int64_t>& strides, at::Tensor& keep) {
  DeviceError* error = runtime::error_flag(runtime::current_device());
  if (operands.size() == 1) {
    const IndexOperand& o = operands[0];
    strides = o.strides;
    return {o.ptr, error, o.size, o.stride, DeviceErrorCode::index, 0, static_cast<uint8_t>(o.is32), 1};
  }
  keep = linearize(sizes, operands, strides);
  return {keep.const_data_ptr(), error, reach_of(operands), 1, DeviceErrorCode::none, 0, 0, 0};
}

}  // namespace

void index_Tensor(at::TensorIteratorBase& it, const at::Tensor& self, at::DimVector sizes, at::DimVector strides,
                  const at::Tensor& out) {
  if (it.numel() == 0) return;
  const int ndim = it.ndim();
  auto over = [&](int k) {  // strides of an operand over the iteration space, outermost first, in elements
    const int64_t size = static_cast<int64_t>(c10::elementSize(it.dtype(k)));
    std::vector<int64_t> s(ndim);
    for (int d = 0; d < ndim; ++d) s[ndim - 1 - d] = it.strides(k)[d] / size;
    return s;
  };
  std::vector<int64_t> shape(it.shape().rbegin(), it.shape().rend()), index_strides;
  const int64_t element = static_cast<int64_t>(self.element_size());
  std::vector<IndexOperand> operands;
  for (int k = 2; k < it.ntensors(); ++k)
    operands.push_back({it.data_ptr(k), it.dtype(k) == at::kInt, sizes[k - 2], strides[k - 2] / element, over(k)});
  at::Tensor keep;
  const IndexSource source = combine(shape, operands, index_strides, keep);
  move_indexed(false, it.data_ptr(0), it.data_ptr(1), element, source, dims_of(shape, over(0), over(1), index_strides));
}

namespace {

// An advanced index over a tensor whose result space is before + index + after dims.
struct Advanced {
  at::Tensor self;                           // transposed where the indexed dims are apart
  std::vector<int64_t> sizes, self_strides;  // result space; 0 where an index moves
  std::vector<IndexOperand> operands;
  std::vector<at::Tensor> indices;         // broadcast, kept alive
  int64_t index_begin = 0, index_end = 0;  // the index dims in the result space
};

Advanced plan_advanced(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& list) {
  at::native::checkIndexTensorTypes(list, true);
  std::vector<at::Tensor> indices = at::native::expandTensors(self, list, true);
  try {
    indices = at::expand_outplace(indices);
  } catch (const std::exception&) {
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                      at::native::shapes_as_str(indices));
  }
  while (static_cast<int64_t>(indices.size()) < self.dim()) indices.emplace_back();
  Advanced a;
  a.self = self;
  if (!at::native::hasContiguousSubspace(indices))
    std::tie(a.self, indices) = at::native::transposeToFront(self, indices);
  const int64_t rank = a.self.dim();
  int64_t first = rank;
  at::IntArrayRef index_shape;
  for (int64_t d = 0; d < rank; ++d) {
    if (!indices[d].defined()) continue;
    if (first == rank) {
      first = d;
      index_shape = indices[d].sizes();
    }
    a.indices.push_back(indices[d]);
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (d == first) {
      a.index_begin = static_cast<int64_t>(a.sizes.size());
      a.sizes.insert(a.sizes.end(), index_shape.begin(), index_shape.end());
      a.self_strides.insert(a.self_strides.end(), index_shape.size(), 0);
      a.index_end = static_cast<int64_t>(a.sizes.size());
    }
    if (indices[d].defined()) continue;
    a.sizes.push_back(a.self.size(d));
    a.self_strides.push_back(a.self.stride(d));
  }
  int64_t numel = 1;
  for (int64_t s : a.sizes) numel *= s;
  for (int64_t d = 0; d < rank; ++d) {
    if (!indices[d].defined()) continue;
    if (numel != 0) TORCH_CHECK_INDEX(a.self.size(d) != 0, "index is out of bounds for dimension with size 0");
    IndexOperand o{
        indices[d].const_data_ptr(), indices[d].scalar_type() == at::kInt, a.self.size(d), a.self.stride(d), {}};
    o.strides.assign(a.sizes.size(), 0);
    for (int64_t i = a.index_begin; i < a.index_end; ++i) o.strides[i] = indices[d].stride(i - a.index_begin);
    a.operands.push_back(std::move(o));
  }
  return a;
}

}  // namespace

at::Tensor& _index_put_impl_(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                             const at::Tensor& values, bool accumulate, bool unsafe) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes)
    TORCH_WARN(
        "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. "
        "This also applies to advanced indexing e.g. tensor[indices] = tensor");
  if (!accumulate && values.numel() == 1) {
    // torch asks for a number of the CPU, as which x[mask] = 1 brings it for CUDA.
    const bool there = values.is_cpu();
    auto [can, mask] = at::native::canDispatchToMaskedFill(self, indices, there ? values : at::scalar_tensor(0));
    if (can && there) return self.masked_fill_(mask, values.item());
    if (can && values.scalar_type() == self.scalar_type()) return self.masked_fill_(mask, values.reshape({}));
  }
  at::Tensor value = values;
  if (value.device() != self.device() && value.numel() == 1 && value.dim() == 0) value = value.to(self.device());
  TORCH_CHECK(value.device() == self.device(), "expected device ", self.device(), " but got device ", value.device(),
              " for value tensor");
  at::assert_no_overlap(self, value);
  for (const std::optional<at::Tensor>& i : indices)
    if (i.has_value()) at::assert_no_overlap(self, *i);
  Advanced a = plan_advanced(self, indices);
  TORCH_CHECK(a.operands.empty() || at::is_expandable_to(value.sizes(), a.sizes),
              "shape mismatch: value tensor of shape ", value.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(a.sizes));
  TORCH_CHECK(self.scalar_type() == value.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", value.scalar_type(), " for the source.");
  if (a.operands.empty()) {
    accumulate ? self.add_(value) : self.copy_(value);
    return self;
  }
  value = value.expand(a.sizes);
  if (value.numel() == 0) return self;
  if (accumulate && add_widely(self, value.numel(), value, [&](at::Tensor wide, const at::Tensor& terms) {
        _index_put_impl_(wide, indices, terms, true, unsafe);
      }))
    return self;
  std::vector<int64_t> index_strides;
  at::Tensor keep;
  const bool in_order = accumulate || at::globalContext().deterministicAlgorithms();
  if (!in_order) {
    const IndexSource source = combine(a.sizes, a.operands, index_strides, keep);
    move_indexed(true, const_ptr(value), mutable_ptr(a.self), self.element_size(), source,
                 dims_of(a.sizes, value.strides(), a.self_strides, index_strides));
    return self;
  }
  // The index dims become one loop: offsets and values must step through it evenly.
  int64_t steps = 1, value_step = 0, index_step = 0;
  auto flattens = [&](at::IntArrayRef strides, int64_t& step) {
    int64_t expected = -1;
    for (int64_t d = a.index_end - 1; d >= a.index_begin; --d) {
      if (a.sizes[d] == 1) continue;
      if (expected < 0)
        step = expected = strides[d];
      else if (strides[d] != expected)
        return false;
      expected *= a.sizes[d];
    }
    return true;
  };
  for (int64_t d = a.index_begin; d < a.index_end; ++d) steps *= a.sizes[d];
  if (!flattens(value.strides(), value_step)) {
    value = value.contiguous();
    flattens(value.strides(), value_step);
  }
  IndexSource source = combine(a.sizes, a.operands, index_strides, keep);
  if (!flattens(index_strides, index_step)) {
    if (!keep.defined()) {
      at::Tensor flat = a.indices[0].contiguous();
      a.indices[0] = flat;
      source.ptr = flat.const_data_ptr();
    } else {
      // Some index dims are broadcast in every index tensor: write the offsets out.
      for (size_t k = 0; k < a.operands.size(); ++k) {
        a.indices[k] = a.indices[k].contiguous();
        a.operands[k].ptr = a.indices[k].const_data_ptr();
        for (int64_t i = a.index_begin; i < a.index_end; ++i)
          a.operands[k].strides[i] = a.indices[k].stride(i - a.index_begin);
      }
      source = combine(a.sizes, a.operands, index_strides, keep);
    }
    index_step = 1;
  }
  Dims3 columns;
  for (int64_t d = 0; d < static_cast<int64_t>(a.sizes.size()); ++d)
    if (d < a.index_begin || d >= a.index_end) columns.push_back({a.sizes[d], {a.self_strides[d], value.stride(d), 0}});
  ops::scatter_columns(runtime::current_queue(), {accumulate ? Reduce::add : Reduce::assign,
                                                  dtype_of(self),
                                                  self.itemsize(),
                                                  mutable_ptr(a.self),
                                                  value.const_data_ptr(),
                                                  source,
                                                  steps,
                                                  value_step,
                                                  index_step,
                                                  {},
                                                  std::move(columns)});
  return self;
}

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, at::Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(!(self.dim() == 0 && index.numel() != 1), "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, index);
  std::vector<int64_t> sizes = self.sizes().vec();
  if (self.dim() > 0) sizes[dim] = index.numel();
  at::native::resize_output(out, sizes);
  TORCH_CHECK(self.dim() < 2 || index.numel() == 0 || self.size(dim) > 0,
              "index_select(): self indexing axis dim should be positive");
  if (out.numel() == 0) return out;
  TORCH_CHECK_INDEX(size_or_one(self, dim) > 0, "index out of range in self");
  Dims3 dims;
  for (int64_t d = 0; d < self.dim(); ++d)
    dims.push_back(
        {sizes[d], {out.stride(d), d == dim ? 0 : self.stride(d), d == dim && index.dim() == 1 ? index.stride(0) : 0}});
  move_indexed(
      false, mutable_ptr(out), const_ptr(self), self.element_size(),
      index_source(index, size_or_one(self, dim), stride_or_zero(self, dim), DeviceErrorCode::index_self, dim, false),
      std::move(dims));
  return out;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  index_select_out(self, dim, index, out);
  return out;
}

void gather(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool, const at::Tensor& out) {
  if (index.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_partial_overlap(out, index);
  Dims3 dims;
  const auto sizes = sizes_or_one(index);
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d)
    dims.push_back(
        {sizes[d], {stride_or_zero(out, d), d == dim ? 0 : stride_or_zero(self, d), stride_or_zero(index, d)}});
  move_indexed(false, mutable_ptr(out), const_ptr(self), self.element_size(),
               index_source(index, size_or_one(self, dim), stride_or_zero(self, dim), DeviceErrorCode::index_runtime,
                            dim, false),
               std::move(dims));
}

at::Tensor& take_out(const at::Tensor& self, const at::Tensor& index, at::Tensor& out) {
  TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "take(): self and out expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
              " and out.dtype = ", out.scalar_type());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0), "take(): tried to take from an empty tensor");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, index);
  at::assert_no_overlap(out, self);
  at::native::resize_output(out, index.sizes());
  if (index.numel() == 0) return out;
  const at::Tensor flat = self.contiguous();
  Dims3 dims;
  for (int64_t d = 0; d < index.dim(); ++d) dims.push_back({index.size(d), {out.stride(d), 0, index.stride(d)}});
  move_indexed(false, mutable_ptr(out), const_ptr(flat), self.element_size(),
               index_source(index, flat.numel(), 1, DeviceErrorCode::take, 0, true), std::move(dims));
  return out;
}

at::Tensor take(const at::Tensor& self, const at::Tensor& index) {
  at::Tensor out = new_empty(index.sizes(), self.scalar_type());
  take_out(self, index, out);
  return out;
}

at::Tensor& put_(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  TORCH_CHECK(index.scalar_type() == at::kLong, "put_(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "put_(): self and source expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
              " and source.dtype = ", source.scalar_type());
  TORCH_CHECK(index.numel() == source.numel(),
              "put_(): Expected source and index to have the same number of elements, but got ",
              "source.numel() = ", source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0), "put_(): Tried to put elements into an empty tensor");
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
  if (index.numel() == 0) return self;
  if (accumulate && add_widely(self, index.numel(), source,
                               [&](at::Tensor wide, const at::Tensor& terms) { put_(wide, index, terms, true); }))
    return self;
  at::Tensor flat = self.contiguous();
  const at::Tensor idx = index.contiguous(), src = source.contiguous();
  const IndexSource from = index_source(idx, flat.numel(), 1, DeviceErrorCode::take, 0, true);
  if (accumulate || at::globalContext().deterministicAlgorithms())
    ops::scatter_columns(runtime::current_queue(), {accumulate ? Reduce::add : Reduce::assign,
                                                    dtype_of(self),
                                                    self.itemsize(),
                                                    mutable_ptr(flat),
                                                    src.const_data_ptr(),
                                                    from,
                                                    idx.numel(),
                                                    1,
                                                    1,
                                                    {},
                                                    {}});
  else
    move_indexed(true, const_ptr(src), mutable_ptr(flat), self.element_size(), from, {{idx.numel(), {1, 0, 1}}});
  if (!flat.is_same(self)) self.copy_(flat);
  return self;
}

namespace {

// The set elements of a contiguous mask.
struct MaskOf : ops::Compaction {
  MaskOf(const at::Tensor& mask, bool now)
      : Compaction(runtime::current_queue(), mask.const_data_ptr(), mask.numel(), mask.element_size(),
                   keep_bits(mask.scalar_type()).bits, now) {}
  // Into columns of `rows` indices. Of more dimensions than the kernel knows: from places in the flat tensor.
  void indices(const at::Tensor& self, const at::Tensor& out, int64_t rows) {
    const int64_t ndim = self.dim(), n = self.numel();
    if (ndim <= kCompactDims)
      return write_indices(self.sizes().data(), ndim, out.mutable_data_ptr<int64_t>(), rows, rows);
    at::Tensor place = new_empty({rows}, at::kLong);
    write_indices(&n, 1, place.mutable_data_ptr<int64_t>(), rows, rows);
    for (int64_t d = ndim - 1; d >= 0; --d) {
      at::Tensor column = out.select(1, d);
      if (self.size(d) == 1) {
        column.zero_();
        continue;
      }
      column.copy_(place.remainder(self.size(d)));
      place = place.floor_divide(self.size(d));
    }
  }
};

}  // namespace

at::Tensor nonzero(const at::Tensor& self) {
  const int64_t rank = self.dim();
  if (self.numel() == 0) return new_strided({0, rank}, {1, 1}, at::kLong);
  const at::Tensor dense = self.contiguous();
  MaskOf c(dense, true);
  const int64_t n = c.total();
  // Column by column, as upstream: nonzero(as_tuple=True) gives contiguous tensors.
  at::Tensor out = new_strided({n, rank}, {1, std::max<int64_t>(n, 1)}, at::kLong);
  if (n != 0 && rank != 0) c.indices(self, out, n);
  return out;
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero: Expected out tensor to have scalar type Long but got scalar type ", out.scalar_type());
  TORCH_CHECK(self.device() == out.device(), "expected self and out to be on the same device, but got out on ",
              out.device(), " and self on ", self.device());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  const at::Tensor found = xpu_ops::aten::nonzero(self);
  at::native::resize_output(out, found.sizes());
  out.copy_(found);
  return out;
}

at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero_static: Expected out tensor to have scalar type Long but got scalar type ", out.scalar_type());
  const int64_t rank = self.dim();
  at::native::resize_output(out, {size, rank});
  if (size == 0 || rank == 0) return out;
  at::Tensor rows = new_strided({size, rank}, {1, size}, at::kLong);
  if (self.numel() == 0) {
    rows.fill_(fill_value);
  } else {
    const at::Tensor dense = self.contiguous();
    MaskOf c(dense, false);
    c.indices(self, rows, size);
    ops::fill_tail(runtime::current_queue(), {rows.mutable_data_ptr<int64_t>(), c.device_total(), fill_value, size,
                                              size, static_cast<uint32_t>(rank)});
  }
  out.copy_(rows);
  return out;
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  at::Tensor out = new_empty({size, self.dim()}, at::kLong);
  nonzero_static_out(self, size, fill_value, out);
  return out;
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  auto [expanded_mask, expanded_self] = at::expand_outplace(mask, self);
  const at::Tensor m = expanded_mask->contiguous(), s = expanded_self->contiguous();
  if (m.numel() == 0) {
    at::native::resize_output(out, {0});
    return out;
  }
  MaskOf c(m, true);
  const int64_t n = c.total();
  at::native::resize_output(out, {n});
  if (n == 0) return out;
  at::Tensor dense = out.is_contiguous() ? out : new_empty({n}, out.scalar_type());
  c.args.out = mutable_ptr(dense);
  c.args.src = s.const_data_ptr();
  c.select(self.element_size());
  if (!dense.is_same(out)) out.copy_(dense);
  return out;
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  masked_select_out(self, mask, out);
  return out;
}

at::Tensor& masked_scatter_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  at::assert_no_internal_overlap(self);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  const at::Tensor m = at::expand_inplace(self, mask, "masked_scatter_")->contiguous();
  if (self.numel() == 0) return self;
  const at::Tensor src = source.contiguous();
  at::Tensor dense = self.contiguous();
  ops::masked_scatter(runtime::current_queue(),
                      {m.const_data_ptr(), m.numel(), mutable_ptr(dense), src.const_data_ptr(), src.numel(),
                       static_cast<size_t>(self.element_size())});
  if (!dense.is_same(self)) self.copy_(dense);
  return self;
}

namespace {

void assert_true(const at::Tensor& self, const std::string& message) {
  TORCH_CHECK(self.numel() != 0, "Boolean value of Tensor with no values is ambiguous");
  TORCH_CHECK(self.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous");
  runtime::Queue& queue = runtime::current_queue();
  const KeepBits keep = keep_bits(self.scalar_type());
  const ops::AssertProblem problem{self.const_data_ptr(),
                                   {keep.bits[0], keep.bits[1]},
                                   runtime::error_flag(queue.device),
                                   runtime::register_error_message(message)};
  ops::assert_nonzero(queue, self.element_size(), problem);
}

}  // namespace

void _assert_async(const at::Tensor& self) {
  assert_true(self, "Expected Tensor with single nonzero value, but got zero");
}

void _assert_async_msg(const at::Tensor& self, c10::string_view assert_msg) {
  assert_true(self, assert_msg.empty() ? "Assertion is failed" : std::string(assert_msg));
}

at::Tensor _functional_assert_async_msg(const at::Tensor& self, c10::string_view assert_msg,
                                        const at::Tensor& dep_token) {
  _assert_async_msg(self, assert_msg);
  return dep_token.clone();
}

}  // namespace xpu_ops::aten
