#include "kernels/ops/rnn.hpp"

#include <algorithm>

#include "gen/kernels/rnn_kernels.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/products/rnn_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kCellItems = 256;  // most of a work-group
constexpr int64_t kStepUnits = 16;  // hidden units of a work-group of a step
// From here on oneDNN's product reads the weight so much better that a second kernel for the cell does not count.
constexpr int64_t kMostBatch = 64;

bool is_backward(RnnKind kind) { return kind == RnnKind::lstm_backward || kind == RnnKind::gru_backward; }

runtime::KernelSlot& cell_of(RnnKind kind, DType type) {
  static const runtime::KernelTable* const all[] = {&kernels::lstm_cell, &kernels::lstm_cell_backward,
                                                    &kernels::gru_cell, &kernels::gru_cell_backward};
  return (*all[static_cast<int>(kind)])[type];
}

runtime::KernelSlot& step_of(RnnKind kind, bool narrow) {
  static const runtime::KernelTable* const all[][2] = {
      {&kernels::lstm_step_wide, &kernels::lstm_step_narrow},
      {&kernels::lstm_step_backward_wide, &kernels::lstm_step_backward_narrow},
      {&kernels::gru_step_wide, &kernels::gru_step_narrow},
      {&kernels::gru_step_backward_wide, &kernels::gru_step_backward_narrow}};
  return (*all[static_cast<int>(kind)][narrow])[DType::f32];
}

}  // namespace

RnnPlan plan_rnn_cell(int64_t batch, int64_t hidden) {
  RnnPlan plan;
  plan.local = std::min(kCellItems, ceil_div(hidden, 16) * 16);
  plan.groups0 = static_cast<size_t>(batch);
  plan.groups1 = ceil_div(hidden, plan.local);
  return plan;
}

void rnn_cell(runtime::Queue& queue, RnnKind kind, DType type, int64_t batch, const RnnCellProblem& problem) {
  if (batch == 0 || problem.hidden == 0) return;
  const RnnPlan plan = plan_rnn_cell(batch, problem.hidden);
  runtime::launch2(queue, cell_of(kind, type), plan.groups0, plan.groups1, 1, plan.local, problem);
}

bool plan_rnn_steps_serve(int64_t batch, int64_t hidden, const runtime::Policy& policy) {
  return policy.single_items && batch >= 1 && batch <= kMostBatch && hidden >= kStepUnits && hidden % kStepUnits == 0;
}

RnnPlan plan_rnn_step(RnnKind kind, int64_t batch, int64_t hidden) {
  RnnPlan plan;
  plan.local = kStepUnits;
  plan.groups0 = static_cast<size_t>(hidden / kStepUnits);
  plan.groups1 = ceil_div(batch, is_backward(kind) ? kRnnBackwardRows : kRnnForwardRows);
  return plan;
}

void rnn_step(runtime::Queue& queue, RnnKind kind, const RnnStepProblem& problem) {
  const RnnPlan plan = plan_rnn_step(kind, problem.batch, problem.cell.hidden);
  const bool narrow = runtime::policy_of(queue).narrow;
  runtime::launch2(queue, step_of(kind, narrow), plan.groups0, plan.groups1, 1, plan.local, problem);
}

void rnn_first_step(runtime::Queue& queue, RnnKind kind, const RnnStepProblem& problem) {
  runtime::launch2(queue, cell_of(kind, DType::f32), problem.batch, ceil_div(problem.cell.hidden, kStepUnits), 1,
                   kStepUnits, problem.cell);
}

}  // namespace xpu_ops::ops
