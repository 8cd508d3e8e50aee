#include "kernels/ops/scan.hpp"

#include <algorithm>

#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/reduce/scan_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kScanItems = 16;                       // kScanLanes of the device code
constexpr size_t kAxisItems = 1024;                      // of a work-group across lines
constexpr size_t kLeastAxisItems = 64;                   // where fewer lines have to keep the device busy
constexpr int64_t kScanFilling = 4;                      // work-groups per compute unit
constexpr int64_t kScanChunk = 16384;                    // least elements that are worth a work-group of their own
constexpr int64_t kMostChunks = 256, kFewLines = 32;     // of a line; lines that are cut
constexpr int64_t kTeamFilling = 32, kTeamChunk = 2048;  // the same where a unit holds many work-groups
constexpr int64_t kLongestChunk = int64_t{1} << 30;      // elements that 32 bits number
constexpr size_t kTotal = 16;                            // bytes of the longest total

ScanArgs to_args(const ScanShape& s, const ScanPointers& pointers, const ScanPlan& plan) {
  ScanArgs args{pointers};
  args.length = static_cast<uint64_t>(s.length);
  args.inner = static_cast<uint32_t>(s.inner);
  args.chunk = plan.chunk;
  args.chunks = plan.chunks;
  args.lines = static_cast<uint32_t>(s.outer);
  return args;
}

}  // namespace

ScanPlan plan_scan(const ScanShape& s, const runtime::Policy& policy) {
  ScanPlan plan;
  plan.groups0 = static_cast<size_t>(s.outer);
  if (s.inner != 1) {
    plan.kernel = ScanPlan::Kernel::axis;
    const size_t share = ceil_div(s.outer * s.inner, kScanFilling * int64_t{policy.units});
    const size_t filling = std::max(kLeastAxisItems, ceil_div(share, kScanItems) * kScanItems);
    plan.local = std::min({kAxisItems, size_t{policy.most_items}, ceil_div(s.inner, kScanItems) * kScanItems, filling});
    plan.groups1 = ceil_div(s.inner, plan.local);
    return plan;
  }
  plan.local = kScanItems;
  const bool many = !policy.single_items;
  const int64_t wanted = (many ? kTeamFilling : kScanFilling) * int64_t{policy.units};
  const bool few = s.outer < wanted;  // lines are shared to keep the device busy
  const int64_t least = std::max<int64_t>(1, ceil_div(s.length, kLongestChunk));
  // The bits do not depend on how many threads a CPU has: its lines have the same chunks, whoever takes them.
  const int64_t chunks = std::max(least, many ? few ? std::min(wanted / s.outer, s.length / kTeamChunk) : 1
                                         : s.outer < kFewLines ? std::min(s.length / kScanChunk, kMostChunks)
                                                               : 1);
  plan.chunk = static_cast<uint32_t>(ceil_div(ceil_div(s.length, chunks), kScanItems) * kScanItems);
  plan.chunks = static_cast<uint32_t>(ceil_div(s.length, plan.chunk));
  if (plan.chunks > 1) plan.kernel = many || few ? ScanPlan::Kernel::chunks : ScanPlan::Kernel::in_turn;
  if (plan.kernel == ScanPlan::Kernel::chunks) plan.groups0 *= plan.chunks;
  if (many) {
    const RowGroups rows = sub_group_rows(plan.groups0, policy);
    plan.team = true;
    plan.groups0 = rows.groups, plan.local = rows.local;
  }
  return plan;
}

void scan(runtime::Queue& queue, const ScanKernels& kernels, const ScanShape& s, const ScanPointers& pointers) {
  const ScanPlan plan = plan_scan(s, runtime::policy_of(queue));
  ScanArgs args = to_args(s, pointers, plan);
  runtime::KernelSlot& line = plan.team ? kernels.team : kernels.line;
  switch (plan.kernel) {
    case ScanPlan::Kernel::axis:
      return runtime::launch2(queue, kernels.axis, plan.groups0, plan.groups1, 1, plan.local, args);
    case ScanPlan::Kernel::chunks: {
      const runtime::Scratch partial(static_cast<size_t>(s.outer) * plan.chunks * kTotal);
      args.partial = partial.get();
      args.form = ScanForm::totals;
      runtime::launch(queue, line, plan.groups0, plan.local, args);
      args.form = ScanForm::results;
      return runtime::launch(queue, line, plan.groups0, plan.local, args);
    }
    case ScanPlan::Kernel::in_turn:
      args.form = ScanForm::in_turn;
      return runtime::launch(queue, line, plan.groups0, plan.local, args);
    case ScanPlan::Kernel::line:
      if (kernels.line.host() &&
          queue.small().run(
              s.outer * s.length * kernels.host_share,
              [args, run = kernels.line.host(), lines = args.lines] { run(&args, lines); }, kernels.line))
        return;
      return runtime::launch(queue, line, plan.groups0, plan.local, args);
  }
}

}  // namespace xpu_ops::ops
