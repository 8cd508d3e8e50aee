// Sorting operators: rows made dense, sorted by what their length calls for, and what is read off sorted rows.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>

#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "gen/kernels/sort_kernels.hpp"
#include "kernels/runtime/allocator.hpp"
#include "kernels/runtime/launch.hpp"
#include "kernels/sycl/sort_args.hpp"

namespace xpu_ops::aten {
namespace {

constexpr int64_t kMaxRow = (int64_t{1} << 31) - 1;
constexpr uint32_t kTopkLanes = 16;  // of the device code
constexpr int64_t kLongRow = 2048;   // from here on selecting one element costs less than sorting the row

// The dimension to work along last, dense; 0-d tensors have one row of one element.
struct Rows {
  at::Tensor data;
  int64_t rows, length;
  Rows(const at::Tensor& self, int64_t dim) {
    data = (self.dim() == 0 ? self.unsqueeze(0) : self.movedim(dim, -1)).contiguous();
    length = data.size(-1);
    rows = length == 0 ? 0 : data.numel() / length;
    TORCH_CHECK_NOT_IMPLEMENTED(length <= kMaxRow, "sorting more than 2^31 - 1 elements of one row");
  }
};

// A result whose working dimension is `dim`, as a dense tensor with that dimension last.
struct RowsOut {
  const at::Tensor& out;
  int64_t dim;
  at::Tensor data;
  RowsOut(const at::Tensor& out, int64_t dim) : out(out), dim(out.dim() == 0 ? -1 : dim) {
    const at::Tensor moved = out.dim() == 0 ? out : out.movedim(dim, -1);
    data = moved.is_contiguous() ? moved : new_empty(moved.sizes(), out.scalar_type());
  }
  void finish() const {
    if (data.data_ptr() != out.data_ptr()) out.copy_(out.dim() == 0 ? data : data.movedim(-1, dim));
  }
};

// Radix of rows by one item each; the scratch of one batch stays small enough for the caches.
void sort_rows_each(SortArgs p, DType type, size_t item, int64_t rows, bool longer) {
  runtime::Queue& queue = runtime::current_queue();
  const size_t bits = longer ? 11 : 8, entry = item == 8 ? 16 : 8;
  const size_t counts = runtime::ceil_div(item * 8, bits) << bits;
  const size_t each = static_cast<size_t>(p.length) * entry * 2 + counts * 4;
  const int64_t least = 8 * static_cast<int64_t>(runtime::device_info(queue.device).policy.units);
  const int64_t batch = std::min(rows, std::max(least, static_cast<int64_t>((8 << 20) / each)));
  runtime::Scratch entries(static_cast<size_t>(batch) * p.length * entry * 2);
  runtime::Scratch count(static_cast<size_t>(batch) * counts * 4);
  p.entries[0] = entries.get();
  p.entries[1] = entries.get<char>() + static_cast<size_t>(batch) * p.length * entry;
  p.counts = count.get<uint32_t>();
  runtime::KernelSlot& kernel = longer ? kernels::sort_row_long[type] : kernels::sort_row_short[type];
  for (int64_t first = 0; first < rows; first += batch) {
    p.rows = static_cast<uint32_t>(std::min(batch, rows - first));
    runtime::launch(queue, kernel, p.rows, 1, p);
    p.in = static_cast<const char*>(p.in) + static_cast<size_t>(batch) * p.length * item;
    if (p.values) p.values = static_cast<char*>(p.values) + static_cast<size_t>(batch) * p.take * item;
    if (p.indices) p.indices += batch * p.take;
  }
}

// Radix of one long row by several items.
void sort_row_chunks(SortArgs p, DType type, size_t item) {
  runtime::Queue& queue = runtime::current_queue();
  const size_t bits = item <= 2 ? 8 : 11, entry = item == 8 ? 16 : 8, passes = runtime::ceil_div(item * 8, bits);
  p.rows = 1;
  p.chunks =
      std::max<uint32_t>(1, std::min<uint32_t>(4 * runtime::device_info(queue.device).policy.units, p.length / 4096));
  p.chunk = static_cast<uint32_t>(runtime::ceil_div(p.length, p.chunks));
  runtime::Scratch entries(static_cast<size_t>(p.length) * entry * 2);
  runtime::Scratch count((static_cast<size_t>(p.chunks) << bits) * 4);
  p.entries[0] = entries.get();
  p.entries[1] = entries.get<char>() + static_cast<size_t>(p.length) * entry;
  p.counts = count.get<uint32_t>();
  runtime::Scratch range((p.chunks + 1) * 2 * sizeof(uint64_t));
  p.range = range.get();
  runtime::launch(queue, kernels::radix_range[type], p.chunks, 1, p);
  runtime::launch(queue, kernels::radix_width[type], 1, 1, p);
  runtime::launch(queue, kernels::radix_load[type], runtime::ceil_div(p.length, 1024), 1024, p);
  for (p.pass = 0; p.pass < passes; ++p.pass) {
    runtime::launch(queue, kernels::radix_count[type], p.chunks, 1, p);
    runtime::launch(queue, kernels::radix_scan[type], 1, 1, p);
    runtime::launch(queue, kernels::radix_scatter[type], p.chunks, 1, p);
  }
  runtime::launch(queue, kernels::radix_emit[type], runtime::ceil_div(p.take, 1024), 1024, p);
}

// Sorts dense rows; writes the first `take` of each, values or indices or both.
void sort_rows(const Rows& in, bool descending, int64_t take, void* values, int64_t* indices) {
  const DType type = dtype_of(in.data);
  (void)kernels::sort_rank[type];  // the error for types that do not sort, also where nothing is launched
  if (in.rows == 0 || in.length == 0 || take == 0) return;
  runtime::Queue& queue = runtime::current_queue();
  const size_t item = in.data.element_size();
  SortArgs p{};
  p.in = in.data.const_data_ptr();
  p.values = values;
  p.indices = indices;
  p.length = static_cast<uint32_t>(in.length);
  p.descending = descending;
  p.take = static_cast<uint32_t>(take);
  const runtime::DeviceInfo& device = runtime::device_info(queue.device);
  if (in.length <= 64) {
    p.by_length = xpu::make_divider(p.length);
    const bool flat = in.length < 16;
    const int64_t batch = ((int64_t{1} << 31) - 1) / in.length;
    const size_t local = runtime::ceil_div(p.length, 16) * 16;
    for (int64_t first = 0; first < in.rows; first += batch) {
      p.rows = static_cast<uint32_t>(std::min(batch, in.rows - first));
      if (flat)
        runtime::launch(queue, kernels::sort_rank_flat[type], runtime::ceil_div(p.rows * p.length, 256), 256, p);
      else
        runtime::launch2(queue, kernels::sort_rank[type], p.rows, 1, 1, local, p);
      p.in = static_cast<const char*>(p.in) + batch * in.length * item;
      if (p.values) p.values = static_cast<char*>(p.values) + batch * take * item;
      if (p.indices) p.indices += batch * take;
    }
  } else if (in.length <= (1 << 18) || (device.policy.single_items && in.rows >= device.policy.units) ||
             (device.policy.single_items && in.length <= (1 << 20))) {
    sort_rows_each(p, type, item, in.rows, item > 2 && in.length > 2048);
  } else {
    for (int64_t row = 0; row < in.rows; ++row) {
      sort_row_chunks(p, type, item);
      p.in = static_cast<const char*>(p.in) + in.length * item;
      if (p.values) p.values = static_cast<char*>(p.values) + take * item;
      if (p.indices) p.indices += take;
    }
  }
}

}  // namespace

void sort_stable(const at::Tensor& self, std::optional<bool>, int64_t dim, bool descending, const at::Tensor& values,
                 const at::Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Rows in(self, dim);
  const RowsOut v(values, dim), i(indices, dim);
  // An output over the input would be read after it was written.
  const bool aliased = v.data.data_ptr() == in.data.data_ptr();
  const at::Tensor sorted = aliased ? new_empty(v.data.sizes(), self.scalar_type()) : v.data;
  sort_rows(in, descending, in.length, sorted.mutable_data_ptr(), i.data.mutable_data_ptr<int64_t>());
  if (aliased) v.data.copy_(sorted);
  v.finish();
  i.finish();
}

void topk(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool, const at::Tensor& values,
          const at::Tensor& indices) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "topk does not support bool dtypes on XPU");
  const DType type = dtype_of(self);
  (void)kernels::topk_row_few[type];
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Rows in(self, dim);
  const RowsOut v(values, dim), i(indices, dim);
  if (k == 0 || in.rows == 0) return;
  TopkArgs p{};
  p.in = in.data.const_data_ptr();
  p.values = v.data.mutable_data_ptr();
  p.indices = i.data.mutable_data_ptr<int64_t>();
  p.rows = static_cast<uint32_t>(in.rows);
  p.length = static_cast<uint32_t>(in.length);
  p.k = static_cast<uint32_t>(k);
  p.largest = largest;
  const runtime::DeviceInfo& device = runtime::device_info(runtime::current_queue().device);
  // Bounds are read off 64 maxima or, of long rows, 256; with k near their number too many elements would reach them.
  const bool few = k <= 60 && in.length < 4096;
  if (device.policy.single_items && k <= kTopkScan && in.length <= 8192) {
    p.rows_per_item = static_cast<uint32_t>(
        std::clamp<int64_t>(in.rows / (8 * int64_t{device.policy.units}), 1, runtime::ceil_div(8192, in.length)));
    runtime::launch(runtime::current_queue(), kernels::topk_scan[type], runtime::ceil_div(in.rows, p.rows_per_item), 1,
                    p);
  } else if (k <= 240 && in.length >= (few ? std::max<int64_t>(65, 6 * k) : 4096)) {
    p.capacity = k <= 64 ? static_cast<uint32_t>(std::min<int64_t>(in.length, 512)) : 1024;
    runtime::Scratch candidates(static_cast<size_t>(in.rows) * p.capacity * (self.element_size() == 8 ? 16 : 8));
    p.candidates = candidates.get();
    runtime::launch(runtime::current_queue(), few ? kernels::topk_row_few[type] : kernels::topk_row_many[type], in.rows,
                    kTopkLanes, p);
  } else {
    sort_rows(in, largest, k, v.data.mutable_data_ptr(), i.data.mutable_data_ptr<int64_t>());
  }
  v.finish();
  i.finish();
}

