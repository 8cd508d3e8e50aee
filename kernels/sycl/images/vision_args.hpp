// Arguments of torchvision's operators: boxes, pooling of regions, deformable convolution; shared by host and device.
#pragma once
#include "kernels/ops/problem/vision.hpp"
#include "kernels/sycl/core/device_error_args.hpp"
#include "kernels/sycl/core/divide.hpp"
#include "kernels/sycl/core/real_args.hpp"

namespace xpu_ops {

// Non-maximum suppression of boxes in the order of their scores, kNmsBlock of them after the other: which of a block
// overlap (a bit each), which of it stay, and which of all later ones those suppress.
constexpr uint32_t kNmsBlock = 1024, kNmsWords = kNmsBlock / 64;

struct NmsArgs : ops::NmsProblem {
  uint32_t* counts;    // results: how many stay; how many of this block
  uint32_t* kept;      // [kNmsBlock]: places of those of this block
  uint64_t* overlaps;  // [kNmsBlock, kNmsWords]
  uint8_t* gone;       // [n]: whether an earlier block suppresses it
  uint32_t first;      // where the block begins
  Real threshold;      // of one precision: rounded down, so that comparisons are those with the double
};

struct RoiArgs : ops::RoiProblem {
  DeviceError* error;
  uint32_t bands, lines;  // gradient of roi_align: a group has a band of so many lines of an image
  uint32_t items;         // of a group of ps_roi_*: channels
};

struct DeformArgs : ops::DeformProblem {
  uint32_t segment;  // channels that have both group and offset group in common
  uint32_t block;    // positions of a work-group
  Divider by_width;  // of the output
};

}  // namespace xpu_ops
