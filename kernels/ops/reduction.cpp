#include "kernels/ops/reduction.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {
namespace {

struct Dim { int64_t size, in, out0, out1; };

constexpr int64_t kReduceLimit = int64_t{1} << 31;
constexpr int64_t kMostCut = 1 << 16;  // parts that a longer dimension is cut into
// The CPU device gives neighbouring groups to one thread, which then reads memory in order. A group costs about as much
// as a thousand elements: several short rows each.
constexpr int64_t kMostReduceGroups = int64_t{1} << 24, kGroupElements = 16384;
constexpr int64_t kShortRow = 384;  // rows up to this length are reduced by fours
constexpr int64_t kTinyRow = 8;     // rows up to this length are reduced by one item
constexpr int64_t kWideColumns = kLanes * kColumns;
// Fewer columns, whose work-groups have so many elements, are read as vectors too where a work-group is a thread.
constexpr int64_t kNarrowColumns = 8, kNarrowElements = 64;
constexpr int64_t kMaxSplits = 1024;  // one item combines them one after the other
// Elements that one accumulator takes one after the other, for the rounding error of sums.
constexpr int64_t kRowChain = 65536, kColumnChain = 1024;
// Of a team: longer rows are shared by more than a sub-group, with so many bytes per item; from so many splits on
// the results are combined by several items.
constexpr int64_t kTeamRow = 512, kTeamBytes = 64, kTeamLeast = 64, kTeamSplits = 32;
// Rows up to this length have a sub-group each where there are enough to fill the device twice: what a row costs at its
// end is shared by more elements.
constexpr int64_t kManyTeamRow = 8192, kTwice = 2;
constexpr size_t kHostPartial = 1 << 14;  // bytes for the results of splits on the calling thread

int64_t pieces(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return pieces(a, b) * b; }

void check_limit(int64_t n) {
  if (n >= kReduceLimit)
    throw Error(
        ErrorKind::not_implemented,
        "reductions over several dimensions apart from one another of 2^31 and more elements are not supported");
}

// Merges neighbours (fastest first) that lie one behind the other in every operand.
void merge(std::vector<Dim>& dims) {
  size_t n = 0;
  for (const Dim& d : dims) {
    if (n > 0) {
      Dim& f = dims[n - 1];
      if (d.in == f.in * f.size && d.out0 == f.out0 * f.size && d.out1 == f.out1 * f.size &&
          f.size * d.size < kReduceLimit) {
        f.size *= d.size;
        continue;
      }
    }
    dims[n++] = d;
  }
  dims.resize(n);
}

// Cuts reduced dimensions that 32 bits do not number in two: by a divisor, or, where there is one dimension, into parts
// of which the last is shorter. Returns the length of the last part, 0 where all are equal.
uint32_t cut(std::vector<Dim>& dims) {
  uint32_t tail = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t n = dims[d].size;
    if (n < kReduceLimit) continue;
    int64_t parts = pieces(n, kReduceLimit - 1);
    while (parts < kMostCut && n % parts != 0) ++parts;
    int64_t each = n / parts;
    if (n % parts != 0) {
      if (dims.size() > 1) check_limit(n);
      parts = pieces(n, kReduceLimit / 2);
      each = kReduceLimit / 2;
      tail = static_cast<uint32_t>(n - (parts - 1) * each);
    }
    dims[d].size = each;
    dims.insert(dims.begin() + static_cast<int64_t>(d) + 1, {parts, dims[d].in * each, 0, 0});
    ++d;
  }
  return tail;
}

// Divides the reduced elements into about `want` splits, whole outer elements first.
void divide(ReductionArgs& a, int64_t want, int64_t granule) {
  want = std::clamp<int64_t>(want, 1, kMaxSplits);
  int64_t outer_splits = 1, inner_splits = 1;
  a.outer_block = a.outer_count;
  a.inner_block = a.inner_count;
  if (want > 1) {
    a.outer_block = static_cast<uint32_t>(pieces(a.outer_count, std::min<int64_t>(want, a.outer_count)));
    outer_splits = pieces(a.outer_count, a.outer_block);
    const int64_t rest = want / outer_splits;
    if (rest > 1 && a.inner_count > granule) {
      a.inner_block = static_cast<uint32_t>(round_up(pieces(a.inner_count, rest), granule));
      inner_splits = pieces(a.inner_count, a.inner_block);
    }
  }
  a.inner_splits = make_divider(static_cast<uint32_t>(inner_splits));
  a.splits = static_cast<uint32_t>(outer_splits * inner_splits);
}

