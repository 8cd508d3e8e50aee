#include "kernels/ops/indexing.hpp"

#include <algorithm>
#include <cstdlib>

#include "gen/kernels/indexing_kernels.hpp"
#include "kernels/dtype.hpp"
#include "kernels/host/indexing.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/device_error.hpp"
#include "kernels/runtime/launch.hpp"

namespace xpu_ops::plan {
namespace {

using runtime::ceil_div;

// Cost of an element moved by its index, or of a row, on the calling thread in units of Queue::may_run_inline().
constexpr int64_t kHostMove = 20;
constexpr uint32_t kIndexRow = 32;    // items that are worth a row with one index
constexpr size_t kFilling = 8;        // work-groups per compute unit
constexpr size_t kGroupShare = 8192;  // a group costs about as much as moving a thousand elements: it gets several rows
constexpr size_t kPiece = 4096;       // least items of a piece of a row

int64_t stride(const IndexedArgs& args, int k) { return args.walk.inner_ndim == 1 ? args.walk.strides[0][k] : 0; }

IndexedArgs args_of(const IndexedProblem& p, int64_t want_inner) {
  IndexedArgs args{};
  args.plain = p.plain;
  args.data = p.data;
  args.index = p.index;
  args.walk = make_walk<3>(p.dims, false, want_inner);
  return args;
}

bool move_inline(runtime::Queue& queue, const IndexedProblem& p) {
  const IndexedArgs args = args_of(p, 2);
  const int64_t each = stride(args, 2) == 0 ? std::max<int64_t>(1, static_cast<int64_t>(p.element) / 4) : kHostMove,
                cost = int64_t{args.walk.rows} * (kHostMove + args.walk.inner * each);
  bool done = false;
  return queue.run_inline(cost, [&] { done = host::indexed_move(p.write, args, p.element); }) && done;
}

IndexMode mode_of(const IndexedArgs& args) {
  const int64_t reach =
      (args.index.size - 1) * std::abs(args.index.stride) + int64_t{args.walk.inner} * std::abs(stride(args, 1));
  if (stride(args, 0) != 1) return IndexMode::general;
  if (stride(args, 2) == 0 && stride(args, 1) == 1) return IndexMode::row;
  return stride(args, 2) == 1 && reach < (int64_t{1} << 31) ? IndexMode::unit : IndexMode::general;
}

}  // namespace

IndexedPlan plan_indexed(const IndexedProblem& p, const runtime::Policy& policy) {
  IndexedPlan plan;
  IndexedArgs& args = plan.args;
  args = args_of(p, 2);
  const bool one_index = stride(args, 2) == 0 && stride(args, 0) == 1 && stride(args, 1) == 1;
  if (!(one_index && args.walk.inner >= kIndexRow)) args.walk = make_walk<3>(p.dims, false, 256);
  args.mode = mode_of(args);
  args.shared = true;
  for (uint32_t d = args.walk.inner_ndim; d < args.walk.ndim; ++d) args.shared &= args.walk.strides[d][2] == 0;
  const size_t inner = args.walk.inner, wanted = kFilling * std::max<size_t>(1, policy.units);
  plan.local = even_group(inner);
  size_t share = plan.local;
  plan.groups1 = ceil_div(inner, plan.local);
  if (args.mode != IndexMode::general) {
    // A sub-group walks its piece. An item with vector registers goes alone: gathers and scatters cost more than they
    // save.
    plan.local = args.mode == IndexMode::unit && policy.single_items ? 1 : policy.lanes;
    const size_t pieces = std::min(ceil_div(inner, kPiece), ceil_div(wanted, args.walk.rows));
    share = args.piece = static_cast<uint32_t>(ceil_div(ceil_div(inner, pieces), 64) * 64);
    plan.groups1 = ceil_div(inner, args.piece);
  }
  const size_t rows =
      std::max<size_t>(1, std::min<size_t>(kGroupShare / share, args.walk.rows * plan.groups1 / wanted));
  args.rows_per_group = static_cast<uint32_t>(rows);
  plan.groups0 = ceil_div(args.walk.rows, rows);
  return plan;
}

void move_indexed(runtime::Queue& queue, const IndexedProblem& p) {
  for (const auto& d : p.dims)
    if (d.size == 0) return;
  if (!move_inline(queue, p)) {
    const IndexedPlan plan = plan_indexed(p, runtime::device_info(queue.device).policy);
    const DType raw = raw_dtype(p.element);
    runtime::launch2(queue, p.write ? kernels::indexed_write[raw] : kernels::indexed_read[raw], plan.groups0,
                     plan.groups1, 1, plan.local, plan.args);
  }
  if (p.index.code != DeviceErrorCode::none) runtime::check_kernel_errors(queue);
}

}  // namespace xpu_ops::plan
