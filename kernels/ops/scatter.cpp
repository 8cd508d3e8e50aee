#include "kernels/ops/scatter.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "gen/kernels/scatter_kernels.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/items.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/ops/sort.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/core/counts_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kNearBytes = int64_t{1} << 19;              // of the second cache, which a tile adds to
constexpr uint32_t kScatterLine = 16;                         // columns that are worth a vector
constexpr size_t kColumnGroup = 64;                           // items, where an item has a column
constexpr size_t kFillingItems = 128;                         // items per compute unit
constexpr int64_t kSiftSteps = 1 << 16, kSiftSize = 1 << 18;  // indices and places from which on sifting pays
constexpr size_t kSiftParts = 8;
// Indices from which on dealing them to many threads pays: of one column, of slices.
constexpr int64_t kDealtSteps = 1 << 15, kDealtSlices = 1 << 13;
// Of more threads than this, slices are shared by places too: each part reads all indices and adds its own slices.
constexpr size_t kFewScatterUnits = 4, kSliceColumns = 256;
constexpr int64_t kPartSteps = 1 << 10;
constexpr int64_t kTeamSteps = 16;                   // of a column that is worth a sub-group
constexpr int64_t kMeetSteps = 256;                  // of a column that is worth a work-group
constexpr size_t kMeetEach = 4, kLeastMeeting = 64;  // indices of an item at a time, items of such a work-group
constexpr size_t kMeetFilling = 16;                  // such work-groups per compute unit
// A column is held in local memory where it is at most so many times longer than its indices.
constexpr int64_t kHeldShare = 4;
// Places per index up to which the last index of each is marked, instead of a sort.
constexpr int64_t kLastShare = 64;
// Columns that so many items or more would share are sorted, if there are so many indices, and not too many in all;
// those side by side, which share one sort, also where there are so many times more.
constexpr size_t kSortedShare = 8;
constexpr int64_t kSortedSteps = 1 << 12, kMostSorted = int64_t{1} << 26;
constexpr size_t kSortedFilling = 64, kMostTake = 64;  // work-groups per compute unit, sorted indices of one
constexpr int64_t kCountShare = 4096, kCountBins = int64_t{1} << 22;  // indices of a table, bins of all tables
constexpr int64_t kMostTables = 2048;
constexpr size_t kCountItems = 64;
constexpr size_t kCountEach = 16, kCountFilling = 8;  // of a shared table: indices of an item, work-groups per unit

runtime::KernelSlot& column_kernel(const ColumnProblem& p) {
  switch (p.op) {
    case Reduce::assign: return kernels::column_assign[raw_dtype(p.element)];
    case Reduce::add: return kernels::column_add[p.type];
    case Reduce::mul: return kernels::column_mul[p.type];
    case Reduce::max: return kernels::column_max[p.type];
    case Reduce::min: return kernels::column_min[p.type];
  }
  throw Error(ErrorKind::runtime, "unknown reduction");
}

runtime::KernelSlot& team_kernel_of(const ColumnProblem& p) {
  switch (p.op) {
    case Reduce::assign: return kernels::column_assign_team[raw_dtype(p.element)];
    case Reduce::add: return kernels::column_add_team[p.type];
    case Reduce::mul: return kernels::column_mul_team[p.type];
    case Reduce::max: return kernels::column_max_team[p.type];
    case Reduce::min: return kernels::column_min_team[p.type];
  }
  throw Error(ErrorKind::runtime, "unknown reduction");
}

ColumnArgs column_args(const ColumnProblem& p) {
  ColumnArgs args{};
  args.data = p.data;
  args.src = p.src;
  args.index = p.index;
  args.src_step = p.src_step;
  args.index_step = p.index_step;
  args.steps = static_cast<uint32_t>(p.steps);
  args.skip = p.skip.value_or(std::numeric_limits<int64_t>::min());
  args.walk = make_walk<3>(p.columns, true, 2);
  args.parts = args.tile = args.take = 1;
  return args;
}

ColumnStep index_step(const ColumnProblem& p) { return {0, p.src_step, p.index_step}; }
ColumnStep columns_step(const ColumnArgs& args) {
  const auto& inner = args.walk.strides[0];
  return {inner[0], inner[1], inner[2]};
}

