// Allocation of XPU tensors without a trip through the dispatcher.
#pragma once
#include <ATen/core/Tensor.h>

#include "bindings/export.hpp"

namespace xpu_ops::aten {

// On `device`, or on the current one where it has no index.
XPU_OPS_EXPORT at::Tensor empty(at::IntArrayRef size, at::ScalarType dtype, c10::Device device = c10::Device(c10::kXPU),
                                std::optional<at::MemoryFormat> format = std::nullopt);
XPU_OPS_EXPORT at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype,
                                        c10::Device device = c10::Device(c10::kXPU));
// As t.resize_ does to its storage: grows it, keeping the bytes that are there.
XPU_OPS_EXPORT void resize_storage(c10::StorageImpl* storage, size_t bytes, c10::Device device);

}  // namespace xpu_ops::aten
