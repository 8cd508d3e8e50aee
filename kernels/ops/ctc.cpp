#include "kernels/ops/ctc.hpp"

#include <algorithm>

#include "gen/kernels/ctc_kernels.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/reduce/loss_args.hpp"

namespace xpu_ops::ops {
namespace {

constexpr size_t kMostCtcItems = 128;

}  // namespace

size_t plan_ctc(uint32_t states) { return std::min(kMostCtcItems, runtime::ceil_div(states, 16) * 16); }

void ctc_loss(runtime::Queue& queue, DType type, const CtcProblem& problem) {
  const CtcArgs args{problem, nullptr};
  runtime::launch(queue, kernels::ctc_forward[type], args.batch, plan_ctc(args.states), args);
}

void ctc_loss_backward(runtime::Queue& queue, DType type, const CtcProblem& problem) {
  const runtime::Scratch beta(size_t{problem.batch} * problem.steps * problem.states * dtype_size(type));
  const CtcArgs args{problem, beta.get()};
  runtime::launch(queue, kernels::ctc_backward[type], args.batch, plan_ctc(args.states), args);
}

}  // namespace xpu_ops::ops
