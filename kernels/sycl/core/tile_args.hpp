// How many elements of a dense tensor one work-group takes; host and device share it.
#pragma once
#include <cstdint>

namespace xpu_ops {
constexpr uint32_t kTileElements = 4096;
}
