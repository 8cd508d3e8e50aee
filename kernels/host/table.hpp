// Pointwise kernels for the calling thread: small work on a CPU device whose queue is idle costs less than a launch.
#pragma once
#include <cstdint>

#include "dtype.hpp"
#include "sycl/pointwise_args.hpp"

namespace xpu_ops::host {

struct Kernel {
  void (*contig)(const PointwiseArgs&);
  void (*strided)(const PointwiseArgs&);
};

// By element type; nullptr where only the device has the kernel.
using Table = const Kernel* const (&)[kDTypeSlots];

// Elements of any strides cost more than those side by side.
constexpr int64_t kStridedShare = 4;

}  // namespace xpu_ops::host
