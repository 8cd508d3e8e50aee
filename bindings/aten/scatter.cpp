// scatter, index_add, index_copy, index_fill, index_reduce, bincount, segment_reduce.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/WrapDimMinimal.h>

#include <limits>

#include "bindings/aten/indexing.hpp"

namespace xpu_ops::aten {
namespace {

at::Tensor scalar_like(const at::Scalar& value, const at::Tensor& like, at::IntArrayRef sizes) {
  return at::full({}, value, like.options()).expand(sizes);
}

void start_from(const at::Tensor& out, const at::Tensor& self) {
  if (!out.is_same(self)) out.copy_(self);
}

void check_scatter(const at::Tensor& out, const at::Tensor& index, const at::Tensor& src) {
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, index);
  if (src.defined()) at::assert_no_overlap(out, src);
}

// The start of a reduction where the original value must not count.
at::Scalar identity(c10::string_view reduce, at::ScalarType t) {
  if (reduce == "prod") return 1;
  if (reduce == "amax" || reduce == "amin") {
    const bool low = reduce == "amax";
    if (at::isFloatingType(t))
      return low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    switch (t) {
      case at::kBool: return low ? 0 : 1;
      case at::kByte: return low ? 0 : 255;
      case at::kChar: return low ? -128 : 127;
      case at::kShort: return low ? -32768 : 32767;
      case at::kInt: return low ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max();
      case at::kUInt16: return low ? 0 : 65535;
      case at::kUInt32: return low ? int64_t{0} : int64_t{4294967295};
      default: return low ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    }
  }
  return 0;
}

Reduce reduce_of(c10::string_view reduce) {
  if (reduce == "sum" || reduce == "mean" || reduce == "add") return Reduce::add;
  if (reduce == "prod" || reduce == "multiply") return Reduce::mul;
  if (reduce == "amax") return Reduce::max;
  if (reduce == "amin") return Reduce::min;
  TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
}

void divide_by(const at::Tensor& out, at::Tensor count) {
  // An element that nothing was added to is divided by one. Complex counts have no order.
  if (count.is_complex())
    count.masked_fill_(count.eq(0), 1);
  else
    count.clamp_min_(1);
  at::Tensor result = out;
  if (at::isIntegralType(out.scalar_type(), true))
    result.div_(count, "floor");
  else
    result.div_(count);
}

// The common part of scatter_reduce.two and index_reduce.
void reduce_into(const at::Tensor& out, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                 c10::string_view reduce, bool include_self, DeviceErrorCode code) {
  // Before any kernel that may report an index: a call fails once.
  TORCH_CHECK_NOT_IMPLEMENTED(reduce != "mean" || out.scalar_type() != at::kBool,
                              "\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'");
  if (!include_self)
    scatter_columns(Reduce::assign, out, dim, index, scalar_like(identity(reduce, out.scalar_type()), out, src.sizes()),
                    code);
  scatter_columns(reduce_of(reduce), out, dim, index, src, code);
  if (reduce == "mean") {
    at::Tensor count = include_self ? at::ones_like(out) : at::zeros_like(out);
    scatter_columns(Reduce::add, count, dim, index, scalar_like(1, out, src.sizes()), code);
    divide_by(out, count);
  }
}

}  // namespace

void scatter_src(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                 const at::Tensor& out) {
  check_scatter(out, index, src);
  start_from(out, self);
  scatter_columns(Reduce::assign, out, at::maybe_wrap_dim(dim, self.dim()), index, src, DeviceErrorCode::index_runtime);
}

void scatter_value(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                   const at::Tensor& out) {
  check_scatter(out, index, {});
  start_from(out, self);
  if (index.numel() == 0) return;  // whatever the value is, as in torch
  scatter_columns(Reduce::assign, out, at::maybe_wrap_dim(dim, self.dim()), index,
                  scalar_like(value, out, index.sizes()), DeviceErrorCode::index_runtime);
}

void scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                    c10::string_view reduce, const at::Tensor& out) {
  check_scatter(out, index, src);
  start_from(out, self);
  scatter_columns(reduce_of(reduce), out, at::maybe_wrap_dim(dim, self.dim()), index, src,
                  DeviceErrorCode::index_runtime);
}

