// Operators without an XPU kernel run on the CPU: one boxed function, counted, and an error where it is forbidden.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include <torch/library.h>

#include "bindings/export.hpp"

namespace xpu_ops {

// Calls by overload, e.g. "aten::cumsum.out": since the last reset, in this process.
XPU_OPS_EXPORT std::map<std::string, int64_t> fallback_counts();
XPU_OPS_EXPORT void reset_fallback_counts();
// While forbidden (nested calls add up), a fallback raises NotImplementedError naming the overload. Process-wide:
// backward runs on threads of its own.
XPU_OPS_EXPORT void forbid_fallback(bool forbid);
// PYTORCH_XPU_FALLBACK_OP: these overloads run on the CPU even where there is a kernel. Called once, after all
// registrations.
XPU_OPS_EXPORT void force_fallback(const std::string& comma_separated_overloads);
// The fallback as the kernel of an operator whose own needs a library that is not there. Where torch's composite
// kernels would allocate the results first, they assert on operands of two devices.
torch::CppFunction fallback_kernel();

}  // namespace xpu_ops
