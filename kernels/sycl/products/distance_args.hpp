// Arguments of pairwise distances and the cross product; shared by host and device.
#pragma once
#include "kernels/ops/problem/distance.hpp"
#include "kernels/sycl/core/walk_args.hpp"

namespace xpu_ops {

enum class NormKind : uint32_t { zero = 0, one = 1, two = 2, infinity = 3, below_two = 4, above_two = 5 };

constexpr int kPdistSums = 4;  // of one item

struct CdistArgs : ops::CdistProblem { NormKind kind; };

struct PdistSumArgs : ops::PdistSumProblem { NormKind kind; };

struct CrossArgs : ops::CrossProblem { Walk<3> walk; };

}  // namespace xpu_ops
