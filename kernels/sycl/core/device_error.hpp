// Reporting from device code: the first error of a device wins, later ones change nothing.
#pragma once
#include <sycl/atomic_ref.hpp>

#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/device_error_args.hpp"

namespace xpu {

using xpu_ops::DeviceError;
using xpu_ops::DeviceErrorCode;

inline void report_error(DeviceError* e, DeviceErrorCode code, uint32_t dim, int64_t value, int64_t size) {
  sycl::atomic_ref<uint32_t, sycl::memory_order::relaxed, sycl::memory_scope::device> flag(e->code);
  uint32_t expected = 0;
  if (flag.compare_exchange_strong(expected, static_cast<uint32_t>(code))) {
    e->dim = dim;
    e->value = value;
    e->size = size;
  }
}

}  // namespace xpu
