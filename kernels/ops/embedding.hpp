// Bags of table rows, their gradients, rows of bounded norm: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/embedding.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// vectors: rows of elements side by side. single: the same by one item per work-group.
struct BagPlan {
  enum class Kernel { any, vectors, single } kernel = Kernel::any;
  uint32_t bags_per_group = 1;
  size_t groups = 0, local = 1;
};
BagPlan plan_bags(DType type, const BagProblem& problem, const runtime::Policy& policy);
// This and the gradients raise what the kernels report.
void embedding_bag(runtime::Queue& queue, DType type, const BagProblem& problem);

// Whether embedding_bag_grad serves: each of a few groups goes through all indices, which suits few compute units.
bool plan_bag_grad_serves(DType type, const runtime::Policy& policy);
// Tiles of columns and parts of the table.
struct BagGradPlan {
  uint32_t tile = 1, tiles = 1;
  int64_t rows_per_part = 1;
  size_t groups = 0;
};
BagGradPlan plan_bag_grad(int64_t rows, int64_t features, const runtime::Policy& policy);
void embedding_bag_grad(runtime::Queue& queue, DType type, const BagGradProblem& problem);
void embedding_bag_sample_grad(runtime::Queue& queue, DType type, const BagSampleGradProblem& problem);

void renorm_rows(runtime::Queue& queue, DType type, const RenormProblem& problem);

}  // namespace xpu_ops::ops