namespace {

enum PickMode : uint32_t { kKth, kMedian, kNanMedian };

// The same without sorting, for rows that are longer than the counts.
void select(const Rows& in, int64_t k, PickMode mode, void* values, int64_t* indices) {
  const DType type = dtype_of(in.data);
  runtime::Queue& queue = runtime::current_queue();
  SelectArgs p{};
  p.in = in.data.const_data_ptr();
  p.values = values;
  p.indices = indices;
  p.rows = static_cast<uint32_t>(in.rows);
  p.length = static_cast<uint32_t>(in.length);
  const int64_t items = 4 * int64_t{runtime::device_info(queue.device).policy.units};
  p.chunks = static_cast<uint32_t>(std::clamp<int64_t>(in.length / 16384, 1, runtime::ceil_div(items, in.rows)));
  p.chunk = static_cast<uint32_t>(runtime::ceil_div(in.length, p.chunks));
  p.k = static_cast<uint32_t>(k);
  p.mode = mode;
  const size_t groups = size_t{p.rows} * p.chunks;
  runtime::Scratch counts(groups * kSelectSlots * sizeof(uint32_t)), state(size_t{p.rows} * sizeof(SelectState));
  p.counts = counts.get<uint32_t>();
  p.state = state.get<SelectState>();
  const uint32_t bits = static_cast<uint32_t>(in.data.element_size()) * 8;
  for (p.pass = 0; p.pass * kSelectBits < bits; ++p.pass) {
    runtime::launch(queue, kernels::select_count[type], groups, 1, p);
    runtime::launch(queue, kernels::select_digit[type], p.rows, 1, p);
  }
  runtime::launch(queue, kernels::select_find[type], groups, kSelectLanes, p);
  runtime::launch(queue, kernels::select_emit[type], p.rows, 1, p);
}

void pick_sorted(const Rows& in, int64_t k, PickMode mode, const at::Tensor& v, const at::Tensor& i) {
  const bool place = i.defined();
  const at::Tensor sorted = new_empty(in.data.sizes(), in.data.scalar_type());
  const at::Tensor order = place ? new_empty(in.data.sizes(), at::kLong) : at::Tensor();
  sort_rows(in, false, in.length, sorted.mutable_data_ptr(), place ? order.mutable_data_ptr<int64_t>() : nullptr);
  PickArgs p{};
  p.sorted = sorted.const_data_ptr();
  p.order = place ? order.const_data_ptr<int64_t>() : nullptr;
  p.values = v.mutable_data_ptr();
  p.indices = place ? i.mutable_data_ptr<int64_t>() : nullptr;
  p.rows = static_cast<uint32_t>(in.rows);
  p.length = static_cast<uint32_t>(in.length);
  p.k = static_cast<uint32_t>(k);
  p.mode = mode;
  runtime::launch(runtime::current_queue(), kernels::sort_pick[dtype_of(in.data)], runtime::ceil_div(in.rows, 64), 64,
                  p);
}

// One element of every row in sorted order, by its number or as a median.
void pick(const at::Tensor& self, int64_t dim, int64_t k, PickMode mode, const at::Tensor& values,
          const at::Tensor& indices) {
  const Rows in(self, dim);
  (void)kernels::sort_pick[dtype_of(self)];  // the error for types that do not sort, also where nothing is launched
  if (in.rows == 0) return;
  const bool place = indices.defined();
  const at::Tensor v = values.is_contiguous() ? values : new_empty(values.sizes(), values.scalar_type());
  const at::Tensor i = !place || indices.is_contiguous() ? indices : new_empty(indices.sizes(), at::kLong);
  if (in.length >= kLongRow) {
    select(in, k, mode, v.mutable_data_ptr(), place ? i.mutable_data_ptr<int64_t>() : nullptr);
  } else {
    pick_sorted(in, k, mode, v, i);
  }
  if (!v.is_same(values)) values.copy_(v);
  if (place && !i.is_same(indices)) indices.copy_(i);
}

std::vector<int64_t> without(const at::Tensor& self, int64_t dim, bool keepdim) {
  std::vector<int64_t> sizes = self.sizes().vec();
  if (sizes.empty()) return sizes;
  if (keepdim)
    sizes[dim] = 1;
  else
    sizes.erase(sizes.begin() + dim);
  return sizes;
}

void pick_dim(const char* name, const at::Tensor& self, int64_t dim, bool keepdim, int64_t k, PickMode mode,
              at::Tensor& values, at::Tensor& indices) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, name);
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  if (mode == kKth && self.dim() > 0)
    TORCH_CHECK_NOT_IMPLEMENTED(kernels::sort_pick.has(dtype_of(self)), "\"kthvalue_cpu\" not implemented for '",
                                toString(self.scalar_type()), "'");
  if (mode == kKth)
    TORCH_CHECK(k >= 1 && k <= length, "kthvalue(): selected number k out of range for dimension ", dim);
  at::assert_no_overlap(self, values);
  resize_out(values, without(self, dim, keepdim), {}, self.options());
  resize_out(indices, without(self, dim, keepdim), {}, self.options().dtype(at::kLong));
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  pick(self, dim, k - 1, mode, values, indices);
}

