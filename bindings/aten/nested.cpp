// Jagged tensors: the rows of all items one after another, and where each item begins.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/repeat_interleave.h>

#include "bindings/aten/core/tensor.hpp"

namespace xpu_ops::aten {
namespace {

at::Tensor checked_offsets(at::TensorList offsets, const char* name) {
  TORCH_CHECK(offsets.size() == 1, name, "(): only a single jagged dim is supported for now");
  TORCH_CHECK(offsets[0].dim() == 1, name, "(): expected 1D offsets, but got offsets.dim() == ", offsets[0].dim());
  return offsets[0].to(at::kLong);
}

at::Tensor counting(int64_t n, const at::Tensor& like) { return at::arange(n, like.options().dtype(at::kLong)); }

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
  const at::Tensor item = at::repeat_interleave(lengths);  // of every row
  const at::Tensor column = counting(item.numel(), dense) + ends.select(0, 0) - begins.index_select(0, item);
  return dense.flatten(0, 1).index_select(0, item * length + column);
}

}  // namespace xpu_ops::aten