// Rows by teams. Many groups of many items hide the time of memory; each team has one row, or one split of it.
void plan_team(ReductionPlan& plan, int64_t outputs, int64_t target, uint32_t element, const runtime::Policy& policy) {
  ReductionArgs& a = plan.args;
  const int64_t most = policy.team_items, each = std::clamp<int64_t>(kTeamBytes / element, 16, 32), share = most * each;
  plan.kernel = ReductionPlan::Kernel::team;
  divide(a, outputs < target ? std::min(pieces(target, outputs), a.count / share) : 1, 256);
  const bool many = outputs * kLanes >= kTwice * target * policy.row_items;
  const int64_t items =
      a.inner_block <= (many ? kManyTeamRow : kTeamRow)
          ? int64_t{kLanes}
          : std::clamp(round_up(pieces(a.inner_block, each), kLanes), std::min(kTeamLeast, most), most);
  const int64_t teams = items == kLanes ? policy.row_items / kLanes : 1, tasks = outputs * a.splits;
  a.blocks = static_cast<uint32_t>(items);
  a.tasks = static_cast<uint32_t>(pieces(tasks, kMostReduceGroups * teams));
  plan.local = items * teams;
  plan.groups = pieces(tasks, a.tasks * teams);
}

// Adjacent columns by groups of `local` items, which take kColumns of them each.
void plan_columns(ReductionPlan& plan, int64_t outputs, int64_t columns, int64_t local, int64_t target) {
  ReductionArgs& a = plan.args;
  plan.kernel = ReductionPlan::Kernel::col;
  plan.local = static_cast<size_t>(local);
  a.mode = ColMode::columns;
  a.blocks = static_cast<uint32_t>(pieces(columns, local * kColumns));
  const int64_t groups = a.blocks * (outputs / columns);
  const int64_t want = groups < target ? std::min(pieces(target, groups), a.count / 32) : 1;
  divide(a, std::max(want, a.count / kColumnChain), 1);
  plan.groups = static_cast<size_t>(groups * a.splits);
}

// Items that combine the results of splits: one per output, or more where there are many splits.
void plan_final(ReductionPlan& plan, int64_t outputs, const runtime::Policy& policy) {
  const int64_t splits = plan.args.splits, most = policy.team_items;
  if (most > kLanes && splits >= kTeamSplits) {
    plan.joined_by = outputs >= kLanes ? kLanes : policy.team_items;
    plan.final_local = most;
    plan.final_groups = outputs >= kLanes ? pieces(outputs, kLanes) : outputs;
    return;
  }
  plan.final_local = static_cast<size_t>(std::min<int64_t>(round_up(outputs, 16), 256));
  plan.final_groups = static_cast<size_t>(pieces(outputs, static_cast<int64_t>(plan.final_local)));
}

}  // namespace

