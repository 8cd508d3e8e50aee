#pragma once
#include "bindings/export.hpp"

namespace xpu_ops {

// Keeps torch's OpenMP threads from spinning beside the SYCL CPU device; false where it was not needed or not possible.
XPU_OPS_EXPORT bool calm_openmp();

}  // namespace xpu_ops
