// Copies between layouts and types through oneDNN's reorder.
#pragma once
#include "kernels/onednn/tensor.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::onednn {

// False if oneDNN has no fast implementation.
bool reorder(runtime::Queue& queue, const View& src, const View& dst);
// To an opaque layout, for example a packed weight: `dst_layout` is layout_id(dst).
bool reorder(runtime::Queue& queue, const View& src, const dnnl::memory::desc& dst, uint64_t dst_layout,
             void* dst_data);
bool reorder(runtime::Queue& queue, const dnnl::memory::desc& src, uint64_t src_layout, void* src_data,
             const View& dst);

}  // namespace xpu_ops::onednn