at::Tensor median_all(const at::Tensor& self, PickMode mode) {
  if (self.numel() == 0)  // an integer is what NaN becomes as one, as on the CPU
    return at::full({}, std::numeric_limits<float>::quiet_NaN(), self.options().dtype(at::kFloat))
        .to(self.scalar_type());
  const at::Tensor out = new_empty({}, self.scalar_type());
  pick(self.reshape({-1}), 0, 0, mode, out, {});
  return out;
}

}  // namespace

std::tuple<at::Tensor&, at::Tensor&> kthvalue_values(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim,
                                                     at::Tensor& values, at::Tensor& indices) {
  pick_dim("kthvalue()", self, dim, keepdim, k, kKth, values, indices);
  return {values, indices};
}

at::Tensor median(const at::Tensor& self) { return median_all(self, kMedian); }
at::Tensor nanmedian(const at::Tensor& self) { return median_all(self, kNanMedian); }

std::tuple<at::Tensor&, at::Tensor&> median_dim_values(const at::Tensor& self, int64_t dim, bool keepdim,
                                                       at::Tensor& values, at::Tensor& indices) {
  pick_dim("median()", self, dim, keepdim, 1, kMedian, values, indices);
  return {values, indices};
}

std::tuple<at::Tensor&, at::Tensor&> nanmedian_dim_values(const at::Tensor& self, int64_t dim, bool keepdim,
                                                          at::Tensor& values, at::Tensor& indices) {
  pick_dim("median()", self, dim, keepdim, 1, kNanMedian, values, indices);
  return {values, indices};
}

