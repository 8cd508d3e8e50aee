// Upsampling in every mode as passes along axes, and grid sampling.
#include <ATen/OpMathType.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "bindings/aten/indexing.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "gen/kernels/interpolation_kernels.hpp"
#include "kernels/ops/interpolation.hpp"
#include "kernels/runtime/allocator.hpp"
#include "kernels/sycl/interpolation_args.hpp"

namespace xpu_ops::aten {
namespace {

using plan::AxisTable;
using plan::Filter;
using runtime::ceil_div;
using Scale = std::optional<double>;

// A table in device memory, kept for the next call of the same sizes.
struct DeviceTable {
  int32_t in = 0, out = 0, taps = 0;
  bool identity = false, full = false;  // full: every output has all taps
  const int32_t* index = nullptr;
  const int32_t* count = nullptr;
  const void* weight = nullptr;
  void* memory = nullptr;
  int device = 0;
  DeviceTable() = default;
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;
  ~DeviceTable() {
    if (!memory) return;
    runtime::drain();  // kernels in flight may still read it
    sycl::free(memory, runtime::sycl_context(device));
  }
};
using Table = std::shared_ptr<const DeviceTable>;  // a caller's tables outlive their eviction by another lookup

struct Axis {
  int64_t in, out;  // of the forward
  Scale scale;
};

class TableCache {
 public:
  Table get(Filter filter, const Axis& a, bool align, bool wide, bool transposed) {
    runtime::Queue& queue = runtime::current_queue();
    const Key key{queue.device, static_cast<int>(filter),
                  a.in,         a.out,
                  align,        wide,
                  transposed,   a.scale ? std::bit_cast<uint64_t>(*a.scale) : ~uint64_t{0}};
    std::lock_guard lock(mutex_);
    auto it = entries_.find(key);
    if (it == entries_.end()) {
      if (entries_.size() >= kCapacity) entries_.clear();
      it = entries_.emplace(key, upload(queue, filter, a, align, wide, transposed)).first;
    }
    return it->second;
  }

 private:
  using Key = std::tuple<int, int, int64_t, int64_t, bool, bool, bool, uint64_t>;
  static constexpr size_t kCapacity = 256;

  static Table upload(runtime::Queue& queue, Filter filter, const Axis& a, bool align, bool wide, bool transposed) {
    AxisTable t = plan::axis_table(filter, a.in, a.out, align, a.scale, wide);
    if (transposed) t = plan::transpose(t);
    const size_t n = t.index.size(), width = wide ? 8 : 4;
    std::vector<char> bytes(n * width + (n + t.count.size()) * sizeof(int32_t));
    for (size_t i = 0; i < n; ++i) {
      const float f = static_cast<float>(t.weight[i]);
      if (wide)
        std::memcpy(bytes.data() + i * 8, &t.weight[i], 8);
      else
        std::memcpy(bytes.data() + i * 4, &f, 4);
    }
    std::memcpy(bytes.data() + n * width, t.index.data(), n * sizeof(int32_t));
    std::memcpy(bytes.data() + n * width + n * sizeof(int32_t), t.count.data(), t.count.size() * sizeof(int32_t));
    auto made = std::make_shared<DeviceTable>();
    DeviceTable& d = *made;
    d.device = queue.device;
    d.memory = sycl::malloc_device(bytes.size(), queue.get());
    TORCH_CHECK_WITH(OutOfMemoryError, d.memory != nullptr, "XPU out of memory: no room for an interpolation table");
    runtime::copy_bytes(queue, d.memory, bytes.data(), bytes.size(), true);
    d.in = t.in;
    d.out = t.out;
    d.taps = t.taps;
    d.identity = t.identity();
    d.full = std::all_of(t.count.begin(), t.count.end(), [&](int32_t c) { return c == t.taps; });
    d.weight = d.memory;
    d.index = reinterpret_cast<const int32_t*>(static_cast<const char*>(d.memory) + n * width);
    d.count = d.index + n;
    return made;
  }

