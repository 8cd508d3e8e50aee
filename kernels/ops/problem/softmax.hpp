// Problem of softmax; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// A contiguous [outer][dim][inner] tensor, softmax along dim; the gradient where `y` is given.
struct SoftmaxProblem {
  const void* x = nullptr;  // forward: input; backward: gradient of the output
  const void* y = nullptr;  // backward: output of the forward
  void* out = nullptr;
  uint32_t outer = 1, dim = 1, inner = 1;
};

}  // namespace xpu_ops::ops
