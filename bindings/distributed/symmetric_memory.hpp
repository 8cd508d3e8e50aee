// Symmetric memory of torch.distributed for XPU tensors, in memory that the processes of one host share.
#pragma once

namespace xpu_ops::distributed {

// Gives torch the allocator of the device type.
void register_symmetric_memory();

}  // namespace xpu_ops::distributed
