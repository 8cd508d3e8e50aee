// Launch arguments of pointwise kernels: shared by the host planner and the device templates in pointwise.hpp.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"
#include "kernels/sycl/core/tile_args.hpp"

namespace xpu_ops {

constexpr int kPointwiseOperands = 6;  // outputs first, then inputs
constexpr int kPointwiseScalars = 4;
constexpr int kPointwiseImmediates = 3;
constexpr int kPointwiseDims = 8;  // after collapsing; more dims are copied to contiguous first
// Dims of the rows of one launch: those above it are a loop on the host, since every one of them is unrolled in every
// kernel.
constexpr int kPointwiseRowDims = 4;

// A scalar in the compute type of the kernel: f32 for f16, bf16 and f32; i64 for every integer and bool.
union Value {
  int64_t bits[2];  // first, so that the compiler stores the union as integers: doubles would need fp64 in every module
  float f32;
  double f64;
  int64_t i64;
  float c64[2];
  double c128[2];
};

// How an input is read along the inner dimension.
enum OperandMode : uint8_t { kElement = 0, kBroadcast = 1, kImmediate = 2 };

// A launch is an inner dimension and rows of any strides. rows: every operand walks the inner dimension with stride 1
// or 0; a dense tensor is one row. strided: any strides there too.
struct PointwiseArgs {
  void* ptr[kPointwiseOperands];
  Value imm[kPointwiseImmediates];  // by input number
  Value s[kPointwiseScalars];
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
