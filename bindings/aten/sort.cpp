// Sorting operators: rows made dense for kernels/ops/sort.hpp, and what is read off sorted rows.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>

#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "gen/kernels/sort_kernels.hpp"
#include "kernels/ops/sort.hpp"

namespace xpu_ops::aten {
namespace {

constexpr int64_t kMaxRow = (int64_t{1} << 31) - 1;

// The dimension to work along last, dense; 0-d tensors have one row of one element.
struct Rows {
  at::Tensor data;
  int64_t rows, length;
  Rows(const at::Tensor& self, int64_t dim) {
    data = (self.dim() == 0 ? self.unsqueeze(0) : self.movedim(dim, -1)).contiguous();
    length = data.size(-1);
    rows = length == 0 ? 0 : data.numel() / length;
    TORCH_CHECK_NOT_IMPLEMENTED(length <= kMaxRow, "sorting more than 2^31 - 1 elements of one row");
  }
  ops::SortProblem problem(void* values, int64_t* indices, int64_t take, bool descending) const {
    return {dtype_of(data), data.const_data_ptr(), values, indices, rows, length, take, descending};
  }
};

// A result whose working dimension is `dim`, as a dense tensor with that dimension last, and not over what is read.
struct RowsOut {
  const at::Tensor& out;
  int64_t dim;
  at::Tensor data;
  RowsOut(const at::Tensor& out, int64_t dim, const Rows& read) : out(out), dim(out.dim() == 0 ? -1 : dim) {
    const at::Tensor moved = out.dim() == 0 ? out : out.movedim(dim, -1);
    const bool over = moved.const_data_ptr() == read.data.const_data_ptr();
    data = moved.is_contiguous() && !over ? moved : new_empty(moved.sizes(), out.scalar_type());
  }
  void finish() const {
    if (data.data_ptr() != out.data_ptr()) out.copy_(out.dim() == 0 ? data : data.movedim(-1, dim));
  }
};

}  // namespace

void sort_stable(const at::Tensor& self, std::optional<bool>, int64_t dim, bool descending, const at::Tensor& values,
                 const at::Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Rows in(self, dim);
  const RowsOut v(values, dim, in), i(indices, dim, in);
  ops::sort(runtime::current_queue(),
            in.problem(v.data.mutable_data_ptr(), i.data.mutable_data_ptr<int64_t>(), in.length, descending));
  v.finish();
  i.finish();
}

void topk(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool, const at::Tensor& values,
          const at::Tensor& indices) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "topk does not support bool dtypes on XPU");
  (void)kernels::topk_row_few[dtype_of(self)];  // the error for types that do not sort
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Rows in(self, dim);
  const RowsOut v(values, dim, in), i(indices, dim, in);
  ops::topk(runtime::current_queue(),
            in.problem(v.data.mutable_data_ptr(), i.data.mutable_data_ptr<int64_t>(), k, largest));
  v.finish();
  i.finish();
}

namespace {

using ops::PickMode;

// One element of every row in sorted order, by its number or as a median.
void pick(const at::Tensor& self, int64_t dim, int64_t k, PickMode mode, const at::Tensor& values,
          const at::Tensor& indices) {
  const Rows in(self, dim);
  const bool place = indices.defined();
  // A row must be read whole before a result takes the place of one of its elements.
  const bool over = at::get_overlap_status(in.data, values) != at::MemOverlapStatus::No;
  const at::Tensor v = values.is_contiguous() && !over ? values : new_empty(values.sizes(), values.scalar_type());
  const at::Tensor i = !place || indices.is_contiguous() ? indices : new_empty(indices.sizes(), at::kLong);
  ops::pick(runtime::current_queue(), {dtype_of(self), in.data.const_data_ptr(), v.mutable_data_ptr(),
                                       place ? i.mutable_data_ptr<int64_t>() : nullptr, in.rows, in.length, k, mode});
  if (!v.is_same(values)) values.copy_(v);
  if (place && !i.is_same(indices)) indices.copy_(i);
}

std::vector<int64_t> without(const at::Tensor& self, int64_t dim, bool keepdim) {
  std::vector<int64_t> sizes = self.sizes().vec();
  if (sizes.empty()) return sizes;
  if (keepdim)
    sizes[dim] = 1;
  else
    sizes.erase(sizes.begin() + dim);
  return sizes;
}

void pick_dim(const char* name, const at::Tensor& self, int64_t dim, bool keepdim, int64_t k, PickMode mode,
              at::Tensor& values, at::Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, name);
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  if (mode == PickMode::kth && self.dim() > 0)
    TORCH_CHECK_NOT_IMPLEMENTED(kernels::sort_pick.has(dtype_of(self)), "\"kthvalue_cpu\" not implemented for '",
                                toString(self.scalar_type()), "'");
  if (mode == PickMode::kth)
    TORCH_CHECK(k >= 1 && k <= length, "kthvalue(): selected number k out of range for dimension ", dim);
  if (mode == PickMode::kth) at::assert_no_overlap(self, values);
  resize_out(values, without(self, dim, keepdim), {}, self.options());
  resize_out(indices, without(self, dim, keepdim), {}, self.options().dtype(at::kLong));
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  pick(self, dim, k - 1, mode, values, indices);
}

