#include "kernels/ops/indexing.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "gen/kernels/indexing_kernels.hpp"
#include "kernels/error.hpp"
#include "kernels/host/indexing.hpp"
#include "kernels/ops/items.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/core/tile_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

// Cost of an element moved by its index, or of a row, on the calling thread in units of SmallWork::run().
constexpr uint32_t kIndexRow = 32;    // items that are worth a row with one index
constexpr uint32_t kAloneRow = 4;     // elements that are worth a row that one item walks
constexpr size_t kShortBytes = 512;   // bytes of a row with one index that one item moves faster than a group
constexpr size_t kIndexFilling = 8;   // work-groups per compute unit
constexpr size_t kGroupShare = 8192;  // a group costs about as much as moving a thousand elements: it gets several rows
constexpr size_t kPiece = 4096;       // least items of a piece of a row
constexpr size_t kMovesAtOnce = 4;    // of an item: see for_piece
constexpr size_t kWideBytes = 16;     // of the widest element
constexpr size_t kMostLinearRows = 256;
// Cost of an element of a mask on the calling thread, in the same units.
constexpr int64_t kHostMask = 16;
constexpr size_t kAssertItems = 16;

int64_t stride(const IndexedArgs& args, int k) { return args.walk.inner_ndim == 1 ? args.walk.strides[0][k] : 0; }

IndexedArgs indexed_args(const IndexedProblem& p, int64_t want_inner) {
  IndexedArgs args{};
  args.plain = p.plain;
  args.data = p.data;
  args.index = p.index;
  args.walk = make_walk<3>(p.dims, false, want_inner);
  return args;
}

runtime::KernelSlot& mover(bool write, size_t element) {
  return (write ? kernels::indexed_write : kernels::indexed_read)[raw_dtype(element)];
}

bool move_inline(runtime::Queue& queue, const IndexedProblem& p) {
  const IndexedArgs args = indexed_args(p, 2);
  const int64_t each = stride(args, 2) == 0 ? std::max<int64_t>(1, static_cast<int64_t>(p.element) / 4) : kHostMove,
                cost = int64_t{args.walk.rows} * (kHostMove + args.walk.inner * each);
  if (args.walk.inner_ndim > 1) return false;
  return queue.small().run(
      cost, [args, write = p.write, element = p.element] { host::indexed_move(write, args, element); },
      [&]() -> auto& { return mover(p.write, p.element); });
}

// Sees rows that one index moves in elements of sixteen bytes where both sides are whole ones.
bool widen(IndexedProblem& p) {
  const auto k = static_cast<int64_t>(kWideBytes / p.element);
  const uintptr_t bits = reinterpret_cast<uintptr_t>(p.plain) | reinterpret_cast<uintptr_t>(p.data);
  if (k < 2 || bits % kWideBytes != 0 || p.index.stride % k != 0) return false;
  const auto row = std::find_if(p.dims.begin(), p.dims.end(), [](const auto& d) {
    return d.size > 1 && d.strides[0] == 1 && d.strides[1] == 1 && d.strides[2] == 0;
  });
  if (row == p.dims.end() || row->size % k != 0) return false;
  for (auto d = p.dims.begin(); d != p.dims.end(); ++d)
    if (d != row && d->size > 1 && (d->strides[0] % k != 0 || d->strides[1] % k != 0)) return false;
  for (auto d = p.dims.begin(); d != p.dims.end(); ++d) {
    if (d == row) continue;
    d->strides[0] /= k, d->strides[1] /= k;
  }
  row->size /= k;
  p.index.stride /= k;
  p.element = kWideBytes;
  return true;
}

IndexMode mode_of(const IndexedArgs& args) {
  const int64_t reach =
      (args.index.size - 1) * std::abs(args.index.stride) + int64_t{args.walk.inner} * std::abs(stride(args, 1));
  if (stride(args, 0) != 1) return IndexMode::general;
  if (stride(args, 2) == 0 && stride(args, 1) == 1) return IndexMode::row;
  return stride(args, 2) == 1 && reach < (int64_t{1} << 31) ? IndexMode::unit : IndexMode::general;
}

}  // namespace

