#include "bindings/aten/memory/dlpack.hpp"

#include <string_view>

#include <ATen/dlpack.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>

// Of ATen/DLConvertor.h, which includes every operator.
namespace at {
TORCH_API ScalarType toScalarType(const DLDataType& dtype);
}  // namespace at

namespace xpu_ops {
namespace {

bool without_elements(const DLTensor& t) {
  if (t.device.device_type != kDLOneAPI) return false;
  for (int32_t i = 0; i < t.ndim; ++i)
    if (t.shape[i] == 0) return true;
  return false;
}

at::Tensor made(const DLTensor& t) {
  const at::IntArrayRef sizes(t.shape, t.ndim);
  const at::TensorOptions options =
      at::dtype(at::toScalarType(t.dtype)).device(c10::kXPU, static_cast<c10::DeviceIndex>(t.device.device_id));
  return t.strides ? at::empty_strided(sizes, at::IntArrayRef(t.strides, t.ndim), options)
                   : at::empty_strided(sizes, c10::contiguous_strides(sizes), options);
}

// Capsules of the protocol are renamed by who takes them, so that nobody takes them twice.
template <class Managed>
std::optional<at::Tensor> take(const pybind11::capsule& capsule, const char* name, const char* used) {
  if (!PyCapsule_IsValid(capsule.ptr(), name)) return std::nullopt;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (!without_elements(managed->dl_tensor)) return std::nullopt;
  at::Tensor result = made(managed->dl_tensor);
  if (PyCapsule_SetName(capsule.ptr(), used) != 0) throw pybind11::error_already_set();
  if (managed->deleter) managed->deleter(managed);
  return result;
}

}  // namespace

std::optional<at::Tensor> empty_from_dlpack(const pybind11::capsule& capsule) {
  if (auto tensor = take<DLManagedTensor>(capsule, "dltensor", "used_dltensor")) return tensor;
  return take<DLManagedTensorVersioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
}

}  // namespace xpu_ops
