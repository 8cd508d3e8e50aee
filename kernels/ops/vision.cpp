#include "kernels/ops/vision.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gen/kernels/vision_kernels.hpp"
#include "kernels/error.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::plan::inline vision_family {
namespace {

using runtime::ceil_div;
using runtime::kSubGroup;

constexpr uint32_t kRoiChannels = 4 * kSubGroup;   // of a work-group
constexpr uint32_t kPsItems = 64;                  // results of a work-group
constexpr size_t kSuppressItems = 64;              // boxes of a work-group
constexpr size_t kColumnBytes = size_t{32} << 20;  // of the columns of several images
constexpr uint32_t kMostPositions = 64;            // of a work-group

const runtime::Policy& policy(const runtime::Queue& queue) { return runtime::device_info(queue.device).policy; }

// Loops that go different ways in every item: one item a group where that is a thread.
size_t lonely(const runtime::Queue& queue) { return policy(queue).single_items ? 1 : kSubGroup; }

void launch_planes(runtime::Queue& queue, runtime::KernelSlot& kernel, const RoiArgs& args) {
  const size_t local = lonely(queue);
  runtime::launch(queue, kernel, ceil_div(size_t{args.images} * args.channels, local), local, args);
}

}  // namespace

float nms_threshold(double threshold) {
  const float near = static_cast<float>(threshold);
  return near > threshold ? std::nextafterf(near, -std::numeric_limits<float>::infinity()) : near;
}

int64_t nms(runtime::Queue& queue, DType type, NmsArgs args, double threshold) {
  runtime::refuse_recording(queue, "torchvision::nms");
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

RoiPlan plan_roi(const RoiArgs& args) {
  const size_t rows = size_t{args.roi_count} * args.pooled[0];
  // Four samples a bin of four pixels each, where boxes decide; the map is read and written once to be turned.
  const size_t samples = args.sampling > 0 ? size_t(args.sampling) * args.sampling : 4;
  const bool turn = rows * args.pooled[1] * samples * 4 > 2 * size_t{args.images} * args.height * args.width;
  return {turn && args.channels >= kSubGroup / 2, rows, ceil_div(args.channels, kRoiChannels), kSubGroup};
}

RoiPlan plan_roi_align_grad(RoiArgs& args, const runtime::Policy& policy) {
  const size_t blocks = ceil_div(args.channels, kRoiChannels), wanted = 2 * size_t{policy.units},
               bands = ceil_div(wanted, std::max<size_t>(1, blocks * args.images));
  args.lines = static_cast<uint32_t>(std::max<size_t>(ceil_div(args.height, bands), 8));
  args.bands = static_cast<uint32_t>(ceil_div(args.height, args.lines));
  return {true, size_t{args.images} * args.bands, blocks, kSubGroup};
}

void roi_align(runtime::Queue& queue, DType type, const RoiArgs& args) {
  const RoiPlan plan = plan_roi(args);
  const auto& table = args.stride[1] == 1 ? kernels::roi_align_last : kernels::roi_align_any;
  runtime::launch2(queue, table[type], plan.groups0, plan.groups1, 1, plan.local, args);
}

void roi_align_grad(runtime::Queue& queue, DType type, RoiArgs args) {
  const RoiPlan plan = plan_roi_align_grad(args, policy(queue));
  runtime::launch2(queue, kernels::roi_align_grad[type], plan.groups0, plan.groups1, 1, plan.local, args);
}

void roi_pool(runtime::Queue& queue, DType type, const RoiArgs& args) {
  const RoiPlan plan = plan_roi(args);
  const auto& table = args.stride[1] == 1 ? kernels::roi_pool_last : kernels::roi_pool_any;
  runtime::launch2(queue, table[type], plan.groups0, plan.groups1, 1, plan.local, args);
}

void roi_pool_grad(runtime::Queue& queue, DType type, const RoiArgs& args) {
  launch_planes(queue, kernels::roi_pool_grad[type], args);
}

void ps_roi(runtime::Queue& queue, PsPool kind, DType type, RoiArgs args) {
  args.items = kPsItems;
  const auto& table = kind == PsPool::align ? kernels::ps_roi_align : kernels::ps_roi_pool;
  runtime::launch2(queue, table[type], args.roi_count, ceil_div(args.channels, kPsItems), 1, lonely(queue), args);
}

void ps_roi_grad(runtime::Queue& queue, PsPool kind, DType type, const RoiArgs& args) {
  const auto& table = kind == PsPool::align ? kernels::ps_roi_align_grad : kernels::ps_roi_pool_grad;
  launch_planes(queue, table[type], args);
}

DeformPlan plan_deform(const DeformArgs& args, size_t element, const runtime::Policy& policy) {
  const size_t positions = size_t{args.out_height} * args.out_width,
               row = size_t{args.channels} * args.kernel_height * args.kernel_width * element;
  DeformPlan plan;
  plan.segment = std::gcd(args.channels / args.groups, args.channels / args.offset_groups);
  plan.segments = args.channels / plan.segment;
  plan.images = static_cast<uint32_t>(
      std::clamp<size_t>(kColumnBytes / std::max<size_t>(1, positions * row), 1, std::max(1u, args.images)));
  const size_t share = positions * args.images / (4 * size_t{std::max(1u, policy.units)});
  plan.block = static_cast<uint32_t>(std::clamp<size_t>(share, 1, kMostPositions));
  return plan;
}

namespace {

DeformPlan prepare(const runtime::Queue& queue, DType type, DeformArgs& args) {
  const DeformPlan plan = plan_deform(args, dtype_size(type), policy(queue));
  args.segment = plan.segment;
  args.block = plan.block;
  args.by_width = make_divider(args.out_width);
  return plan;
}

size_t position_blocks(const DeformArgs& args) {
  return args.images * ceil_div(size_t{args.out_height} * args.out_width, args.block);
}

}  // namespace

void deform_columns(runtime::Queue& queue, DType type, DeformArgs args) {
  const DeformPlan plan = prepare(queue, type, args);
  runtime::launch2(queue, kernels::deform_columns[type], position_blocks(args), plan.segments, 1, kSubGroup, args);
}

void deform_input_grad(runtime::Queue& queue, DType type, DeformArgs args) {
  const DeformPlan plan = prepare(queue, type, args);
  args.block = kSubGroup;  // of channels
  runtime::launch2(queue, kernels::deform_input_grad[type], args.images,
                   plan.segments * ceil_div(plan.segment, args.block), 1, kSubGroup, args);
}

void deform_offset_grad(runtime::Queue& queue, DType type, DeformArgs args) {
  prepare(queue, type, args);
  const size_t taps = size_t{args.kernel_height} * args.kernel_width;
  runtime::launch2(queue, kernels::deform_offset_grad[type], position_blocks(args), args.offset_groups * taps, 1,
                   kSubGroup, args);
}

}  // namespace xpu_ops::plan::inline vision_family
