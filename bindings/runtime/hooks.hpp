// Which accelerator torch takes this process to have.
#pragma once
#include <string>

#include "bindings/export.hpp"

namespace xpu_ops {

// Makes a CUDA build of torch answer that it has no CUDA, for a process in which no CUDA device can be used. Returns
// why that could not be, or an empty string where torch has one accelerator now.
XPU_OPS_EXPORT std::string hide_cuda();
// Takes the XPU hooks back: torch has the accelerators it has without this library.
XPU_OPS_EXPORT void hide_xpu() noexcept;

}  // namespace xpu_ops
