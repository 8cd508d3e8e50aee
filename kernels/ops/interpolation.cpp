#include "kernels/ops/interpolation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numbers>
#include <tuple>
#include <utility>

#include "gen/kernels/interpolation_kernels.hpp"
#include "kernels/error.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/core/tile_args.hpp"
#include "kernels/sycl/images/interpolation_args.hpp"

namespace xpu_ops::ops {
namespace {

using Taps = std::vector<std::pair<int32_t, double>>;

template <class F> F near_cubic(F x, F a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
template <class F> F far_cubic(F x, F a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

template <class F>
F window(Filter filter, F x) {
  x = std::abs(x);
  switch (filter) {
    case Filter::linear_aa: return x < 1 ? 1 - x : F(0);
    case Filter::cubic_aa: return x < 1 ? near_cubic<F>(x, F(-0.5)) : x < 2 ? far_cubic<F>(x, F(-0.5)) : F(0);
    default: break;
  }
  if (x >= 3) return 0;
  if (x == 0) return 1;
  const F pi = std::numbers::pi_v<F> * x;
  return std::sin(pi) / pi * (std::sin(pi / 3) / (pi / 3));
}

// The input step of one output step.
template <class F>
F axis_scale(int64_t in, int64_t out, bool align, std::optional<double> scale) {
  if (align) return out > 1 ? static_cast<F>(in - 1) / (out - 1) : F(0);
  return scale && *scale > 0 ? static_cast<F>(1.0 / *scale) : static_cast<F>(in) / out;
}

template <class F>
std::vector<Taps> forward_taps(Filter filter, int64_t in, int64_t out, bool align, std::optional<double> scale) {
  std::vector<Taps> taps(out);
  auto bounded = [&](int64_t i) { return static_cast<int32_t>(std::clamp<int64_t>(i, 0, in - 1)); };
  switch (filter) {
    case Filter::nearest:
    case Filter::nearest_exact: {
      const bool exact = filter == Filter::nearest_exact;
      const float step = axis_scale<float>(in, out, false, scale);
      for (int64_t o = 0; o < out; ++o) {
        const float x = exact ? std::floor(static_cast<float>((o + 0.5) * step)) : std::floor(o * step);
        taps[o] = {{bounded(static_cast<int64_t>(x)), 1.}};
      }
      return taps;
    }
    case Filter::linear: {
      const F step = axis_scale<F>(in, out, align, scale);
      for (int64_t o = 0; o < out; ++o) {
        if (in == out) {
          taps[o] = {{static_cast<int32_t>(o), 1.}};
          continue;
        }
        const F x = align ? step * o : std::max(F(0), step * (o + F(0.5)) - F(0.5));
        const int64_t i = std::min(static_cast<int64_t>(std::floor(static_cast<float>(x))), in - 1);
        const F part = std::min(std::max(x - i, F(0)), F(1));
        taps[o] = {{static_cast<int32_t>(i), 1 - part}, {bounded(i + 1), part}};
      }
      return taps;
    }
    case Filter::cubic: {
      const F step = axis_scale<F>(in, out, align, scale), a = F(-0.75);
      for (int64_t o = 0; o < out; ++o) {
        const F x = align ? step * o : step * (o + F(0.5)) - F(0.5);
        // Clamped like the linear index, so that a huge position does not overflow the cast.
        const int64_t i = std::min(static_cast<int64_t>(std::floor(x)), in - 1);
        const F t = std::min(std::max(x - i, F(0)), F(1));
        taps[o] = {{bounded(i - 1), far_cubic<F>(t + 1, a)},
                   {bounded(i), near_cubic<F>(t, a)},
                   {bounded(i + 1), near_cubic<F>(1 - t, a)},
                   {bounded(i + 2), far_cubic<F>(2 - t, a)}};
      }
      return taps;
    }
    default: break;
  }
  // Antialiased: the window grows with the input step, weights are normalised. As upstream does, an axis that keeps its
  // size is left alone for any scale: weights of nothing would make NaN of its neighbours' infinities.
  if (in == out) {
    for (int64_t o = 0; o < out; ++o) taps[o] = {{static_cast<int32_t>(o), 1.}};
    return taps;
  }
  const F half = filter == Filter::linear_aa ? 1 : filter == Filter::cubic_aa ? 2 : 3;
  const F step = axis_scale<F>(in, out, align, scale);
  const F support = step >= 1 ? half * step : half, shrink = step >= 1 ? 1 / step : F(1);
  for (int64_t o = 0; o < out; ++o) {
    const F center = step * (o + F(0.5));
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + F(0.5)), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + F(0.5)), in);
    F total = 0;
    std::vector<F> w;
    for (int64_t i = begin; i < end; ++i) {
      w.push_back(window<F>(filter, (i - center + F(0.5)) * shrink));
      total += w.back();
    }
    for (int64_t i = begin; i < end; ++i)
      taps[o].push_back({static_cast<int32_t>(i), total != 0 ? w[i - begin] / total : w[i - begin]});
    if (taps[o].empty()) taps[o].push_back({bounded(begin), 0.});
  }
  return taps;
}

AxisTable pack(const std::vector<Taps>& taps, int64_t in) {
  AxisTable t;
  t.in = static_cast<int32_t>(in);
  t.out = static_cast<int32_t>(taps.size());
  size_t most = 1;
  for (const auto& list : taps) most = std::max(most, list.size());
  t.taps = static_cast<int32_t>(most);
  const size_t n = taps.size();
  if (most * n > (size_t{1} << 27)) throw Error(ErrorKind::runtime, "interpolation: too many inputs touch one output");
  t.index.assign(most * n, 0);
  t.weight.assign(most * n, 0.);
  t.count.resize(n);
  for (size_t o = 0; o < n; ++o) {
    t.count[o] = static_cast<int32_t>(taps[o].size());
    for (size_t k = 0; k < most; ++k) {
      const bool used = k < taps[o].size();
      t.index[k * n + o] = used ? taps[o][k].first : taps[o].empty() ? 0 : taps[o][0].first;
      t.weight[k * n + o] = used ? taps[o][k].second : 0.;
    }
  }
  return t;
}

}  // namespace

