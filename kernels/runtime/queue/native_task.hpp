// Whether a device runs work of the host in order with its kernels.
#pragma once

namespace xpu_ops::runtime {

// Whether queues of the device take native tasks. A GPU's say no.
bool native_tasks(int device);

}  // namespace xpu_ops::runtime
