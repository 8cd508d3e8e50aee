// Launch arguments of the softmax kernels: a contiguous [outer][dim][inner] tensor, softmax along dim.
#pragma once
#include <cstdint>

namespace xpu_ops {

constexpr uint32_t kSoftmaxVectors = 8;  // col: vectors of columns that an item takes
constexpr uint32_t kSoftmaxRows = 4;     // short: rows of kLanes to kSoftmaxShort elements side by side
constexpr uint32_t kSoftmaxShort = 64;

struct SoftmaxArgs {
  const void* x = nullptr;  // forward: input; backward: gradient of the output
  const void* y = nullptr;  // backward: output of the forward
  void* out = nullptr;
  uint32_t outer = 1, dim = 1, inner = 1;
  uint32_t blocks = 1;  // col: work-groups over inner
  uint32_t once = 1;    // see whole_or_part
  uint32_t team = 1;    // team: items that share a row
};

}  // namespace xpu_ops