ReductionFit plan_reduction(const ReductionShape& shape, bool ordered, const runtime::Policy& policy,
                            ReductionPlan& plan) {
  const uint32_t units = policy.units;
  std::vector<Dim> kept, reduced;
  int64_t outputs = 1, count = 1;
  for (int d = shape.ndim - 1; d >= 0; --d) {  // fastest first
    const int64_t n = shape.size[d];
    (shape.reduced[d] ? count : outputs) *= n;
    if (n == 1) continue;
    if (shape.reduced[d])
      reduced.push_back({n, shape.in[d], 0, 0});
    else
      kept.push_back({n, shape.in[d], shape.out0[d], shape.out1[d]});
  }
  std::stable_sort(kept.begin(), kept.end(), [](const Dim& x, const Dim& y) { return x.in < y.in; });
  if (!ordered)
    std::stable_sort(reduced.begin(), reduced.end(), [](const Dim& x, const Dim& y) { return x.in < y.in; });
  if (count == 0) reduced.assign(1, {0, 0, 0, 0});
  merge(kept);
  merge(reduced);
  const uint32_t tail = cut(reduced);
  if (kept.size() > kReductionDims || reduced.size() > kReductionDims + 1) return ReductionFit::too_many_dims;
  check_limit(outputs);

  plan = ReductionPlan{};
  ReductionArgs& a = plan.args;
  a.count = count;
  a.kept_count = static_cast<uint32_t>(outputs);
  a.by_kept = make_divider(std::max<uint32_t>(a.kept_count, 1));
  a.inner_splits = make_divider(1);
  a.kept_rank = static_cast<uint32_t>(kept.size());
  for (size_t d = 0; d < kept.size(); ++d) {
    check_limit(kept[d].size);
    a.kept[d] = make_divider(static_cast<uint32_t>(std::max<int64_t>(kept[d].size, 1)));
    a.in_kept[d] = kept[d].in;
    a.out0_kept[d] = kept[d].out0;
    a.out1_kept[d] = kept[d].out1;
  }
  if (!reduced.empty()) {
    check_limit(reduced[0].size);
    a.inner_count = static_cast<uint32_t>(reduced[0].size);
    a.in_inner = reduced[0].in;
  }
  int64_t outer_count = 1;
  a.outer_rank = reduced.empty() ? 0 : static_cast<uint32_t>(reduced.size() - 1);
  for (uint32_t d = 0; d < a.outer_rank; ++d) {
    check_limit(reduced[d + 1].size);
    a.outer[d] = make_divider(static_cast<uint32_t>(std::max<int64_t>(reduced[d + 1].size, 1)));
    a.in_outer[d] = reduced[d + 1].in;
    outer_count *= reduced[d + 1].size;
  }
  check_limit(outer_count);
  a.outer_count = static_cast<uint32_t>(outer_count);
  a.tail = tail;
  a.inner_block = a.inner_count;
  a.outer_block = a.outer_count;

  const int64_t target = int64_t{units} * policy.filling;  // work-groups that fill the device
  const int64_t columns = kept.empty() ? 1 : kept[0].size;
  const bool unit_columns = !kept.empty() && kept[0].in == 1;
  const bool unit_rows = a.in_inner == 1;
  // A work-group that is a thread reads the columns of a row as vectors, where items of their own would gather them.
  const bool narrow =
      unit_columns && columns >= kNarrowColumns && columns * count >= kNarrowElements && policy.team_items <= kLanes;

  // Rows by lanes: contiguous elements, or long strided ones of few outputs.
  const bool strided_rows = !unit_columns && a.inner_count >= 64 && outputs < target * 64;
  if ((unit_rows && a.inner_count > kTinyRow) || strided_rows) {
    if (policy.team_items > kLanes) {
      plan_team(plan, outputs, target, shape.element, policy);
      check_limit(outputs * a.splits);
      if (a.splits > 1) plan_final(plan, outputs, policy);
      return ReductionFit::ok;
    }
    plan.kernel = ReductionPlan::Kernel::row;
    plan.local = kLanes;
    if (unit_rows && a.outer_count == 1 && a.inner_count <= kShortRow && columns >= kRows &&
        outputs >= kRows * target) {
      a.blocks = static_cast<uint32_t>(pieces(columns, kRows));
      a.short_rows = static_cast<uint32_t>(a.blocks * (outputs / columns));
      const int64_t each = std::min<int64_t>(kGroupElements / (kRows * a.inner_count), a.short_rows / (16 * units));
      a.tasks = static_cast<uint32_t>(std::max<int64_t>(each, 1));
      plan.groups = pieces(a.short_rows, a.tasks);
      return ReductionFit::ok;
    }
    int64_t want = outputs < target ? std::min(pieces(target, outputs), count / 2048) : 1;
    if (outputs <= (1 << 16)) want = std::max(want, count / kRowChain);
    divide(a, want, 256);
    const int64_t tasks = outputs * a.splits, each = std::min(kGroupElements / a.inner_count, tasks / (16 * units));
    a.tasks = static_cast<uint32_t>(std::max<int64_t>(each, pieces(tasks, kMostReduceGroups)));
    plan.groups = pieces(tasks, a.tasks);
  } else if (unit_columns && columns >= kWideColumns) {
    plan_columns(plan, outputs, columns, std::min<int64_t>(policy.row_items, columns / kWideColumns * kLanes), target);
  } else if (unit_columns && kept.size() == 1 && a.outer_count == 1 && a.in_inner == columns && count >= 64) {
    plan.kernel = ReductionPlan::Kernel::col;
    plan.local = 256;
    a.mode = ColMode::flat;
    const int64_t want = std::max(count / kColumnChain, std::min(4096 / columns, count / 16));
    a.splits = static_cast<uint32_t>(std::clamp<int64_t>(want, 1, 4 * kMaxSplits));
    plan.groups = pieces(a.splits * columns, 256);
  } else if (narrow) {
    plan_columns(plan, outputs, columns, columns / kColumns, target);
  } else {
    plan.kernel = ReductionPlan::Kernel::col;
    plan.local = 256;
    a.mode = ColMode::gather;
    const int64_t items = target * 64;
    divide(a, outputs < items && count >= 64 ? std::min(items / outputs, count / 32) : 1, 1);
    plan.groups = pieces(outputs * a.splits, 256);
  }
  check_limit(outputs * a.splits);
  if (a.splits > 1) plan_final(plan, outputs, policy);
  return ReductionFit::ok;
}

