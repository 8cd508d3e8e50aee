// Problems of embedding tables; no type of the device, no torch.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/real_args.hpp"

namespace xpu_ops {

enum class BagMode : uint32_t { sum = 0, mean = 1, max = 2 };

namespace ops {

// Bags of table rows. Indices, offsets and what is written about them have one type: int32 where is32, else int64.
struct BagProblem {
  const void* weight;      // [rows, features] by strides
  const void* indices;     // [count] contiguous
  const void* offsets;     // [bags]: where they start
  const void* per_sample;  // or null; stride per_sample_stride
  void* out;               // [bags, features] contiguous
  void* bag_size;
  void* max_indices;  // max: [bags, features], else not written
  void* offset2bag;   // may be null
  int64_t rows, weight_stride0, weight_stride1, per_sample_stride;
  int64_t padding;  // index that is left out; -1: none
  uint32_t bags, count, features;
  BagMode mode;
  uint8_t is32;
};

// Rescales the flagged rows of a table to a norm of at most max_norm.
struct RenormProblem {
  void* weight;
  const uint8_t* flags;  // one per row
  int64_t stride0, stride1;
  Real max_norm, p;  // p: of the norm
  uint32_t rows, features;
};

// Gradient of the table: rows of `grad` added at their indices, in the order of the samples.
struct BagGradProblem {
  const void* grad;        // [bags, features] contiguous
  const void* index;       // contiguous
  const void* offset2bag;  // same type as the index; null: a sample is its own bag
  const void* bag_size;    // of the same type: divides; may be null
  const void* per_sample;  // or null; stride per_sample_stride
  void* out;               // [rows, features] contiguous
  int64_t per_sample_stride, padding, rows, bags;
  uint32_t count, features;
  uint8_t is32;
};

// Gradient of the per-sample weights: one dot product per sample.
struct BagSampleGradProblem {
  const void* grad;  // [bags, features]
  const void* weight;
  const void* index;
  const void* offset2bag;
  void* out;  // [count]
  int64_t grad_stride0, grad_stride1, weight_stride0, weight_stride1, padding;
  int64_t rows, bags;
  uint32_t count, features;
  uint8_t is32;
};

}  // namespace ops
}  // namespace xpu_ops
