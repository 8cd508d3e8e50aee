// Jagged tensors: the rows of all items one after another, and where each item begins. Nested tensors know their sizes
// on the host.
#include "bindings/aten/nested.hpp"

#include <ATen/NestedTensorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/nested/NestedTensorMath.h>
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <numeric>

#include "bindings/aten/core/tensor.hpp"

namespace xpu_ops::aten {
namespace {

at::Tensor checked_offsets(at::TensorList offsets, const char* name) {
  TORCH_CHECK(offsets.size() == 1, name, "(): only a single jagged dim is supported for now");
  TORCH_CHECK(offsets[0].dim() == 1, name, "(): expected 1D offsets, but got offsets.dim() == ", offsets[0].dim());
  return offsets[0].to(at::kLong);
}

at::Tensor counting(int64_t n, const at::Tensor& like) { return at::arange(n, like.options().dtype(at::kLong)); }

// Rows [0, lengths[i]) of items that are padded to one length, one item after another. `begins`: running sums of the
// lengths, which sum up to `total`.
at::Tensor rows_of(const at::Tensor& dense, const at::Tensor& begins, const at::Tensor& lengths, int64_t total) {
  const at::Tensor item = at::repeat_interleave(lengths, std::make_optional(total));  // of every row
  const at::Tensor column = counting(total, dense) + begins.select(0, 0) - begins.index_select(0, item);
  return dense.flatten(0, 1).index_select(0, item * dense.size(1) + column);
}

// The first dims of the items of a nested tensor where their others agree: the running sums, on the host.
std::optional<std::vector<int64_t>> ragged_rows(const at::Tensor& sizes) {
  if (sizes.dim() != 2 || sizes.size(0) == 0 || sizes.size(1) == 0) return std::nullopt;
  const at::Tensor plain = sizes.contiguous();
  const int64_t items = plain.size(0), dims = plain.size(1);
  const int64_t* s = plain.const_data_ptr<int64_t>();
  std::vector<int64_t> offsets{0};
  for (int64_t i = 0; i < items; ++i, s += dims) {
    if (!std::equal(s + 1, s + dims, plain.const_data_ptr<int64_t>() + 1)) return std::nullopt;
    offsets.push_back(offsets.back() + s[0]);
  }
  return offsets;
}

at::Tensor on_device(std::vector<int64_t>& numbers, const at::Tensor& like) {
  return at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kLong).to(like.device());
}

void check_shape_example(const at::Tensor& padded, const at::Tensor& sizes) {
  const char* const name = "_nested_from_padded";
  TORCH_CHECK(padded.dim() >= 2, name, "(): expected padded to have two dimensions at least, but got ", padded.sizes());
  TORCH_CHECK(sizes.is_cpu() && sizes.scalar_type() == at::kLong && sizes.dim() == 2 &&
                  sizes.size(0) == padded.size(0) && sizes.size(1) == padded.dim() - 1,
              name, "(): expected cpu_nested_shape_example to be a Long tensor of size [", padded.size(0), ", ",
              padded.dim() - 1, "] on the CPU, but got ", sizes.toString(), " ", sizes.sizes());
  const at::Tensor plain = sizes.contiguous();
  for (int64_t i = 0; i < plain.numel(); ++i) {
    const int64_t value = plain.const_data_ptr<int64_t>()[i], most = padded.size(1 + i % plain.size(1));
    TORCH_CHECK(value >= 0 && value <= most, name, "(): cpu_nested_shape_example has size ", value,
                " in a dimension that is padded to ", most);
  }
}

at::Tensor nested_of(const at::Tensor& buffer, const at::Tensor& sizes) {
  return at::detail::make_tensor<at::native::NestedTensorImpl>(buffer, sizes);
}

at::Tensor rows_of_buffer(const at::Tensor& nested, int64_t columns) {
  return at::native::get_nested_tensor_impl(nested)->get_buffer().view({-1, columns});
}

}  // namespace

