// The host routines behind the table; mkl/table.hpp says what they do.
#pragma once
#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

void gemm(const Gemm& g);

}  // namespace xpu_ops::mkl
