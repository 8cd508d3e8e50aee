// Numbers that plans of several families share.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace xpu_ops::ops {

inline constexpr int64_t kMaxLaunch = (int64_t{1} << 31) - 1;  // elements that a launch numbers
inline constexpr uint32_t kGroupsPerUnit = 4;                  // so that units that start late still share the work
inline constexpr uint32_t kMostRowGroups = 65535;  // CUDA launches no more, where tools/gpu runs the kernels
inline constexpr int64_t kHostMove = 20;           // of a step of indices, in units of SmallWork::run()

// Of a sum of elements of the type.
constexpr size_t accumulator_bytes(DType type) { return type == DType::f64 ? 8 : 4; }

}  // namespace xpu_ops::ops
