// Launch arguments of the kernels of linear algebra; shared by host and device.
#pragma once
#include <cstdint>

namespace xpu_ops {

// Pivots of LU as a permutation: row i of the result is row permutation[i] of the identity.
struct PermutationArgs {
  const int32_t* pivots;  // [batch, swaps], from 1
  int64_t* permutation;   // [batch, rows]
  int64_t batch;
  int64_t rows;
  int64_t swaps;
};

}  // namespace xpu_ops