at::Tensor _jagged_to_padded_dense_forward(const at::Tensor& values, at::TensorList offsets,
                                           at::IntArrayRef max_lengths, double padding_value) {
  const at::Tensor begins = checked_offsets(offsets, "_jagged_to_padded_dense_forward");
  TORCH_CHECK(max_lengths.size() == 1,
              "_jagged_to_padded_dense_forward(): only a single jagged dim is supported for now");
  const int64_t items = begins.numel() - 1, length = max_lengths[0];
  std::vector<int64_t> sizes = values.sizes().vec();
  sizes[0] = length;
  sizes.insert(sizes.begin(), items);
  if (values.numel() == 0 || items * length == 0) return at::full(sizes, padding_value, values.options());
  const at::Tensor column = counting(length, values).unsqueeze(0), begin = begins.narrow(0, 0, items).unsqueeze(1);
  const at::Tensor padding = column.ge(begins.narrow(0, 1, items).unsqueeze(1) - begin);
  const at::Tensor rows = (begin + column).masked_fill_(padding, 0);
  at::Tensor out = values.index_select(0, rows.flatten()).view(sizes);
  std::vector<int64_t> broadcast(sizes.size(), 1);
  broadcast[0] = items, broadcast[1] = length;
  return out.masked_fill_(padding.view(broadcast), padding_value);
}

at::Tensor _padded_dense_to_jagged_forward(const at::Tensor& dense, at::TensorList offsets,
                                           std::optional<int64_t> total_L) {
  const char* name = "_padded_dense_to_jagged_forward";
  const at::Tensor ends = checked_offsets(offsets, name);
  const int64_t items = ends.numel() - 1, length = dense.size(1), last = ends.select(0, items).item<int64_t>();
  TORCH_CHECK(items <= dense.size(0), name, "(): expected at most ", dense.size(0), " items, but got ", items);
  TORCH_CHECK(!total_L.has_value() || *total_L == last, name, "(): final offset should match total_L value");
  const at::Tensor begins = ends.narrow(0, 0, items), lengths = ends.narrow(0, 1, items) - begins;
  const int64_t longest = items ? lengths.max().item<int64_t>() : 0;
  TORCH_CHECK(longest <= length, name, "(): found batch item of length ", longest,
              " when max length specified by padded input is ", length);
  return rows_of(dense, begins, lengths, items ? last - ends.select(0, 0).item<int64_t>() : 0);
}

at::Tensor _nested_from_padded(const at::Tensor& padded, const at::Tensor& cpu_nested_shape_example,
                               bool fuse_transform_0213) {
  at::Tensor dense = padded;
  if (fuse_transform_0213) {
    TORCH_CHECK(padded.dim() == 4, "_nested_from_padded(): fuse_transform_0213 wants 4 dimensions, but got ",
                padded.sizes());
    dense = padded.transpose(1, 2).flatten(2, 3);
  }
  check_shape_example(dense, cpu_nested_shape_example);
  const at::Tensor sizes = cpu_nested_shape_example.contiguous();
  auto offsets = ragged_rows(sizes);
  const auto inner = dense.sizes().slice(2);
  if (!offsets || !std::equal(inner.begin(), inner.end(), sizes.const_data_ptr<int64_t>() + 1))
    return at::native::nested_from_padded_generic(dense, sizes, false);
  const int64_t total = offsets->back();
  if (total == 0 || dense.numel() == 0) return nested_of(new_empty({0}, dense.scalar_type()), sizes);
  const at::Tensor ends = on_device(*offsets, dense), begins = ends.narrow(0, 0, dense.size(0));
  const at::Tensor lengths = ends.narrow(0, 1, dense.size(0)) - begins;
  return nested_of(rows_of(dense, begins, lengths, total).flatten(), sizes);
}

std::tuple<at::Tensor, at::Tensor> _nested_compute_contiguous_strides_offsets(const at::Tensor& nested_size) {
  if (nested_size.dim() == 0) return {nested_size, new_empty({0}, at::kLong)};
  const int64_t items = nested_size.size(0), dims = nested_size.size(1);
  TORCH_CHECK(nested_size.dim() == 2,
              "_nested_compute_contiguous_strides_offsets(): expected a row of sizes per item, ",
              "but got a tensor of sizes ", nested_size.sizes());
  if (dims == 0) return {nested_size, counting(items, nested_size)};
  check_scalar_type(nested_size, at::kLong);
  const at::Tensor products = nested_size.flip(1).cumprod(1);  // of the last sizes: of one, two and so on
  const at::Tensor last = at::ones({items, 1}, nested_size.options());
  const at::Tensor all = products.select(1, dims - 1);
  return {at::cat({last, products.narrow(1, 0, dims - 1)}, 1).flip(1), all.cumsum(0) - all};
}

