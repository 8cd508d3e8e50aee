#include "kernels/ops/sort.hpp"

#include <algorithm>
#include <utility>

#include "gen/kernels/sort_kernels.hpp"
#include "kernels/ops/items.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

// Sorting: up to kRankFlat elements share a work-group with other rows, up to kRank have one of their own.
constexpr int64_t kRankFlat = 16, kRank = 64;
// Longer rows are worth several items with vector registers of their own: the second times the units that would stand
// idle.
constexpr int64_t kItemRow = 1 << 18, kSingleItemRow = 1 << 21;
constexpr int64_t kLongDigits = 2048;             // rows from here on amortise digits of 11 bits
constexpr size_t kCachedScratch = 8 << 20;        // bytes that one batch of rows works on
constexpr size_t kMostScratch = size_t{1} << 30;  // where that would not fill the device
constexpr int64_t kSortChunk = 4096;              // least elements of a part
constexpr int64_t kSortPart = 1 << 16;            // of more parts than units: their places of a digit share no lines
// Of teams: elements of a tile per item, from which row on several work-groups share one, and most that share it.
constexpr int64_t kTileEach = 16, kSortTeamRow = 1 << 15, kMostTeams = 1 << 13;
constexpr size_t kLeastTeam = 64, kDigitValues = 256;
constexpr uint32_t kWide = 1024, kFlat = 256, kPickRows = 64;  // items of work-groups
// topk: bounds are read off 64 maxima or, of long rows, 256; with k near their number too many elements would reach
// them.
constexpr int64_t kFew = 60, kMany = 240, kManyRow = 4096, kScanRow = 8192;
constexpr int64_t kTopkPart = 1 << 15, kTopkFilling = 8;  // elements of a part, sub-groups per compute unit
// Rows from which the best are selected before they are sorted, and elements per one of them.
constexpr int64_t kTakeRow = 1 << 15, kTakeShare = 16;
constexpr uint32_t kTopkLanes = 16;  // of the device code
// Selecting: from here on it costs less than sorting the row.
constexpr int64_t kLongRow = kSelectShort + 1, kSelectChunk = 16384;
constexpr int64_t kRunChunk = 1024;
constexpr uint32_t kNotedRuns = 4096;

size_t entry_bytes(DType type) { return dtype_size(type) == 8 ? 16 : 8; }

size_t wide_group(runtime::Queue& queue) { return std::min(kWide, runtime::policy_of(queue).most_items); }

void* ahead(void* p, size_t bytes) { return p ? static_cast<char*>(p) + bytes : nullptr; }
const void* ahead(const void* p, size_t bytes) { return static_cast<const char*>(p) + bytes; }

// Moves the arguments on by `rows` rows.
void advance(SortArgs& args, const SortProblem& p, int64_t rows) {
  const size_t item = dtype_size(p.type);
  args.in = ahead(args.in, rows * p.length * item);
  args.values = ahead(args.values, rows * p.take * item);
  if (args.indices) args.indices += rows * p.take;
}

void sort_row_chunks(runtime::Queue& queue, SortArgs args, const SortPlan& plan, DType type) {
  args.rows = 1;
  args.chunks = plan.chunks;
  args.chunk = plan.chunk;
  runtime::Scratch range((size_t{plan.chunks} + 1) * 2 * sizeof(uint64_t));
  args.range = range.get();
  const size_t wide = wide_group(queue), scans = ceil_div(plan.digits, kScanDigits);
  runtime::launch(queue, kernels::radix_range[type], args.chunks, 1, args);
  runtime::launch(queue, kernels::radix_width[type], 1, 1, args);
  runtime::launch(queue, kernels::radix_load[type], ceil_div(args.length, wide), wide, args);
  for (args.pass = 0; args.pass < plan.passes; ++args.pass) {
    runtime::launch(queue, kernels::radix_count[type], args.chunks, 1, args);
    runtime::launch(queue, kernels::radix_scan[type], scans, 1, args);
    runtime::launch(queue, kernels::radix_scatter[type], args.chunks, 1, args);
  }
  runtime::launch(queue, kernels::radix_emit[type], ceil_div(args.take, wide), wide, args);
}

