// Convolution and transposed convolution through oneDNN, 1 to 3 spatial dims.
#pragma once
#include "onednn/postops.hpp"
#include "onednn/tensor.hpp"
#include "runtime/queue.hpp"

namespace xpu_ops::onednn {

struct ConvGeometry {
  int spatial = 2;
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
  int64_t output_padding[3] = {0, 0, 0};  // transposed only
  int64_t groups = 1;
  bool transposed = false;
};

// All views have logical dims (N, C, spatial...) and any dense strides; weights as torch keeps them: (O, I/groups,
// k...), transposed (I, O/groups, k...). Layouts that are not channels-last are reordered through scratch memory,
// except where a convolution is a matmul (1x1, stride 1) and takes them as they are. Each returns false, having run
// nothing, if oneDNN has no fast implementation. No dim may be 0.

// Fused post-ops see dst's logical dims (N, O, spatial...). A sum post-op reads what dst holds.
bool convolution_forward(runtime::Queue& queue, const View& src, const View& weights, const View* bias, const View& dst,
                         const ConvGeometry& geometry, const PostOps& post = {}, const WeightRef& weight = {});
bool convolution_backward_data(runtime::Queue& queue, const View& diff_dst, const View& weights, const View& diff_src,
                               const ConvGeometry& geometry, const WeightRef& weight = {});
// diff_bias may be null.
bool convolution_backward_weights(runtime::Queue& queue, const View& src, const View& diff_dst,
                                  const View& diff_weights, const View* diff_bias, const ConvGeometry& geometry);

}  // namespace xpu_ops::onednn
