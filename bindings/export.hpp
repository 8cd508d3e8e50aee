// Marks the functions that libxpu_ops_torch.so, which knows nothing of Python, offers to _C.so and to models compiled
// ahead of time. All else stays inside.
#pragma once

#define XPU_OPS_EXPORT __attribute__((visibility("default")))
