// Arguments of resampling along one axis, nearest lookups and grid sampling; shared by host and device.
#pragma once
#include "kernels/ops/problem/interpolation.hpp"
#include "kernels/sycl/core/walk_args.hpp"

namespace xpu_ops {

// out[r, o, i] = sum_k weight[k, o] * in[r, index[k, o], i] over contiguous arrays [rows, length, inner].
// Backward passes are the same with the transposed table.
struct ResampleArgs {
  const void* in;
  void* out;
  const int32_t* index;  // [taps, out_length]
  const int32_t* count;  // [out_length]: taps in use
  const void* weight;    // [taps, out_length], compute type
  uint32_t rows, in_length, out_length, inner;
  uint32_t taps;
  uint32_t rows_per_group;  // resample_rows: (row, output position) of one
  uint32_t walk;            // resample_lanes, inner 1: the items of a group go along its rows
  Divider by_inner, by_out_length;
};

// Two axes of as many taps, one or two, in one pass over planes: [0] the lines, [1] the columns, as in ResampleArgs.
struct ResamplePlaneArgs {
  const void* in;
  void* out;
  const int32_t* index[2];
  const void* weight[2];
  uint32_t in_size[2], out_size[2];
  uint32_t lines, lines_per_group;  // of all planes of the output
  Divider by_height;                // of the output
};

struct NearestArgs : ops::NearestProblem {
  uint32_t rows_per_group;
  uint32_t ahead;  // an item has one element of each row, and loads several
};

constexpr uint32_t kGridBlock = 512;  // positions that a group of grid_sample_block takes

// Nothing is planned.
using GridArgs = ops::GridPoints;
using GridSumArgs = ops::GridSumProblem;

}  // namespace xpu_ops
