// Pairwise distances and the cross product: plan (pure host code) and launches.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/dtype.hpp"
#include "kernels/ops/indexing.hpp"
#include "kernels/ops/problem/distance.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

void cdist(runtime::Queue& queue, DType type, const CdistProblem& problem);
void cdist_backward(runtime::Queue& queue, DType type, const CdistProblem& problem);

void pdist(runtime::Queue& queue, DType type, const CdistProblem& problem);
// Parts of the pairs whose gradients are summed apart, [parts, rows, features]; 0: each row goes through all others.
int64_t plan_pdist_parts(int64_t rows, int64_t features, const runtime::Policy& policy);
void pdist_backward(runtime::Queue& queue, DType type, const CdistProblem& problem);
void pdist_backward_parts(runtime::Queue& queue, DType type, const PdistSumProblem& problem);

// dims: of one operand of three, {out, a, b}, without the one of length 3.
void cross(runtime::Queue& queue, DType type, const CrossProblem& problem, const Dims3& dims);

}  // namespace xpu_ops::ops
