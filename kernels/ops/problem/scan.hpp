// Problem of the cumulative operators; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// Dense tensors of one shape.
struct ScanPointers {
  const void* in;
  void* out;
  int64_t* indices;  // cummax, cummin
};

}  // namespace xpu_ops::ops
