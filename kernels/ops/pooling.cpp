#include "kernels/ops/pooling.hpp"

#include <algorithm>

#include "gen/kernels/pooling_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/images/pooling_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kPlaneRatio = 4, kPlaneBackRatio = 16;  // inputs per output from which a plane is worth a work-group
constexpr uint32_t kWorthLine = 16;                       // elements that are worth a line
constexpr size_t kLineItems = 256, kLineShare = 4096;     // items and elements of a work-group
constexpr size_t kPoolFilling = 8, kTileGroups = 64;      // work-groups per compute unit
constexpr size_t kFlatItems = 256;
constexpr int64_t kMostPoolTaps = 512, kMostStep = 96;  // of a window along a line, between two windows
constexpr int64_t kLeastStretch = 64;                   // elements of a line that are worth an item
constexpr int64_t kBandElements = 1 << 16;              // of a plane that stays in the cache while gradients are added
constexpr int64_t kBandWindows = 4;                     // windows that a band is high, so that few are read for two

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
const int32_t (&dst_size(const PoolProblem& p))[3] { return is_back(p.kind) ? p.in : p.out; }
int64_t volume(const int32_t (&size)[3]) { return int64_t{size[0]} * size[1] * size[2]; }

bool by_plane(const PoolProblem& p) {
  if (p.kind == PoolKind::max_back) return volume(p.in) >= kPlaneBackRatio * volume(p.out);
  return p.adaptive && p.in[2] >= kPlaneRatio * p.out[2];
}

bool by_tiles(const PoolProblem& p, const runtime::Policy& policy) {
  const PoolWindows& a = p;
  const int32_t k = a.kernel[2];
  return policy.single_items && p.kind == PoolKind::avg && p.dims == 2 && !a.adaptive && !a.divisor &&
         (k == 2 || k == 3) && a.kernel[1] == k && a.stride[1] == k && a.stride[2] == k && a.pad[1] == 0 &&
         a.pad[2] == 0 && int64_t{a.out[2]} * k <= a.in[2] && int64_t{a.out[1]} * k <= a.in[1] &&
         kernels::avg_pool_tiles_k2.has(p.type);
}

// Elements of dst along a line that one item computes; 0: the window does not fit.
int64_t stretch_of(const PoolProblem& p) {
  const PoolWindows& a = p;
  const int64_t step = a.stride[2], covered = int64_t{a.kernel[2] - 1} * a.dilation[2] + 1;
  if (step > kMostStep || covered > kMostPoolTaps) return 0;
  return is_back(p.kind) ? kPoolLine / 2 : (kPoolLine - covered) / step / 16 * 16;
}

bool by_lines(const PoolProblem& p, const runtime::Policy& policy) {
  const PoolWindows& a = p;
  if (!policy.single_items || a.adaptive || p.kind == PoolKind::max_back) return false;
  // Dilation past the whole input leaves windows empty.
  for (int d = 0; d < 3; ++d)
    if (a.dilation[d] > a.in[d]) return false;
  return kernels::avg_pool_lines.has(p.type) && stretch_of(p) > 0;
}

int outer_axis(const PoolWindows& a) { return a.in[0] > 1 ? 0 : a.in[1] > 1 ? 1 : 2; }
int64_t slice_of(const PoolWindows& a, int axis) {
  return axis == 0 ? int64_t{a.in[1]} * a.in[2] : axis == 1 ? int64_t{a.in[2]} : 1;
}
bool by_scatter(const PoolProblem& p, const runtime::Policy& policy) {
  return policy.single_items && p.kind == PoolKind::max_back && kernels::max_pool_back_scatter.has(p.type) &&
         (dtype_size(p.type) > 2 || slice_of(p, outer_axis(p)) <= kPoolBand);
}

PoolArgs to_args(const PoolProblem& p) {
  PoolArgs a{p};
  const bool back = is_back(p.kind);
  for (int d = 0; d < 3; ++d) {
    const int64_t in = p.in[d], out = p.out[d], covered = (int64_t{p.kernel[d]} - 1) * p.dilation[d];
    const int64_t reach = back ? (p.adaptive ? std::min(out, (out + in - 1) / in + 1) : covered / p.stride[d] + 1)
                               : (p.adaptive ? std::min(in, (in + out - 1) / out + 1) : p.kernel[d]);
    a.reach[d] = static_cast<int32_t>(reach);
    a.size[d] = dst_size(p)[d];
  }
  a.by_channel = xpu::make_divider(a.channels);
  for (int d = 0; d < 3; ++d) {
    a.by_size[d] = xpu::make_divider(static_cast<uint32_t>(a.size[d]));
    a.by_in[d] = xpu::make_divider(static_cast<uint32_t>(a.in[d]));
    a.by_out[d] = xpu::make_divider(static_cast<uint32_t>(a.out[d]));
    a.by_stride[d] = xpu::make_divider(static_cast<uint32_t>(a.stride[d]));
    a.by_dilation[d] = xpu::make_divider(static_cast<uint32_t>(a.dilation[d]));
  }
  return a;
}

}  // namespace

PoolKernel plan_pool_planes(const PoolProblem& p, const runtime::Policy& policy) {
  if (by_scatter(p, policy)) return PoolKernel::scatter;
  if (by_plane(p)) return PoolKernel::plane;
  if (by_tiles(p, policy)) return PoolKernel::tiles;
  return by_lines(p, policy) ? PoolKernel::lines : PoolKernel::flat;
}

