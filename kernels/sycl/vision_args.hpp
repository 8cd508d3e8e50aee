// Arguments of torchvision's operators: boxes, pooling of regions, deformable convolution; shared by host and device.
#pragma once
#include "kernels/sycl/core/device_error_args.hpp"
#include "kernels/sycl/core/divide.hpp"
#include "kernels/sycl/core/real_args.hpp"

namespace xpu_ops {

// Non-maximum suppression of boxes in the order of their scores, kNmsBlock of them after the other: which of a block
// overlap (a bit each), which of it stay, and which of all later ones those suppress.
constexpr uint32_t kNmsBlock = 1024, kNmsWords = kNmsBlock / 64;

struct NmsArgs {
  const void* boxes;     // [n, 4]: x1, y1, x2, y2
  const int64_t* order;  // of each box the number that the caller knows
  int64_t* keep;         // results: those numbers
  uint32_t* counts;      // results: how many stay; how many of this block
  uint32_t* kept;        // [kNmsBlock]: places of those of this block
  uint64_t* overlaps;    // [kNmsBlock, kNmsWords]
  uint8_t* gone;         // [n]: whether an earlier block suppresses it
  uint32_t n, first;     // the block begins at `first`
  Real threshold;        // of one precision: rounded down, so that comparisons are those with the double
};

// Regions of interest [rois, 5]: image, x1, y1, x2, y2. `map` is what the forward reads, [images, channels, height,
// width]; a gradient reads `map` as the pooled gradient [rois, channels, rows, columns] and adds to `out`.
struct RoiArgs {
  const void* map;
  const void* rois;
  void* out;
  int32_t* index;  // roi_pool: the pixel of each maximum, -1 for none; forwards of ps_roi_*: the channel it came from
  DeviceError* error;
  int64_t stride[4];  // of map, in elements
  uint32_t roi_count, images, channels, height, width;
  uint32_t pooled[2];  // rows, columns
  int32_t sampling;    // samples along an axis of a bin; 0 and below: one each pixel
  Real scale;          // from coordinates of boxes to pixels
  uint8_t aligned;     // pixel centers are at halves
  // made by the plan
  uint32_t bands, lines;  // gradient of roi_align: a group has a band of so many lines of an image
  uint32_t items;         // of a group of ps_roi_*: channels
};

// Deformable convolution as a product with columns [images, positions, groups, taps, channels / groups]. Channels of
// images are innermost.
struct DeformArgs {
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
  // made by the plan
  uint32_t segment;  // channels that have both group and offset group in common
  uint32_t block;    // positions of a work-group
  Divider by_width;  // of the output
};

}  // namespace xpu_ops