void scatter_value_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value,
                          c10::string_view reduce, const at::Tensor& out) {
  check_scatter(out, index, {});
  start_from(out, self);
  if (index.numel() == 0) return;
  scatter_columns(reduce_of(reduce), out, at::maybe_wrap_dim(dim, self.dim()), index,
                  scalar_like(value, out, index.sizes()), DeviceErrorCode::index_runtime);
}

void scatter_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                 const at::Tensor& out) {
  check_scatter(out, index, src);
  start_from(out, self);
  scatter_columns(Reduce::add, out, at::maybe_wrap_dim(dim, self.dim()), index, src, DeviceErrorCode::index_runtime);
}

void scatter_reduce_two(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                        c10::string_view reduce, bool include_self, const at::Tensor& out) {
  check_scatter(out, index, src);
  start_from(out, self);
  if (index.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, self.dim());
  reduce_into(out, dim, index, src, reduce, include_self, DeviceErrorCode::index_runtime);
}

namespace {

// index_add and friends accept 0-d tensors: view them as one element long.
at::Tensor at_least_1d(const at::Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; }

}  // namespace

void index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
               const at::Scalar& alpha, const at::Tensor& out) {
  check_scatter(out, index, source);
  start_from(out, self);
  if (index.numel() == 0) return;
  const bool scaled = alpha.isComplex() || alpha.to<double>() != 1.;
  const at::Tensor src = scaled ? at::mul(source, at::scalar_tensor(alpha, out.options())) : source;
  // The error of torch's CPU, which hands a matrix to scatter_add where alpha is 1.
  scatter_columns(Reduce::add, at_least_1d(out), dim, at_least_1d(index), at_least_1d(src),
                  out.dim() == 2 && !scaled ? DeviceErrorCode::index_runtime : DeviceErrorCode::index_self);
}

void index_copy(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                const at::Tensor& out) {
  check_scatter(out, index, source);
  start_from(out, self);
  if (index.numel() == 0) return;
  scatter_columns(Reduce::assign, at_least_1d(out), dim, at_least_1d(index), at_least_1d(source),
                  DeviceErrorCode::index_copy);
}

void index_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                  c10::string_view reduce, bool include_self, const at::Tensor& out) {
  TORCH_WARN_ONCE("index_reduce() is in beta and the API may change at any time.");
  TORCH_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin",
              "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ", reduce, ".");
  check_scatter(out, index, source);
  start_from(out, self);
  if (index.numel() == 0) return;
  reduce_into(at_least_1d(out), dim, at_least_1d(index), at_least_1d(source), reduce, include_self,
              DeviceErrorCode::index_self);
}

at::Tensor& index_fill__int_Scalar(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                    "index_fill_(): Expected dtype int32/int64 for index.");
  check_same_device(self, index);
  at::assert_no_overlap(self, index);
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes)
    TORCH_WARN(
        "Use of index_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. "
        "This also applies to advanced indexing e.g. tensor[mask] = scalar");
  if (!self.is_complex() && value.isComplex())
    TORCH_CHECK(false, "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  TORCH_CHECK(self.dim() == 0 || index.dim() <= 1, "Index has to be a vector/scalar");
  const at::Tensor out = at_least_1d(self), idx = at_least_1d(index);
  dim = at::maybe_wrap_dim(dim, out.dim());
  if (out.numel() == 0 || idx.numel() == 0) return self;
  std::vector<int64_t> sizes = out.sizes().vec();
  sizes[dim] = idx.numel();
  // Rows are written from a row of values, which moves vectors. Every writer of an element writes the same: no order is
  // needed.
  const int64_t last = out.dim() - 1;
  const at::Tensor fill = at::full({sizes[last]}, value, out.options());
  Dims3 dims;
  for (int64_t d = 0; d < out.dim(); ++d)
    dims.push_back({sizes[d], {d == last ? 1 : 0, d == dim ? 0 : out.stride(d), d == dim ? idx.stride(0) : 0}});
  move_indexed(true, const_ptr(fill), mutable_ptr(out), out.element_size(),
               index_source(idx, out.size(dim), out.stride(dim), DeviceErrorCode::index, dim, true), std::move(dims));
  return self;
}

