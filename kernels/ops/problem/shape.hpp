// Problems of padding, im2col, col2im and unfold_backward; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

enum class PadMode : uint8_t { constant, reflection, replication };

// Up to three inner dimensions; dimension 0 is the innermost. Contiguous tensors.
struct PadProblem {
  void* dst;
  const void* src;
  uint32_t rows;                  // of dimension 0, of the tensor that is written
  uint32_t written[3];            // sizes of that tensor
  int32_t in[3], out[3], pad[3];  // sizes of input and output, padding before
  PadMode mode;
  uint64_t value[2];  // the constant, in its own bits
};

struct Im2colProblem {
  void* dst;
  const void* src;
  int32_t height, width, out_height, out_width;
  int32_t kernel_h, kernel_w, dilation_h, dilation_w, pad_h, pad_w, stride_h, stride_w;
  uint32_t rows;  // of what is written: im2col of all images, col2im of all planes
};

// grad_in is [outer, windows, inner, size], grad is [outer, length, inner].
struct UnfoldBackwardProblem {
  void* grad;
  const void* grad_in;
  uint32_t inner, length;
  int32_t windows, size, step;
  uint32_t n;
};

}  // namespace xpu_ops::ops
