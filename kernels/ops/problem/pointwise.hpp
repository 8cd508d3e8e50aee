// Values and limits of pointwise problems; no type of the device, no torch.
#pragma once
#include <cstdint>

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

namespace ops {

// Of an operator that the kernels read from their launch struct.
struct PointwiseValues {
  Value imm[kPointwiseImmediates];  // by input number
  Value s[kPointwiseScalars];
};

}  // namespace ops
}  // namespace xpu_ops
