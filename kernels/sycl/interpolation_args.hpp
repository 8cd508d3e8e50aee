// Arguments of resampling along one axis, nearest lookups and grid sampling; shared by host and device.
#pragma once
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

// out[r, z, y, x, i] = in[r, index0[z], index1[y], index2[x], i].
struct NearestArgs {
  const void* in;
  void* out;
  const int32_t* index[3];
  uint32_t in_size[3], out_size[3];
  uint32_t rows, inner, rows_per_group;
};

constexpr uint32_t kGridBlock = 512;  // positions that a group of grid_sample_block takes

enum class GridMode : uint32_t { bilinear = 0, nearest = 1, bicubic = 2 };
enum class GridPadding : uint32_t { zeros = 0, border = 1, reflection = 2 };

// Sizes and strides: n, c, then depth, height, width (depth 1 in two dimensions). The positions of grid, output and its
// gradient lie side by side.
struct GridArgs {
  const void* input;
  const void* grid;  // [n, positions, coordinates]
  void* out;
  const void* grad_out;
  void* grad_grid;  // as grid
  int32_t* pixel;   // backward, may be null: [n, taps, pitch], the pixels of each tap, -1 outside
  void* weight;     // and their weights in the compute type
  int64_t in_size[5], in_stride[5];
  int64_t out_stride[2];  // of output or grad_out: n, c
  uint32_t samples;
  uint32_t positions;  // of one sample
  uint32_t pitch;      // of the rows of pixel and weight: no power of two, whose rows would share cache sets
  GridPadding padding;
  uint8_t align;
};

// Sums of what grid_sample_grid_grad says; channels innermost, or planes.
struct GridSumArgs {
  void* out;             // [n, pixels, channels] or [n, channels, pixels], compute type
  const void* grad_out;  // [n, positions, channels] or [n, channels, positions]
  const int32_t* pixel;
  const void* weight;
  uint64_t pixels, channels, positions, taps, pitch;
};

}  // namespace xpu_ops