at::Tensor& index_fill__int_Tensor(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return index_fill__int_Scalar(self, dim, index, value.item());
}

at::Tensor count_indices(const at::Tensor& index, int64_t bins) {
  const at::Tensor out = new_empty({bins}, at::kLong);
  ops::CountProblem problem{};
  problem.index = index.const_data_ptr();
  problem.is32 = index.scalar_type() == at::kInt;
  problem.out = out.mutable_data_ptr<int64_t>();
  problem.n = static_cast<uint32_t>(index.numel());
  problem.bins = static_cast<uint32_t>(bins);
  ops::count_indices(runtime::current_queue(), problem);
  return out;
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isIntegralType(self.scalar_type(), false), "\"bincount\" not implemented for '",
                              self.scalar_type(), "'");
  const bool weighted = weights.has_value() && weights->defined();
  if (weighted)
    TORCH_CHECK(weights->dim() == 1 && weights->size(0) == self.size(0),
                "weights should be 1-d and have the same length as input");
  const at::Tensor index = self.scalar_type() == at::kInt ? self.contiguous() : self.to(at::kLong).contiguous();
  const auto [least, most] = at::aminmax(index);
  const int64_t low = least.item<int64_t>(), high = most.item<int64_t>();
  TORCH_CHECK(low >= 0, "bincount only supports 1-d non-negative integral inputs.");
  const int64_t bins = std::max(high + 1, minlength);
  if (!weighted) return count_indices(index, bins);
  const bool single = weights->scalar_type() == at::kFloat;
  const at::Tensor w = single ? *weights : weights->to(at::kDouble);
  at::Tensor out = at::zeros({bins}, w.options());
  scatter_columns(Reduce::add, out, 0, index, w, DeviceErrorCode::none);
  return out;
}

namespace {

SegmentOp segment_op(c10::string_view reduce) {
  if (reduce == "max" || reduce == "amax") return SegmentOp::max;
  if (reduce == "mean") return SegmentOp::mean;
  if (reduce == "min" || reduce == "amin") return SegmentOp::min;
  if (reduce == "sum") return SegmentOp::sum;
  if (reduce == "prod") return SegmentOp::prod;
  TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
}

// Offsets [.., segments + 1] from lengths [.., segments].
at::Tensor offsets_of(const std::optional<at::Tensor>& lengths, const std::optional<at::Tensor>& offsets) {
  if (offsets.has_value() && offsets->defined()) return offsets->contiguous();
  std::vector<int64_t> sizes = lengths->sizes().vec();
  TORCH_CHECK(!sizes.empty(), "segment_reduce(): expected lengths of at least one dimension");
  sizes.back() += 1;
  at::Tensor result = at::zeros(sizes, lengths->options());
  result.narrow(-1, 1, sizes.back() - 1).copy_(lengths->cumsum(-1));
  return result;
}

ops::SegmentProblem segment_problem(const at::Tensor& data, const at::Tensor& offsets, int64_t axis, SegmentOp op,
                                    const std::optional<at::Scalar>& initial) {
  TORCH_CHECK_NOT_IMPLEMENTED(offsets.scalar_type() == at::kInt || offsets.scalar_type() == at::kLong,
                              "\"segment_reduce\" not implemented for offsets of type '",
                              c10::toString(offsets.scalar_type()), "'");
  TORCH_CHECK(axis == offsets.dim() - 1 && offsets.sizes().slice(0, axis) == data.sizes().slice(0, axis) &&
                  offsets.size(-1) > 0,
              "segment_reduce(): expected offsets of size ", data.sizes().slice(0, axis),
              " and one more than segments, but got ", offsets.sizes());
  ops::SegmentProblem problem{};
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < axis; ++d) outer *= data.size(d);
  for (int64_t d = axis + 1; d < data.dim(); ++d) inner *= data.size(d);
  problem.outer = static_cast<uint32_t>(outer);
  problem.axis = static_cast<uint32_t>(data.size(axis));
  problem.inner = static_cast<uint32_t>(inner);
  problem.segments = static_cast<uint32_t>(offsets.size(-1) - 1);
  problem.op = op;
  problem.is32 = offsets.scalar_type() == at::kInt;
  problem.has_initial = initial.has_value();
  problem.initial = Real(initial.has_value() ? initial->to<double>() : 0.);
  problem.offsets = offsets.const_data_ptr();
  return problem;
}

}  // namespace

