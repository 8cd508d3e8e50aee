// Convolution and transposed convolution through oneDNN, 1 to 3 spatial dims.
#pragma once
#include <list>

#include "kernels/postops.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::onednn {

// All views have logical dims (N, C, spatial...) and any dense strides; weights as torch keeps them: (O, I/groups,
// k...), transposed (I, O/groups, k...). Layouts that are not channels-last are reordered through scratch memory,
// except where a convolution is a matmul (1x1, stride 1) and takes them as they are. Each returns false, having run
// nothing, if oneDNN has no fast implementation or one that is wrong. No dim may be 0.

// Fused post-ops see dst's logical dims (N, O, spatial...). A sum post-op reads what dst holds.
bool convolution_forward(runtime::Queue& queue, const View& src, const View& weights, const View* bias, const View& dst,
                         const ConvGeometry& geometry, const PostOps& post = {}, const WeightRef& weight = {});

// Copies of operands in the layouts that implementations chose, for the two gradients of one convolution to share.
// Its tensors must live as long, and no one write to them.
struct LayoutCopy {
  LayoutCopy(const View& v, uint64_t id, size_t bytes) : from(v), layout(id), memory(bytes) {}
  View from;
  uint64_t layout;
  runtime::Scratch memory;
};
using LayoutCopies = std::list<LayoutCopy>;

bool convolution_backward_data(runtime::Queue& queue, const View& diff_dst, const View& weights, const View& diff_src,
                               const ConvGeometry& geometry, LayoutCopies& copies, const WeightRef& weight = {});
// diff_bias may be null.
bool convolution_backward_weights(runtime::Queue& queue, const View& src, const View& diff_dst,
                                  const View& diff_weights, const View* diff_bias, const ConvGeometry& geometry,
                                  LayoutCopies& copies);

}  // namespace xpu_ops::onednn
