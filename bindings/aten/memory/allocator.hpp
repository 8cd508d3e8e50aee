// The runtime's caching allocator as torch's allocator of the XPU device.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>

#include "bindings/export.hpp"

namespace xpu_ops {

XPU_OPS_EXPORT c10::DeviceAllocator* xpu_allocator();
// Pinned host memory, cached.
c10::Allocator* pinned_allocator();
bool is_pinned(const void* ptr);
// A copy on the stream uses the pinned block: it is not handed out again before the copy is done.
void record_pinned(const c10::DataPtr& ptr, c10::Stream stream);

}  // namespace xpu_ops
