// Launch arguments of the pooling kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

constexpr int kPoolLanes = 16, kPoolVectors = 4;  // channels_last: a work-group, and how often it fits its channels
constexpr int kPoolLine = 2048, kPoolSlack = 64;  // floats of a line that an item keeps, and what vectors reach past it
constexpr int kPoolBand = 4096;                   // sums of a band that an item keeps

// Axes are depth, height, width; 2-d pooling has depth 1. `in` sizes are those of the pooled tensor, `out` sizes those
// of the result, in forward and backward alike; `size` is the one of dst.
struct PoolArgs {
  const void* src;    // forward: input; backward: grad_output
  void* dst;          // forward: output; backward: grad_input
  int64_t* indices;   // max pooling: written forward where not null, read backward
  uint32_t items;     // elements of dst
  uint32_t channels;  // channels_last: C; contiguous: 1, and N * C planes
  int32_t in[3], out[3], size[3];
  int32_t kernel[3], stride[3], pad[3], dilation[3];
  xpu::Divider by_channel, by_size[3];  // decode a linear index of dst
  xpu::Divider by_in[3], by_out[3];     // adaptive windows
  xpu::Divider by_stride[3], by_dilation[3];
  int32_t divisor;    // average: divisor_override, 0 when not given
  uint32_t adaptive;  // windows by size ratio, not by kernel and stride
  uint32_t include_pad;
  int32_t reach[3];      // most window positions one element of dst looks at
  uint32_t segment;      // rows launch: steps of one item; lines: elements of one; scatter: steps along `axis`
  uint32_t lanes;        // rows launch: C (channels_last) or the width of dst; lines: elements of src
  int32_t axis;          // scatter: the axis that bands divide
  xpu::Divider by_part;  // segments of a line, or bands of a plane
};

}  // namespace xpu_ops