// Digits of 8 bits of the entries of all rows, a work-group per row or per chunk.
void sort_entries(runtime::Queue& queue, SortArgs& args, const SortPlan& plan, DType type) {
  const DType key = dtype_size(type) == 8 ? DType::i64 : DType::i32;
  const size_t wide = runtime::policy_of(queue).elementwise_group, local = plan.local;
  const runtime::Scratch moved(args.rows * sizeof(uint32_t));
  args.moved = moved.get<uint32_t>();
  args.by_take = xpu::make_divider(args.take);
  runtime::launch(queue, kernels::entries_load[type], ceil_div(size_t{args.rows} * args.length, wide), wide, args);
  if (plan.kernel == SortPlan::Kernel::team) {
    runtime::launch(queue, kernels::entries_row[key], args.rows, local, args);
  } else {
    const runtime::Scratch range((size_t{plan.chunks} + 1) * 2 * sizeof(uint64_t));
    args.range = range.get();
    args.chunks = plan.chunks;
    args.chunk = plan.chunk;
    runtime::launch(queue, kernels::entries_range[key], plan.chunks, local, args);
    runtime::launch(queue, kernels::entries_width[key], 1, local, args);
    for (args.pass = 0; args.pass < plan.passes; ++args.pass) {
      runtime::launch(queue, kernels::entries_count[key], plan.chunks, local, args);
      runtime::launch(queue, kernels::entries_scan[key], kDigitValues, local, args);
      runtime::launch(queue, kernels::entries_move[key], plan.chunks, local, args);
    }
  }
  runtime::launch(queue, kernels::entries_take[type], ceil_div(size_t{args.rows} * args.take, wide), wide, args);
}

void sort_batch(runtime::Queue& queue, SortArgs args, const SortPlan& plan, DType type) {
  using Kernel = SortPlan::Kernel;
  switch (plan.kernel) {
    case Kernel::none: return;
    case Kernel::rank_flat:
      return runtime::launch(queue, kernels::sort_rank_flat[type], ceil_div(args.rows * args.length, kFlat), kFlat,
                             args);
    case Kernel::rank:
      return runtime::launch2(queue, kernels::sort_rank[type], args.rows, 1, 1, ceil_div(args.length, 16) * 16, args);
    case Kernel::row_short: return runtime::launch(queue, kernels::sort_row_short[type], args.rows, 1, args);
    case Kernel::row_long: return runtime::launch(queue, kernels::sort_row_long[type], args.rows, 1, args);
    case Kernel::chunks: return sort_row_chunks(queue, args, plan, type);
    case Kernel::team:
    case Kernel::team_chunks: return sort_entries(queue, args, plan, type);
  }
}

// Items find an element of each row by the digits of its key.
void find_digits(runtime::Queue& queue, SelectArgs args, DType type, uint32_t passes) {
  for (args.pass = 0; args.pass < passes; ++args.pass) {
    runtime::launch(queue, kernels::select_count[type], size_t{args.rows} * args.chunks, 1, args);
    runtime::launch(queue, kernels::select_digit[type], args.rows, 1, args);
  }
}

SelectArgs select_args(const PickProblem& p, const PickPlan& plan) {
  SelectArgs args{};
  args.in = p.in;
  args.values = p.values;
  args.indices = p.indices;
  args.rows = static_cast<uint32_t>(p.rows);
  args.length = static_cast<uint32_t>(p.length);
  args.chunks = plan.chunks;
  args.chunk = plan.chunk;
  args.k = static_cast<uint32_t>(p.k);
  args.mode = static_cast<uint32_t>(p.mode);
  return args;
}

