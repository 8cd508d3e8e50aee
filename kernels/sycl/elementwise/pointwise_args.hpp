// Launch arguments of pointwise kernels: shared by the host planner and the device templates in pointwise.hpp.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/pointwise.hpp"
#include "kernels/sycl/core/divide.hpp"
#include "kernels/sycl/core/tile_args.hpp"

namespace xpu_ops {

// Items of a sub-group of the kernels over rows whose operands are all bytes. A CPU device would take as many as it
// takes floats, and leave most of its vectors unused.
constexpr unsigned kByteVector = 32;

// A launch is an inner dimension and rows of any strides. rows: every operand walks the inner dimension with stride 1
// or 0; a dense tensor is one row. strided: any strides there too.
struct PointwiseArgs : ops::PointwiseValues {
  void* ptr[kPointwiseOperands];
  uint32_t n, rows;                  // length of the inner dimension, number of rows
  uint32_t group, columns;           // rows and columns of a work-group
  uint32_t ndim;                     // dims of the rows
  uint8_t mode[kPointwiseOperands];  // OperandMode by input number; strided: never kBroadcast
  // By operand: itself, or for an input that is not read by element one that is, of elements no smaller: loads that are
  // not used go there.
  uint8_t stand_in[kPointwiseOperands];
  uint32_t step[kPointwiseOperands];                        // strided: stride of the inner dimension, in elements
  Divider dims[kPointwiseRowDims];                          // of the rows, innermost first; of size 1 from ndim on
  uint32_t strides[kPointwiseRowDims][kPointwiseOperands];  // in bytes
};

}  // namespace xpu_ops