at::Tensor median_all(const at::Tensor& self, PickMode mode) {
  if (self.numel() == 0)  // an integer is what NaN becomes as one, as on the CPU
    return at::full({}, std::numeric_limits<float>::quiet_NaN(), self.options().dtype(at::kFloat))
        .to(self.scalar_type());
  const at::Tensor out = new_empty({}, self.scalar_type());
  pick(self.reshape({-1}), 0, 0, mode, out, {});
  return out;
}

}  // namespace

std::tuple<at::Tensor&, at::Tensor&> kthvalue_values(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim,
                                                     at::Tensor& values, at::Tensor& indices) {
  pick_dim("kthvalue()", self, dim, keepdim, k, PickMode::kth, values, indices);
  return {values, indices};
}

at::Tensor median(const at::Tensor& self) { return median_all(self, PickMode::median); }
at::Tensor nanmedian(const at::Tensor& self) { return median_all(self, PickMode::nan_median); }

std::tuple<at::Tensor&, at::Tensor&> median_dim_values(const at::Tensor& self, int64_t dim, bool keepdim,
                                                       at::Tensor& values, at::Tensor& indices) {
  pick_dim("median()", self, dim, keepdim, 1, PickMode::median, values, indices);
  return {values, indices};
}

std::tuple<at::Tensor&, at::Tensor&> nanmedian_dim_values(const at::Tensor& self, int64_t dim, bool keepdim,
                                                          at::Tensor& values, at::Tensor& indices) {
  pick_dim("median()", self, dim, keepdim, 1, PickMode::nan_median, values, indices);
  return {values, indices};
}

std::tuple<at::Tensor, at::Tensor> mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, "mode()");
  at::Tensor values = new_empty(without(self, dim, keepdim), self.scalar_type());
  at::Tensor indices = new_empty(values.sizes(), at::kLong);
  const Rows in(self, dim);
  ops::mode(runtime::current_queue(), dtype_of(self), in.data.const_data_ptr(), values.mutable_data_ptr(),
            indices.mutable_data_ptr<int64_t>(), in.rows, in.length);
  return {values, indices};
}

std::tuple<at::Tensor&, at::Tensor&> mode_values(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                                 at::Tensor& indices) {
  TORCH_CHECK(self.scalar_type() == values.scalar_type(), "expected scalar type '", self.scalar_type(), "' but got '",
              values.scalar_type(), "' for values output");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "expected scalar type '", at::kLong, "' but got '",
              indices.scalar_type(), "' for indices output");
  const auto [v, i] = aten::mode(self, dim, keepdim);
  resize_out(values, v.sizes(), {}, v.options());
  resize_out(indices, i.sizes(), {}, i.options());
  check_apart(values, self);
  check_apart(indices, self);
  values.copy_(v);
  indices.copy_(i);
  return {values, indices};
}

// --- unique ---

