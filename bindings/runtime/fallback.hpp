// Operators without an XPU kernel run on the CPU: one boxed function, counted, and an error where it is forbidden.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace xpu_ops {

// Calls by overload, e.g. "aten::cumsum.out": since the last reset, in this process.
std::map<std::string, int64_t> fallback_counts();
void reset_fallback_counts();
// While forbidden (nested calls add up), a fallback raises NotImplementedError naming the overload. Process-wide:
// backward runs on threads of its own.
void forbid_fallback(bool forbid);
// PYTORCH_XPU_FALLBACK_OP: these overloads run on the CPU even where there is a kernel. Called once, after all
// registrations.
void force_fallback(const std::string& comma_separated_overloads);

}  // namespace xpu_ops