// One item walks a tile alone: gathers and scatters cost more than they save. Its inner loop is the one that takes what
// lies side by side; where that is across columns, what the tile adds to should stay in the second cache.
void plan_tiles(const ColumnProblem& p, size_t units, size_t total, ColumnArgs& args) {
  const bool even = args.walk.inner_ndim <= 1;
  args.across = even && args.walk.inner >= kScatterLine && std::abs(args.walk.strides[0][0]) < std::abs(p.index.stride);
  size_t tile = ceil_div(total, 8 * units);
  if (args.across)
    tile = ceil_div(std::min(tile, kNearBytes / sizeof(float) / std::max<size_t>(1, p.index.size)), kScatterLine) *
           kScatterLine;
  args.tile = static_cast<uint32_t>(
      std::clamp<size_t>(tile, args.across ? kScatterLine : 1, std::max(args.walk.inner, kScatterLine)));
  args.take = even ? args.tile : 1;
  // One column of many places: each thread goes through all indices, for places that are a share of the cache misses.
  if (total == 1 && p.steps >= kSiftSteps && p.index.size >= kSiftSize) {
    args.parts = static_cast<uint32_t>(std::min(units, kSiftParts));
    args.sift = args.parts > 1;
  }
}

bool sorts(const ColumnProblem& p, size_t total, bool uniform, bool together, size_t units) {
  const size_t few = kFillingItems * units, columns = together ? total / kSortedShare : total * kSortedShare;
  return columns < few && p.steps >= kSortedSteps && p.index.size < INT32_MAX &&
         p.steps <= kMostSorted / static_cast<int64_t>(uniform ? 1 : total);
}

// A sub-group reads the indices and the elements of a column as they lie side by side.
bool teams_pay(const ColumnProblem& p, size_t total, size_t units) {
  return p.src_step == 1 && p.index_step == 1 && p.steps >= kTeamSteps && p.index.size < INT32_MAX &&
         total < INT32_MAX && total * kScatterLine >= kFillingItems * units;
}

// A work-group shares a column of those: for the two operations whose kernels can.
bool meets(const ColumnProblem& p, const runtime::Policy& policy) {
  return (p.op == Reduce::assign || p.op == Reduce::add) && p.steps >= kMeetSteps && policy.team_items > policy.lanes;
}

// The parts hold the order of the indices, so that the bits are those of one thread.
void scatter_dealt(runtime::Queue& queue, runtime::KernelSlot& kernel, const ColumnPlan& plan, size_t element) {
  ColumnArgs args = plan.args;
  const size_t cells = size_t{plan.chunks} * args.parts, steps = args.steps;
  const bool slices = args.uniform && args.unit;
  const runtime::Scratch cell((cells + args.parts + 1) * sizeof(uint32_t)), ids(steps * sizeof(int32_t)),
      values(steps * (slices ? sizeof(uint32_t) : element));
  ColumnDealArgs deal{};
  deal.index = args.index;
  deal.src = args.src;
  deal.src_step = args.src_step, deal.index_step = args.index_step, deal.skip = args.skip;
  deal.steps = args.steps, deal.chunk = plan.chunk, deal.chunks = plan.chunks, deal.parts = args.parts;
  deal.by_part_size = xpu::make_divider(static_cast<uint32_t>(args.part_size));
  deal.counts = cell.get<uint32_t>();
  deal.starts = deal.counts + cells;
  deal.ids = ids.get<int32_t>();
  deal.values = values.get();
  runtime::launch(queue, kernels::column_deal_count, plan.chunks, 1, deal);
  runtime::launch(queue, slices ? kernels::column_deal_steps : kernels::column_deal_write[raw_dtype(element)],
                  plan.chunks, 1, deal);
  args.starts = deal.starts;
  args.index.ptr = deal.ids;
  args.index.is32 = true;
  args.skip = std::numeric_limits<int64_t>::min();
  if (slices)
    args.order = static_cast<const uint32_t*>(deal.values);
  else
    args.src = deal.values;
  runtime::launch2(queue, kernel, plan.groups0, plan.groups1, 1, plan.local, args);
}

void launch_keys(runtime::Queue& queue, const ColumnPlan& plan, int32_t* keys) {
  const ColumnArgs& args = plan.args;
  const ColumnKeyArgs key{args.index, keys, args.index_step, args.skip, args.steps, args.walk};
  runtime::launch2(queue, kernels::column_keys, plan.sorts, ceil_div(args.steps, kColumnGroup), 1, kColumnGroup, key);
}

