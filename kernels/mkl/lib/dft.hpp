// Plans of transforms; mkl/table.hpp says what they are.
#pragma once
#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

FftPlan* fft_host_plan(const FftShape& shape);
FftPlan* fft_queue_plan(const FftShape& shape, void* sycl_queue);

}  // namespace xpu_ops::mkl
