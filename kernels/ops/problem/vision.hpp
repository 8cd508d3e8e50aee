// Problems of torchvision's operators; no type of the device, no torch.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/real_args.hpp"

namespace xpu_ops::ops {

// Non-maximum suppression of boxes in the order of their scores.
struct NmsProblem {
  const void* boxes;     // [n, 4]: x1, y1, x2, y2
  const int64_t* order;  // of each box the number that the caller knows
  int64_t* keep;         // results: those numbers
  uint32_t n;
};

// Regions of interest [rois, 5]: image, x1, y1, x2, y2. `map` is what the forward reads, [images, channels, height,
// width]; a gradient reads `map` as the pooled gradient [rois, channels, rows, columns] and adds to `out`.
struct RoiProblem {
  const void* map;
  const void* rois;
  void* out;
  int32_t* index;  // roi_pool: the pixel of each maximum, -1 for none; forwards of ps_roi_*: the channel it came from
  int64_t stride[4];  // of map, in elements
  uint32_t roi_count, images, channels, height, width;
  uint32_t pooled[2];  // rows, columns
  int32_t sampling;    // samples along an axis of a bin; 0 and below: one per pixel
  Real scale;          // from coordinates of boxes to pixels
  uint8_t aligned;     // pixel centers are at halves
};

// Deformable convolution as a product with columns [images, positions, groups, taps, channels / groups]. Channels of
// images are innermost.
struct DeformProblem {
  const void* input;   // [images, height, width, channels]
  const void* offset;  // [images, offset_groups, taps, 2, positions]: y, x
  const void* mask;    // [images, offset_groups, taps, positions] or null
  void* columns;       // of the input, or their gradient
  void* grad_input;    // [images, height, width, channels], compute type; added to
  void* grad_offset;   // as offset
  void* grad_mask;     // as mask
  uint32_t images, channels, height, width;
  uint32_t out_height, out_width, kernel_height, kernel_width;
  int32_t stride[2], padding[2], dilation[2];  // y, x
  uint32_t groups, offset_groups;
};

}  // namespace xpu_ops::ops
