// Errors that only a kernel can see (an index out of range): a flag in memory that host and device share, filled by the
// first failing work-item, raised at the next synchronisation.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/core/device_error_args.hpp"

namespace xpu_ops::runtime {

// The error record of this device's kernels; allocated on first use.
DeviceError* error_flag(int device);

// Raises what kernels have reported since the last call, with upstream's text and kind, and clears it. Call after a
// wait: synchronize() and every copy to the host do.
void throw_pending_errors(int device);

// With XPU_OPS_SYNC_ERRORS=1: waits and raises at the call that failed, for debugging. Otherwise returns at once.
void check_kernel_errors(Queue& queue);

// A text for DeviceErrorCode::assertion and ::unpool; equal texts share a number. Thread-safe.
int64_t register_error_message(const std::string& text);

}  // namespace xpu_ops::runtime
