// Plans of transforms; mkl/table.hpp says what they are.
#pragma once
#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

FftPlan* fft_host_plan(const FftShape& shape);

}  // namespace xpu_ops::mkl
