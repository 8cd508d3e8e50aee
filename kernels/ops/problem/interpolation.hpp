// Problems of nearest lookups and grid sampling; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops {

enum class GridMode : uint32_t { bilinear = 0, nearest = 1, bicubic = 2 };
enum class GridPadding : uint32_t { zeros = 0, border = 1, reflection = 2 };

namespace ops {

// out[r, z, y, x, i] = in[r, index0[z], index1[y], index2[x], i].
struct NearestProblem {
  const void* in;
  void* out;
  const int32_t* index[3];
  uint32_t in_size[3], out_size[3];
  uint32_t rows, inner;
};

// Sizes and strides: n, c, then depth, height, width (depth 1 in two dimensions). The positions of grid, output and its
// gradient lie side by side.
struct GridPoints {
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
struct GridSumProblem {
  void* out;             // [n, pixels, channels] or [n, channels, pixels], compute type
  const void* grad_out;  // [n, positions, channels] or [n, channels, positions]
  const int32_t* pixel;
  const void* weight;
  uint64_t pixels, channels, positions, taps, pitch;
};

}  // namespace ops
}  // namespace xpu_ops
