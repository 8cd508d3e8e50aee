// Losses on the calling thread, bit for bit as the device.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/sycl/reduce/loss_args.hpp"

namespace xpu_ops::host {

// Sum of unweighted losses and their number, added as one work-group of nll_partial and loss_finish add them.
using NllSum = void (*)(const NllArgs& args, void* out, void* total_weight, bool mean);
NllSum nll_sum(DType type);  // null where there is none

}  // namespace xpu_ops::host