at::Tensor nested_to_padded_tensor(const at::Tensor& self, double padding, at::OptionalIntArrayRef output_size) {
  const auto* impl = at::native::get_nested_tensor_impl(self);
  const at::Tensor& sizes = impl->get_nested_sizes();
  auto offsets = ragged_rows(sizes);
  if (!offsets || !at::native::nested_tensor_impl_is_contiguous(impl) || impl->get_buffer_size() == 0)
    return at::native::NestedTensor_to_padded_tensor_generic(self, padding, output_size);
  const int64_t items = sizes.size(0), dims = sizes.size(1);
  const int64_t* item = sizes.const_data_ptr<int64_t>();
  std::vector<int64_t> shape(item, item + dims);
  for (int64_t i = 0; i < items; ++i) shape[0] = std::max(shape[0], (*offsets)[i + 1] - (*offsets)[i]);
  int64_t length = shape[0];
  if (output_size.has_value()) {
    shape.insert(shape.begin(), items);
    const bool rows_only = output_size->size() == shape.size() && (*output_size)[1] >= length &&
                           output_size->slice(2) == at::IntArrayRef(shape).slice(2) && (*output_size)[0] == items;
    if (!rows_only) return at::native::NestedTensor_to_padded_tensor_generic(self, padding, output_size);
    length = (*output_size)[1];
    shape.erase(shape.begin());
  }
  shape[0] = offsets->back();
  const at::Tensor values = impl->get_buffer().view(shape);
  return _jagged_to_padded_dense_forward(values, {on_device(*offsets, values)}, {length}, padding);
}