at::Tensor segment_reduce(const at::Tensor& data, c10::string_view reduce, const std::optional<at::Tensor>& lengths,
                          const std::optional<at::Tensor>& indices, const std::optional<at::Tensor>& offsets,
                          int64_t axis, bool unsafe, const std::optional<at::Scalar>& initial) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(data.numel() >= 0);
  TORCH_CHECK(!(indices.has_value() && indices->defined()),
              "segment_reduce(): indices based reduction is not supported yet.");
  const bool by_offsets = offsets.has_value() && offsets->defined(),
             by_lengths = lengths.has_value() && lengths->defined();
  TORCH_CHECK(by_offsets || by_lengths, "segment_reduce(): Either lengths or offsets must be defined.");
  const at::Tensor& given = by_offsets ? *offsets : *lengths;
  TORCH_CHECK(data.get_device() == given.get_device());
  TORCH_CHECK(data.dim() >= given.dim());
  TORCH_CHECK(axis == given.dim() - 1, "segment_reduce(): Expected axis to be the last dimension of ",
              by_offsets ? "offsets" : "lengths", " but got ", axis, ".");
  if (!unsafe && by_lengths && !by_offsets) {
    const at::Tensor check = at::stack({given.min(), given.sum({-1}).min(), given.sum({-1}).max()}).to(at::kLong).cpu();
    const int64_t* v = check.const_data_ptr<int64_t>();
    TORCH_CHECK(v[0] >= 0, "lengths contains negative value!");
    TORCH_CHECK(
        v[1] == data.size(axis) && v[2] == data.size(axis),
        "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.");
  }
  const at::Tensor dense = data.contiguous(), starts = offsets_of(lengths, offsets);
  ops::SegmentProblem problem = segment_problem(dense, starts, axis, segment_op(reduce), initial);
  std::vector<int64_t> sizes = data.sizes().vec();
  sizes[axis] = problem.segments;
  at::Tensor out = new_empty(sizes, data.scalar_type());
  if (out.numel() == 0) return out;
  problem.data = dense.const_data_ptr();
  problem.out = mutable_ptr(out);
  ops::segment_reduce(runtime::current_queue(), dtype_of(data), problem);
  return out;
}

at::Tensor _segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& data,
                                    c10::string_view reduce, const std::optional<at::Tensor>& lengths,
                                    const std::optional<at::Tensor>& offsets, int64_t axis,
                                    const std::optional<at::Scalar>& initial) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK((lengths.has_value() && lengths->defined()) || (offsets.has_value() && offsets->defined()),
              "segment_reduce(): Either lengths or offsets must be defined.");
  const at::Tensor g = grad.contiguous(), out = output.contiguous(), dense = data.contiguous();
  const at::Tensor starts = offsets_of(lengths, offsets);
  ops::SegmentProblem problem = segment_problem(dense, starts, axis, segment_op(reduce), initial);
  std::vector<int64_t> expected = data.sizes().vec();
  expected[axis] = problem.segments;
  for (const at::Tensor& t : {g, out})
    TORCH_CHECK(t.sizes() == expected && t.scalar_type() == data.scalar_type(),
                "_segment_reduce_backward(): expected grad and output of size ", at::IntArrayRef(expected),
                " and type ", data.scalar_type(), ", but got ", t.sizes(), " and ", t.scalar_type());
  at::Tensor result = at::zeros(data.sizes(), grad.options());
  if (result.numel() == 0) return result;
  problem.data = dense.const_data_ptr();
  problem.out = mutable_ptr(out);
  problem.grad = g.const_data_ptr();
  problem.result = mutable_ptr(result);
  ops::segment_reduce_backward(runtime::current_queue(), dtype_of(data), problem);
  return result;
}

}  // namespace xpu_ops::aten
