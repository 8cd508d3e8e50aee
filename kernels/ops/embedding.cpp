#include "kernels/ops/embedding.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "gen/kernels/embedding_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/index/embedding_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kBagItems = 16;      // of a work-group: a sub-group
constexpr uint32_t kBagColumns = 16;  // that are worth a vector
// A work-group costs about as much as a thousand elements: small bags share one. Groups of one item wait less between
// bags.
constexpr int64_t kBagShare = 8192, kSingleShare = 65536;
constexpr int64_t kBagFilling = 16, kGradFilling = 4;  // work-groups per compute unit
constexpr int64_t kMostBags = 256, kMostParts = 64;
constexpr uint32_t kGradTile = 256;  // columns: about a kilobyte

uint8_t norm_of(const Real& norm) {
  const double p = std::bit_cast<double>(norm.f64_bits);
  return p == std::numeric_limits<double>::infinity() ? 0 : p == 1. ? 1 : p == 2. ? 2 : 3;
}

}  // namespace

BagPlan plan_bags(DType type, const BagProblem& p, const runtime::Policy& policy) {
  BagPlan plan;
  const int64_t bags = p.bags;
  const bool vectors = p.mode != BagMode::max && p.weight_stride1 == 1 && p.features >= kBagColumns,
             single = vectors && policy.single_items && kernels::embedding_bag_single.has(type);
  const int64_t elements = std::max<int64_t>(1, int64_t{p.count} * p.features / std::max<int64_t>(1, bags)),
                share = single ? kSingleShare : kBagShare;
  plan.kernel = single ? BagPlan::Kernel::single : vectors ? BagPlan::Kernel::vectors : BagPlan::Kernel::any;
  plan.bags_per_group = static_cast<uint32_t>(
      std::clamp<int64_t>(std::min(share / elements, bags / (kBagFilling * int64_t{policy.units})), 1, kMostBags));
  plan.groups = ceil_div(p.bags, plan.bags_per_group);
  plan.local = single ? 1 : kBagItems;
  return plan;
}

void embedding_bag(runtime::Queue& queue, DType type, const BagProblem& problem) {
  const BagPlan plan = plan_bags(type, problem, runtime::policy_of(queue));
  const runtime::KernelTable& table = plan.kernel == BagPlan::Kernel::single    ? kernels::embedding_bag_single
                                      : plan.kernel == BagPlan::Kernel::vectors ? kernels::embedding_bag_vectors
                                                                                : kernels::embedding_bag;
  BagArgs args{problem};
  args.index = {.ptr = problem.indices,
                .error = runtime::error_flag(queue.device),
                .size = problem.rows,
                .stride = 1,
                .code = DeviceErrorCode::bag_index,
                .dim = 0,
                .is32 = problem.is32,
                .wrap = false};
  args.bags_per_group = plan.bags_per_group;
  runtime::launch(queue, table[type], plan.groups, plan.local, args);
  runtime::check_kernel_errors(queue);
}

bool plan_bag_grad_serves(DType type, const runtime::Policy& policy) {
  return policy.single_items && kernels::bag_grad.has(type);
}

BagGradPlan plan_bag_grad(int64_t rows, int64_t features, const runtime::Policy& policy) {
  BagGradPlan plan;
  // As many parts as keep all compute units busy: each goes through all indices.
  plan.tile = kGradTile;
  plan.tiles = static_cast<uint32_t>(ceil_div(features, plan.tile));
  const int64_t wanted = kGradFilling * int64_t{policy.units};
  const int64_t parts = std::clamp<int64_t>(ceil_div(wanted, plan.tiles), 1, std::min(rows, kMostParts));
  plan.rows_per_part = static_cast<int64_t>(ceil_div(rows, parts));
  plan.groups = ceil_div(rows, plan.rows_per_part) * plan.tiles;
  return plan;
}

void embedding_bag_grad(runtime::Queue& queue, DType type, const BagGradProblem& problem) {
  const BagGradPlan plan = plan_bag_grad(problem.rows, problem.features, runtime::policy_of(queue));
  const BagGradArgs args{problem, runtime::error_flag(queue.device), plan.rows_per_part, plan.tile, plan.tiles};
  runtime::launch(queue, kernels::bag_grad[type], plan.groups, kBagItems, args);
  runtime::check_kernel_errors(queue);
}

void embedding_bag_sample_grad(runtime::Queue& queue, DType type, const BagSampleGradProblem& problem) {
  const RowGroups rows = sub_group_rows(problem.count, runtime::policy_of(queue));
  runtime::launch(queue, kernels::bag_sample_grad[type], rows.groups, rows.local,
                  BagSampleGradArgs{problem, runtime::error_flag(queue.device)});
  runtime::check_kernel_errors(queue);
}

void renorm_rows(runtime::Queue& queue, DType type, const RenormProblem& problem) {
  const RowGroups rows = sub_group_rows(problem.rows, runtime::policy_of(queue));
  runtime::launch(queue, kernels::renorm_rows[type], rows.groups, rows.local, RenormArgs{problem, norm_of(problem.p)});
}

}  // namespace xpu_ops::ops
