// Reductions: which kernel, how its elements are divided (pure host code), and the launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu_ops::ops {

constexpr int kReductionInputDims = 64;

// All strides in elements; outputs have stride 0 or anything in reduced dimensions.
struct ReductionShape {
  int ndim = 0;
  int64_t size[kReductionInputDims], in[kReductionInputDims], out0[kReductionInputDims], out1[kReductionInputDims];
  bool reduced[kReductionInputDims];
  uint32_t element = 4;  // bytes of one of the input
};

struct ReductionPlan {
  enum class Kernel { row, col, team } kernel = Kernel::row;
  ReductionArgs args;  // without pointers; `partial` needs splits * kept_count accumulators where splits > 1
  size_t groups = 0, local = 1;
  size_t final_groups = 0, final_local = 1;  // 0 where there is one split
  uint32_t joined_by = 0;                    // items that share an output there, or 0: one item
};

enum class ReductionFit { ok, too_many_dims };

// `ordered`: elements are numbered in the logical order of the reduced dimensions (for indices), which may then not be
// reordered. No size may be 0 except in reduced dimensions.
// A reduced dimension of 2^31 and more elements is cut. Throws Error{not_implemented} for 2^31 and more outputs, and
// where several such dimensions lie apart.
ReductionFit plan_reduction(const ReductionShape& shape, bool ordered, const runtime::Policy& policy,
                            ReductionPlan& plan);

// The kernels of one functor for one element type.
struct ReductionSlots {
  runtime::KernelSlot& row;
  runtime::KernelSlot& col;
  runtime::KernelSlot& final;
  runtime::KernelSlot& team;
};

struct ReductionProblem {
  const ReductionShape& shape;
  const void* in;
  void *out0, *out1;  // either may be null if the kernels allow it
  bool ordered;
  double parameter;  // of the functor
  uint64_t bits;     // instead of the parameter, if not 0
  uint32_t flags;
  int64_t cost;  // on the calling thread, in units of SmallWork::run()
};
// False, and nothing is done, where there are too many dimensions.
bool reduce(runtime::Queue& queue, const ReductionProblem& problem, const ReductionSlots& kernels);

}  // namespace xpu_ops::ops
