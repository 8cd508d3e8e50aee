// Host memory that this process has mapped for a device index, so that torch learns from an address whose it is.
#pragma once
#include <cstddef>
#include <optional>

#include "bindings/export.hpp"

namespace xpu_ops {

XPU_OPS_EXPORT void name_mapping(void* begin, size_t bytes, int device);
XPU_OPS_EXPORT void forget_mapping(void* begin) noexcept;
// The index of the mapping that an address lies in.
std::optional<int> device_of_mapping(const void* ptr);

}  // namespace xpu_ops
