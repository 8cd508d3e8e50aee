#include "kernels/ops/shape.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "gen/kernels/shape_kernels.hpp"
#include "kernels/host/bulk.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kPadShare = 4096, kCol2imShare = 1024;  // elements of a work-group
constexpr int64_t kMostPadRows = 128;
constexpr uint32_t kLongPadRow = 2 * kPadShare;    // more of padding are shared by work-groups
constexpr int64_t kRunCost = 64, kPadRowCost = 8;  // on the calling thread, in units of SmallWork::run

// The columns of a row that are copied as they lie.
std::pair<int32_t, int32_t> copied_columns(const PadProblem& p) {
  const int32_t begin = std::clamp(p.pad[0], 0, p.out[0]);
  return {begin, std::max(begin, std::min(p.pad[0] + p.in[0], p.out[0]))};
}

// On the calling thread: row by row as pad_gather.
void pad_here(size_t element, const PadProblem& p) {
  const bool reflect = p.mode == PadMode::reflection;
  // Where position o comes from; -1 for the constant.
  const auto source = [&](int d, int32_t o) {
    const int32_t i = o - p.pad[d], in = p.in[d];
    if (i >= 0 && i < in) return i;
    if (p.mode == PadMode::constant) return -1;
    return i < 0 ? (reflect ? -i : 0) : reflect ? 2 * (in - 1) - i : in - 1;
  };
  const size_t width = element * static_cast<size_t>(p.out[0]), from = element * static_cast<size_t>(p.in[0]);
  const auto [begin, end] = copied_columns(p);
  auto* dst = static_cast<char*>(p.dst);
  for (uint32_t row = 0; row < p.rows; ++row, dst += width) {
    const uint32_t q = row / p.written[1], b = q / p.written[2];
    const int32_t y = source(1, static_cast<int32_t>(row % p.written[1])),
                  z = source(2, static_cast<int32_t>(q % p.written[2]));
    if (y < 0 || z < 0) {
      host::repeat(element, p.value, dst, static_cast<size_t>(p.out[0]));
      continue;
    }
    const auto* src = static_cast<const char*>(p.src) +
                      ((static_cast<size_t>(b) * static_cast<size_t>(p.in[2]) + static_cast<size_t>(z)) *
                           static_cast<size_t>(p.in[1]) +
                       static_cast<size_t>(y)) *
                          from;
    const auto side = [&](int32_t first, int32_t last) {
      if (p.mode == PadMode::constant)
        return host::repeat(element, p.value, dst + static_cast<size_t>(first) * element,
                            static_cast<size_t>(last - first));
      for (int32_t o = first; o < last; ++o)
        std::memcpy(dst + static_cast<size_t>(o) * element, src + static_cast<size_t>(source(0, o)) * element, element);
    };
    side(0, begin);
    std::memcpy(dst + static_cast<size_t>(begin) * element, src + static_cast<size_t>(begin - p.pad[0]) * element,
                static_cast<size_t>(end - begin) * element);
    side(end, p.out[0]);
  }
}

PadArgs pad_args(const PadProblem& p) {
  PadArgs args{p};
  args.write0 = make_divider(p.written[0]);
  args.write1 = make_divider(p.written[1]);
  args.write2 = make_divider(p.written[2]);
  args.n = p.rows * p.written[0];
  std::copy_n(p.pad, 3, args.mirror);
  return args;
}

runtime::KernelSlot& pad_kernel(const PadPlan& plan, PadMode mode, size_t element) {
  const DType type = raw_dtype(element);
  switch (mode) {
    case PadMode::constant: return (plan.by_row ? kernels::pad_gather_constant : kernels::pad_items_constant)[type];
    case PadMode::reflection:
      return (plan.by_row ? kernels::pad_gather_reflection : kernels::pad_items_reflection)[type];
    default: return (plan.by_row ? kernels::pad_gather_replication : kernels::pad_items_replication)[type];
  }
}

}  // namespace

Cat::Cat(runtime::Queue& queue, void* dst, size_t element, uint32_t outer, uint32_t total)
    : queue_(queue), kernel_(kernels::cat_runs[raw_dtype(element)]), element_(element) {
  args_.dst = dst;
  args_.outer = outer;
  args_.total = total;
  args_.count = 0;
}

bool Cat::add(const void* src, uint32_t width, int64_t step, uint32_t offset) {
  const size_t bytes = width * element_, apart = static_cast<size_t>(step) * element_, total = args_.total * element_;
  const auto here = [to = static_cast<char*>(args_.dst) + offset * element_, from = static_cast<const char*>(src),
                     runs = args_.outer, bytes, apart, total] {
    for (size_t r = 0; r < runs; ++r) std::memcpy(to + r * total, from + r * apart, bytes);
  };
  if (queue_.small().run(args_.outer * (kRunCost + static_cast<int64_t>(bytes / 4)), here, kernel_)) return true;
  if (step != width) return false;
  auto& in = args_.in[args_.count++];
  in.src = src;
  in.first_group = static_cast<uint32_t>(groups_);
  in.offset = offset;
  in.width = make_divider(width);
  groups_ += ceil_div(static_cast<size_t>(args_.outer) * width, kCatBlock);
  if (args_.count == kCatInputs) finish();
  return true;
}

