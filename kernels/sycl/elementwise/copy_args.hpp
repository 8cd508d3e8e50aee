// Launch structs of copy, cast and fill; host and device share them. Strides and offsets are in elements, dimension 0
// varies fastest, and every offset of one launch is within 31 bits: the plan splits larger tensors.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"
#include "kernels/sycl/core/tile_args.hpp"

namespace xpu_ops {

constexpr int kCopyDims = 8;
constexpr uint32_t kRowColumns = 4096;  // of one work-group of rows, lines or steps

constexpr uint32_t kCopyTile = 64;         // elements of each side of a tile of blocks
constexpr uint32_t kTransposeColumn = 32;  // elements that one item of a transpose moves
// Elements of each side of a tile that a work-group turns in local memory: 64 bytes or more side by side.
constexpr uint32_t turned_side(size_t element) { return element < 4 ? 64 : 32; }
enum CopyFlags : uint32_t { kCopyConj = 1, kCopyNeg = 2 };

struct CopyArgs {
  void* dst;
  const void* src;
  uint32_t n;               // elements; of rows, lines and steps the rows: all but the first dimensions
  uint32_t group;           // rows of one work-group
  uint32_t flags;           // CopyFlags
  Divider size[kCopyDims];  // unused dimensions have size 1
  int32_t dst_stride[kCopyDims], src_stride[kCopyDims];
};

struct FillArgs {
  void* dst;
  uint64_t value[2];  // the element, in its own bits
  uint32_t n;         // elements; of steps the rows: all but the first dimension
  uint32_t group;     // rows of one work-group
  Divider size[kCopyDims];
  uint32_t dst_stride[kCopyDims];
};

}  // namespace xpu_ops