bool AxisTable::identity() const {
  if (in != out || taps != 1) return false;
  for (int32_t o = 0; o < out; ++o)
    if (index[o] != o || weight[o] != 1.) return false;
  return true;
}

namespace {

// Rounds weights as torch's CPU kernels for bytes do, which are of integers: to as many binary places as 16 bits hold
// of the largest. Taps beyond the border are first added to its own.
void to_fixed_point(std::vector<Taps>& taps) {
  double most = 0;
  for (Taps& list : taps) {
    Taps joined;
    for (const auto& [index, weight] : list) {
      if (!joined.empty() && joined.back().first == index)
        joined.back().second += weight;
      else
        joined.push_back({index, weight});
      most = std::max(most, joined.back().second);
    }
    if (joined.size() < list.size() && list.size() == 2) joined.push_back({joined[0].first, 0.});  // two-tap kernels
    list = std::move(joined);
  }
  int places = 0;
  while (places < 22 && static_cast<int>(0.5 + most * (1 << (places + 1))) < (1 << 15)) ++places;
  const double unit = 1 << places;
  for (Taps& list : taps)
    for (auto& tap : list) tap.second = std::trunc(tap.second * unit + (tap.second < 0 ? -0.5 : 0.5)) / unit;
}

}  // namespace

AxisTable axis_table(Filter filter, int64_t in, int64_t out, bool align_corners, std::optional<double> scale,
                     Precision precision) {
  if (precision == Precision::single) return pack(forward_taps<float>(filter, in, out, align_corners, scale), in);
  const bool fixed = precision == Precision::fixed;
  if (fixed && in == out) scale = std::nullopt;  // upstream leaves such an axis alone for any scale
  std::vector<Taps> taps = forward_taps<double>(filter, in, out, align_corners, scale);
  if (fixed) to_fixed_point(taps);
  return pack(taps, in);
}

AxisTable transpose(const AxisTable& table) {
  std::vector<Taps> taps(table.in);
  for (int32_t o = 0; o < table.out; ++o)
    for (int32_t k = 0; k < table.count[o]; ++k) {
      const size_t at = static_cast<size_t>(k) * table.out + o;
      Taps& list = taps[table.index[at]];
      // A clamped border counts one output several times: one tap with the summed weight.
      if (!list.empty() && list.back().first == o)
        list.back().second += table.weight[at];
      else
        list.push_back({o, table.weight[at]});
    }
  return pack(taps, table.out);
}

