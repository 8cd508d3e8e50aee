// Cumulative operators: plan (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/ops/problem/scan.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// A dense tensor as [outer, length, inner], scanned along length; no size is 0.
struct ScanShape { int64_t outer, length, inner; };

struct ScanPlan {
  // chunks: a group each, their totals first; in_turn: a group for all of a line
  enum class Kernel { line, chunks, in_turn, axis } kernel = Kernel::line;
  bool team = false;               // several sub-groups per work-group
  uint32_t chunks = 1, chunk = 0;  // of a line
  size_t groups0 = 0, groups1 = 1, local = 1;
};
ScanPlan plan_scan(const ScanShape& shape, const runtime::Policy& policy);

// `line` and `team` serve where inner is 1, `axis` elsewhere.
struct ScanKernels {
  runtime::KernelSlot &line, &team, &axis;
  int64_t host_share;  // of an element on the calling thread, in units of SmallWork::run()
};
inline constexpr int64_t kHostSum = 2, kHostProduct = 6, kHostExtreme = 8;
void scan(runtime::Queue& queue, const ScanKernels& kernels, const ScanShape& shape, const ScanPointers& pointers);

}  // namespace xpu_ops::ops
