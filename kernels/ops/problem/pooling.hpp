// Windows of pooling; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// Axes are depth, height, width; 2-d pooling has depth 1. `in` sizes are those of the pooled tensor, `out` sizes those
// of the result, in forward and backward alike.
struct PoolWindows {
  const void* src;    // forward: input; backward: grad_output
  void* dst;          // forward: output; backward: grad_input
  int64_t* indices;   // max pooling: written forward where not null, read backward
  uint32_t channels;  // channels_last: C; contiguous: 1, and N * C planes
  int32_t in[3], out[3];
  int32_t kernel[3], stride[3], pad[3], dilation[3];
  int32_t divisor;    // average: divisor_override, 0 when not given
  uint32_t adaptive;  // windows by size ratio, not by kernel and stride
  uint32_t include_pad;
};

}  // namespace xpu_ops::ops
