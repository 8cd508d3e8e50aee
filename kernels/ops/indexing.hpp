// Moves of elements by index: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops/walk.hpp"
#include "kernels/runtime/policy.hpp"
#include "kernels/runtime/queue.hpp"
#include "kernels/sycl/indexing_args.hpp"

namespace xpu_ops::plan {

using Dims3 = std::vector<WalkDim<3>>;

// plain[..] = data[.. + index], or with `write` the other way round, over dims with strides {plain, data, index},
// outermost first, of elements of 1 to 16 bytes.
struct IndexedProblem {
  bool write;
  void *plain, *data;
  size_t element;
  IndexSource index;
  Dims3 dims;
};

struct IndexedPlan {
  IndexedArgs args;
  size_t groups0 = 0, groups1 = 0, local = 1;  // over rows, over the items of a row
};
// No size may be 0.
IndexedPlan plan_indexed(const IndexedProblem& problem, const runtime::Policy& policy);
void move_indexed(runtime::Queue& queue, const IndexedProblem& problem);

}  // namespace xpu_ops::plan
