// Helpers of the convolution adapters.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/products/problem.hpp"

namespace xpu_ops::aten {

ConvGeometry conv_geometry(int spatial, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                           at::IntArrayRef output_padding, bool transposed, int64_t groups);
std::vector<int64_t> conv_output_size(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& g);
// Upstream's rule: channels-last if the input or the weight is.
at::MemoryFormat conv_format(const at::Tensor& input, const at::Tensor& weight);
// Operands of the forward pass, with a bias or none, whose view is put into `bias_view`.
products::ConvProblem conv_problem(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                   const at::Tensor& out, const ConvGeometry& g, at::MemoryFormat format,
                                   View& bias_view);

}  // namespace xpu_ops::aten
