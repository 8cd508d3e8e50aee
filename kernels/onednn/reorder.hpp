// Copies between layouts and types through oneDNN's reorder.
#pragma once
#include "kernels/onednn/tensor.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::onednn {

// n elements side by side as float32. The storey above has that kernel and gives it here, once, before the first
// reorder.
using Widen = void (*)(runtime::Queue&, void* to, const void* from, DType type, int64_t n);
void set_widen(Widen widen);

// False if oneDNN has no fast implementation.
bool reorder(runtime::Queue& queue, const View& src, const View& dst);
// To an opaque layout, for example a packed weight: `dst_layout` is layout_id(dst). Where oneDNN would convert to
// float32 by its reference, which takes many times as long as a conversion and the copy, elements are converted first.
bool reorder(runtime::Queue& queue, const View& src, const dnnl::memory::desc& dst, uint64_t dst_layout,
             void* dst_data);
bool reorder(runtime::Queue& queue, const dnnl::memory::desc& src, uint64_t src_layout, void* src_data,
             const View& dst);

}  // namespace xpu_ops::onednn
