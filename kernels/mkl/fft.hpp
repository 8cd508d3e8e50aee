// Fourier transforms of device memory.
#pragma once
#include "kernels/mkl/table.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::mkl {

// In order with what is on the queue. in and out must not overlap; in is not changed. Where the host reaches device
// memory the transform runs on the calling thread and oneMKL's workers and has finished on return.
void fft(runtime::Queue& queue, FftShape shape, const void* in, void* out);

}  // namespace xpu_ops::mkl
