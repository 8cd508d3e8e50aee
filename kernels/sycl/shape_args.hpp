// Launch structs of cat, padding, im2col, col2im and unfold_backward.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

constexpr int kCatInputs = 32;
constexpr uint32_t kCatBlock = 4096;  // elements of one work-group

// Every input is `outer` runs of `width` elements; run r of an input lands at dst + r * total + offset.
struct CatArgs {
  void* dst;
  uint32_t total, outer, count;
  struct Input {
    const void* src;
    uint32_t first_group, offset;
    Divider width;
  } in[kCatInputs];
};

// Reflection and replication of up to three inner dimensions; dimension 0 is the innermost. Contiguous tensors.
struct PadArgs {
  void* dst;
  const void* src;
  uint32_t rows;                  // of dimension 0, of the tensor that is written
  uint32_t group;                 // rows of one work-group
  Divider write1, write2;         // sizes of dimensions 1 and 2 of the tensor that is written
  int32_t in[3], out[3], pad[3];  // sizes of input and output, padding before
  int32_t mirror[3];              // as pad
  int32_t begin, end;             // forward: columns that are copied as they lie
  int32_t left, right;            // forward: where the columns before and after them come from
};

struct Im2colArgs {
  void* dst;
  const void* src;
  int32_t height, width, out_height, out_width;
  int32_t kernel_h, kernel_w, dilation_h, dilation_w, pad_h, pad_w, stride_h, stride_w;
  uint32_t rows, group;  // col2im: lines of all planes, those of one work-group
  Divider by_kernel_h, by_kernel_w, by_out_width, by_height, by_stride_h, by_stride_w;
};

// grad_in is [outer, windows, inner, size], grad is [outer, length, inner].
struct UnfoldBackwardArgs {
  void* grad;
  const void* grad_in;
  Divider inner, length, by_step;
  int32_t windows, size, step;
  uint32_t n;
};

}  // namespace xpu_ops
