// Shared by host and device.
#pragma once
#include <cstdint>

namespace xpu_ops {

constexpr uint32_t kLocalBins = 4096;  // most that a work-group counts in local memory

}  // namespace xpu_ops
