// Launch structs of cat, padding, im2col, col2im and unfold_backward.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/shape.hpp"
#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

constexpr int kCatInputs = 32;
constexpr uint32_t kCatBlock = 4096;  // elements of one work-group
constexpr uint32_t kPadAhead = 4;     // elements of one item

// Every input is `outer` runs of `width` elements; run r of an input lands at dst + r * total + offset.
struct CatArgs {
  void* dst;
  uint32_t total, outer, count;
  uint32_t ahead;  // an item loads several elements before it stores one
  struct Input {
    const void* src;
    uint32_t first_group, offset;
    Divider width;
  } in[kCatInputs];
};

struct PadArgs : ops::PadProblem {
  uint32_t group;          // rows of one work-group
  Divider write1, write2;  // sizes of dimensions 1 and 2 of the tensor that is written
  int32_t mirror[3];       // as pad
  // Forward.
  uint32_t columns;     // of a row, that a work-group has
  Divider parts;        // of a row, that so many are
  int32_t begin, end;   // columns that are copied as they lie
  int32_t left, right;  // where the columns before and after them come from
  Divider write0;       // size of dimension 0
  uint32_t n;           // elements
};

struct Im2colArgs : ops::Im2colProblem {
  uint32_t group;  // col2im: lines of one work-group
  Divider by_kernel_h, by_kernel_w, by_out_width, by_height, by_stride_h, by_stride_w;
};

struct UnfoldBackwardArgs : ops::UnfoldBackwardProblem { Divider by_inner, by_length, by_step; };

}  // namespace xpu_ops