void select(runtime::Queue& queue, const PickProblem& p, const PickPlan& plan) {
  SelectArgs args = select_args(p, plan);
  if (plan.kernel == PickPlan::Kernel::row) {
    args.chunk = plan.rows_per_item;
    return runtime::launch(queue, kernels::select_short[p.type], ceil_div(p.rows, plan.rows_per_item), 1, args);
  }
  const size_t groups = size_t{args.rows} * args.chunks;
  runtime::Scratch counts(groups * kSelectSlots * sizeof(uint32_t)), state(size_t{args.rows} * sizeof(SelectState));
  args.counts = counts.get<uint32_t>();
  args.state = state.get<SelectState>();
  if (const runtime::Policy& policy = runtime::policy_of(queue); !policy.single_items) {
    for (args.pass = 0; args.pass < plan.passes; ++args.pass) {
      runtime::launch(queue, kernels::select_count_team[p.type], groups, policy.team_items, args);
      runtime::launch(queue, kernels::select_digit_team[p.type], args.rows, policy.team_items, args);
    }
    runtime::launch(queue, kernels::select_find_team[p.type], groups, policy.team_items, args);
    return runtime::launch(queue, kernels::select_emit_team[p.type], args.rows, policy.team_items, args);
  }
  find_digits(queue, args, p.type, plan.passes);
  runtime::launch(queue, kernels::select_find[p.type], groups, kSelectLanes, args);
  runtime::launch(queue, kernels::select_emit[p.type], args.rows, 1, args);
}

void pick_sorted(runtime::Queue& queue, const PickProblem& p) {
  const size_t n = static_cast<size_t>(p.rows) * p.length;
  runtime::Scratch sorted(n * dtype_size(p.type)), order(p.indices ? n * sizeof(int64_t) : 0);
  int64_t* const places = p.indices ? order.get<int64_t>() : nullptr;
  sort(queue, {p.type, p.in, sorted.get(), places, p.rows, p.length, p.length, false});
  PickArgs args{};
  args.sorted = sorted.get();
  args.order = places;
  args.values = p.values;
  args.indices = p.indices;
  args.rows = static_cast<uint32_t>(p.rows);
  args.length = static_cast<uint32_t>(p.length);
  args.k = static_cast<uint32_t>(p.k);
  args.mode = static_cast<uint32_t>(p.mode);
  runtime::launch(queue, kernels::sort_pick[p.type], ceil_div(p.rows, kPickRows), kPickRows, args);
}

// Rows by teams: a work-group per row, or several per long row where rows are few.
SortPlan plan_teams(const SortProblem& p, SortPlan plan, const runtime::Policy& policy) {
  using Kernel = SortPlan::Kernel;
  const auto length = static_cast<size_t>(p.length), entry = entry_bytes(p.type), most = size_t{policy.team_items};
  plan.passes = static_cast<uint32_t>(dtype_size(p.type));
  if (p.length > kSortTeamRow && p.rows < 2 * int64_t{policy.units}) {
    plan.kernel = Kernel::team_chunks;
    plan.local = most;
    const size_t tile = most * kTileEach, tiles = ceil_div(length, tile), each = ceil_div(tiles, kMostTeams);
    plan.chunk = static_cast<uint32_t>(each * tile);
    plan.chunks = static_cast<uint32_t>(ceil_div(length, plan.chunk));
    plan.batch = 1;
    plan.counts = (size_t{plan.chunks} + 1) * kDigitValues * sizeof(uint32_t);
  } else {
    plan.kernel = Kernel::team;
    plan.local =
        std::clamp(ceil_div(ceil_div(length, kTileEach), kTopkLanes) * kTopkLanes, std::min(kLeastTeam, most), most);
    plan.batch = std::min({p.rows, kMaxLaunch / p.length,
                           std::max<int64_t>(1, static_cast<int64_t>(kMostScratch / (2 * length * entry)))});
  }
  plan.half = static_cast<size_t>(plan.batch) * length * entry;
  return plan;
}

// Of one item that takes whole rows: several where they are short and many.
uint32_t rows_per_item(int64_t rows, int64_t length, const runtime::Policy& policy) {
  return static_cast<uint32_t>(std::clamp<int64_t>(rows / (8 * int64_t{policy.units}), 1, ceil_div(kScanRow, length)));
}

}  // namespace

