// Arguments of the embedding kernels; shared by host and device.
#pragma once
#include "kernels/sycl/indexing_args.hpp"

namespace xpu_ops {

enum class BagMode : uint32_t { sum = 0, mean = 1, max = 2 };

struct BagArgs {
  const void* weight;      // [rows, features] by strides
  IndexSource index;       // contiguous
  const void* offsets;     // starts of the bags, same type as the indices
  const void* per_sample;  // or null; stride per_sample_stride
  void* out;               // [bags, features] contiguous
  void* bag_size;          // index type
  void* max_indices;       // index type; max: [bags, features], else not written
  void* offset2bag;        // index type, may be null
  int64_t weight_stride0, weight_stride1, per_sample_stride;
  int64_t padding;  // index that is left out; -1: none
  uint32_t bags, count, features;
  uint32_t bags_per_group;  // that a work-group takes in turn
  BagMode mode;
  uint8_t is32;
};

// Rescales the flagged rows of a table to a norm of at most max_norm.
struct RenormArgs {
  void* weight;
  const uint8_t* flags;  // one a row
  int64_t stride0, stride1;
  Real max_norm, p;
  uint8_t norm;  // 0: infinity, 1, 2, or 3: any p
  uint32_t rows, features;
};

// Gradient of the table: rows of `grad` added at their indices, in the order of the samples. A work-group has a tile of
// columns and a part of the rows.
struct BagGradArgs {
  const void* grad;        // [bags, features] contiguous
  const void* index;       // contiguous
  const void* offset2bag;  // same type as the index; null: a sample is its own bag
  const void* bag_size;    // of the same type: divides; may be null
  const void* per_sample;  // or null; stride per_sample_stride
  void* out;               // [rows, features] contiguous
  DeviceError* error;
  int64_t per_sample_stride, padding, rows, rows_per_part, bags;
  uint32_t count, features, tile, tiles;
  uint8_t is32;
};

// Gradient of the per-sample weights: one dot product a sample.
struct BagSampleGradArgs {
  const void* grad;  // [bags, features]
  const void* weight;
  const void* index;
  const void* offset2bag;
  void* out;  // [count]
  DeviceError* error;
  int64_t grad_stride0, grad_stride1, weight_stride0, weight_stride1, padding;
  int64_t rows, bags;
  uint32_t count, features;
  uint8_t is32;
};

}  // namespace xpu_ops
