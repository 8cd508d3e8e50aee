// Launch arguments of the fused kernels.
#pragma once
#include "kernels/ops/problem/fused.hpp"

namespace xpu_ops {

constexpr uint32_t kMostVectorColumns = 16384;  // of add_norm_vectors, which keeps a row

using AddNormArgs = ops::AddNormProblem;  // nothing is planned

struct RotaryArgs : ops::RotaryProblem { uint32_t rows_per_group = 1; };

}  // namespace xpu_ops