  std::mutex mutex_;
  std::map<Key, Table> entries_;
};

TableCache& tables() {
  static auto* cache = new TableCache;  // never destroyed: the device may be gone by then
  return *cache;
}

// The tensor as [rows, axes.., inner]: channels are rows, or the inner dim of a channels-last tensor.
struct Layout {
  at::MemoryFormat format;
  int64_t rows, inner;
  Layout(const at::Tensor& t, at::MemoryFormat f) : format(f) {
    const bool last = f != at::MemoryFormat::Contiguous;
    rows = last ? t.size(0) : t.size(0) * t.size(1);
    inner = last ? t.size(1) : 1;
  }
};

at::MemoryFormat format_of(const at::Tensor& out) {
  for (auto f : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d})
    if ((f == at::MemoryFormat::Contiguous || out.dim() == (f == at::MemoryFormat::ChannelsLast ? 4 : 5)) &&
        out.is_contiguous(f))
      return f;
  return at::MemoryFormat::Contiguous;
}

// Sums of lookups: one item takes them as fast as its loads go, sixteen wait for gathers (some 45 cycles each on Zen
// 4).
bool one_item() { return runtime::device_info(runtime::current_queue().device).policy.single_items; }

void resample_axis(const DeviceTable& t, const void* in, DType in_type, void* out, DType out_type, int64_t rows,
                   int64_t inner) {
  ResampleArgs args{};
  args.in = in;
  args.out = out;
  args.index = t.index;
  args.count = t.count;
  args.weight = t.weight;
  args.rows = static_cast<uint32_t>(rows);
  args.in_length = static_cast<uint32_t>(t.in);
  args.out_length = static_cast<uint32_t>(t.out);
  args.inner = static_cast<uint32_t>(inner);
  args.taps = static_cast<uint32_t>(t.taps);
  args.by_inner = make_divider(args.inner);
  TORCH_CHECK(rows * std::max(t.in, t.out) < (int64_t{1} << 32) && inner * std::max(t.in, t.out) < (int64_t{1} << 31),
              "upsample: tensors this large are not supported");
  runtime::Queue& queue = runtime::current_queue();
  const size_t wanted = 8 * std::max<size_t>(1, runtime::device_info(queue.device).policy.units);
  if (inner >= 16) {
    const size_t local = even_group(inner), across = ceil_div(inner, local), all = rows * t.out;
    args.by_out_length = make_divider(static_cast<uint32_t>(t.out));
    args.rows_per_group =
        static_cast<uint32_t>(std::clamp<size_t>(std::min(1024 / local, all * across / wanted), 1, 64));
    runtime::launch2(queue, kernels::resample_rows(in_type, out_type), ceil_div(all, args.rows_per_group), across, 1,
                     local, args);
    return;
  }
  const size_t items = static_cast<size_t>(t.out) * inner, local = even_group(items), across = ceil_div(items, local);
  args.rows_per_group = static_cast<uint32_t>(std::clamp<size_t>(rows * across / wanted, 1, 32));
  const runtime::KernelTable2& table = t.full && t.taps == 2   ? kernels::resample_lanes_t2
                                       : t.full && t.taps == 4 ? kernels::resample_lanes_t4
                                                               : kernels::resample_lanes_any;
  if (inner == 1 && one_item() && rows >= static_cast<int64_t>(wanted / 2)) {  // enough lines for every core
    args.walk = true;
    args.rows_per_group = static_cast<uint32_t>(std::clamp<size_t>(std::min(4096 / items, rows / wanted), 1, 64));
    runtime::launch2(queue, table(in_type, out_type), ceil_div(rows, args.rows_per_group), 1, 1, 1, args);
    return;
  }
  runtime::launch2(queue, table(in_type, out_type), ceil_div(rows, args.rows_per_group), across, 1, local, args);
}

// One or two taps along the last two axes, of planes whose columns lie side by side.
void resample_plane(runtime::KernelSlot& kernel, size_t lanes, const DeviceTable& y, const DeviceTable& x,
                    const at::Tensor& in, const at::Tensor& out, int64_t planes) {
  const int64_t lines = planes * y.out;
  TORCH_CHECK(lines < (int64_t{1} << 32), "upsample: tensors this large are not supported");
  ResamplePlaneArgs args{};
  args.in = in.const_data_ptr();
  args.out = mutable_ptr(out);
  const DeviceTable* tables[] = {&y, &x};
  for (int d = 0; d < 2; ++d) {
    args.index[d] = tables[d]->index;
    args.weight[d] = tables[d]->weight;
    args.in_size[d] = static_cast<uint32_t>(tables[d]->in);
    args.out_size[d] = static_cast<uint32_t>(tables[d]->out);
  }
  args.lines = static_cast<uint32_t>(lines);
  args.by_height = make_divider(args.out_size[0]);
  runtime::Queue& queue = runtime::current_queue();
  const runtime::DeviceInfo& device = runtime::device_info(queue.device);
  const int64_t share = lines / (int64_t{8} * std::max<uint32_t>(1, device.policy.units));
  args.lines_per_group =
      static_cast<uint32_t>(std::clamp<int64_t>(std::min<int64_t>(kTileElements / x.out, share), 1, 64));
  runtime::launch(queue, kernel, ceil_div(args.lines, args.lines_per_group), lanes, args);
}

// Passes along the axes that change; `transposed` runs the gradient, from the forward's output sizes to its input
// sizes.
void resample(const at::Tensor& in_, const at::Tensor& out_, const std::vector<Axis>& axes, Filter filter, bool align,
              bool transposed) {
  if (out_.numel() == 0) return;
  const at::MemoryFormat format = format_of(out_);
  const at::Tensor in = in_.contiguous(format);
  at::Tensor out = out_;
  if (!out.is_contiguous(format)) out = new_empty(out_.sizes(), out_.scalar_type(), format);
  const Layout layout(out, format);
  const DType type = dtype_of(out);
  const bool wide = type == DType::f64;
  const DType between = wide ? DType::f64 : DType::f32;
  std::vector<Table> table;
  std::vector<int64_t> size;
  for (const Axis& a : axes) {
    table.push_back(tables().get(filter, a, align, wide, transposed));
    size.push_back(table.back()->in);
  }
  // First the axes that shrink, then the innermost (its lookups are gathers, so the fewer rows the better), then the
  // rest.
  std::vector<size_t> order;
  for (size_t i = 0; i < axes.size(); ++i)
    if (!table[i]->identity) order.push_back(i);
  auto rank = [&](size_t i) {
    const double ratio = static_cast<double>(table[i]->out) / table[i]->in;
    return ratio < 1 ? ratio : i + 1 == axes.size() ? 1. : 1. + ratio;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  if (order.empty()) {
    out_.copy_(in);
    return;
  }
  // Both axes at once save memory what lies between; of two taps they take four lookups instead of two, too many where
  // there are more results than inputs.
  if (order.size() == 2 && axes.size() == 2 && layout.inner == 1) {
    const bool one = table[0]->taps == 1 && table[1]->taps == 1,
               two = table[0]->taps == 2 && table[1]->taps == 2 && table[0]->full && table[1]->full;
    const runtime::KernelTable& kernel = one ? kernels::resample_plane_t1 : kernels::resample_plane_t2;
    if ((one || (two && out.numel() <= in.numel())) && kernel.has(type)) {
      const size_t lanes = !one && one_item() ? 1 : runtime::device_info(runtime::current_queue().device).policy.lanes;
      resample_plane(kernel[type], lanes, *table[0], *table[1], in, out, layout.rows);
      if (!out.is_same(out_)) out_.copy_(out);
      return;
    }
  }
  at::Tensor now = in;
  for (size_t step = 0; step < order.size(); ++step) {
    const size_t i = order[step];
    const bool last = step + 1 == order.size();
    int64_t rows = layout.rows, inner = layout.inner;
    for (size_t k = 0; k < i; ++k) rows *= size[k];
    for (size_t k = i + 1; k < size.size(); ++k) inner *= size[k];
    at::Tensor next = last ? out : new_empty({rows * table[i]->out * inner}, static_cast<at::ScalarType>(between));
    resample_axis(*table[i], now.const_data_ptr(), dtype_of(now), mutable_ptr(next), dtype_of(next), rows, inner);
    size[i] = table[i]->out;
    now = next;
  }
  if (!out.is_same(out_)) out_.copy_(out);
}

void nearest(const at::Tensor& in_, const at::Tensor& out_, const std::vector<Axis>& axes, Filter filter) {
  if (out_.numel() == 0) return;
  const at::MemoryFormat format = format_of(out_);
  const at::Tensor in = in_.contiguous(format);
  at::Tensor out = out_;
  if (!out.is_contiguous(format)) out = new_empty(out_.sizes(), out_.scalar_type(), format);
  const Layout layout(out, format);
  NearestArgs args{};
  args.in = in.const_data_ptr();
  args.out = mutable_ptr(out);
  Table table[3];
  for (int d = 0; d < 3; ++d) {
    const int k = d - 3 + static_cast<int>(axes.size());
    const Axis axis = k < 0 ? Axis{1, 1, std::nullopt} : axes[k];
    table[d] = tables().get(filter, axis, false, false, false);
    args.index[d] = table[d]->index;
    args.in_size[d] = static_cast<uint32_t>(axis.in);
    args.out_size[d] = static_cast<uint32_t>(axis.out);
  }
  args.rows = static_cast<uint32_t>(layout.rows) * args.out_size[0] * args.out_size[1];
  args.inner = static_cast<uint32_t>(layout.inner);
  runtime::Queue& queue = runtime::current_queue();
  const runtime::DeviceInfo& device = runtime::device_info(queue.device);
  // About a tile of elements a group, and work for every core.
  const size_t width = size_t{args.out_size[2]} * args.inner, wanted = size_t{8} * device.policy.units;
  args.rows_per_group =
      static_cast<uint32_t>(std::clamp<size_t>(std::min(kTileElements / width, args.rows / wanted), 1, 128));
  const bool alone = device.policy.single_items && args.inner == 1 && args.out_size[2] < args.in_size[2];
  runtime::launch(queue, kernels::nearest_lookup[raw_dtype(in.element_size())],
                  ceil_div(args.rows, args.rows_per_group), alone ? 1 : device.policy.lanes, args);
  if (!out.is_same(out_)) out_.copy_(out);
}

// Axes of a forward from the input's sizes, of a backward from input_size and the gradient's sizes.
std::vector<Axis> axes_of(at::IntArrayRef in, at::IntArrayRef out, std::initializer_list<Scale> scales) {
  std::vector<Axis> axes;
  size_t d = 2;
  for (const Scale& s : scales) {
    axes.push_back({in[d], out[d], s});
    ++d;
  }
  return axes;
}

void forward(Filter f, const at::Tensor& self, const at::Tensor& out, bool align, std::initializer_list<Scale> scales) {
  const auto axes = axes_of(self.sizes(), out.sizes(), scales);
  if (f == Filter::nearest || f == Filter::nearest_exact)
    nearest(self, out, axes, f);
  else
    resample(self, out, axes, f, align, false);
}
void backward(Filter f, const at::Tensor& grad, const at::Tensor& grad_in, bool align,
              std::initializer_list<Scale> scales) {
  resample(grad, grad_in, axes_of(grad_in.sizes(), grad.sizes(), scales), f, align, true);
}

}  // namespace

// The eight shapes of signature that upstream's upsample operators have.
#define XPU_NEAREST(NAME, FILTER)                                                                             \
  void NAME##1d(const at::Tensor& self, at::IntArrayRef, Scale s, const at::Tensor& out) {                    \
    forward(FILTER, self, out, false, {s});                                                                   \
  }                                                                                                           \
  void NAME##2d(const at::Tensor& self, at::IntArrayRef, Scale h, Scale w, const at::Tensor& out) {           \
    forward(FILTER, self, out, false, {h, w});                                                                \
  }                                                                                                           \
  void NAME##3d(const at::Tensor& self, at::IntArrayRef, Scale d, Scale h, Scale w, const at::Tensor& out) {  \
    forward(FILTER, self, out, false, {d, h, w});                                                             \
  }                                                                                                           \
  void NAME##1d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, Scale s,                   \
                         const at::Tensor& grad_in) {                                                         \
    backward(FILTER, grad, grad_in, false, {s});                                                              \
  }                                                                                                           \
  void NAME##2d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, Scale h, Scale w,          \
                         const at::Tensor& grad_in) {                                                         \
    backward(FILTER, grad, grad_in, false, {h, w});                                                           \
  }                                                                                                           \
  void NAME##3d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, Scale d, Scale h, Scale w, \
                         const at::Tensor& grad_in) {                                                         \
    backward(FILTER, grad, grad_in, false, {d, h, w});                                                        \
  }