void scatter_last(runtime::Queue& queue, runtime::KernelSlot& kernel, const ColumnPlan& plan) {
  ColumnArgs args = plan.args;
  const runtime::Scratch keys(args.steps * sizeof(int32_t)), last(args.index.size * sizeof(uint32_t));
  const ColumnLastArgs mark{keys.get<int32_t>(), last.get<uint32_t>(), static_cast<int32_t>(args.index.size),
                            args.steps};
  constexpr uint32_t zero = 0;
  fill(queue, mark.last, sizeof zero, &zero, {1, {static_cast<uint32_t>(args.index.size)}, {1}, {0}});
  launch_keys(queue, plan, mark.keys);
  launch_items(queue, kernels::column_last_mark, args.steps, mark);
  launch_items(queue, kernels::column_last_keep, args.steps, mark);
  args.keys = mark.keys;
  runtime::launch2(queue, kernel, plan.groups0, plan.groups1, 1, plan.local, args);
}

void scatter_sorted(runtime::Queue& queue, runtime::KernelSlot& kernel, const ColumnPlan& plan) {
  ColumnArgs args = plan.args;
  const size_t entries = size_t{plan.sorts} * args.steps;
  const runtime::Scratch keys(entries * sizeof(int32_t)), sorted(entries * sizeof(int32_t)),
      places(entries * sizeof(int64_t));
  launch_keys(queue, plan, keys.get<int32_t>());
  sort(queue, {DType::i32, keys.get(), sorted.get(), places.get<int64_t>(), plan.sorts, args.steps, args.steps, false});
  args.keys = sorted.get<int32_t>();
  args.places = places.get<int64_t>();
  runtime::launch2(queue, kernel, plan.groups0, plan.groups1, 1, plan.local, args);
}

}  // namespace

namespace {

void deal(const ColumnProblem& p, size_t units, ColumnPlan& plan) {
  plan.dealt = true;
  plan.chunk = static_cast<uint32_t>(ceil_div(p.steps, std::min<int64_t>(units, kDealtParts)));
  plan.chunks = static_cast<uint32_t>(ceil_div(p.steps, plan.chunk));
}

}  // namespace