SortPlan plan_sort(const SortProblem& p, const runtime::Policy& policy) {
  using Kernel = SortPlan::Kernel;
  SortPlan plan;
  if (p.rows == 0 || p.length == 0 || p.take == 0) return plan;
  const size_t item = dtype_size(p.type), entry = entry_bytes(p.type);
  if (p.length <= kRank) {
    plan.kernel = p.length < kRankFlat ? Kernel::rank_flat : Kernel::rank;
    plan.batch = kMaxLaunch / p.length;
    return plan;
  }
  if (!policy.single_items) return plan_teams(p, plan, policy);
  if (p.rows >= policy.units || p.length <= std::max(kItemRow, kSingleItemRow / policy.units)) {
    const bool longer = item > 2 && p.length > kLongDigits;
    plan.kernel = longer ? Kernel::row_long : Kernel::row_short;
    const size_t bits = longer ? 11 : 8;
    plan.passes = static_cast<uint32_t>(ceil_div(item * 8, bits));
    const size_t counts = (size_t{plan.passes} << bits) * sizeof(uint32_t);
    const size_t each = static_cast<size_t>(p.length) * entry * 2 + counts;
    const int64_t filling = std::max(8 * int64_t{policy.units}, static_cast<int64_t>(kCachedScratch / each));
    plan.batch = std::min({p.rows, filling, std::max<int64_t>(1, kMostScratch / each)});
    plan.half = static_cast<size_t>(plan.batch) * p.length * entry;
    plan.counts = static_cast<size_t>(plan.batch) * counts;
    return plan;
  }
  plan.kernel = Kernel::chunks;
  plan.batch = 1;
  const size_t bits = item <= 2 ? 8 : 11;
  plan.passes = static_cast<uint32_t>(ceil_div(item * 8, bits));
  plan.digits = 1u << bits;
  const int64_t units = std::clamp<int64_t>(p.length / kSortChunk, 1, policy.units);
  plan.chunks = static_cast<uint32_t>(std::clamp<int64_t>(p.length / kSortPart, units, 4 * units));
  plan.chunk = static_cast<uint32_t>(ceil_div(p.length, plan.chunks));
  plan.chunks = static_cast<uint32_t>(ceil_div(p.length, plan.chunk));
  plan.half = static_cast<size_t>(p.length) * entry;
  plan.counts = ((size_t{plan.chunks} + 1) << bits) * sizeof(uint32_t);  // one row more: of all chunks
  return plan;
}

void sort(runtime::Queue& queue, const SortProblem& p) {
  (void)kernels::sort_rank[p.type];  // the error for types that do not sort, also where nothing is launched
  const SortPlan plan = plan_sort(p, runtime::policy_of(queue));
  if (plan.kernel == SortPlan::Kernel::none) return;
  runtime::Scratch entries(plan.half * 2), counts(plan.counts);
  SortArgs args{};
  args.in = p.in;
  args.values = p.values;
  args.indices = p.indices;
  args.length = static_cast<uint32_t>(p.length);
  args.descending = p.descending;
  args.take = static_cast<uint32_t>(p.take);
  args.by_length = xpu::make_divider(args.length);
  args.entries[0] = entries.get();
  args.entries[1] = ahead(entries.get(), plan.half);
  args.counts = counts.get<uint32_t>();
  for (int64_t first = 0; first < p.rows; first += plan.batch) {
    args.rows = static_cast<uint32_t>(std::min(plan.batch, p.rows - first));
    sort_batch(queue, args, plan, p.type);
    advance(args, p, plan.batch);
  }
}