XPU_NEAREST(upsample_nearest, Filter::nearest)
XPU_NEAREST(_upsample_nearest_exact, Filter::nearest_exact)
#undef XPU_NEAREST

#define XPU_FILTER_2D(NAME, FILTER)                                                                            \
  void NAME(const at::Tensor& self, at::IntArrayRef, bool align, Scale h, Scale w, const at::Tensor& out) {    \
    forward(FILTER, self, out, align, {h, w});                                                                 \
  }                                                                                                            \
  void NAME##_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, bool align, Scale h, Scale w, \
                       const at::Tensor& grad_in) {                                                            \
    backward(FILTER, grad, grad_in, align, {h, w});                                                            \
  }
XPU_FILTER_2D(upsample_bilinear2d, Filter::linear)
XPU_FILTER_2D(upsample_bicubic2d, Filter::cubic)
XPU_FILTER_2D(_upsample_bilinear2d_aa, Filter::linear_aa)
XPU_FILTER_2D(_upsample_bicubic2d_aa, Filter::cubic_aa)
XPU_FILTER_2D(_upsample_lanczos2d_aa, Filter::lanczos_aa)
#undef XPU_FILTER_2D

void upsample_linear1d(const at::Tensor& self, at::IntArrayRef, bool align, Scale s, const at::Tensor& out) {
  forward(Filter::linear, self, out, align, {s});
}
void upsample_linear1d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, bool align, Scale s,
                                const at::Tensor& grad_in) {
  backward(Filter::linear, grad, grad_in, align, {s});
}
void upsample_trilinear3d(const at::Tensor& self, at::IntArrayRef, bool align, Scale d, Scale h, Scale w,
                          const at::Tensor& out) {
  forward(Filter::linear, self, out, align, {d, h, w});
}
void upsample_trilinear3d_backward(const at::Tensor& grad, at::IntArrayRef, at::IntArrayRef, bool align, Scale d,
                                   Scale h, Scale w, const at::Tensor& grad_in) {
  backward(Filter::linear, grad, grad_in, align, {d, h, w});
}