ColumnPlan plan_columns(const ColumnProblem& p, const runtime::Policy& policy) {
  ColumnPlan plan;
  ColumnArgs& args = plan.args;
  args = column_args(p);
  args.uniform = true;
  for (const auto& d : p.columns) args.uniform &= d.size == 1 || d.strides[2] == 0;
  const auto& inner = args.walk.strides[0];
  const size_t units = std::max<size_t>(1, policy.units);
  const bool coalesced = args.walk.inner_ndim == 1 && inner[0] == 1 && args.walk.inner >= kScatterLine;
  if (!coalesced && args.walk.inner < 256) args.walk = make_walk<3>(p.columns, true, 256);
  args.unit = args.walk.inner_ndim == 1 && inner[0] == 1 && inner[1] == 1;
  const size_t total = static_cast<size_t>(args.walk.rows) * args.walk.inner;
  size_t width = plan.local = kColumnGroup;  // width: columns of a work-group
  const bool together = args.uniform && args.unit;
  if (policy.single_items && together) {
    plan.local = coalesced ? policy.lanes : 1;
    width = coalesced ? even_group(args.walk.inner, std::max<size_t>(total / units, kScatterLine)) : 1;
    if (units > kFewScatterUnits && p.steps >= kPartSteps) {
      const size_t wide = coalesced ? even_group(args.walk.inner, std::max(width, kSliceColumns)) : width;
      const size_t pieces = args.walk.rows * ceil_div(args.walk.inner, wide);
      if (const size_t parts = std::min(units / pieces, units); parts > 1) {
        width = wide;
        args.parts = static_cast<uint32_t>(std::clamp<int64_t>(parts, 1, std::max<int64_t>(1, p.index.size)));
        // A branch on each index would cost more than an element: columns of their own are sifted.
        args.sift = !coalesced && args.parts > 1 && args.walk.inner_ndim == 1;
        args.unit &= !args.sift;
      }
    }
  } else if (policy.single_items) {
    plan.local = 1;
    if (total == 1 && units > kFewScatterUnits && p.steps >= kDealtSteps && p.index.size < INT32_MAX) {
      args.part_size = ceil_div(p.index.size, std::min<int64_t>({policy.units, kDealtParts, p.index.size}));
      args.parts = static_cast<uint32_t>(ceil_div(p.index.size, args.part_size));
      plan.groups0 = args.parts;
      plan.groups1 = 1;
      deal(p, units, plan);
      return plan;
    }
    plan_tiles(p, units, total, args);
    width = args.tile;
  } else if (sorts(p, total, args.uniform, together, units)) {
    plan.last = p.op == Reduce::assign && args.uniform && p.index.size <= kLastShare * p.steps;
    plan.sorted = !plan.last;
    plan.sorts = args.uniform ? 1 : static_cast<uint32_t>(total);
    if (together) {
      plan.local = even_group(args.walk.inner, policy);
      plan.groups1 = ceil_div(args.walk.inner, plan.local);
      const size_t tiles = plan.groups1 * args.walk.rows;
      args.tile = static_cast<uint32_t>(plan.local);
      args.take =
          static_cast<uint32_t>(std::clamp<size_t>(args.steps * tiles / (kSortedFilling * units), 1, kMostTake));
      plan.groups0 = args.walk.rows * ceil_div(args.steps, args.take);
      return plan;
    }
    plan.groups0 = total;
    plan.groups1 = ceil_div(args.steps, plan.local);
    return plan;
  } else if (!together && teams_pay(p, total, units) && meets(p, policy)) {
    args.meets = true;
    plan.team = true;
    args.held = p.index.stride == 1 && p.index.size <= static_cast<int64_t>(kHeldBytes / p.element) &&
                p.index.size <= kHeldShare * p.steps;
    plan.local = std::clamp(ceil_div(ceil_div(args.steps, kMeetEach), policy.lanes) * policy.lanes, kLeastMeeting,
                            size_t{policy.team_items});
    plan.groups0 = std::min(total, kMeetFilling * units);
    plan.groups1 = 1;
    return plan;
  } else if (!together && teams_pay(p, total, units)) {
    plan.team = true;
    const RowGroups rows = sub_group_rows(total, policy);
    plan.groups0 = rows.groups;
    if (policy.cache > 0) {  // what is written at a time should stay there
      const size_t column = std::max<size_t>(1, static_cast<size_t>(p.index.size) * p.element),
                   near = policy.cache / column / (rows.local / policy.lanes) / units;
      plan.groups0 = std::min(rows.groups, std::max<size_t>(1, near) * units);
    }
    plan.groups1 = 1, plan.local = rows.local;
    return plan;
  } else if (total < kFillingItems * units) {
    args.parts = static_cast<uint32_t>(
        std::clamp<int64_t>(kFillingItems * units / total, 1, std::max<int64_t>(1, p.index.size)));
  }
  if (together) args.tile = static_cast<uint32_t>(width);
  args.inner = args.across ? columns_step(args) : index_step(p);
  args.outer = args.across ? index_step(p) : columns_step(args);
  // No part may begin past the end.
  args.part_size = std::max<int64_t>(1, ceil_div(p.index.size, args.parts));
  args.parts = static_cast<uint32_t>(std::max<size_t>(1, ceil_div(p.index.size, args.part_size)));
  plan.groups0 = static_cast<size_t>(args.walk.rows) * args.parts;
  plan.groups1 = ceil_div(args.walk.inner, width);
  if (policy.single_items && together && args.unit && args.parts > 1 && args.parts <= kDealtParts &&
      p.steps >= kDealtSlices && p.index.size < INT32_MAX)
    deal(p, units, plan);
  return plan;
}

namespace {

void scatter_part(runtime::Queue& queue, const ColumnProblem& p) {
  runtime::KernelSlot& kernel = column_kernel(p);
  const auto here = [&] {
    if (!kernel.host()) return false;
    ColumnArgs args = column_args(p);
    const int64_t cost = p.steps * (args.walk.rows * int64_t{args.walk.inner}) * kHostMove;
    if (args.walk.inner_ndim > 1 || !queue.small().takes(cost)) return false;
    args.inner = index_step(p);
    args.outer = columns_step(args);
    return queue.small().run_taken([args, run = kernel.host()] { run(&args, 0); }, kernel);
  };
  if (here()) return;
  const ColumnPlan plan = plan_columns(p, runtime::policy_of(queue));
  if (plan.dealt)
    scatter_dealt(queue, kernel, plan, p.element);
  else if (plan.last)
    scatter_last(queue, kernel, plan);
  else if (plan.sorted)
    scatter_sorted(queue, kernel, plan);
  else if (plan.team)
    runtime::launch(queue, team_kernel_of(p), plan.groups0, plan.local, plan.args);
  else
    runtime::launch2(queue, kernel, plan.groups0, plan.groups1, 1, plan.local, plan.args);
}

}  // namespace

