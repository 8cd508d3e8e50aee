// Attention over keys and values in pages: plan (pure host code) and launch.
#pragma once
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/varlen.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// Whether the kernel takes heads of this size; it is written for a CPU device.
bool plan_paged_serves(int64_t dim, DType type, const runtime::Policy& policy);
// Heads with the same keys that a work-group takes.
uint32_t plan_paged_share(const PagedProblem& problem, const runtime::Policy& policy);

// `problem.queries` is not 0.
void paged_attention(runtime::Queue& queue, DType type, const PagedProblem& problem);

// Items of a work-group, which moves one part of one token; one item has a kernel of its own.
size_t plan_place_items(const PlaceProblem& problem, const runtime::Policy& policy);
// `problem.tokens` is not 0; elements of `element` bytes, at most 8.
void place_rows(runtime::Queue& queue, size_t element, const PlaceProblem& problem);

}  // namespace xpu_ops::ops