namespace {
void run_here(ReductionArgs& args, runtime::HostKernel first, runtime::HostKernel final) {
  alignas(16) char partial[kHostPartial];
  args.partial = final ? partial : nullptr;
  first(&args, 0);
  if (final) final(&args, 0);
}
}  // namespace

bool reduce(runtime::Queue& queue, const ReductionProblem& problem, const ReductionSlots& kernels) {
  ReductionPlan plan;
  if (plan_reduction(problem.shape, problem.ordered, runtime::policy_of(queue), plan) == ReductionFit::too_many_dims)
    return false;
  ReductionArgs& args = plan.args;
  args.in = problem.in;
  args.out0 = problem.out0;
  args.out1 = problem.out1;
  args.f = static_cast<float>(problem.parameter);
  args.f64 = problem.bits ? static_cast<int64_t>(problem.bits) : std::bit_cast<int64_t>(problem.parameter);
  args.flags = problem.flags;
  using Kernel = ReductionPlan::Kernel;
  runtime::KernelSlot& first = plan.kernel == Kernel::row   ? kernels.row
                               : plan.kernel == Kernel::col ? kernels.col
                                                            : kernels.team;
  const size_t bytes = args.splits == 1 ? 0 : size_t{args.splits} * args.kept_count * kMaxAccBytes;
  // Small inputs have few splits; many outputs have one.
  if (first.host() && bytes <= kHostPartial) {
    const runtime::HostKernel final = bytes ? kernels.final.host() : nullptr;
    const auto here = [&] { run_here(args, first.host(), final); };
    const auto later = [&] {
      return [args, run = first.host(), final] {
        ReductionArgs mine = args;
        run_here(mine, run, final);
      };
    };
    if (queue.small().run(problem.cost, here, later, first)) return true;
  }
  if (args.splits == 1) {
    runtime::launch(queue, first, plan.groups, plan.local, args);
    return true;
  }
  const runtime::Scratch partial(bytes);
  args.partial = partial.get();
  runtime::launch(queue, first, plan.groups, plan.local, args);
  if (plan.joined_by) args.tasks = 0, args.blocks = plan.joined_by;
  runtime::launch(queue, plan.joined_by ? kernels.team : kernels.final, plan.final_groups, plan.final_local, args);
  return true;
}

}  // namespace xpu_ops::ops
