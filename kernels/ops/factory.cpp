#include "kernels/ops/factory.hpp"

#include <algorithm>

#include "gen/kernels/factory_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::plan::inline factory_family {
namespace {

using runtime::ceil_div;

constexpr size_t kRowItems = 64;

const runtime::Policy& policy_of(runtime::Queue& queue) { return runtime::device_info(queue.device).policy; }

template <class Args>
void launch_elements(runtime::Queue& queue, runtime::KernelSlot& kernel, const Args& args) {
  const size_t group = policy_of(queue).elementwise_group;
  runtime::launch(queue, kernel, ceil_div(args.n, group), group, args);
}

}  // namespace

void sequence(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, SequenceArgs args) {
  args.last = static_cast<uint32_t>(n - 1);
  args.once = 1;
  for (int64_t done = 0; done < n; done += kFactoryLaunch) {
    args.first = static_cast<uint32_t>(done);
    args.n = static_cast<uint32_t>(std::min(kFactoryLaunch, n - done));
    launch_elements(queue, kernel, args);
  }
}

int64_t plan_triangle(int64_t matrix) { return std::max<int64_t>(kFactoryLaunch / matrix, 1) * matrix; }

void triangle(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t element, TriangleArgs args) {
  const int64_t step = plan_triangle(int64_t{args.rows.d} * args.cols.d);
  void* const dst = args.dst;
  const void* const src = args.src;
  for (int64_t done = 0; done < n; done += step) {
    args.dst = static_cast<char*>(dst) + done * static_cast<int64_t>(element);
    args.src = static_cast<const char*>(src) + done * static_cast<int64_t>(element);
    args.n = static_cast<uint32_t>(std::min(step, n - done));
    launch_elements(queue, kernel, args);
  }
}

void triangle_indices(runtime::Queue& queue, bool upper, DType type, int64_t rows, const TriangleIndexArgs& args) {
  const auto& table = upper ? kernels::triangle_indices_upper : kernels::triangle_indices_lower;
  runtime::launch(queue, table[type], static_cast<size_t>(rows), kRowItems, args);
}

void complex_from(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t part, ComplexArgs args) {
  const ComplexArgs all = args;
  for (int64_t done = 0; done < n; done += kFactoryLaunch) {
    const int64_t offset = done * static_cast<int64_t>(part);
    args.dst = static_cast<char*>(all.dst) + 2 * offset;
    args.a = static_cast<const char*>(all.a) + offset;
    args.b = static_cast<const char*>(all.b) + offset;
    args.n = static_cast<uint32_t>(std::min(kFactoryLaunch, n - done));
    launch_elements(queue, kernel, args);
  }
}

void repeat_indices(runtime::Queue& queue, DType type, RepeatArgs args) {
  const Spread s = spread(args.n, policy_of(queue));
  args.chunk = s.chunk;
  runtime::launch(queue, kernels::repeat_indices[type], s.groups, s.local, args);
}

}  // namespace xpu_ops::plan::inline factory_family
