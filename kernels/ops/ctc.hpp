// CTC loss: launches.
#pragma once
#include <cstddef>

#include "kernels/dtype.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/loss_args.hpp"

namespace xpu_ops::plan::inline ctc_family {

// Items of the work-group of one batch entry.
size_t plan_ctc(uint32_t states);

void ctc_loss(runtime::Queue& queue, DType type, const CtcArgs& args);
// `beta` of the arguments is left as it is.
void ctc_loss_backward(runtime::Queue& queue, DType type, CtcArgs args);

}  // namespace xpu_ops::plan::inline ctc_family
