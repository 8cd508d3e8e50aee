// Pooling: which kernel (pure host code), and the launches of batches of planes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/pooling.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

enum class PoolKind { max, max_back, avg, avg_back };

// Pointers are those of the first plane.
struct PoolProblem : PoolWindows {
  PoolKind kind;
  DType type;
  int dims;        // 2 or 3
  bool last;       // channels-last
  int64_t planes;  // batches where `last`, else batches times channels
};

// plane: few outputs of wide windows. tiles: whole windows side by side. last, wide: lines of channels or of elements.
// lines, scatter: items with vectors of their own, the latter for the gradient of max pooling.
enum class PoolKernel { flat, last, wide, plane, tiles, lines, scatter };
// Of contiguous planes: flat where none of the others serves.
PoolKernel plan_pool_planes(const PoolProblem& problem, const runtime::Policy& policy);

// Whether contiguous planes are better turned to channels-last first, and the results back: where a vector of
// neighbouring outputs costs one gather per tap, and there are `channels` enough.
bool plan_pool_turns(const PoolProblem& problem, int64_t channels, const runtime::Policy& policy);

struct PoolPlan {
  PoolKernel kernel = PoolKernel::flat;
  int64_t at_once = 1;  // planes of one launch
};
PoolPlan plan_pool(const PoolProblem& problem, const runtime::Policy& policy);

// Lines of a launch of `last` or `wide`.
struct PoolLines {
  size_t groups0 = 0, groups1 = 0, local = 1;
  uint32_t width = 0, segment = 1, parts = 1;  // elements of a line, steps of an item, items along the other axis
};
PoolLines plan_pool_lines(const PoolProblem& problem, int64_t planes, const runtime::Policy& policy);

// Items of a launch of `lines` or `scatter`.
struct PoolItems {
  uint32_t segment = 1, parts = 1, items = 1;
  int32_t axis = 0;
};
PoolItems plan_pool_items(const PoolProblem& problem, PoolKernel kernel, int64_t planes, const runtime::Policy& policy);

void pool(runtime::Queue& queue, const PoolProblem& problem);

}  // namespace xpu_ops::ops
