#include "kernels/ops/shape.hpp"

#include <algorithm>
#include <cstring>

#include "gen/kernels/shape_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kPadShare = 4096, kCol2imShare = 1024;  // elements of a work-group
constexpr int64_t kMostPadRows = 128;
constexpr int64_t kRunCost = 64;  // of a run of cat on the calling thread, in units of SmallWork::run

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

void pad(runtime::Queue& queue, runtime::KernelSlot& kernel, const PadProblem& p) {
  PadArgs args{p};
  args.group = plan_rows(p.written[0], kPadShare);
  args.write1 = make_divider(p.written[1]);
  args.write2 = make_divider(p.written[2]);
  std::copy_n(p.pad, 3, args.mirror);
  const int32_t in = p.in[0], out = p.out[0], pad = p.pad[0];
  args.begin = std::clamp(pad, 0, out);
  args.end = std::max(args.begin, std::min(pad + in, out));
  args.left = p.reflect ? pad : 0;
  args.right = p.reflect ? 2 * (in - 1) - (args.end - pad) : in - 1;
  runtime::launch(queue, kernel, ceil_div(p.rows, args.group), tile_group(p.written[0], runtime::policy_of(queue)),
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
