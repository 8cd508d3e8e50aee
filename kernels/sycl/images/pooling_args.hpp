// Launch arguments of the pooling kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/pooling.hpp"
#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

constexpr int kPoolLanes = 16, kPoolVectors = 4;  // channels_last: a work-group, and how often it fits its channels
constexpr int kPoolLine = 2048, kPoolSlack = 64;  // floats of a line that an item keeps, and what vectors reach past it
constexpr int kPoolBand = 4096;                   // sums of a band that an item keeps

struct PoolArgs : ops::PoolWindows {
  uint32_t items;                       // elements of dst
  int32_t size[3];                      // of dst
  int32_t reach[3];                     // most window positions one element of dst looks at
  xpu::Divider by_channel, by_size[3];  // decode a linear index of dst
  xpu::Divider by_in[3], by_out[3];     // adaptive windows
  xpu::Divider by_stride[3], by_dilation[3];
  uint32_t segment;      // rows launch: steps of one item; lines: elements of one; scatter: steps along `axis`
  uint32_t lanes;        // rows launch: C (channels_last) or the width of dst; lines: elements of src
  int32_t axis;          // scatter: the axis that bands divide
  xpu::Divider by_part;  // segments of a line, or bands of a plane
};

}  // namespace xpu_ops
