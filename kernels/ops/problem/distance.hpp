// Problems of pairwise distances and the cross product; no type of the device, no torch.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/real_args.hpp"

namespace xpu_ops::ops {

struct CdistProblem {
  const void* x1;    // [batch, rows1, features]
  const void* x2;    // forward: transposed [batch, features, rows2]; backward: [batch, rows2, features]
  const void* grad;  // [batch, rows1, rows2]
  const void* distance;
  void* out;  // forward: [batch, rows1, rows2]; backward: gradient of x1
  uint32_t batch, rows1, rows2, features;
  Real p;  // of the norm
};

// Gradient of pdist, of some of the pairs in sums of their own.
struct PdistSumProblem {
  const void *x, *grad, *distance;
  void* sums;  // [parts, rows, features]
  uint32_t rows, features, parts;
  Real p;  // of the norm
};

struct CrossProblem {
  void* out;
  const void* a;
  const void* b;
  int64_t step[3];  // of the dim of length 3: out, a, b
};

}  // namespace xpu_ops::ops
