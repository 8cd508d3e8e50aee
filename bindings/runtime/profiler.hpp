#pragma once

namespace xpu_ops {

// Makes the device known to Kineto, and so to torch.profiler.
void register_profiler();

}  // namespace xpu_ops
