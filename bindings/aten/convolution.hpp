// Helpers of the convolution adapters.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/onednn/convolution.hpp"
#include "kernels/sycl/convolution_args.hpp"

namespace xpu_ops::aten {

ConvGeometry conv_geometry(int spatial, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                           at::IntArrayRef output_padding, bool transposed, int64_t groups);
std::vector<int64_t> conv_output_size(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& g);
// Upstream's rule: channels-last if the input or the weight is.
at::MemoryFormat conv_format(const at::Tensor& input, const at::Tensor& weight);

struct Activation {
  ConvActivation kind = ConvActivation::none;
  float alpha = 0, beta = 0;
};
// The depthwise kernel, with `bias` dense or undefined. False where it does not apply: oneDNN serves.
bool direct_depthwise(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias, const at::Tensor& out,
                      const ConvGeometry& g, const Activation& activation = {});

}  // namespace xpu_ops::aten
