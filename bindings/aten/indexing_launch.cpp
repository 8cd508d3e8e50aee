// Shared launches of the indexing families.
#include <c10/core/WrapDimMinimal.h>

#include <limits>

#include "bindings/aten/indexing.hpp"
#include "gen/kernels/indexing_kernels.hpp"
#include "gen/kernels/scatter_kernels.hpp"
#include "kernels/host/indexing.hpp"

namespace xpu_ops::aten {

using runtime::ceil_div;

IndexSource index_source(const at::Tensor& index, int64_t size, int64_t stride, DeviceErrorCode code, int64_t dim,
                         bool wrap) {
  return {index.const_data_ptr(),
          runtime::error_flag(runtime::current_device()),
          size,
          stride,
          code,
          static_cast<uint32_t>(dim),
          static_cast<uint8_t>(index.scalar_type() == at::kInt),
          static_cast<uint8_t>(wrap)};
}

Spread spread(size_t n) {
  const runtime::DeviceInfo& device = runtime::device_info(runtime::current_queue().device);
  if (!device.policy.single_items) return {ceil_div(n, 256), 256, 1};
  const size_t chunk = std::clamp<size_t>(ceil_div(n, 16 * size_t{device.policy.units}), 16, 16384);
  return {ceil_div(n, chunk), 1, static_cast<uint32_t>(chunk)};
}

constexpr int64_t kNearBytes = int64_t{1} << 19;

// What an element moved by its index, or a row, costs on the calling thread in units of Queue::may_run_inline().
constexpr int64_t kHostMove = 20;

void launch_indexed(bool write, void* plain, void* data, size_t element_size, const IndexSource& index, Dims3 dims) {
  for (const auto& d : dims)
    if (d.size == 0) return;
  IndexedArgs args;
  args.plain = plain;
  args.data = data;
  args.index = index;
  args.walk = make_walk<3>(dims, false, 2);
  auto stride = [&](int k) { return args.walk.inner_ndim == 1 ? args.walk.strides[0][k] : int64_t{0}; };
  runtime::Queue& queue = runtime::current_queue();
  const int64_t each = stride(2) == 0 ? std::max<int64_t>(1, static_cast<int64_t>(element_size) / 4) : kHostMove,
                cost = int64_t{args.walk.rows} * (kHostMove + args.walk.inner * each);
  bool done = false;
  if (queue.run_inline(cost, [&] { done = host::indexed_move(write, args, element_size); }) && done) {
    if (index.code != DeviceErrorCode::none) runtime::check_kernel_errors(queue);
    return;
  }
  const bool one_index = stride(2) == 0 && stride(0) == 1 && stride(1) == 1;
  if (!(one_index && args.walk.inner >= 32)) args.walk = make_walk<3>(dims, false, 256);
  const int64_t reach = (index.size - 1) * std::abs(index.stride) + int64_t{args.walk.inner} * std::abs(stride(1));
  args.mode = stride(0) != 1                                 ? IndexMode::general
              : stride(2) == 0 && stride(1) == 1             ? IndexMode::row
              : stride(2) == 1 && reach < (int64_t{1} << 31) ? IndexMode::unit
                                                             : IndexMode::general;
  args.shared = true;
  for (uint32_t d = args.walk.inner_ndim; d < args.walk.ndim; ++d) args.shared &= args.walk.strides[d][2] == 0;
  const size_t inner = args.walk.inner;
  // A group costs about as much as moving a thousand elements: give it several rows, but keep all cores busy.
  const size_t wanted = 8 * std::max<size_t>(1, runtime::device_info(queue.device).policy.units);
  size_t local = even_group(inner), across = ceil_div(inner, local), share = local;
  if (args.mode != IndexMode::general) {
    local = 16;  // a sub-group, which walks its piece
    // On a CPU one item alone: vectors of gathers and scatters cost more than they save.
    if (args.mode == IndexMode::unit && runtime::device_info(queue.device).policy.single_items) local = 1;
    const size_t pieces = std::min(ceil_div(inner, 4096), ceil_div(wanted, args.walk.rows));
    args.piece = static_cast<uint32_t>(ceil_div(ceil_div(inner, pieces), 64) * 64);
    across = ceil_div(inner, args.piece);
    share = args.piece;
  }
  const size_t rows = std::max<size_t>(1, std::min<size_t>(8192 / share, args.walk.rows * across / wanted));
  args.rows_per_group = static_cast<uint32_t>(rows);
  const DType raw = raw_dtype(element_size);
  runtime::launch2(queue, write ? kernels::indexed_write[raw] : kernels::indexed_read[raw],
                   ceil_div(args.walk.rows, rows), across, 1, local, args);
  if (index.code != DeviceErrorCode::none) runtime::check_kernel_errors(queue);
}

runtime::KernelSlot& column_kernel(Reduce op, at::ScalarType dtype) {
  const DType t = to_dtype(dtype);
  switch (op) {
    case Reduce::assign: return kernels::column_assign[raw_dtype(c10::elementSize(dtype))];
    case Reduce::add: return kernels::column_add[t];
    case Reduce::mul: return kernels::column_mul[t];
    case Reduce::max: return kernels::column_max[t];
    case Reduce::min: return kernels::column_min[t];
  }
  TORCH_INTERNAL_ASSERT(false);
}

void launch_columns(runtime::KernelSlot& kernel, void* data, const void* src, const IndexSource& index,
                    const ColumnLoop& loop, Dims3 columns) {
  if (loop.steps == 0) return;
  for (const auto& d : columns)
    if (d.size == 0) return;
  TORCH_CHECK(loop.steps < (int64_t{1} << 32), "more than 2^32 indices along one dimension are not supported");
  ColumnArgs args{};
  args.data = data;
  args.src = src;
  args.index = index;
  args.src_step = loop.src_step;
  args.index_step = loop.index_step;
  args.steps = static_cast<uint32_t>(loop.steps);
  args.skip = loop.skip.value_or(std::numeric_limits<int64_t>::min());
  args.walk = make_walk<3>(columns, true, 2);
  const auto& inner = args.walk.strides[0];
  args.parts = args.tile = args.take = 1;
  const ColumnStep index_step{0, loop.src_step, loop.index_step};
  const auto columns_step = [&] { return ColumnStep{inner[0], inner[1], inner[2]}; };
  runtime::Queue& queue = runtime::current_queue();
  const int64_t cost = loop.steps * (args.walk.rows * int64_t{args.walk.inner}) * kHostMove;
  if (kernel.host() && args.walk.inner_ndim <= 1 && queue.may_run_inline(cost)) {
    args.inner = index_step;
    args.outer = columns_step();
    if (queue.run_inline([&] { kernel.host()(&args, 0); })) {
      if (index.code != DeviceErrorCode::none) runtime::check_kernel_errors(queue);
      return;
    }
  }
  args.uniform = true;
  for (const auto& d : columns) args.uniform &= d.size == 1 || d.strides[2] == 0;
  const runtime::DeviceInfo& device = runtime::device_info(queue.device);
  const size_t units = std::max<size_t>(1, device.policy.units);
  const bool coalesced = args.walk.inner_ndim == 1 && inner[0] == 1 && args.walk.inner >= 16;
  if (!coalesced && args.walk.inner < 256) args.walk = make_walk<3>(columns, true, 256);
  args.unit = args.walk.inner_ndim == 1 && inner[0] == 1 && inner[1] == 1;
  const size_t total = static_cast<size_t>(args.walk.rows) * args.walk.inner;
  size_t local = 64, width = local;  // width: columns of a work-group
  const bool together = args.uniform && args.unit;
  if (device.policy.single_items && together) {
    local = coalesced ? 16 : 1;
    width = coalesced ? even_group(args.walk.inner, std::max<size_t>(total / (4 * units), 16)) : 1;
  } else if (device.policy.single_items) {
    // One item walks a tile alone: gathers and scatters cost more than they save. Its inner loop is the one that takes
    // what lies side by side; where that is across columns, what the tile adds to should stay in the second cache.
    local = 1;
    const bool even = args.walk.inner_ndim <= 1;
    args.across = even && args.walk.inner >= 16 && std::abs(inner[0]) < std::abs(index.stride);
    size_t tile = ceil_div(total, 8 * units);
    if (args.across)
      tile = ceil_div(std::min(tile, kNearBytes / sizeof(float) / std::max<size_t>(1, index.size)), 16) * 16;
    args.tile = static_cast<uint32_t>(std::clamp<size_t>(tile, args.across ? 16 : 1, std::max(args.walk.inner, 16u)));
    args.take = even ? args.tile : 1;
    width = args.tile;
    // One column of many places: each thread goes through all indices, for places that are a share of the cache misses.
    if (total == 1 && loop.steps >= (1 << 16) && index.size >= (1 << 18)) {
      args.parts = static_cast<uint32_t>(std::min<size_t>(units, 8));
      args.sift = args.parts > 1;
    }
  } else if (total < 128 * units) {
    args.parts = static_cast<uint32_t>(std::clamp<int64_t>(128 * units / total, 1, std::max<int64_t>(1, index.size)));
  }
  if (together) args.tile = static_cast<uint32_t>(width);
  args.inner = args.across ? columns_step() : index_step;
  args.outer = args.across ? index_step : columns_step();
  args.part_size = (index.size + args.parts - 1) / args.parts;
  runtime::launch2(queue, kernel, static_cast<size_t>(args.walk.rows) * args.parts, ceil_div(args.walk.inner, width), 1,
                   local, args);
  if (index.code != DeviceErrorCode::none) runtime::check_kernel_errors(queue);
}

void scatter_columns(Reduce op, const at::Tensor& out, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                     DeviceErrorCode code, bool wrap, std::optional<int64_t> skip) {
  if (index.numel() == 0) return;
  const bool vector = index.dim() <= 1 && out.dim() != index.dim();  // index_add: one index for a whole slice
  const at::Tensor& shape = vector ? src : index;
  Dims3 columns;
  for (int64_t d = 0; d < out.dim(); ++d)
    if (d != dim)
      columns.push_back(
          {size_or_one(shape, d), {out.stride(d), stride_or_zero(src, d), vector ? 0 : stride_or_zero(index, d)}});
  const int64_t index_step = vector ? (index.dim() == 0 ? 0 : index.stride(0)) : stride_or_zero(index, dim);
  const ColumnLoop loop{vector ? index.numel() : size_or_one(index, dim), stride_or_zero(src, dim), index_step, skip};
  launch_columns(column_kernel(op, out.scalar_type()), mutable_ptr(out), src.const_data_ptr(),
                 index_source(index, size_or_one(out, dim), stride_or_zero(out, dim), code, dim, wrap), loop,
                 std::move(columns));
}

KeepBits keep_bits(at::ScalarType dtype) {
  constexpr uint64_t all = ~uint64_t{0};
  switch (dtype) {
    case at::kHalf:
    case at::kBFloat16: return {{0x7fff, 0}};
    case at::kFloat: return {{0x7fffffff, 0}};
    case at::kDouble: return {{all >> 1, 0}};
    case at::kComplexHalf: return {{0x7fff7fff, 0}};
    case at::kComplexFloat: return {{0x7fffffff7fffffff, 0}};
    case at::kComplexDouble: return {{all >> 1, all >> 1}};
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fn: return {{0x7f, 0}};
    default: return {{all, all}};
  }
}

}  // namespace xpu_ops::aten