IndexedPlan plan_indexed(const IndexedProblem& problem, const runtime::Policy& policy) {
  IndexedProblem p = problem;
  const bool wide = !policy.single_items && widen(p);
  IndexedPlan plan;
  plan.element = p.element;
  IndexedArgs& args = plan.args;
  args = indexed_args(p, 2);
  // A row that has one index, and is long enough, is not joined with the next.
  const bool one_index = stride(args, 2) == 0 && stride(args, 0) == 1 && stride(args, 1) == 1;
  // Nor is a row joined with the next that one item walks alone, with an index for each element.
  const bool alone_row = policy.single_items && args.walk.inner >= kAloneRow && mode_of(args) == IndexMode::unit;
  const bool short_row = policy.single_items && one_index && args.walk.inner_ndim == 1 && args.walk.inner > 1 &&
                         args.walk.inner * p.element <= kShortBytes;
  const bool own_row = !wide && ((one_index && args.walk.inner >= kIndexRow) || alone_row || short_row);
  if (!own_row) args.walk = make_walk<3>(p.dims, false, 256);
  args.mode = mode_of(args);
  args.shared = true;
  for (uint32_t d = args.walk.inner_ndim; d < args.walk.ndim; ++d) args.shared &= args.walk.strides[d][2] == 0;
  const size_t inner = args.walk.inner, wanted = kIndexFilling * std::max<size_t>(1, policy.units);
  plan.local = even_group(inner, policy);
  size_t share = plan.local, most = kGroupShare;
  plan.groups1 = ceil_div(inner, plan.local);
  if (args.mode != IndexMode::general) {
    // A work-group walks its piece. An item with vector registers goes alone: gathers and scatters cost more than they
    // save.
    const bool alone = (args.mode == IndexMode::unit && policy.single_items) || short_row;
    plan.local = alone ? 1 : tile_group(ceil_div(inner, wide ? 1 : kMovesAtOnce), policy);
    if (!alone) most = tile_share(plan.local, kGroupShare, policy);
    const size_t pieces = std::min(ceil_div(inner, kPiece), ceil_div(wanted, args.walk.rows));
    share = args.piece = static_cast<uint32_t>(ceil_div(ceil_div(inner, pieces), 64) * 64);
    plan.groups1 = ceil_div(inner, args.piece);
  }
  size_t rows = std::max<size_t>(1, std::min<size_t>(most / share, args.walk.rows * plan.groups1 / wanted));
  if (!policy.single_items) rows = std::max(rows, ceil_div(args.walk.rows, kMostRowGroups));
  args.rows_per_group = static_cast<uint32_t>(rows);
  plan.groups0 = ceil_div(args.walk.rows, rows);
  return plan;
}

void move_indexed(runtime::Queue& queue, const IndexedProblem& p) {
  for (const auto& d : p.dims)
    if (d.size == 0) return;
  const auto begin = [](IndexedProblem& part, const int64_t (&offsets)[3]) {
    part.plain = elements_on(part.plain, offsets[0], part.element);
    part.data = elements_on(part.data, offsets[1], part.element);
  };
  for_parts(p, &IndexedProblem::dims, false, begin, [&](const IndexedProblem& part) {
    if (move_inline(queue, part)) return;
    const IndexedPlan plan = plan_indexed(part, runtime::policy_of(queue));
    runtime::launch2(queue, mover(part.write, plan.element), plan.groups0, plan.groups1, 1, plan.local, plan.args);
  });
  if (p.index.code != DeviceErrorCode::none) runtime::check_kernel_errors(queue);
}

LinearizePlan plan_linearize(const LinearDims& dims, const runtime::Policy& policy) {
  LinearizePlan plan;
  plan.walk = make_walk<kMaxIndices + 1>(dims, false, 2);
  plan.rows_per_group = static_cast<uint32_t>(std::clamp<size_t>(kTileElements / plan.walk.inner, 1, kMostLinearRows));
  plan.groups0 = ceil_div(plan.walk.rows, plan.rows_per_group);
  plan.groups1 = ceil_div(plan.walk.inner, kTileElements);
  plan.local = tile_group(plan.walk.inner, policy);
  return plan;
}

void linearize(runtime::Queue& queue, const LinearizeProblem& problem, const LinearDims& all) {
  for_walks(all, false, [&](const LinearDims& dims, const int64_t (&offsets)[kMaxIndices + 1]) {
    const LinearizePlan plan = plan_linearize(dims, runtime::policy_of(queue));
    LinearizeArgs args{problem, plan.rows_per_group, plan.walk};
    args.out += offsets[0];
    for (uint32_t k = 0; k < problem.count; ++k)
      args.index[k] = indices_on(problem.index[k], offsets[k + 1], problem.is32[k]);
    runtime::launch2(queue, kernels::index_linearize, plan.groups0, plan.groups1, 1, plan.local, args);
  });
  runtime::check_kernel_errors(queue);
}

Compaction::Compaction(runtime::Queue& queue, const void* mask, int64_t n, size_t element, const uint64_t (&keep)[2],
                       bool now)
    : queue_(queue), cost_(n * kHostMask), element_(element) {
  if (n >= (int64_t{1} << 32) - 1)
    throw Error(ErrorKind::runtime, "masks of more than 2^32 elements are not supported");
  args.mask = mask;
  args.keep[0] = keep[0];
  args.keep[1] = keep[1];
  args.n = static_cast<uint32_t>(n);
  args.chunks = static_cast<uint32_t>(ceil_div(args.n, kCompactChunk));
  if (now && args.chunks == 1 && runtime::inline_enabled() && runtime::host_accessible(queue.device)) {
    runtime::synchronize(queue);
    args.counts = counts_here_;
    if (queue.small().run(
            cost_, [&] { counts_here_[1] = host::compact_count(args, element); }, runtime::not_later,
            [&]() -> auto& { return kernels::compact_count[raw_dtype(element)]; }))
      return;
  }
  count_on_device();
}