void scatter_columns(runtime::Queue& queue, const ColumnProblem& p) {
  if (p.steps == 0) return;
  for (const auto& d : p.columns)
    if (d.size == 0) return;
  if (p.steps >= (int64_t{1} << 32))
    throw Error(ErrorKind::runtime, "more than 2^32 indices along one dimension are not supported");
  const auto begin = [](ColumnProblem& part, const int64_t (&offsets)[3]) {
    part.data = elements_on(part.data, offsets[0], part.element);
    part.src = elements_on(part.src, offsets[1], part.element);
  };
  for_parts(p, &ColumnProblem::columns, true, begin, [&](const ColumnProblem& part) { scatter_part(queue, part); });
  if (p.index.code != DeviceErrorCode::none) runtime::check_kernel_errors(queue);
}

CountPlan plan_counts(int64_t n, int64_t bins, const runtime::Policy& policy) {
  CountPlan plan;
  if (!policy.single_items && bins <= kLocalBins) {
    plan.by_group = true;
    plan.local = policy.tile_items;
    plan.groups = std::clamp<size_t>(ceil_div(n, kCountShare), 1, 2 * size_t{policy.units});
    plan.tables = static_cast<uint32_t>(plan.groups);
    return plan;
  }
  // One item walks its share alone: few where each is a thread, else many while the tables stay small.
  const int64_t most = policy.single_items ? std::max<int64_t>(1, policy.units) : kMostTables;
  const int64_t tables =
      std::clamp<int64_t>(std::min(n / kCountShare, kCountBins / std::max<int64_t>(1, bins)), 1, most);
  plan.tables = static_cast<uint32_t>(tables);
  plan.local = policy.single_items ? 1 : kCountItems;
  plan.groups = ceil_div(plan.tables, plan.local);
  return plan;
}

void merge_counts(runtime::Queue& queue, int64_t* counts, uint32_t tables, uint32_t bins, int64_t* out) {
  CountArgs args{};
  args.counts = counts;
  args.out = out;
  args.tables = tables;
  args.bins = bins;
  launch_items(queue, kernels::count_merge, bins, args);
}

namespace {
// Many bins: one table in the device's memory, which all items add to.
void count_together(runtime::Queue& queue, CountArgs args, const runtime::Policy& policy) {
  const runtime::Scratch counts(size_t{args.bins} * sizeof(uint32_t));
  args.counts = counts.get<int64_t>();
  constexpr uint32_t zero = 0;
  fill(queue, args.counts, sizeof zero, &zero, {1, {args.bins}, {1}, {0}});
  const size_t local = policy.tile_items, groups = ceil_div(args.n, kCountEach * local);
  runtime::launch(queue, kernels::count_shared, std::clamp<size_t>(groups, 1, kCountFilling * policy.units), local,
                  args);
  launch_items(queue, kernels::count_widen, args.bins, args);
}
}  // namespace

void count_indices(runtime::Queue& queue, const CountProblem& problem) {
  CountArgs args{problem};
  const runtime::Policy& policy = runtime::policy_of(queue);
  if (!policy.single_items && args.bins > kLocalBins) return count_together(queue, args, policy);
  const CountPlan plan = plan_counts(args.n, args.bins, policy);
  const runtime::Scratch counts(size_t{plan.tables} * args.bins * sizeof(int64_t));
  args.counts = counts.get<int64_t>();
  args.tables = plan.tables;
  runtime::launch(queue, plan.by_group ? kernels::count_local : kernels::count_private, plan.groups, plan.local, args);
  merge_counts(queue, args.counts, plan.tables, args.bins, args.out);
}

void segment_reduce(runtime::Queue& queue, DType type, const SegmentProblem& p) {
  launch_item_rows(queue, kernels::segment_reduce[type], size_t{p.outer} * p.segments, p.inner, p);
}

void segment_reduce_backward(runtime::Queue& queue, DType type, const SegmentProblem& p) {
  launch_item_rows(queue, kernels::segment_reduce_backward[type], size_t{p.outer} * p.segments, p.inner, p);
}

}  // namespace xpu_ops::ops
