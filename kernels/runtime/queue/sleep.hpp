// Keeps a queue busy for a while: for tests of streams, as torch.xpu._sleep.
#pragma once
#include <cstdint>

#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

// Takes about `cycles` of the device's clock on the queue; the host goes on.
void sleep(Queue& queue, int64_t cycles);

}  // namespace xpu_ops::runtime
