// Operators of CPU tensors that this library's kernels run, on aliases of the tensors: opt-in, by overload.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "bindings/export.hpp"

namespace xpu_ops {

// From now on calls of this overload, as "aten::gelu", with at least `least` elements in the largest operand or result
// run on the device. Raises ValueError for an unknown overload, or one that cannot be served this way.
XPU_OPS_EXPORT void serve_cpu(const std::string& overload, int64_t least);
// torch's own kernel again. Nothing happens where it was not served.
XPU_OPS_EXPORT void leave_cpu(const std::string& overload);
// Calls that ran on the device, by overload, of those that are served now.
XPU_OPS_EXPORT std::map<std::string, int64_t> served_cpu();

}  // namespace xpu_ops