namespace {

TopkPlan plan_topk_row(const SortProblem& p, const runtime::Policy& policy) {
  using Kernel = TopkPlan::Kernel;
  TopkPlan plan;
  if (p.take == 0 || p.rows == 0) return plan;
  const bool few = p.take <= kFew && p.length < kManyRow;
  if (policy.single_items && p.take <= kTopkScan && p.length <= kScanRow) {
    plan.kernel = Kernel::scan;
    plan.rows_per_item = rows_per_item(p.rows, p.length, policy);
  } else if (p.take <= kMany && p.length >= (few ? std::max<int64_t>(65, 6 * p.take) : kManyRow)) {
    plan.kernel = few ? Kernel::few : Kernel::many;
    plan.capacity = p.take <= 64 ? static_cast<uint32_t>(std::min<int64_t>(p.length, 512)) : 1024;
  } else {
    plan.kernel =
        policy.single_items && p.length >= kTakeRow && p.length >= kTakeShare * p.take ? Kernel::take : Kernel::sort;
  }
  return plan;
}

SortProblem merged(const SortProblem& p, uint32_t chunks) {
  return {p.type, nullptr, p.values, p.indices, p.rows, chunks * p.take, p.take, p.descending};
}

void launch_topk(runtime::Queue& queue, const SortProblem& p, const TopkPlan& plan, const int64_t* from) {
  using Kernel = TopkPlan::Kernel;
  const size_t parts = static_cast<size_t>(p.rows) * plan.chunks;
  runtime::Scratch candidates(parts * plan.capacity * entry_bytes(p.type));
  TopkArgs args{};
  args.in = p.in;
  args.values = p.values;
  args.indices = p.indices;
  args.candidates = candidates.get();
  args.rows = static_cast<uint32_t>(p.rows);
  args.length = static_cast<uint32_t>(p.length);
  args.k = static_cast<uint32_t>(p.take);
  args.capacity = plan.capacity;
  args.largest = p.descending;
  args.rows_per_item = plan.rows_per_item;
  args.chunks = plan.chunks;
  args.from = from;
  if (plan.kernel == Kernel::scan)
    runtime::launch(queue, kernels::topk_scan[p.type], ceil_div(p.rows, plan.rows_per_item), 1, args);
  else
    runtime::launch(queue, plan.kernel == Kernel::few ? kernels::topk_row_few[p.type] : kernels::topk_row_many[p.type],
                    parts, kTopkLanes, args);
}

// Makes the order of sorted elements their indices, of which each row of them has `length` in `from`.
void name_sorted(runtime::Queue& queue, const SortProblem& p, const int64_t* from, int64_t length) {
  SelectArgs args{};
  args.rows = static_cast<uint32_t>(p.rows);
  args.take = static_cast<uint32_t>(p.take);
  args.length = static_cast<uint32_t>(length);
  args.indices = p.indices;
  args.from = from;
  launch_items(queue, kernels::select_from, static_cast<size_t>(p.rows) * p.take, args);
}

// The last of the best is found by its digits; those that reach it are sorted.
void take_best(runtime::Queue& queue, const SortProblem& p) {
  PickProblem last{p.type, p.in, nullptr, nullptr, p.rows, p.length, 0, PickMode::kth};
  last.k = p.descending ? p.length - p.take : p.take - 1;
  const PickPlan plan = plan_pick(last, runtime::policy_of(queue));
  const size_t groups = static_cast<size_t>(p.rows) * plan.chunks, taken = static_cast<size_t>(p.rows) * p.take;
  const runtime::Scratch counts(groups * kSelectSlots * sizeof(uint32_t)), state(p.rows * sizeof(SelectState)),
      values(taken * dtype_size(p.type)), indices(taken * sizeof(int64_t));
  last.values = values.get();
  last.indices = indices.get<int64_t>();
  SelectArgs args = select_args(last, plan);
  args.counts = counts.get<uint32_t>();
  args.state = state.get<SelectState>();
  args.take = static_cast<uint32_t>(p.take);
  args.largest = p.descending;
  find_digits(queue, args, p.type, plan.passes);
  runtime::launch(queue, kernels::select_better[p.type], groups, 1, args);
  runtime::launch(queue, kernels::select_take[p.type], groups, 1, args);
  sort(queue, {p.type, values.get(), p.values, p.indices, p.rows, p.take, p.take, p.descending});
  name_sorted(queue, p, indices.get<int64_t>(), p.take);
}

}  // namespace

