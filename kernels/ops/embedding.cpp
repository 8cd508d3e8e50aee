#include "kernels/ops/embedding.hpp"

#include <algorithm>

#include "gen/kernels/embedding_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::plan::inline embedding_family {
namespace {

using runtime::ceil_div;

constexpr size_t kBagItems = 16;         // of a work-group: a sub-group
constexpr uint32_t kVectorColumns = 16;  // that are worth a vector
// A work-group costs about as much as a thousand elements: small bags share one. Groups of one item wait less between
// bags.
constexpr int64_t kBagShare = 8192, kSingleShare = 65536;
constexpr int64_t kBagFilling = 16, kGradFilling = 4;  // work-groups per compute unit
constexpr int64_t kMostBags = 256, kMostParts = 64;
constexpr uint32_t kGradTile = 256;  // columns: about a kilobyte

}  // namespace

BagPlan plan_bags(DType type, const BagArgs& args, const runtime::Policy& policy) {
  BagPlan plan;
  const int64_t bags = args.bags;
  const bool vectors = args.mode != BagMode::max && args.weight_stride1 == 1 && args.features >= kVectorColumns,
             single = vectors && policy.single_items && kernels::embedding_bag_single.has(type);
  const int64_t elements = std::max<int64_t>(1, int64_t{args.count} * args.features / std::max<int64_t>(1, bags)),
                share = single ? kSingleShare : kBagShare;
  plan.kernel = single ? BagPlan::Kernel::single : vectors ? BagPlan::Kernel::vectors : BagPlan::Kernel::any;
  plan.bags_per_group = static_cast<uint32_t>(
      std::clamp<int64_t>(std::min(share / elements, bags / (kBagFilling * int64_t{policy.units})), 1, kMostBags));
  plan.groups = ceil_div(args.bags, plan.bags_per_group);
  plan.local = single ? 1 : kBagItems;
  return plan;
}

void embedding_bag(runtime::Queue& queue, DType type, BagArgs args) {
  const BagPlan plan = plan_bags(type, args, runtime::device_info(queue.device).policy);
  const runtime::KernelTable& table = plan.kernel == BagPlan::Kernel::single    ? kernels::embedding_bag_single
                                      : plan.kernel == BagPlan::Kernel::vectors ? kernels::embedding_bag_vectors
                                                                                : kernels::embedding_bag;
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

void embedding_bag_grad(runtime::Queue& queue, DType type, BagGradArgs args) {
  const BagGradPlan plan = plan_bag_grad(args.rows, args.features, runtime::device_info(queue.device).policy);
  args.tile = plan.tile;
  args.tiles = plan.tiles;
  args.rows_per_part = plan.rows_per_part;
  runtime::launch(queue, kernels::bag_grad[type], plan.groups, kBagItems, args);
  runtime::check_kernel_errors(queue);
}

void embedding_bag_sample_grad(runtime::Queue& queue, DType type, const BagSampleGradArgs& args) {
  const RowGroups rows = sub_group_rows(args.count, runtime::device_info(queue.device).policy);
  runtime::launch(queue, kernels::bag_sample_grad[type], rows.groups, rows.local, args);
  runtime::check_kernel_errors(queue);
}

void renorm_rows(runtime::Queue& queue, DType type, const RenormArgs& args) {
  const RowGroups rows = sub_group_rows(args.rows, runtime::device_info(queue.device).policy);
  runtime::launch(queue, kernels::renorm_rows[type], rows.groups, rows.local, args);
}

}  // namespace xpu_ops::plan::inline embedding_family