namespace {

// Runs of equal slices among `count` slices of `width` elements, taken in `order` (or as they lie); the number of the
// run of the i-th goes to `place` i of the inverse. Returns the first slice of each run, the run of every slice, and
// the lengths of the runs. Reads one count back.
std::tuple<at::Tensor, at::Tensor, at::Tensor> find_runs(const at::Tensor& slices, int64_t count, int64_t width,
                                                         const at::Tensor& order, const at::Tensor& place, bool inverse,
                                                         bool counts) {
  ops::Runs runs(runtime::current_queue(), {dtype_of(slices), slices.const_data_ptr(),
                                            order.defined() ? order.const_data_ptr<int64_t>() : nullptr,
                                            place.defined() ? place.const_data_ptr<int64_t>() : nullptr, count, width});
  const int64_t total = runs.total();
  at::Tensor values = new_empty({total, width}, slices.scalar_type());
  at::Tensor where = new_empty({inverse ? count : 0}, at::kLong), lengths = new_empty({counts ? total : 0}, at::kLong);
  runs.write(values.mutable_data_ptr(), inverse ? where.mutable_data_ptr<int64_t>() : nullptr,
             counts ? lengths.mutable_data_ptr<int64_t>() : nullptr);
  return {values, where, lengths};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_flat(const at::Tensor& self, bool sort, bool inverse,
                                                           bool counts) {
  (void)kernels::unique_count[dtype_of(self)];
  const int64_t n = self.numel();
  if (n == 0)
    return {new_empty({0}, self.scalar_type()),
            inverse ? new_empty(self.sizes(), at::kLong) : new_empty({0}, at::kLong), new_empty({0}, at::kLong)};
  const Rows in(self.reshape({-1}), 0);
  at::Tensor sorted = in.data, order;
  if (sort) {
    sorted = new_empty({n}, self.scalar_type());
    if (inverse) order = new_empty({n}, at::kLong);
    ops::sort(runtime::current_queue(),
              in.problem(sorted.mutable_data_ptr(), inverse ? order.mutable_data_ptr<int64_t>() : nullptr, n, false));
  }
  auto [values, where, lengths] = find_runs(sorted, n, 1, {}, order, inverse, counts);
  return {values.view({-1}), inverse ? where.view(self.sizes()) : where, lengths};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_slices(const at::Tensor& self, int64_t dim, bool sort,
                                                             bool inverse, bool counts) {
  TORCH_CHECK_INDEX(self.dim() > 0, "Dimension specified as ", dim, " but tensor has no dimensions");
  const DType type = dtype_of(self);
  (void)kernels::unique_count[type];
  dim = at::maybe_wrap_dim(dim, self.dim());
  const auto zeros = std::count(self.sizes().begin(), self.sizes().end(), int64_t{0});
  if (self.size(dim) == 0) {
    TORCH_CHECK(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return {new_empty(self.sizes(), self.scalar_type()), new_empty({0}, at::kLong), new_empty({0}, at::kLong)};
  }
  TORCH_CHECK(zeros == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const at::Tensor slices = self.movedim(dim, 0).contiguous();
  const int64_t count = slices.size(0), width = slices.numel() / count;
  TORCH_CHECK_NOT_IMPLEMENTED(count <= kMaxRow && width <= kMaxRow, "unique over more than 2^31 - 1 slices");
  at::Tensor order;
  if (sort && width == 1) {
    order = new_empty({count}, at::kLong);
    ops::sort(runtime::current_queue(),
              Rows(slices.view({-1}), 0).problem(nullptr, order.mutable_data_ptr<int64_t>(), count, false));
  } else if (sort) {
    order = at::arange(count, self.options().dtype(at::kLong));
    const at::Tensor merged = new_empty({count}, at::kLong);
    int64_t *const first = order.mutable_data_ptr<int64_t>(), *const spare = merged.mutable_data_ptr<int64_t>();
    if (ops::order_slices(runtime::current_queue(), type, slices.const_data_ptr(), count, width, first, spare) == spare)
      order = merged;
  }
  auto [values, where, lengths] = find_runs(slices, count, width, order, order, inverse, counts);
  std::vector<int64_t> sizes = slices.sizes().vec();
  sizes[0] = values.size(0);
  return {values.view(sizes).movedim(0, dim), where, lengths};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _unique(const at::Tensor& self, bool, bool return_inverse) {
  auto [values, inverse, counts] = unique_flat(self, true, return_inverse, false);
  return {values, inverse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _unique2(const at::Tensor& self, bool, bool return_inverse,
                                                        bool return_counts) {
  return unique_flat(self, true, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_consecutive(const at::Tensor& self, bool return_inverse,
                                                                  bool return_counts, std::optional<int64_t> dim) {
  if (dim.has_value() && !(*dim == 0 && self.dim() == 1))
    return unique_slices(self, *dim, false, return_inverse, return_counts);
  return unique_flat(self, false, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim(const at::Tensor& self, int64_t dim, bool,
                                                          bool return_inverse, bool return_counts) {
  return unique_slices(self, dim, true, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim_consecutive(const at::Tensor& self, int64_t dim,
                                                                      bool return_inverse, bool return_counts) {
  return unique_slices(self, dim, false, return_inverse, return_counts);
}

}  // namespace xpu_ops::aten
