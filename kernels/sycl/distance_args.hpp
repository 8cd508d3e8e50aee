// Arguments of pairwise distances and the cross product; shared by host and device.
#pragma once
#include "kernels/sycl/core/walk_args.hpp"
#include "kernels/sycl/indexing_args.hpp"

namespace xpu_ops {

enum class NormKind : uint32_t { zero = 0, one = 1, two = 2, infinity = 3, below_two = 4, above_two = 5 };

constexpr int kPdistSums = 4;  // of one item

struct CdistArgs {
  const void* x1;    // [batch, rows1, features]
  const void* x2;    // forward: transposed [batch, features, rows2]; backward: [batch, rows2, features]
  const void* grad;  // [batch, rows1, rows2]
  const void* distance;
  void* out;  // forward: [batch, rows1, rows2]; backward: gradient of x1
  uint32_t batch, rows1, rows2, features;
  NormKind kind;
  Real p;
};

// Gradient of pdist, of some of the pairs in sums of their own.
struct PdistSumArgs {
  const void *x, *grad, *distance;
  void* sums;  // [parts, rows, features]
  uint32_t rows, features, parts;
  NormKind kind;
  Real p;
};

struct CrossArgs {
  void* out;
  const void* a;
  const void* b;
  int64_t step[3];  // of the dim of length 3: out, a, b
  Walk<3> walk;
};

}  // namespace xpu_ops
