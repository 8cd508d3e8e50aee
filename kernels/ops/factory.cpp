#include "kernels/ops/factory.hpp"

#include <algorithm>

#include "gen/kernels/factory_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/elementwise/factory_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kRepeatItems = 64;

template <class Args>
void launch_elements(runtime::Queue& queue, runtime::KernelSlot& kernel, const Args& args) {
  const size_t group = runtime::policy_of(queue).elementwise_group;
  runtime::launch(queue, kernel, ceil_div(args.n, group), group, args);
}

}  // namespace

void sequence(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, const SequenceProblem& problem) {
  SequenceArgs args{problem};
  args.last = static_cast<uint32_t>(n - 1);
  args.once = 1;
  for (int64_t done = 0; done < n; done += kFactoryLaunch) {
    args.first = static_cast<uint32_t>(done);
    args.n = static_cast<uint32_t>(std::min(kFactoryLaunch, n - done));
    launch_elements(queue, kernel, args);
  }
}

int64_t plan_triangle(int64_t matrix) { return std::max<int64_t>(kFactoryLaunch / matrix, 1) * matrix; }

void triangle(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t element,
              const TriangleProblem& problem) {
  const int64_t step = plan_triangle(int64_t{problem.height} * problem.width);
  TriangleArgs args{problem, make_divider(problem.width), make_divider(problem.height)};
  for (int64_t done = 0; done < n; done += step) {
    args.dst = static_cast<char*>(problem.dst) + done * static_cast<int64_t>(element);
    args.src = static_cast<const char*>(problem.src) + done * static_cast<int64_t>(element);
    args.n = static_cast<uint32_t>(std::min(step, n - done));
    launch_elements(queue, kernel, args);
  }
}

void triangle_indices(runtime::Queue& queue, bool upper, DType type, int64_t rows,
                      const TriangleIndexProblem& problem) {
  const auto& table = upper ? kernels::triangle_indices_upper : kernels::triangle_indices_lower;
  runtime::launch(queue, table[type], static_cast<size_t>(rows), kRepeatItems, problem);
}

void complex_from(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t part,
                  const ComplexProblem& problem) {
  ComplexArgs args{problem};
  for (int64_t done = 0; done < n; done += kFactoryLaunch) {
    const int64_t offset = done * static_cast<int64_t>(part);
    args.dst = static_cast<char*>(problem.dst) + 2 * offset;
    args.a = static_cast<const char*>(problem.a) + offset;
    args.b = static_cast<const char*>(problem.b) + offset;
    args.n = static_cast<uint32_t>(std::min(kFactoryLaunch, n - done));
    launch_elements(queue, kernel, args);
  }
}

void repeat_indices(runtime::Queue& queue, DType type, const RepeatProblem& problem) {
  const Spread s = spread(problem.n, runtime::policy_of(queue));
  const RepeatArgs args{problem, s.chunk};
  runtime::launch(queue, kernels::repeat_indices[type], s.groups, s.local, args);
}

}  // namespace xpu_ops::ops
