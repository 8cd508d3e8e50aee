// Tensors without elements from DLPack: torch reads the device off the pointer, which they do not have.
#pragma once
#include <optional>

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace xpu_ops {

// The tensor of a DLPack capsule of a oneAPI device without elements, which uses the capsule up; nothing for any other.
std::optional<at::Tensor> empty_from_dlpack(const pybind11::capsule& capsule);

}  // namespace xpu_ops
