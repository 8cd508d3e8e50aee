// Arguments of attention over pages; shared by host and device.
#pragma once
#include "kernels/ops/problem/varlen.hpp"
#include "kernels/sycl/core/device_error_args.hpp"

namespace xpu_ops {

constexpr uint32_t kMostPagedDim = 256;

struct PagedArgs : plan::PagedProblem {
  DeviceError* error = nullptr;
  int64_t message = 0;  // of the error, where begins or lengths cannot be right
  uint32_t share = 1;   // of the heads with the same keys, as many as a work-group takes: 1, 2 or 4
};

// Rows of tokens and the pages of a cache that they go to; strides are in elements.
struct PlacePart {
  const void* src = nullptr;  // [tokens][size 0][size 1][size 2] by strides
  void* dst = nullptr;        // [pages][page][size 0][size 1][size 2] by strides
  int64_t src_stride[4] = {0, 0, 0, 1}, dst_stride[5] = {0, 0, 0, 0, 1};
  uint32_t size[3] = {1, 1, 1};
};

struct PlaceArgs {
  PlacePart part[2];               // keys and values
  const int64_t* slots = nullptr;  // [tokens]: a page times `page` plus the place there; below 0: none
  DeviceError* error = nullptr;
  int64_t pages = 0, page = 1;
  uint32_t tokens = 0;
};

}  // namespace xpu_ops
