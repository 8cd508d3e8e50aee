// The device guard, as the rest of the module sees it.
#pragma once
#include "bindings/export.hpp"

namespace xpu_ops {

// Waits, at most two seconds, until autograd's threads sleep. Called at exit without the interpreter lock: a thread
// that still frees a graph's Python objects would ask for the lock of an interpreter that is gone, and abort the
// process.
XPU_OPS_EXPORT void settle_workers() noexcept;

}  // namespace xpu_ops
