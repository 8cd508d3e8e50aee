// Products of device memory by oneMKL on the CPU device, in order with what is on the queue, which nobody waits for.
#pragma once
#include "kernels/mkl/table.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::mkl {

// Whether the host reaches the device's memory, oneMKL is there, and a graph that records the queue keeps such work.
bool takes_products(runtime::Queue& queue);
void gemm(runtime::Queue& queue, const Gemm& g);

}  // namespace xpu_ops::mkl