std::tuple<at::Tensor, at::Tensor> mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, "mode()");
  at::Tensor values = new_empty(without(self, dim, keepdim), self.scalar_type());
  at::Tensor indices = new_empty(values.sizes(), at::kLong);
  const Rows in(self, dim);
  runtime::KernelSlot& kernel = kernels::sort_mode[dtype_of(self)];
  if (in.rows == 0) return {values, indices};
  const at::Tensor sorted = new_empty(in.data.sizes(), self.scalar_type()),
                   order = new_empty(in.data.sizes(), at::kLong);
  sort_rows(in, false, in.length, sorted.mutable_data_ptr(), order.mutable_data_ptr<int64_t>());
  RunArgs p{};
  p.sorted = sorted.const_data_ptr();
  p.order = order.const_data_ptr<int64_t>();
  p.values = values.mutable_data_ptr();
  p.indices = indices.mutable_data_ptr<int64_t>();
  p.rows = static_cast<uint32_t>(in.rows);
  p.length = static_cast<uint32_t>(in.length);
  runtime::launch(runtime::current_queue(), kernel, runtime::ceil_div(in.rows, 64), 64, p);
  return {values, indices};
}

std::tuple<at::Tensor&, at::Tensor&> mode_values(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                                 at::Tensor& indices) {
  const auto [v, i] = aten::mode(self, dim, keepdim);
  resize_out(values, v.sizes(), {}, v.options());
  resize_out(indices, i.sizes(), {}, i.options());
  values.copy_(v);
  indices.copy_(i);
  return {values, indices};
}

