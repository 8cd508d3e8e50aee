// Problems of products with own kernels; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

struct DotProblem {
  const void *a, *b;
  void* out;
  int64_t a_stride, b_stride;
  uint32_t n, conj;
};

}  // namespace xpu_ops::ops
