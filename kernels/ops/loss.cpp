#include "kernels/ops/loss.hpp"

#include <algorithm>
#include <bit>

#include "gen/kernels/loss_kernels.hpp"
#include "kernels/host/loss.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/reduce/loss_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kPartialShare = 4096, kPartialMost = 64;  // elements of such a work-group, and the most groups
constexpr size_t kWideShare = 16, kWideMost = 2;           // elements of an item, groups per unit, of wide groups
constexpr size_t kTargetItems = 256, kRowItems = 64;
constexpr int64_t kTargetCost = 16;  // of a target on the calling thread, in units of SmallWork::run

struct LossKernels { const runtime::KernelTable &point, &back, &partial; };
const LossKernels& kernels_of(LossKind kind) {
  static const LossKernels all[] = {
      {kernels::loss_point_mse, kernels::loss_back_mse, kernels::loss_partial_mse},
      {kernels::loss_point_smooth_l1, kernels::loss_back_smooth_l1, kernels::loss_partial_smooth_l1},
      {kernels::loss_point_huber, kernels::loss_back_huber, kernels::loss_partial_huber},
      {kernels::loss_point_bce, kernels::loss_back_bce, kernels::loss_partial_bce},
  };
  return all[static_cast<int>(kind)];
}

void finish(runtime::Queue& queue, DType type, const void* partial, size_t count, double divisor, void* out,
            void* total_weight, bool mean) {
  LossFinishArgs args{};
  args.partial = partial;
  args.out = out;
  args.total_weight = total_weight;
  args.count = static_cast<uint32_t>(count);
  args.mean = mean;
  args.divisor = loss_scalar(divisor);
  const runtime::Policy& policy = runtime::policy_of(queue);
  if (policy.team_items == policy.lanes) return runtime::launch(queue, kernels::loss_finish[type], 1, 1, args);
  runtime::launch(queue, kernels::loss_finish_team[type], 1, policy.team_items, args);
}

void launch_points(runtime::Queue& queue, runtime::KernelSlot& kernel, const LossArgs& args) {
  const size_t local = tile_group(std::min(args.n, kTileElements), runtime::policy_of(queue));
  runtime::launch(queue, kernel, ceil_div(args.n, kTileElements), local, args);
}

LossArgs to_args(runtime::Queue& queue, LossKind kind, const LossProblem& problem) {
  return {problem, kind == LossKind::bce ? runtime::error_flag(queue.device) : nullptr};
}

NllArgs to_args(runtime::Queue& queue, const NllProblem& problem) {
  return {problem, runtime::error_flag(queue.device), xpu::make_divider(problem.places)};
}

MarginArgs to_args(runtime::Queue& queue, const MarginProblem& problem) {
  return {problem, runtime::error_flag(queue.device)};
}

}  // namespace

LossScalar loss_scalar(double value) { return {static_cast<float>(value), std::bit_cast<int64_t>(value)}; }

PartialPlan plan_partial(size_t n, const runtime::Policy& policy) {
  const size_t items = policy.team_items;
  if (items == policy.lanes) return {std::clamp<size_t>(ceil_div(n, kPartialShare), 1, kPartialMost), items};
  return {std::clamp<size_t>(ceil_div(n, kWideShare * items), 1, kWideMost * policy.units), items};
}

void loss(runtime::Queue& queue, LossKind kind, DType type, const LossProblem& problem) {
  launch_points(queue, kernels_of(kind).point[type], to_args(queue, kind, problem));
}

void loss_backward(runtime::Queue& queue, LossKind kind, DType type, const LossProblem& problem) {
  launch_points(queue, kernels_of(kind).back[type], to_args(queue, kind, problem));
}

void loss_sum(runtime::Queue& queue, LossKind kind, DType type, const LossProblem& problem, double divisor) {
  const auto [groups, items] = plan_partial(problem.n, runtime::policy_of(queue));
  const size_t count = groups * items;
  const runtime::Scratch partial(count * accumulator_bytes(type));
  LossArgs args = to_args(queue, kind, problem);
  args.out = partial.get();
  runtime::launch(queue, kernels_of(kind).partial[type], groups, items, args);
  finish(queue, type, partial.get(), count, divisor, problem.out, nullptr, false);
}

void nll(runtime::Queue& queue, DType type, const NllProblem& problem) {
  runtime::launch(queue, kernels::nll_point[type], ceil_div(problem.n, kTargetItems), kTargetItems,
                  to_args(queue, problem));
}

void nll_backward(runtime::Queue& queue, DType type, const NllProblem& problem) {
  runtime::launch(queue, kernels::nll_back[type], ceil_div(problem.n, kTargetItems), kTargetItems,
                  to_args(queue, problem));
}

void nll_sum(runtime::Queue& queue, DType type, const NllProblem& problem, void* total_weight) {
  const auto [groups, items] = plan_partial(problem.n, runtime::policy_of(queue));
  const size_t count = groups * items;
  NllArgs args = to_args(queue, problem);
  void* const out = problem.out;
  const bool mean = problem.mean;
  if (const host::NllSum here = groups == 1 && !problem.weight ? host::nll_sum(type) : nullptr)
    if (queue.small().run(
            int64_t{problem.n} * kTargetCost, [=] { here(args, out, total_weight, mean); },
            [&]() -> auto& { return kernels::nll_partial[type]; }))
      return;
  const runtime::Scratch partial(2 * count * accumulator_bytes(type));
  args.out = partial.get();
  runtime::launch(queue, kernels::nll_partial[type], groups, items, args);
  finish(queue, type, partial.get(), count, 1, out, total_weight, mean);
}

void margin(runtime::Queue& queue, MarginKind kind, DType type, const MarginProblem& problem, double divisor) {
  runtime::KernelSlot& kernel =
      kind == MarginKind::multi ? kernels::multi_margin[type] : kernels::multilabel_margin[type];
  const runtime::Scratch losses(divisor != 0 ? problem.rows * dtype_size(type) : 0);
  MarginArgs args = to_args(queue, problem);
  if (divisor != 0) args.out = losses.get();
  runtime::launch(queue, kernel, ceil_div(problem.rows, kRowItems), kRowItems, args);
  if (divisor != 0) finish(queue, type, losses.get(), problem.rows, divisor, problem.out, nullptr, false);
}

void margin_backward(runtime::Queue& queue, MarginKind kind, DType type, const MarginProblem& problem) {
  runtime::KernelSlot& kernel =
      kind == MarginKind::multi ? kernels::multi_margin_back[type] : kernels::multilabel_margin_back[type];
  runtime::launch(queue, kernel, ceil_div(problem.rows, kRowItems), kRowItems, to_args(queue, problem));
}

}  // namespace xpu_ops::ops