TopkPlan plan_topk(const SortProblem& p, const runtime::Policy& policy) {
  using Kernel = TopkPlan::Kernel;
  TopkPlan plan = plan_topk_row(p, policy);
  if (plan.kernel != Kernel::many) return plan;
  // Parts of a row: as many as the device takes at once and, of many elements, as make a merge of results pay.
  const int64_t least = policy.single_items ? kTopkPart : kManyRow, fill = policy.single_items ? 1 : kTopkFilling;
  const int64_t filling = ceil_div(fill * policy.units, p.rows);
  plan.chunks = static_cast<uint32_t>(std::max<int64_t>(std::min(filling, p.length / least), 1));
  return plan;
}

void topk(runtime::Queue& queue, const SortProblem& p) {
  using Kernel = TopkPlan::Kernel;
  const runtime::Policy& policy = runtime::policy_of(queue);
  const TopkPlan plan = plan_topk(p, policy);
  if (plan.kernel == Kernel::none) return;
  if (plan.kernel == Kernel::sort) return sort(queue, p);
  if (plan.kernel == Kernel::take) return take_best(queue, p);
  if (plan.chunks == 1) return launch_topk(queue, p, plan, nullptr);
  const size_t found = static_cast<size_t>(p.rows) * plan.chunks * p.take;
  const runtime::Scratch values(found * dtype_size(p.type)), indices(found * sizeof(int64_t));
  SortProblem part = p, merge = merged(p, plan.chunks);
  part.values = values.get();
  part.indices = indices.get<int64_t>();
  merge.in = values.get();
  launch_topk(queue, part, plan, nullptr);
  if (const TopkPlan last = plan_topk_row(merge, policy); last.kernel < Kernel::take)
    return launch_topk(queue, merge, last, part.indices);
  sort(queue, merge);
  name_sorted(queue, merge, part.indices, merge.length);
}

PickPlan plan_pick(const PickProblem& p, const runtime::Policy& policy) {
  PickPlan plan;
  if (p.rows == 0) return plan;
  if (p.length < kLongRow) {
    plan.kernel = policy.single_items ? PickPlan::Kernel::row : PickPlan::Kernel::sorted;
    plan.rows_per_item = rows_per_item(p.rows, p.length, policy);
    return plan;
  }
  plan.kernel = PickPlan::Kernel::select;
  const int64_t items = 4 * int64_t{policy.units};
  plan.chunks = static_cast<uint32_t>(std::clamp<int64_t>(p.length / kSelectChunk, 1, ceil_div(items, p.rows)));
  plan.chunk = static_cast<uint32_t>(ceil_div(p.length, plan.chunks));
  plan.chunks = static_cast<uint32_t>(ceil_div(p.length, plan.chunk));
  plan.passes = static_cast<uint32_t>(ceil_div(dtype_size(p.type) * 8, kSelectBits));
  return plan;
}

void pick(runtime::Queue& queue, const PickProblem& p) {
  (void)kernels::sort_pick[p.type];  // the error for types that do not sort, also where nothing is launched
  const PickPlan plan = plan_pick(p, runtime::policy_of(queue));
  switch (plan.kernel) {
    case PickPlan::Kernel::none: return;
    case PickPlan::Kernel::row:
    case PickPlan::Kernel::select: return select(queue, p, plan);
    case PickPlan::Kernel::sorted: return pick_sorted(queue, p);
  }
}

