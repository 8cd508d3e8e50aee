#include "kernels/ops/vision.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gen/kernels/vision_kernels.hpp"
#include "kernels/error.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/images/vision_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;
using runtime::kSubGroup;

constexpr uint32_t kRoiChannels = 4 * kSubGroup;   // of a work-group
constexpr uint32_t kPsItems = 64;                  // results of a work-group
constexpr size_t kSuppressItems = 64;              // boxes of a work-group
constexpr size_t kColumnBytes = size_t{32} << 20;  // of the columns of several images
constexpr uint32_t kMostPositions = 64;            // of a work-group

const runtime::Policy& policy(const runtime::Queue& queue) { return runtime::policy_of(queue); }

// Loops that go different ways in every item: one item per group where that is a thread.
size_t lonely(const runtime::Queue& queue) { return policy(queue).single_items ? 1 : kSubGroup; }

RoiArgs to_args(runtime::Queue& queue, const RoiProblem& problem) {
  RoiArgs args{problem};
  args.error = runtime::error_flag(queue.device);
  return args;
}

void launch_planes(runtime::Queue& queue, runtime::KernelSlot& kernel, const RoiProblem& problem) {
  const size_t local = lonely(queue);
  runtime::launch(queue, kernel, ceil_div(size_t{problem.images} * problem.channels, local), local,
                  to_args(queue, problem));
}

}  // namespace

float nms_threshold(double threshold) {
  const float near = static_cast<float>(threshold);
  return near > threshold ? std::nextafterf(near, -std::numeric_limits<float>::infinity()) : near;
}

int64_t nms(runtime::Queue& queue, DType type, const NmsProblem& problem, double threshold) {
  runtime::refuse_recording(queue, "torchvision::nms");
  NmsArgs args{problem};
  args.threshold = Real(threshold);
  args.threshold.f32 = nms_threshold(threshold);
  const size_t bits = size_t{kNmsBlock} * kNmsWords * sizeof(uint64_t), kept = kNmsBlock * sizeof(uint32_t);
  const runtime::Scratch scratch(bits + kept + 2 * sizeof(uint32_t)), gone(args.n);
  args.overlaps = scratch.get<uint64_t>();
  args.kept = reinterpret_cast<uint32_t*>(args.overlaps + size_t{kNmsBlock} * kNmsWords);
  args.counts = args.kept + kNmsBlock;
  args.gone = gone.get<uint8_t>();
  const auto clear = [&](void* p, size_t n) {
    runtime::submit_named(queue, {"fill", runtime::CommandKind::fill, n},
                          [&](sycl::queue& q) { return q.memset(p, 0, n); });
  };
  clear(args.counts, 2 * sizeof(uint32_t));
  clear(args.gone, args.n);
  for (args.first = 0; args.first < args.n; args.first += kNmsBlock) {
    const uint32_t rows = std::min(kNmsBlock, args.n - args.first);
    runtime::launch2(queue, kernels::nms_overlaps[type], ceil_div(rows, 64), ceil_div(rows, kSubGroup), 1, kSubGroup,
                     args);
    runtime::launch(queue, kernels::nms_select, 1, 1, args);
    if (args.n - args.first > kNmsBlock)
      runtime::launch(queue, kernels::nms_suppress[type], ceil_div(args.n - args.first - kNmsBlock, kSuppressItems),
                      kSuppressItems, args);
  }
  uint32_t count = 0;
  runtime::copy_bytes(queue, &count, args.counts, sizeof count, true);
  return count;
}

RoiPlan plan_roi(const RoiProblem& p) {
  const size_t rows = size_t{p.roi_count} * p.pooled[0];
  // Four samples a bin of four pixels each, where boxes decide; the map is read and written once to be turned.
  const size_t samples = p.sampling > 0 ? size_t(p.sampling) * p.sampling : 4;
  const bool turn = rows * p.pooled[1] * samples * 4 > 2 * size_t{p.images} * p.height * p.width;
  return {turn && p.channels >= kSubGroup / 2, rows, ceil_div(p.channels, kRoiChannels), kSubGroup};
}

RoiPlan plan_roi_align_grad(const RoiProblem& p, const runtime::Policy& policy) {
  const size_t blocks = ceil_div(p.channels, kRoiChannels), wanted = 2 * size_t{policy.units},
               bands = ceil_div(wanted, std::max<size_t>(1, blocks * p.images));
  const auto lines = static_cast<uint32_t>(std::max<size_t>(ceil_div(p.height, bands), 8)),
             used = static_cast<uint32_t>(ceil_div(p.height, lines));
  return {true, size_t{p.images} * used, blocks, kSubGroup, used, lines};
}

