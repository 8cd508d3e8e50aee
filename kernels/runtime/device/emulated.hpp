// The limits of a named GPU on the CPU device: properties that a program asks for, and kernels that the GPU refuses.
// Kernels run as on any CPU device; there is no driver, no timing and no sub-group size of the GPU in it.
#pragma once

namespace xpu_ops::runtime {

struct DeviceInfo;

// XPU_OPS_EMULATE names a GPU. Throws Error{value} for a name that is not known.
bool emulating();
// Indices that one card has: a GPU of two tiles is two devices. 1 where nothing is emulated.
int emulated_tiles();
// Overwrites the properties that the GPU has others of.
void emulate(DeviceInfo& info);

// Throws Error{runtime}, worded as SYCL words it, where the device has no double.
void require_fp64(int device);

}  // namespace xpu_ops::runtime
