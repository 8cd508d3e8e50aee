// Helpers of the adapters of nested tensors.
#pragma once
#include <ATen/core/Tensor.h>

namespace xpu_ops::aten {

at::Tensor _nested_from_padded(const at::Tensor& padded, const at::Tensor& cpu_nested_shape_example,
                               bool fuse_transform_0213);
at::Tensor nested_to_padded_tensor(const at::Tensor& self, double padding, at::OptionalIntArrayRef output_size);
// (items, length): which rows of a nested tensor's items exist where all are padded to `length`.
at::Tensor present_rows(const at::Tensor& nested, int64_t length);

}  // namespace xpu_ops::aten
