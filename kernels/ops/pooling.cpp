#include "kernels/ops/pooling.hpp"

#include <algorithm>

#include "gen/kernels/pooling_kernels.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/launch.hpp"

namespace xpu_ops::plan::inline pooling_family {
namespace {

using runtime::ceil_div;

constexpr int64_t kMaxLaunch = (int64_t{1} << 31) - 1;    // elements that a launch numbers
constexpr int64_t kPlaneRatio = 4, kPlaneBackRatio = 16;  // inputs per output from which a plane is worth a work-group
constexpr uint32_t kLine = 16;                            // elements that are worth a line
constexpr size_t kLineItems = 256, kLineShare = 4096;     // items and elements of a work-group
constexpr size_t kFilling = 8, kTileGroups = 64;          // work-groups per compute unit
constexpr size_t kFlatItems = 256;

struct PoolTables { const runtime::KernelTable &flat, &last, &wide, &plane; };
const PoolTables& tables_of(PoolKind kind) {
  static const PoolTables all[] = {
      {kernels::max_pool_flat, kernels::max_pool_last, kernels::max_pool_wide, kernels::max_pool_plane},
      {kernels::max_pool_back_flat, kernels::max_pool_back_last, kernels::max_pool_back_wide,
       kernels::max_pool_back_plane},
      {kernels::avg_pool_flat, kernels::avg_pool_last, kernels::avg_pool_wide, kernels::avg_pool_plane},
      {kernels::avg_pool_back_flat, kernels::avg_pool_back_last, kernels::avg_pool_back_wide,
       kernels::avg_pool_back_plane},
  };
  return all[static_cast<int>(kind)];
}

bool is_back(PoolKind kind) { return kind == PoolKind::max_back || kind == PoolKind::avg_back; }
int64_t volume(const int32_t (&size)[3]) { return int64_t{size[0]} * size[1] * size[2]; }

bool by_plane(const PoolProblem& p) {
  const PoolArgs& a = p.args;
  if (p.kind == PoolKind::max_back) return volume(a.in) >= kPlaneBackRatio * volume(a.out);
  return a.adaptive && a.in[2] >= kPlaneRatio * a.out[2];
}

bool by_tiles(const PoolProblem& p, const runtime::Policy& policy) {
  const PoolArgs& a = p.args;
  const int32_t k = a.kernel[2];
  return policy.single_items && p.kind == PoolKind::avg && p.dims == 2 && !a.adaptive && !a.divisor &&
         (k == 2 || k == 3) && a.kernel[1] == k && a.stride[1] == k && a.stride[2] == k && a.pad[1] == 0 &&
         a.pad[2] == 0 && int64_t{a.out[2]} * k <= a.in[2] && int64_t{a.out[1]} * k <= a.in[1] &&
         kernels::avg_pool_tiles_k2.has(p.type);
}

void make_dividers(PoolArgs& a) {
  a.by_channel = xpu::make_divider(a.channels);
  for (int d = 0; d < 3; ++d) {
    a.by_size[d] = xpu::make_divider(static_cast<uint32_t>(a.size[d]));
    a.by_in[d] = xpu::make_divider(static_cast<uint32_t>(a.in[d]));
    a.by_out[d] = xpu::make_divider(static_cast<uint32_t>(a.out[d]));
    a.by_stride[d] = xpu::make_divider(static_cast<uint32_t>(a.stride[d]));
    a.by_dilation[d] = xpu::make_divider(static_cast<uint32_t>(a.dilation[d]));
  }
}

}  // namespace

PoolKernel plan_pool_planes(const PoolProblem& p, const runtime::Policy& policy) {
  return by_plane(p) ? PoolKernel::plane : by_tiles(p, policy) ? PoolKernel::tiles : PoolKernel::flat;
}

bool plan_pool_turns(const PoolProblem& p, const runtime::Policy& policy) {
  return policy.single_items && plan_pool_planes(p, policy) == PoolKernel::flat;
}

PoolPlan plan_pool(const PoolProblem& p, const runtime::Policy& policy) {
  PoolPlan plan;
  if (!p.last) plan.kernel = plan_pool_planes(p, policy);
  const uint32_t width = p.last ? p.args.channels : static_cast<uint32_t>(p.args.size[2]);
  if (plan.kernel == PoolKernel::flat && width >= kLine) plan.kernel = p.last ? PoolKernel::last : PoolKernel::wide;
  const int64_t largest = std::max(volume(p.args.in), volume(p.args.out)) * p.args.channels;
  plan.at_once = std::max<int64_t>(1, kMaxLaunch / std::max<int64_t>(1, largest));
  return plan;
}

PoolLines plan_pool_lines(const PoolProblem& p, int64_t planes, const runtime::Policy& policy) {
  PoolLines plan;
  const PoolArgs& a = p.args;
  plan.width = p.last ? a.channels : static_cast<uint32_t>(a.size[2]);
  const size_t lines = static_cast<size_t>(planes) * a.size[0] * (p.last ? a.size[1] : 1);
  const size_t length = a.size[p.last ? 2 : 1];
  plan.local = p.last ? kPoolLanes : std::min(kLineItems, ceil_div(plan.width, 16) * 16);
  const size_t across = p.last ? kPoolLanes * kPoolVectors : plan.local;
  plan.groups1 = ceil_div(plan.width, across);
  // About so many elements per work-group, but enough groups to share among the compute units.
  const size_t wanted = kFilling * policy.units;
  const size_t parts = std::max(ceil_div(length * across, kLineShare), ceil_div(wanted, lines * plan.groups1));
  plan.segment = static_cast<uint32_t>(ceil_div(length, std::min(parts, length)));
  plan.parts = static_cast<uint32_t>(ceil_div(length, plan.segment));
  plan.groups0 = lines * plan.parts;
  return plan;
}

void pool(runtime::Queue& queue, const PoolProblem& problem) {
  const runtime::Policy& policy = runtime::device_info(queue.device).policy;
  const PoolTables& tables = tables_of(problem.kind);
  const DType type = problem.type;
  runtime::KernelSlot& flat = tables.flat[type];  // the error for types that are not pooled
  const PoolPlan plan = plan_pool(problem, policy);
  PoolArgs a = problem.args;
  make_dividers(a);
  const bool back = is_back(problem.kind);
  const int64_t dst_step = volume(a.size) * a.channels, src_step = volume(back ? a.out : a.in) * a.channels;
  const int64_t item = static_cast<int64_t>(dtype_size(type));
  for (int64_t first = 0; first < problem.planes; first += plan.at_once) {
    const int64_t count = std::min(plan.at_once, problem.planes - first);
    a.src = static_cast<const char*>(problem.args.src) + first * src_step * item;
    a.dst = static_cast<char*>(problem.args.dst) + first * dst_step * item;
    if (a.indices) a.indices = problem.args.indices + first * (back ? src_step : dst_step);
    a.items = static_cast<uint32_t>(count * dst_step);
    switch (plan.kernel) {
      case PoolKernel::plane: {
        const size_t groups = static_cast<size_t>(count) * (back ? 1 : a.size[0] * a.size[1]);
        runtime::launch(queue, tables.plane[type], groups, kPoolLanes, a);
        break;
      }
      case PoolKernel::tiles: {
        a.items = static_cast<uint32_t>(count * a.out[1]);
        const auto& kernel = a.kernel[2] == 2 ? kernels::avg_pool_tiles_k2 : kernels::avg_pool_tiles_k3;
        runtime::launch(queue, kernel[type], std::min<size_t>(a.items, kTileGroups * policy.units), 1, a);
        break;
      }
      case PoolKernel::last:
      case PoolKernel::wide: {
        const PoolLines lines = plan_pool_lines(problem, count, policy);
        a.segment = lines.segment;
        a.by_part = xpu::make_divider(lines.parts);
        a.lanes = lines.width;
        runtime::launch2(queue, (problem.last ? tables.last : tables.wide)[type], lines.groups0, lines.groups1, 1,
                         lines.local, a);
        break;
      }
      case PoolKernel::flat: runtime::launch(queue, flat, ceil_div(a.items, kFlatItems), kFlatItems, a);
    }
  }
}

}  // namespace xpu_ops::plan::inline pooling_family
