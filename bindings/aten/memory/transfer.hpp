// Copies between any two devices of which one is an XPU; aten/copy.hpp has those within one.
#pragma once
#include <ATen/core/Tensor.h>

#include "bindings/export.hpp"

namespace xpu_ops::aten {

// dst.copy_(src) for any two dense tensors of which at least one is on an XPU device. Shapes must be equal.
XPU_OPS_EXPORT void copy_dense(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

}  // namespace xpu_ops::aten
