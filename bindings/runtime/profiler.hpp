#pragma once
#include "bindings/export.hpp"

namespace xpu_ops {

// Makes the device known to Kineto, and so to torch.profiler.
XPU_OPS_EXPORT void register_profiler();

}  // namespace xpu_ops