void mode(runtime::Queue& queue, DType type, const void* in, void* values, int64_t* indices, int64_t rows,
          int64_t length) {
  runtime::KernelSlot& kernel = kernels::sort_mode[type];
  if (rows == 0) return;
  const size_t n = static_cast<size_t>(rows) * length;
  runtime::Scratch sorted(n * dtype_size(type)), order(n * sizeof(int64_t));
  sort(queue, {type, in, sorted.get(), order.get<int64_t>(), rows, length, length, false});
  RunArgs args{};
  args.sorted = sorted.get();
  args.order = order.get<int64_t>();
  args.values = values;
  args.indices = indices;
  args.rows = static_cast<uint32_t>(rows);
  args.length = static_cast<uint32_t>(length);
  runtime::launch(queue, kernel, ceil_div(rows, kPickRows), kPickRows, args);
}

RunsPlan plan_runs(const RunsProblem& p, const runtime::Policy& policy) {
  RunsPlan plan;
  const int64_t most = int64_t{policy.units} * (policy.single_items ? 4 : 16);
  plan.chunk = static_cast<uint32_t>(ceil_div(p.count, std::clamp<int64_t>(p.count / kRunChunk, 1, most)));
  plan.chunks = static_cast<uint32_t>(ceil_div(p.count, plan.chunk));
  // A few long runs are found once and not looked for again.
  plan.room = policy.single_items && p.width == 1 && !p.order ? kNotedRuns : 0;
  return plan;
}

Runs::Runs(runtime::Queue& queue, const RunsProblem& p)
    : queue_(queue),
      type_(p.type),
      plan_(plan_runs(p, runtime::policy_of(queue))),
      starts_((size_t{plan_.chunks} + 1) * sizeof(uint32_t)),
      noted_(size_t{plan_.chunks} * plan_.room * sizeof(uint32_t)) {
  args_.sorted = p.slices;
  args_.order = p.order;
  args_.place = p.place;
  args_.length = static_cast<uint32_t>(p.count);
  args_.width = static_cast<uint32_t>(p.width);
  args_.chunk = plan_.chunk;
  args_.chunks = plan_.chunks;
  args_.room = plan_.room;
  args_.starts = starts_.get<uint32_t>();
  args_.noted = plan_.room ? noted_.get<uint32_t>() : nullptr;
  const runtime::Policy& policy = runtime::policy_of(queue);
  const bool single = policy.single_items;
  const size_t local = single ? 1 : policy.team_items;
  runtime::launch(queue, (single ? kernels::unique_count : kernels::unique_count_team)[type_], args_.chunks, local,
                  args_);
  runtime::launch(queue, single ? kernels::unique_scan : kernels::unique_scan_team, 1, local, args_);
  runtime::copy_bytes(queue, &args_.out, args_.starts + args_.chunks, sizeof args_.out, true);
}

void Runs::write(void* values, int64_t* inverse, int64_t* counts) {
  runtime::Scratch first(counts ? size_t{args_.out} * sizeof(uint32_t) : 0);
  args_.values = values;
  args_.indices = inverse;
  args_.counts = counts;
  args_.first = counts ? first.get<uint32_t>() : nullptr;
  const runtime::Policy& policy = runtime::policy_of(queue_);
  const runtime::KernelTable& write = policy.single_items ? kernels::unique_write : kernels::unique_write_team;
  runtime::launch(queue_, write[type_], args_.chunks, policy.single_items ? 1 : policy.team_items, args_);
  if (!counts) return;
  const size_t wide = wide_group(queue_);
  runtime::launch(queue_, kernels::unique_lengths, ceil_div(args_.out, wide), wide, args_);
}

int64_t* order_slices(runtime::Queue& queue, DType type, const void* slices, int64_t count, int64_t width,
                      int64_t* order, int64_t* spare) {
  RunArgs args{};
  args.sorted = slices;
  args.length = static_cast<uint32_t>(count);
  args.width = static_cast<uint32_t>(width);
  for (int64_t limit = 1; limit < count; limit *= 2) {
    args.order = order;
    args.indices = spare;
    args.limit = static_cast<uint32_t>(limit);
    runtime::launch(queue, kernels::slice_merge[type], ceil_div(count, kFlat), kFlat, args);
    std::swap(order, spare);
  }
  return order;
}

}  // namespace xpu_ops::ops
