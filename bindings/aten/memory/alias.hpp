// One memory, two devices: CPU tensors on the memory of XPU tensors and back, where the host may touch it.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "bindings/export.hpp"

namespace xpu_ops {

// A CPU tensor on the same memory, with the same sizes, strides, conj and neg bits; keeps the storage alive. Detached
// from autograd. The caller has waited for the queue and checked host_accessible. `held` is let go after the last
// reference to the memory by its tensors.
XPU_OPS_EXPORT at::Tensor alias_as_cpu(const at::Tensor& xpu, std::shared_ptr<void> held = {});
// The reverse; the device waits for its queues before the CPU memory is let go.
XPU_OPS_EXPORT at::Tensor alias_as_xpu(const at::Tensor& cpu, c10::Device device);

// For an alias of CPU memory the bytes of the CPU storage that it lies on.
XPU_OPS_EXPORT std::optional<at::Tensor> owner_as_cpu(const at::Tensor& xpu);
// Copies the whole storage into that of `cpu`, of the same size, and from then on lies there: false, and a copy alone,
// where tensors of the CPU share the memory already.
// The caller has waited for the device.
XPU_OPS_EXPORT bool move_to_cpu_memory(const at::Tensor& xpu, const at::Tensor& cpu);

// Whether tensors of another device share this storage's memory now, or it shares theirs: writes through them are not
// seen on this storage.
bool has_alias(const c10::StorageImpl* storage);
bool is_alias(const c10::StorageImpl* storage);

}  // namespace xpu_ops
