// Work of the host in order with the kernels of an OpenCL CPU device: native kernels of OpenCL, which a worker of the
// device runs. A host task of SYCL needs a thread of its own and holds back what follows.
#pragma once

namespace xpu_ops::runtime {

// Whether queues of the device take them. XPU_OPS_NATIVE_TASKS=0 turns them off.
bool native_tasks(int device);

}  // namespace xpu_ops::runtime