namespace {

// Five sizes or strides with depth 1 in two dimensions.
void five(int64_t (&to)[5], at::IntArrayRef from, int64_t depth) {
  if (from.size() == 5)
    std::copy(from.begin(), from.end(), to);
  else
    std::tie(to[0], to[1], to[2], to[3], to[4]) = std::make_tuple(from[0], from[1], depth, from[2], from[3]);
}

// `grid` is contiguous, `over` (the output or its gradient) so in the dims after the second.
GridArgs grid_args(const at::Tensor& input, const at::Tensor& grid, const at::Tensor& over, int64_t padding,
                   bool align) {
  GridArgs args{};
  args.input = input.const_data_ptr();
  args.grid = grid.const_data_ptr();
  five(args.in_size, input.sizes(), 1);
  five(args.in_stride, input.strides(), 0);
  for (int d = 0; d < 2; ++d) args.out_stride[d] = over.stride(d);
  const int64_t positions = grid.numel() / grid.size(0) / grid.size(-1);
  TORCH_CHECK_NOT_IMPLEMENTED(positions < (int64_t{1} << 31), "grid_sampler of 2^31 positions and more");
  args.samples = static_cast<uint32_t>(grid.size(0));
  args.positions = static_cast<uint32_t>(positions);
  int64_t reach = 0;  // of an offset in a plane of the input
  for (int d = 2; d < 5; ++d) reach += (args.in_size[d] - 1) * args.in_stride[d];
  TORCH_CHECK_NOT_IMPLEMENTED(reach < (int64_t{1} << 31), "grid_sampler of planes of 2^31 elements and more");
  args.padding = static_cast<GridPadding>(padding);
  args.align = align;
  return args;
}

void launch_grid(runtime::KernelSlot& kernel, const GridArgs& args) {
  const size_t local = args.positions < 16 ? args.positions : std::min<size_t>(args.positions / 16 * 16, 256);
  runtime::launch2(runtime::current_queue(), kernel, args.samples, ceil_div(args.positions, local), 1, local, args);
}

// Whether the dims after the second lie side by side.
bool dense_planes(const at::Tensor& t) {
  int64_t step = 1;
  for (int64_t d = t.dim() - 1; d >= 2; step *= t.size(d--))
    if (t.stride(d) != step && t.size(d) != 1) return false;
  return true;
}

constexpr int64_t kGridChannels = 32;    // from which on their planes are read one by one
constexpr int64_t kCachedPlane = 32768;  // elements of a plane that one core adds to without waiting for memory

// Pixels that one output position reads.
int64_t grid_taps(bool volume, int64_t mode) {
  switch (static_cast<GridMode>(mode)) {
    case GridMode::nearest: return 1;
    case GridMode::bicubic: return 16;
    default: return volume ? 8 : 4;
  }
}

at::Tensor grid_forward(const at::Tensor& input, const at::Tensor& grid_, int64_t mode, int64_t padding, bool align) {
  at::native::check_grid_sampler_common(input, grid_);
  const bool volume = input.dim() == 5;
  volume ? at::native::check_grid_sampler_3d(input, grid_, mode) : at::native::check_grid_sampler_2d(input, grid_);
  const at::Tensor grid = grid_.contiguous();
  std::vector<int64_t> sizes{input.size(0), input.size(1)};
  for (int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  at::Tensor out = new_empty(sizes, input.scalar_type());
  if (out.numel() == 0) return out;
  GridArgs args = grid_args(input, grid, out, padding, align);
  args.out = mutable_ptr(out);
  const int64_t taps = grid_taps(volume, mode);
  runtime::Queue& queue = runtime::current_queue();
  const DType t = dtype_of(input);
  if (!volume && taps == 4 && input.size(1) >= kGridChannels && kernels::grid_sample_block.has(t) &&
      runtime::device_info(queue.device).policy.single_items) {
    runtime::launch2(queue, kernels::grid_sample_block[t], args.samples, ceil_div(args.positions, kGridBlock), 1, 1,
                     args);
    return out;
  }
  const runtime::KernelTable& table =
      volume ? (taps == 1 ? kernels::grid_sample_3d_nearest : kernels::grid_sample_3d_linear)
             : (taps == 1    ? kernels::grid_sample_2d_nearest
                : taps == 16 ? kernels::grid_sample_2d_cubic
                             : kernels::grid_sample_2d_linear);
  launch_grid(table[t], args);
  return out;
}

std::tuple<at::Tensor, at::Tensor> grid_backward(const at::Tensor& grad, const at::Tensor& input,
                                                 const at::Tensor& grid_, int64_t mode, int64_t padding, bool align,
                                                 std::array<bool, 2> mask) {
  at::native::check_grid_sampler_common(input, grid_);
  const bool volume = input.dim() == 5;
  const at::Tensor grid = grid_.contiguous(), flow = dense_planes(grad) ? grad : grad.contiguous();
  at::Tensor grad_input, grad_grid = new_empty(grid.sizes(), grid.scalar_type());
  if (grid.numel() == 0 || input.numel() == 0) {
    if (mask[0]) grad_input = at::zeros(input.sizes(), input.options());
    grad_grid.zero_();
    return {grad_input, grad_grid};
  }
  GridArgs args = grid_args(input, grid, flow, padding, align);
  args.grad_out = flow.const_data_ptr();
  args.grad_grid = mutable_ptr(grad_grid);
  const DType t = dtype_of(input);
  const int64_t taps = grid_taps(volume, mode);
  const runtime::KernelTable& table =
      volume ? (taps == 1 ? kernels::grid_sample_grid_grad_3d_nearest : kernels::grid_sample_grid_grad_3d_linear)
             : (taps == 1    ? kernels::grid_sample_grid_grad_2d_nearest
                : taps == 16 ? kernels::grid_sample_grid_grad_2d_cubic
                             : kernels::grid_sample_grid_grad_2d_linear);
  if (!mask[0]) {
    launch_grid(table[t], args);
    return {grad_input, grad_grid};
  }
  // The 16-bit floats are summed in float.
  const at::ScalarType compute = at::toOpMathType(input.scalar_type());
  args.pitch = args.positions + 48;
  const size_t entries = static_cast<size_t>(input.size(0) * taps) * args.pitch;
  const int64_t pixels = input.numel() / input.size(0) / input.size(1);
  TORCH_CHECK_NOT_IMPLEMENTED(pixels < (int64_t{1} << 31), "the gradient of grid_sampler for 2^31 pixels and more");
  const runtime::Scratch pixel(entries * sizeof(int32_t)), weight(entries * at::elementSize(compute));
  args.pixel = pixel.get<int32_t>(), args.weight = weight.get();
  launch_grid(table[t], args);
  // On a CPU one item a plane, where a vector of channels would not be full or needs copies of more than it saves; else
  // channels innermost, which the items of a group walk.
  runtime::Queue& queue = runtime::current_queue();
  const bool planes =
      input.size(1) < 16 || (runtime::device_info(queue.device).policy.single_items && pixels <= kCachedPlane);
  const at::Tensor grads = planes ? plain(grad) : grad.movedim(1, -1).contiguous();
  std::vector<int64_t> sizes = input.sizes().vec();
  if (!planes) std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
  const at::Tensor sums = planes ? new_empty(sizes, compute) : at::zeros(sizes, input.options().dtype(compute));
  GridSumArgs sum{mutable_ptr(sums), grads.const_data_ptr(), args.pixel, args.weight};
  sum.pixels = static_cast<uint64_t>(pixels), sum.channels = static_cast<uint64_t>(input.size(1));
  sum.positions = args.positions, sum.pitch = args.pitch, sum.taps = static_cast<uint64_t>(taps);
  const runtime::KernelTable& plane_sums = taps == 1   ? kernels::grid_sample_plane_grad_t1
                                           : taps == 4 ? kernels::grid_sample_plane_grad_t4
                                           : taps == 8 ? kernels::grid_sample_plane_grad_t8
                                                       : kernels::grid_sample_plane_grad_t16;
  if (planes)
    runtime::launch2(queue, plane_sums[t], input.size(0), input.size(1), 1, 1, sum);
  else
    runtime::launch2(queue, kernels::grid_sample_input_grad[t], input.size(0), ceil_div(input.size(1), 16), 1, 16, sum);
  if (planes && compute == input.scalar_type()) return {sums, grad_grid};
  grad_input = at::empty_like(input, input.options(), at::MemoryFormat::Contiguous);
  grad_input.copy_(planes ? sums : sums.movedim(-1, 1));
  return {grad_input, grad_grid};
}

}  // namespace

at::Tensor grid_sampler_2d(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding, bool align) {
  return grid_forward(input, grid, mode, padding, align);
}
at::Tensor grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, int64_t mode, int64_t padding, bool align) {
  return grid_forward(input, grid, mode, padding, align);
}
std::tuple<at::Tensor, at::Tensor> grid_sampler_2d_backward(const at::Tensor& grad, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t mode, int64_t padding,
                                                            bool align, std::array<bool, 2> mask) {
  return grid_backward(grad, input, grid, mode, padding, align, mask);
}
std::tuple<at::Tensor, at::Tensor> grid_sampler_3d_backward(const at::Tensor& grad, const at::Tensor& input,
                                                            const at::Tensor& grid, int64_t mode, int64_t padding,
                                                            bool align, std::array<bool, 2> mask) {
  return grid_backward(grad, input, grid, mode, padding, align, mask);
}

}  // namespace xpu_ops::aten
