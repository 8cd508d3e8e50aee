// Arguments of attention over pages; shared by host and device.
#pragma once
#include "kernels/ops/problem/varlen.hpp"
#include "kernels/sycl/core/device_error_args.hpp"

namespace xpu_ops {

constexpr uint32_t kMostPagedDim = 256;

struct PagedArgs : ops::PagedProblem {
  DeviceError* error = nullptr;
  int64_t message = 0;  // of the error, where begins or lengths cannot be right
  uint32_t share = 1;   // of the heads with the same keys, as many as a work-group takes: 1, 2 or 4
};

struct PlaceArgs : ops::PlaceProblem { DeviceError* error = nullptr; };

}  // namespace xpu_ops