void roi_align(runtime::Queue& queue, DType type, const RoiProblem& problem) {
  const RoiPlan plan = plan_roi(problem);
  const auto& table = problem.stride[1] == 1 ? kernels::roi_align_last : kernels::roi_align_any;
  runtime::launch2(queue, table[type], plan.groups0, plan.groups1, 1, plan.local, to_args(queue, problem));
}

void roi_align_grad(runtime::Queue& queue, DType type, const RoiProblem& problem) {
  const RoiPlan plan = plan_roi_align_grad(problem, policy(queue));
  RoiArgs args = to_args(queue, problem);
  args.bands = plan.bands;
  args.lines = plan.lines;
  runtime::launch2(queue, kernels::roi_align_grad[type], plan.groups0, plan.groups1, 1, plan.local, args);
}

void roi_pool(runtime::Queue& queue, DType type, const RoiProblem& problem) {
  const RoiPlan plan = plan_roi(problem);
  const auto& table = problem.stride[1] == 1 ? kernels::roi_pool_last : kernels::roi_pool_any;
  runtime::launch2(queue, table[type], plan.groups0, plan.groups1, 1, plan.local, to_args(queue, problem));
}

void roi_pool_grad(runtime::Queue& queue, DType type, const RoiProblem& problem) {
  launch_planes(queue, kernels::roi_pool_grad[type], problem);
}

void ps_roi(runtime::Queue& queue, PsPool kind, DType type, const RoiProblem& problem) {
  RoiArgs args = to_args(queue, problem);
  args.items = kPsItems;
  const auto& table = kind == PsPool::align ? kernels::ps_roi_align : kernels::ps_roi_pool;
  runtime::launch2(queue, table[type], args.roi_count, ceil_div(args.channels, kPsItems), 1, lonely(queue), args);
}

void ps_roi_grad(runtime::Queue& queue, PsPool kind, DType type, const RoiProblem& problem) {
  const auto& table = kind == PsPool::align ? kernels::ps_roi_align_grad : kernels::ps_roi_pool_grad;
  launch_planes(queue, table[type], problem);
}

DeformPlan plan_deform(const DeformProblem& p, size_t element, const runtime::Policy& policy) {
  const size_t positions = size_t{p.out_height} * p.out_width,
               row = size_t{p.channels} * p.kernel_height * p.kernel_width * element;
  DeformPlan plan;
  plan.segment = std::gcd(p.channels / p.groups, p.channels / p.offset_groups);
  plan.segments = p.channels / plan.segment;
  plan.images = static_cast<uint32_t>(
      std::clamp<size_t>(kColumnBytes / std::max<size_t>(1, positions * row), 1, std::max(1u, p.images)));
  const size_t share = positions * p.images / (4 * size_t{std::max(1u, policy.units)});
  plan.block = static_cast<uint32_t>(std::clamp<size_t>(share, 1, kMostPositions));
  return plan;
}

namespace {

DeformPlan plan_on(const runtime::Queue& queue, DType type, const DeformProblem& problem) {
  return plan_deform(problem, dtype_size(type), policy(queue));
}

// `block`: positions, or channels.
DeformArgs to_args(const DeformProblem& problem, const DeformPlan& plan, uint32_t block) {
  return {problem, plan.segment, block, make_divider(problem.out_width)};
}

size_t position_blocks(const DeformArgs& args) {
  return args.images * ceil_div(size_t{args.out_height} * args.out_width, args.block);
}

}  // namespace

void deform_columns(runtime::Queue& queue, DType type, const DeformProblem& problem) {
  const DeformPlan plan = plan_on(queue, type, problem);
  const DeformArgs args = to_args(problem, plan, plan.block);
  runtime::launch2(queue, kernels::deform_columns[type], position_blocks(args), plan.segments, 1, kSubGroup, args);
}

void deform_input_grad(runtime::Queue& queue, DType type, const DeformProblem& problem) {
  const DeformPlan plan = plan_on(queue, type, problem);
  const DeformArgs args = to_args(problem, plan, kSubGroup);
  runtime::launch2(queue, kernels::deform_input_grad[type], args.images,
                   plan.segments * ceil_div(plan.segment, args.block), 1, kSubGroup, args);
}

void deform_offset_grad(runtime::Queue& queue, DType type, const DeformProblem& problem) {
  const DeformPlan plan = plan_on(queue, type, problem);
  const DeformArgs args = to_args(problem, plan, plan.block);
  const size_t taps = size_t{args.kernel_height} * args.kernel_width;
  runtime::launch2(queue, kernels::deform_offset_grad[type], position_blocks(args), args.offset_groups * taps, 1,
                   kSubGroup, args);
}

}  // namespace xpu_ops::ops