// --- in device memory ---

DeviceTable::~DeviceTable() {
  if (!memory) return;
  runtime::drain();  // kernels in flight may still read it
  sycl::free(memory, runtime::sycl_context(device));
}

namespace {

Table upload(runtime::Queue& queue, const AxisTable& t, bool wide) {
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
  if (!d.memory) throw Error(ErrorKind::out_of_memory, "XPU out of memory: no room for an interpolation table");
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

class TableCache {
 public:
  Table get(runtime::Queue& queue, Filter filter, const Axis& a, bool align, Precision precision, bool transposed) {
    const Key key{queue.device, static_cast<int>(filter),
                  a.in,         a.out,
                  align,        precision,
                  transposed,   a.scale ? std::bit_cast<uint64_t>(*a.scale) : ~uint64_t{0}};
    std::lock_guard lock(mutex_);
    auto it = entries_.find(key);
    if (it == entries_.end()) {
      if (entries_.size() >= kCapacity) entries_.clear();
      const AxisTable table = axis_table(filter, a.in, a.out, align, a.scale, precision);
      const bool wide = precision == Precision::twice;
      it = entries_.emplace(key, upload(queue, transposed ? transpose(table) : table, wide)).first;
    }
    return it->second;
  }

 private:
  using Key = std::tuple<int, int, int64_t, int64_t, bool, Precision, bool, uint64_t>;
  static constexpr size_t kCapacity = 256;
  std::mutex mutex_;
  std::map<Key, Table> entries_;
};

TableCache& tables() {
  static auto* cache = new TableCache;  // never destroyed: the device may be gone by then
  return *cache;
}

}  // namespace

Table device_table(runtime::Queue& queue, Filter filter, const Axis& axis, bool align_corners, Precision precision,
                   bool transposed) {
  return tables().get(queue, filter, axis, align_corners, precision, transposed);
}

// --- launches ---

namespace {

using runtime::ceil_div;

constexpr size_t kResampleFilling = 8;                 // work-groups per compute unit
constexpr int64_t kInnerItems = 16;                    // inner elements that are worth a row
constexpr size_t kRowShare = 1024, kWalkShare = 4096;  // elements of a work-group
constexpr size_t kMostPlaneRows = 64, kMostLaneRows = 32, kMostNearestRows = 128;
constexpr int64_t kLimit32 = int64_t{1} << 32;
constexpr int64_t kGridChannels = 32;    // from which on their planes are read one by one
constexpr int64_t kCachedPlane = 32768;  // elements of a plane that one core adds to without waiting for memory
constexpr int64_t kChannelLanes = 16;
constexpr size_t kGridItems = 256;

size_t wanted_groups(const runtime::Policy& policy) { return kResampleFilling * std::max<size_t>(1, policy.units); }

size_t grid_items(uint32_t positions) {
  return positions < 16 ? positions : std::min<size_t>(positions / 16 * 16, kGridItems);
}

void check_lines(bool fits) {
  if (!fits) throw Error(ErrorKind::runtime, "upsample: tensors this large are not supported");
}

}  // namespace

ResamplePlan plan_resample(int64_t rows, int64_t out, int64_t inner, const runtime::Policy& policy) {
  ResamplePlan plan;
  const size_t wanted = wanted_groups(policy);
  if (inner >= kInnerItems) {
    plan.kernel = ResamplePlan::Kernel::rows;
    plan.local = even_group(inner, policy);
    plan.groups1 = ceil_div(inner, plan.local);
    const size_t all = static_cast<size_t>(rows * out);
    plan.rows_per_group = static_cast<uint32_t>(
        std::clamp<size_t>(std::min(kRowShare / plan.local, all * plan.groups1 / wanted), 1, kMostPlaneRows));
    plan.groups0 = ceil_div(all, plan.rows_per_group);
    return plan;
  }
  const size_t items = static_cast<size_t>(out * inner);
  size_t each;
  // Sums of lookups: one item takes them as fast as its loads go, sixteen wait for gathers (some 45 cycles each on Zen
  // 4). There must be lines for every core.
  if (inner == 1 && policy.single_items && rows >= static_cast<int64_t>(wanted / 2)) {
    plan.kernel = ResamplePlan::Kernel::walk;
    each = std::clamp<size_t>(std::min(kWalkShare / items, rows / wanted), 1, kMostPlaneRows);
  } else {
    plan.local = even_group(items, policy);
    plan.groups1 = ceil_div(items, plan.local);
    each = std::clamp<size_t>(rows * plan.groups1 / wanted, 1, kMostLaneRows);
  }
  plan.rows_per_group = static_cast<uint32_t>(each);
  plan.groups0 = ceil_div(rows, each);
  return plan;
}

void resample_axis(runtime::Queue& queue, const DeviceTable& t, const void* in, DType in_type, void* out,
                   DType out_type, int64_t rows, int64_t inner) {
  check_lines(rows * std::max(t.in, t.out) < kLimit32 && inner * std::max(t.in, t.out) < kLimit32 / 2);
  const ResamplePlan plan = plan_resample(rows, t.out, inner, runtime::policy_of(queue));
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
  args.by_out_length = make_divider(args.out_length);
  args.rows_per_group = plan.rows_per_group;
  args.walk = plan.kernel == ResamplePlan::Kernel::walk;
  const runtime::KernelTable2& table = plan.kernel == ResamplePlan::Kernel::rows ? kernels::resample_rows
                                       : t.full && t.taps == 2                   ? kernels::resample_lanes_t2
                                       : t.full && t.taps == 4                   ? kernels::resample_lanes_t4
                                                                                 : kernels::resample_lanes_any;
  runtime::launch2(queue, table(in_type, out_type), plan.groups0, plan.groups1, 1, plan.local, args);
}

bool plan_resample_plane_serves(const DeviceTable& y, const DeviceTable& x, DType type, int64_t results,
                                int64_t inputs) {
  const bool one = y.taps == 1 && x.taps == 1, two = y.taps == 2 && x.taps == 2 && y.full && x.full;
  return (one || (two && results <= inputs)) &&
         (one ? kernels::resample_plane_t1 : kernels::resample_plane_t2).has(type);
}

ResamplePlanePlan plan_resample_plane(int64_t lines, int64_t columns, bool one_tap, const runtime::Policy& policy) {
  ResamplePlanePlan plan;
  const int64_t share = lines / static_cast<int64_t>(wanted_groups(policy));
  plan.lines_per_group = static_cast<uint32_t>(
      std::clamp<int64_t>(std::min<int64_t>(kTileElements / columns, share), 1, static_cast<int64_t>(kMostPlaneRows)));
  plan.groups = ceil_div(lines, plan.lines_per_group);
  plan.local = !one_tap && policy.single_items ? 1 : policy.lanes;
  return plan;
}

void resample_plane(runtime::Queue& queue, const DeviceTable& y, const DeviceTable& x, DType type, const void* in,
                    void* out, int64_t planes) {
  const int64_t lines = planes * y.out;
  check_lines(lines < kLimit32);
  const bool one = y.taps == 1 && x.taps == 1;
  const ResamplePlanePlan plan = plan_resample_plane(lines, x.out, one, runtime::policy_of(queue));
  ResamplePlaneArgs args{};
  args.in = in;
  args.out = out;
  const DeviceTable* both[] = {&y, &x};
  for (int d = 0; d < 2; ++d) {
    args.index[d] = both[d]->index;
    args.weight[d] = both[d]->weight;
    args.in_size[d] = static_cast<uint32_t>(both[d]->in);
    args.out_size[d] = static_cast<uint32_t>(both[d]->out);
  }
  args.lines = static_cast<uint32_t>(lines);
  args.by_height = make_divider(args.out_size[0]);
  args.lines_per_group = plan.lines_per_group;
  runtime::launch(queue, (one ? kernels::resample_plane_t1 : kernels::resample_plane_t2)[type], plan.groups, plan.local,
                  args);
}

NearestPlan plan_nearest(const NearestProblem& p, const runtime::Policy& policy) {
  NearestPlan plan;
  // About a tile of elements per work-group, and work for every compute unit. Items side by side take a line, or what
  // an element of it has.
  const size_t width = size_t{p.out_size[2]} * p.inner,
               local = tile_group(p.inner == 1 ? p.out_size[2] : p.inner, policy),
               share = tile_share(local, kTileElements, policy);
  plan.rows_per_group = static_cast<uint32_t>(
      std::clamp<size_t>(std::min(share / width, p.rows / wanted_groups(policy)), 1, kMostNearestRows));
  plan.groups = ceil_div(p.rows, plan.rows_per_group);
  const bool alone = policy.single_items && p.inner == 1 && p.out_size[2] < p.in_size[2];
  plan.local = alone ? 1 : local;
  plan.ahead = !policy.single_items && p.inner == 1 && p.out_size[2] <= local;
  return plan;
}

void nearest(runtime::Queue& queue, size_t element, const NearestProblem& problem) {
  const NearestPlan plan = plan_nearest(problem, runtime::policy_of(queue));
  const NearestArgs args{problem, plan.rows_per_group, plan.ahead};
  runtime::launch(queue, kernels::nearest_lookup[raw_dtype(element)], plan.groups, plan.local, args);
}

int64_t grid_taps(bool volume, GridMode mode) {
  switch (mode) {
    case GridMode::nearest: return 1;
    case GridMode::bicubic: return volume ? 64 : 16;
    default: return volume ? 8 : 4;
  }
}

namespace {

const GridArgs& to_args(const GridProblem& problem) { return problem; }

}  // namespace

GridPlan plan_grid_sample(const GridProblem& p, const runtime::Policy& policy) {
  GridPlan plan;
  plan.block = policy.single_items && !p.volume && p.taps == 4 && p.channels >= kGridChannels &&
               kernels::grid_sample_block.has(p.type);
  plan.local = plan.block ? 1 : grid_items(p.positions);
  plan.groups = ceil_div(p.positions, plan.block ? kGridBlock : plan.local);
  return plan;
}

void grid_sample(runtime::Queue& queue, const GridProblem& p) {
  const GridPlan plan = plan_grid_sample(p, runtime::policy_of(queue));
  const runtime::KernelTable& table =
      plan.block     ? kernels::grid_sample_block
      : p.taps == 64 ? kernels::grid_sample_3d_cubic
      : p.volume     ? p.taps == 1 ? kernels::grid_sample_3d_nearest : kernels::grid_sample_3d_linear
      : p.taps == 1  ? kernels::grid_sample_2d_nearest
      : p.taps == 16 ? kernels::grid_sample_2d_cubic
                     : kernels::grid_sample_2d_linear;
  runtime::launch2(queue, table[p.type], p.samples, plan.groups, 1, plan.local, to_args(p));
}

void grid_sample_grid_grad(runtime::Queue& queue, const GridProblem& p) {
  const runtime::KernelTable& table =
      p.taps == 64  ? kernels::grid_sample_grid_grad_3d_cubic
      : p.volume    ? p.taps == 1 ? kernels::grid_sample_grid_grad_3d_nearest : kernels::grid_sample_grid_grad_3d_linear
      : p.taps == 1 ? kernels::grid_sample_grid_grad_2d_nearest
      : p.taps == 16 ? kernels::grid_sample_grid_grad_2d_cubic
                     : kernels::grid_sample_grid_grad_2d_linear;
  const size_t local = grid_items(p.positions);
  runtime::launch2(queue, table[p.type], p.samples, ceil_div(p.positions, local), 1, local, to_args(p));
}

bool plan_grid_planes(int64_t channels, int64_t pixels, const runtime::Policy& policy) {
  return channels < kChannelLanes || (policy.single_items && pixels <= kCachedPlane);
}

void grid_sample_input_grad(runtime::Queue& queue, const GridProblem& p, bool planes, const GridSumProblem& sum) {
  const runtime::KernelTable& table = !planes        ? kernels::grid_sample_input_grad
                                      : p.taps == 1  ? kernels::grid_sample_plane_grad_t1
                                      : p.taps == 4  ? kernels::grid_sample_plane_grad_t4
                                      : p.taps == 8  ? kernels::grid_sample_plane_grad_t8
                                      : p.taps == 16 ? kernels::grid_sample_plane_grad_t16
                                                     : kernels::grid_sample_plane_grad_t64;
  if (planes)
    runtime::launch2(queue, table[p.type], p.samples, sum.channels, 1, 1, sum);
  else
    runtime::launch2(queue, table[p.type], p.samples, ceil_div(sum.channels, kChannelLanes), 1, kChannelLanes, sum);
}

}  // namespace xpu_ops::ops