// Elements of 16 bytes where everything lies so, for a device whose items do not make vectors.
bool Cat::widen() {
  const size_t by = 16 / element_;
  size_t bits = reinterpret_cast<uintptr_t>(args_.dst) / element_ | args_.total;
  for (uint32_t k = 0; k < args_.count; ++k)
    bits |= reinterpret_cast<uintptr_t>(args_.in[k].src) / element_ | args_.in[k].offset | args_.in[k].width.d;
  if (by < 2 || bits % by != 0) return false;
  groups_ = 0;
  args_.total /= static_cast<uint32_t>(by);
  for (uint32_t k = 0; k < args_.count; ++k) {
    auto& in = args_.in[k];
    in.offset /= static_cast<uint32_t>(by);
    in.width = make_divider(in.width.d / static_cast<uint32_t>(by));
    in.first_group = static_cast<uint32_t>(groups_);
    groups_ += ceil_div(static_cast<size_t>(args_.outer) * in.width.d, kCatBlock);
  }
  return true;
}

void Cat::finish() {
  if (args_.count > 0) {
    const runtime::Policy& policy = runtime::policy_of(queue_);
    const uint32_t total = args_.total;
    args_.ahead = !policy.single_items;
    const bool wide = !policy.single_items && widen();
    runtime::launch(queue_, wide ? kernels::cat_runs[raw_dtype(16)] : kernel_, groups_, policy.tile_items, args_);
    args_.total = total;
  }
  args_.count = 0;
  groups_ = 0;
}

uint32_t plan_rows(int64_t row, int64_t share) {
  return static_cast<uint32_t>(std::clamp<int64_t>(share / row, 1, kMostPadRows));
}

PadPlan plan_pad(const PadProblem& p, const runtime::Policy& policy) {
  const uint32_t row = p.written[0];
  PadPlan plan{policy.single_items, 0, policy.elementwise_group, 0, 0, 1};
  if (!plan.by_row) {
    plan.groups = ceil_div(size_t{p.rows} * row, plan.local * kPadAhead);
    return plan;
  }
  plan.columns = row > kLongPadRow ? static_cast<uint32_t>(kPadShare) : row;
  plan.parts = static_cast<uint32_t>(ceil_div(row, plan.columns));
  plan.rows = plan_rows(plan.columns, kPadShare);
  plan.groups = ceil_div(p.rows, plan.rows) * plan.parts;
  plan.local = tile_group(plan.columns, policy);
  return plan;
}

void pad(runtime::Queue& queue, size_t element, const PadProblem& p) {
  const PadPlan plan = plan_pad(p, runtime::policy_of(queue));
  runtime::KernelSlot& kernel = pad_kernel(plan, p.mode, element);
  const int64_t words = (static_cast<int64_t>(p.written[0]) * static_cast<int64_t>(element) + 3) / 4;
  if (queue.small().run((words + kPadRowCost) * p.rows, [=] { pad_here(element, p); }, kernel)) return;
  PadArgs args = pad_args(p);
  const int32_t in = p.in[0], pad = p.pad[0];
  const bool reflect = p.mode == PadMode::reflection;
  args.group = plan.rows;
  args.columns = plan.columns;
  args.parts = make_divider(plan.parts);
  std::tie(args.begin, args.end) = copied_columns(p);
  args.left = reflect ? pad : 0;
  args.right = reflect ? 2 * (in - 1) - (args.end - pad) : in - 1;
  runtime::launch(queue, kernel, plan.groups, plan.local, args);
}

void pad_backward(runtime::Queue& queue, DType type, const PadProblem& p) {
  PadArgs args = pad_args(p);
  args.group = plan_rows(p.written[0], kPadShare);
  const auto& table = p.mode == PadMode::reflection ? kernels::pad_gather_backward_reflection
                                                    : kernels::pad_gather_backward_replication;
  runtime::launch(queue, table[type], ceil_div(p.rows, args.group), tile_group(p.written[0], runtime::policy_of(queue)),
                  args);
}

namespace {
Im2colArgs im2col_args(const Im2colProblem& p) {
  const auto by = [](int32_t size) { return make_divider(static_cast<uint32_t>(size)); };
  return {p, 0, by(p.kernel_h), by(p.kernel_w), by(p.out_width), by(p.height), by(p.stride_h), by(p.stride_w)};
}
}  // namespace

void im2col(runtime::Queue& queue, size_t element, const Im2colProblem& p) {
  const size_t local = tile_group(static_cast<size_t>(std::max(p.out_width, 1)), runtime::policy_of(queue));
  runtime::launch(queue, kernels::im2col[raw_dtype(element)], p.rows, local, im2col_args(p));
}

void col2im(runtime::Queue& queue, DType type, const Im2colProblem& p) {
  Im2colArgs args = im2col_args(p);
  args.group = plan_rows(p.width, kCol2imShare);
  runtime::launch(queue, kernels::col2im[type], ceil_div(p.rows, args.group),
                  tile_group(static_cast<size_t>(p.width), runtime::policy_of(queue)), args);
}

void unfold_backward(runtime::Queue& queue, DType type, const UnfoldBackwardProblem& p) {
  const size_t group = runtime::policy_of(queue).elementwise_group;
  const UnfoldBackwardArgs args{p, make_divider(p.inner), make_divider(p.length),
                                make_divider(static_cast<uint32_t>(p.step))};
  runtime::launch(queue, kernels::unfold_backward[type], ceil_div(p.n, group), group, args);
}

}  // namespace xpu_ops::ops
