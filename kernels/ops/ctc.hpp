// CTC loss: launches.
#pragma once
#include <cstddef>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/loss.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// Items of the work-group of one batch entry.
size_t plan_ctc(uint32_t states);

void ctc_loss(runtime::Queue& queue, DType type, const CtcProblem& problem);
void ctc_loss_backward(runtime::Queue& queue, DType type, const CtcProblem& problem);

}  // namespace xpu_ops::ops