bool plan_pool_turns(const PoolProblem& p, int64_t channels, const runtime::Policy& policy) {
  return channels >= kPoolLanes && policy.single_items && plan_pool_planes(p, policy) == PoolKernel::flat;
}

PoolPlan plan_pool(const PoolProblem& p, const runtime::Policy& policy) {
  PoolPlan plan;
  if (!p.last) plan.kernel = plan_pool_planes(p, policy);
  const uint32_t width = p.last ? p.channels : static_cast<uint32_t>(dst_size(p)[2]);
  if (plan.kernel == PoolKernel::flat && width >= kWorthLine)
    plan.kernel = p.last ? PoolKernel::last : PoolKernel::wide;
  const int64_t largest = std::max(volume(p.in), volume(p.out)) * p.channels;
  plan.at_once = std::max<int64_t>(1, kMaxLaunch / std::max<int64_t>(1, largest));
  return plan;
}

PoolLines plan_pool_lines(const PoolProblem& p, int64_t planes, const runtime::Policy& policy) {
  PoolLines plan;
  const auto& size = dst_size(p);
  plan.width = p.last ? p.channels : static_cast<uint32_t>(size[2]);
  const size_t lines = static_cast<size_t>(planes) * size[0] * (p.last ? size[1] : 1);
  const size_t length = size[p.last ? 2 : 1];
  plan.local = p.last ? kPoolLanes : std::min(kLineItems, ceil_div(plan.width, 16) * 16);
  const size_t across = p.last ? kPoolLanes * kPoolVectors : plan.local;
  plan.groups1 = ceil_div(plan.width, across);
  // About so many elements per work-group, but enough groups to share among the compute units.
  const size_t wanted = kPoolFilling * policy.units;
  const size_t parts = std::max(ceil_div(length * across, kLineShare), ceil_div(wanted, lines * plan.groups1));
  plan.segment = static_cast<uint32_t>(ceil_div(length, std::min(parts, length)));
  plan.parts = static_cast<uint32_t>(ceil_div(length, plan.segment));
  plan.groups0 = lines * plan.parts;
  return plan;
}

PoolItems plan_pool_items(const PoolProblem& p, PoolKernel kernel, int64_t planes, const runtime::Policy& policy) {
  PoolItems plan;
  const PoolWindows& a = p;
  const int64_t wanted = static_cast<int64_t>(kPoolFilling * policy.units);
  const auto& size = dst_size(p);
  int64_t length = size[2], segment, lines = planes * size[0] * size[1];
  if (kernel == PoolKernel::lines) {
    segment = stretch_of(p);
    const auto even = static_cast<int64_t>(ceil_div(length * lines, wanted)) / 16 * 16;
    segment = std::min(segment, std::max(even, kLeastStretch));
  } else {
    plan.axis = outer_axis(a);
    const int64_t slice = slice_of(a, plan.axis),
                  covered = int64_t{a.kernel[plan.axis] - 1} * a.dilation[plan.axis] + 1;
    length = a.in[plan.axis], lines = planes;
    const bool sums = dtype_size(p.type) == 2;
    segment = std::max<int64_t>(1, (sums ? kPoolBand : kBandElements) / slice);
    const int64_t least = a.adaptive ? length : covered * kBandWindows;
    segment = std::max(std::min(segment, static_cast<int64_t>(ceil_div(length * lines, wanted))), least);
    if (sums) segment = std::min(segment, std::max<int64_t>(1, kPoolBand / slice));
  }
  plan.segment = static_cast<uint32_t>(std::max<int64_t>(1, std::min(segment, length)));
  plan.parts = static_cast<uint32_t>(ceil_div(length, plan.segment));
  plan.items = static_cast<uint32_t>(lines * plan.parts);
  return plan;
}

void pool(runtime::Queue& queue, const PoolProblem& problem) {
  const runtime::Policy& policy = runtime::policy_of(queue);
  const PoolTables& tables = tables_of(problem.kind);
  const DType type = problem.type;
  runtime::KernelSlot& flat = tables.flat[type];  // the error for types that are not pooled
  const PoolPlan plan = plan_pool(problem, policy);
  PoolArgs a = to_args(problem);
  const bool back = is_back(problem.kind);
  const int64_t dst_step = volume(a.size) * a.channels, src_step = volume(back ? a.out : a.in) * a.channels;
  const int64_t item = static_cast<int64_t>(dtype_size(type));
  for (int64_t first = 0; first < problem.planes; first += plan.at_once) {
    const int64_t count = std::min(plan.at_once, problem.planes - first);
    a.src = static_cast<const char*>(problem.src) + first * src_step * item;
    a.dst = static_cast<char*>(problem.dst) + first * dst_step * item;
    if (a.indices) a.indices = problem.indices + first * (back ? src_step : dst_step);
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
      case PoolKernel::lines:
      case PoolKernel::scatter: {
        const PoolItems plan_of = plan_pool_items(problem, plan.kernel, count, policy);
        a.segment = plan_of.segment;
        a.by_part = xpu::make_divider(plan_of.parts);
        a.axis = plan_of.axis;
        a.items = plan_of.items;
        a.lanes = static_cast<uint32_t>(count * src_step);
        const auto& kernel =
            back ? plan.kernel == PoolKernel::scatter ? kernels::max_pool_back_scatter : kernels::avg_pool_back_lines
            : problem.kind == PoolKind::max ? kernels::max_pool_lines
                                            : kernels::avg_pool_lines;
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

}  // namespace xpu_ops::ops