at::Tensor present_rows(const at::Tensor& nested, int64_t length) {
  const at::Tensor& sizes = at::native::get_nested_sizes(nested);
  const at::Tensor lengths = sizes.select(1, 0).contiguous().to(nested.device());
  return counting(length, lengths).unsqueeze(0).lt(lengths.unsqueeze(1));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> nested_native_layer_norm(const at::Tensor& input,
                                                                        at::IntArrayRef normalized_shape,
                                                                        const std::optional<at::Tensor>& weight,
                                                                        const std::optional<at::Tensor>& bias,
                                                                        double eps) {
  const auto* impl = at::native::get_nested_tensor_impl(input);
  TORCH_CHECK(at::native::nested_tensor_impl_is_contiguous(impl), "NestedTensor must be contiguous for layer_norm.");
  const auto given = [](const std::optional<at::Tensor>& t) { return t.has_value() ? *t : at::Tensor(); };
  const auto [rows, columns] =
      at::native::_check_nested_layer_norm_inputs(*impl, normalized_shape, given(weight), given(bias));
  const auto flat = [](const std::optional<at::Tensor>& t) { return t && t->defined() ? t->flatten() : at::Tensor(); };
  auto [out, mean, rstd] =
      at::native_layer_norm(rows_of_buffer(input, columns), {columns}, flat(weight), flat(bias), eps);
  return {nested_of(out.flatten(), impl->get_nested_sizes()), mean.flatten(), rstd.flatten()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> nested_native_layer_norm_backward(
    const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape, const at::Tensor& mean,
    const at::Tensor& rstd, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
    std::array<bool, 3> output_mask) {
  const auto* impl = at::native::get_nested_tensor_impl(input);
  const auto given = [](const std::optional<at::Tensor>& t) { return t.has_value() ? *t : at::Tensor(); };
  const auto [rows, columns] =
      at::native::_check_nested_layer_norm_inputs(*impl, normalized_shape, given(weight), given(bias));
  TORCH_CHECK(grad_out.is_nested() && at::native::get_nested_sizes(grad_out).equal(impl->get_nested_sizes()),
              "layer_norm_backward: expected the gradient to have the sizes of the nested input");
  TORCH_CHECK(mean.numel() == rows && rstd.numel() == rows, "layer_norm_backward: expected ", rows,
              " means and deviations, but got ", mean.numel(), " and ", rstd.numel());
  const auto flat = [](const std::optional<at::Tensor>& t) { return t && t->defined() ? t->flatten() : at::Tensor(); };
  auto [grad_input, grad_weight, grad_bias] = at::native_layer_norm_backward(
      rows_of_buffer(grad_out.contiguous(), columns), rows_of_buffer(input.contiguous(), columns), {columns},
      mean.view({rows, 1}), rstd.view({rows, 1}), flat(weight), flat(bias), output_mask);
  if (grad_input.defined()) grad_input = nested_of(grad_input.flatten(), impl->get_nested_sizes());
  if (grad_weight.defined()) grad_weight = grad_weight.view(normalized_shape);
  if (grad_bias.defined()) grad_bias = grad_bias.view(normalized_shape);
  return {grad_input, grad_weight, grad_bias};
}

namespace {

// f(matrix of buffer, columns) for the rows of each item, all at once where they are of one length. Flat results follow
// one another. `one`: the buffer has one element per row.
template <class F>
at::Tensor by_last_dim(const at::Tensor& buffer, const at::Tensor& sizes, bool one, F f) {
  const at::Tensor plain = sizes.contiguous();
  const int64_t items = plain.size(0), dims = items ? plain.size(1) : 0;
  std::vector<int64_t> rows(items, 1), columns(items);
  for (int64_t i = 0; i < items; ++i) {
    const int64_t* size = plain.const_data_ptr<int64_t>() + i * dims;
    for (int64_t d = 0; d + 1 < dims; ++d) rows[i] *= size[d];
    columns[i] = size[dims - 1];
  }
  if (items == 0) return buffer;
  if (std::all_of(columns.begin(), columns.end(), [&](int64_t c) { return c == columns[0]; })) {
    rows = {std::accumulate(rows.begin(), rows.end(), int64_t{0})};
    columns.resize(1);
  }
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t width = one ? 1 : columns[i];
    parts.push_back(f(buffer.narrow(0, begin, rows[i] * width).view({rows[i], width}), columns[i]).flatten());
    begin += rows[i] * width;
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

}  // namespace

at::Tensor nested_sum_dim_IntList(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                                  std::optional<at::ScalarType> dtype) {
  const auto* impl = at::native::get_nested_tensor_impl(self);
  TORCH_CHECK(dim && dim->size() == 1, "NestedTensor only allows reduction of a single dimension for now.");
  const int64_t along = at::maybe_wrap_dim((*dim)[0], self.dim());
  TORCH_CHECK(along == self.dim() - 1,
              "NestedTensor can only be reduced across the last dimension for now got dimension ", along, " instead.");
  TORCH_CHECK(keepdim, "NestedTensor always requires keepdim=True for now.");
  TORCH_CHECK(!dtype, "NestedTensor does not support dtype argument for now.");
  TORCH_CHECK(at::native::nested_tensor_impl_is_contiguous(impl),
              "NestedTensor does not support reductions when the input is noncontiguous for now.");
  const at::Tensor& sizes = impl->get_nested_sizes();
  if (sizes.dim() == 0) return self.clone();
  at::Tensor sums = sizes.clone();
  sums.select(1, -1).fill_(1);
  const auto sum = [&](const at::Tensor& rows, int64_t) { return at::sum(rows, {1}, false, self.scalar_type()); };
  return nested_of(by_last_dim(impl->get_buffer(), sizes, false, sum), sums);
}

at::Tensor nested__nested_sum_backward(const at::Tensor& grad, const at::Tensor& self, at::OptionalIntArrayRef, bool) {
  const at::Tensor& sizes = at::native::get_nested_tensor_impl(self)->get_nested_sizes();
  if (sizes.dim() == 0) return self.clone();
  const at::Tensor given = grad.contiguous();
  const auto* impl = at::native::get_nested_tensor_impl(given);
  at::Tensor expected = sizes.clone();
  expected.select(1, -1).fill_(1);
  TORCH_CHECK(impl->get_nested_sizes().equal(expected),
              "_nested_sum_backward: expected a gradient with one element per row of the nested tensor");
  const auto spread = [](const at::Tensor& rows, int64_t columns) {
    return rows.expand({rows.size(0), columns}).contiguous();
  };
  return nested_of(by_last_dim(impl->get_buffer(), sizes, true, spread), sizes);
}

}  // namespace xpu_ops::aten