void Compaction::count_on_device() {
  counts_.emplace((args.chunks + 1) * sizeof(uint32_t));
  args.counts = counts_->get<uint32_t>();
  args.error = runtime::error_flag(queue_.device);
  run(kernels::compact_count[raw_dtype(element_)]);
  runtime::launch(queue_, kernels::compact_scan, 1, runtime::policy_of(queue_).team_items, args);
}

uint32_t Compaction::total() const {
  if (here()) return counts_here_[1];
  uint32_t n = 0;
  runtime::copy_bytes(queue_, &n, device_total(), sizeof n, true);
  return n;
}

// The elements counted here are written here too, if the queue still has nothing to do: where the result was allocated
// after the count, another thread may have left a kernel in its memory. Otherwise the device counts once more.
template <class F, class L>
bool Compaction::write_here(F&& write, const L& kernel) {
  if (!here()) return false;
  if (queue_.small().run(cost_, write, runtime::not_later, kernel)) return true;
  count_on_device();
  return false;
}

void Compaction::run(runtime::KernelSlot& kernel) const {
  const RowGroups rows = sub_group_rows(args.chunks, runtime::policy_of(queue_));
  runtime::launch(queue_, kernel, rows.groups, rows.local, args);
}

void Compaction::write_indices(const int64_t* sizes, int64_t dims, int64_t* out, int64_t rows, int64_t stride) {
  if (dims > kCompactDims)
    throw Error(ErrorKind::runtime,
                "nonzero is not supported for tensors with more than " + std::to_string(kCompactDims) + " dimensions");
  args.out = out;
  args.out_size = rows;
  args.out_stride = stride;
  args.ndim = static_cast<uint32_t>(dims);
  for (int64_t d = 0; d < dims; ++d) args.dims[d] = make_divider(static_cast<uint32_t>(sizes[dims - 1 - d]));
  if (write_here([&] { host::compact_coordinates(args, element_); },
                 [&]() -> auto& { return kernels::compact_coordinates[raw_dtype(element_)]; }))
    return;
  const runtime::Policy& policy = runtime::policy_of(queue_);
  const DType raw = raw_dtype(element_);
  // Vectors would scatter, which costs a CPU more than one item that takes a chunk alone.
  if (policy.single_items) return runtime::launch(queue_, kernels::compact_coordinates[raw], args.chunks, 1, args);
  run(kernels::compact_nonzero[raw]);
  if (dims < 2) return;
  runtime::launch(queue_, kernels::nonzero_unravel, ceil_div(rows, kTileElements), policy.tile_items, args);
}

void Compaction::select(size_t element) {
  if (write_here([&] { host::masked_select(args, element); },
                 [&]() -> auto& { return kernels::masked_select[raw_dtype(element)]; }))
    return;
  run(kernels::masked_select[raw_dtype(element)]);
}

void Compaction::scatter(size_t element) {
  run(kernels::masked_scatter[raw_dtype(element)]);
  runtime::check_kernel_errors(queue_);
}

void masked_scatter(runtime::Queue& queue, const MaskedScatter& p) {
  CompactArgs args{};
  args.mask = p.mask;
  args.n = static_cast<uint32_t>(p.n);
  args.out = p.out;
  args.src = p.src;
  args.out_size = p.size;
  args.error = runtime::error_flag(queue.device);
  if (queue.small().run(
          p.n * kHostMask, [args, element = p.element] { host::masked_scatter(args, element); },
          [&]() -> auto& { return kernels::masked_scatter[raw_dtype(p.element)]; }))
    return runtime::check_kernel_errors(queue);
  Compaction c(queue, p.mask, p.n, 1, {~uint64_t{0}, ~uint64_t{0}}, false);
  c.args.out = p.out;
  c.args.src = p.src;
  c.args.out_size = p.size;
  c.scatter(p.element);
}

void fill_tail(runtime::Queue& queue, const FillTailArgs& args) {
  launch_items(queue, kernels::nonzero_fill_tail, static_cast<size_t>(args.rows), args);
}

void assert_nonzero(runtime::Queue& queue, size_t element, const AssertProblem& problem) {
  runtime::launch(queue, kernels::assert_nonzero[raw_dtype(element)], 1, kAssertItems, problem);
  runtime::check_kernel_errors(queue);
}

}  // namespace xpu_ops::ops