// --- unique ---

namespace {

// Runs of equal slices among `count` slices of `width` elements, taken in `order` (or as they lie); the number of the
// run of the i-th goes to `place` i of the inverse. Returns the first slice of each run, the run of every slice, and
// the lengths of the runs. Reads one count back.
std::tuple<at::Tensor, at::Tensor, at::Tensor> runs(const at::Tensor& slices, int64_t count, int64_t width,
                                                    const at::Tensor& order, const at::Tensor& place, bool inverse,
                                                    bool counts) {
  const DType type = dtype_of(slices);
  runtime::Queue& queue = runtime::current_queue();
  const runtime::DeviceInfo& device = runtime::device_info(queue.device);
  RunArgs p{};
  p.sorted = slices.const_data_ptr();
  p.order = order.defined() ? order.const_data_ptr<int64_t>() : nullptr;
  p.place = place.defined() ? place.const_data_ptr<int64_t>() : nullptr;
  p.length = static_cast<uint32_t>(count);
  p.width = static_cast<uint32_t>(width);
  // One item walks its share alone.
  const int64_t most = int64_t{device.policy.units} * (device.policy.single_items ? 4 : 256);
  p.chunk = static_cast<uint32_t>(runtime::ceil_div(count, std::clamp<int64_t>(count / 1024, 1, most)));
  p.chunks = static_cast<uint32_t>(runtime::ceil_div(count, p.chunk));
  runtime::Scratch starts((p.chunks + 1) * sizeof(uint32_t));
  p.starts = starts.get<uint32_t>();
  // A few long runs are found once and not looked for again.
  p.room = device.policy.single_items && width == 1 && !p.order ? 4096 : 0;
  runtime::Scratch noted(size_t{p.chunks} * p.room * sizeof(uint32_t));
  p.noted = p.room ? noted.get<uint32_t>() : nullptr;
  runtime::launch(queue, kernels::unique_count[type], p.chunks, 1, p);
  runtime::launch(queue, kernels::unique_scan, 1, 1, p);
  runtime::copy_bytes(queue, &p.out, p.starts + p.chunks, sizeof p.out, true);
  const int64_t total = p.out;
  at::Tensor values = new_empty({total, width}, slices.scalar_type());
  at::Tensor where = new_empty({inverse ? count : 0}, at::kLong), lengths = new_empty({counts ? total : 0}, at::kLong);
  runtime::Scratch first(counts ? total * sizeof(uint32_t) : 0);
  p.values = values.mutable_data_ptr();
  p.indices = inverse ? where.mutable_data_ptr<int64_t>() : nullptr;
  p.counts = counts ? lengths.mutable_data_ptr<int64_t>() : nullptr;
  p.first = counts ? first.get<uint32_t>() : nullptr;
  runtime::launch(queue, kernels::unique_write[type], p.chunks, 1, p);
  if (counts) runtime::launch(queue, kernels::unique_lengths, runtime::ceil_div(total, 1024), 1024, p);
  return {values, where, lengths};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_flat(const at::Tensor& self, bool sort, bool inverse,
                                                           bool counts) {
  (void)kernels::unique_count[dtype_of(self)];
  const int64_t n = self.numel();
  if (n == 0)
    return {new_empty({0}, self.scalar_type()),
            inverse ? new_empty(self.sizes(), at::kLong) : new_empty({0}, at::kLong), new_empty({0}, at::kLong)};
  const Rows in(self.reshape({-1}), 0);
  at::Tensor sorted = in.data, order;
  if (sort) {
    sorted = new_empty({n}, self.scalar_type());
    if (inverse) order = new_empty({n}, at::kLong);
    sort_rows(in, false, n, sorted.mutable_data_ptr(), inverse ? order.mutable_data_ptr<int64_t>() : nullptr);
  }
  auto [values, where, lengths] = runs(sorted, n, 1, {}, order, inverse, counts);
  return {values.view({-1}), inverse ? where.view(self.sizes()) : where, lengths};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_slices(const at::Tensor& self, int64_t dim, bool sort,
                                                             bool inverse, bool counts) {
  TORCH_CHECK_INDEX(self.dim() > 0, "Dimension specified as ", dim, " but tensor has no dimensions");
  const DType type = dtype_of(self);
  (void)kernels::unique_count[type];
  dim = at::maybe_wrap_dim(dim, self.dim());
  const auto zeros = std::count(self.sizes().begin(), self.sizes().end(), int64_t{0});
  if (self.size(dim) == 0) {
    TORCH_CHECK(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    return {new_empty(self.sizes(), self.scalar_type()), new_empty({0}, at::kLong), new_empty({0}, at::kLong)};
  }
  TORCH_CHECK(zeros == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const at::Tensor slices = self.movedim(dim, 0).contiguous();
  const int64_t count = slices.size(0), width = slices.numel() / count;
  TORCH_CHECK_NOT_IMPLEMENTED(count <= kMaxRow && width <= kMaxRow, "unique over more than 2^31 - 1 slices");
  at::Tensor order;
  if (sort && width == 1) {
    order = new_empty({count}, at::kLong);
    sort_rows(Rows(slices.view({-1}), 0), false, count, nullptr, order.mutable_data_ptr<int64_t>());
  } else if (sort) {
    order = at::arange(count, self.options().dtype(at::kLong));
    at::Tensor merged = new_empty({count}, at::kLong);
    RunArgs p{};
    p.sorted = slices.const_data_ptr();
    p.length = static_cast<uint32_t>(count);
    p.width = static_cast<uint32_t>(width);
    for (int64_t limit = 1; limit < count; limit *= 2) {
      p.order = order.const_data_ptr<int64_t>();
      p.indices = merged.mutable_data_ptr<int64_t>();
      p.limit = static_cast<uint32_t>(limit);
      runtime::launch(runtime::current_queue(), kernels::slice_merge[type], runtime::ceil_div(count, 256), 256, p);
      std::swap(order, merged);
    }
  }
  auto [values, where, lengths] = runs(slices, count, width, order, order, inverse, counts);
  std::vector<int64_t> sizes = slices.sizes().vec();
  sizes[0] = values.size(0);
  return {values.view(sizes).movedim(0, dim), where, lengths};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _unique(const at::Tensor& self, bool, bool return_inverse) {
  auto [values, inverse, counts] = unique_flat(self, true, return_inverse, false);
  return {values, inverse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _unique2(const at::Tensor& self, bool, bool return_inverse,
                                                        bool return_counts) {
  return unique_flat(self, true, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_consecutive(const at::Tensor& self, bool return_inverse,
                                                                  bool return_counts, std::optional<int64_t> dim) {
  if (dim.has_value() && !(*dim == 0 && self.dim() == 1))
    return unique_slices(self, *dim, false, return_inverse, return_counts);
  return unique_flat(self, false, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim(const at::Tensor& self, int64_t dim, bool,
                                                          bool return_inverse, bool return_counts) {
  return unique_slices(self, dim, true, return_inverse, return_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim_consecutive(const at::Tensor& self, int64_t dim,
                                                                      bool return_inverse, bool return_counts) {
  return unique_slices(self, dim, false, return_inverse, return_counts);
}

}  // namespace xpu_ops::aten
