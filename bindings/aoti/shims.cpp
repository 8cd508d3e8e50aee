// torch's C functions for XPU devices (torch/csrc/inductor/aoti_torch/c/shim_xpu.h), which a CPU build of torch lacks.
// A stream is the address of a runtime::Queue.
#define USE_XPU
#include <torch/csrc/inductor/aoti_torch/c/shim_xpu.h>
#undef USE_XPU

#include <torch/csrc/inductor/aoti_torch/utils.h>

#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/queue.hpp"

struct XPUGuardOpaque { int before; };

// Restores the stream of the device, then the device.
struct XPUStreamGuardOpaque {
  int before, device;
  xpu_ops::runtime::StreamId stream;
};

namespace xpu_ops::aoti {
namespace {

XPUGuardOpaque* enter(int device) { return new XPUGuardOpaque{runtime::exchange_device(device)}; }

XPUStreamGuardOpaque* enter(runtime::Queue& stream, int device) {
  TORCH_CHECK(stream.device == device, "Expected a stream of xpu:", device, ", got one of xpu:", stream.device);
  const int before = runtime::exchange_device(device);
  const runtime::StreamId previous = runtime::current_queue(device).id;
  if (previous != stream.id) runtime::set_current_queue(device, stream.id);
  return new XPUStreamGuardOpaque{before, device, previous};
}

}  // namespace

// Declared in the global namespace, which a declaration here does not inherit its visibility from.
#pragma GCC visibility push(default)
extern "C" {

AOTITorchError aoti_torch_create_xpu_guard(int32_t device_index, XPUGuardHandle* ret_guard) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ *ret_guard = translate([&] { return enter(device_index); }); });
}

AOTITorchError aoti_torch_delete_xpu_guard(XPUGuardHandle guard) {
  runtime::set_current_device_unchecked(guard->before);
  delete guard;
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError aoti_torch_xpu_guard_set_index(XPUGuardHandle, int32_t device_index) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ translate([&] { runtime::set_current_device(device_index); }); });
}

AOTITorchError aoti_torch_create_xpu_stream_guard(void* stream, int32_t device_index, XPUStreamGuardHandle* ret_guard) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { *ret_guard = translate([&] { return enter(*static_cast<runtime::Queue*>(stream), device_index); }); });
}

AOTITorchError aoti_torch_delete_xpu_stream_guard(XPUStreamGuardHandle guard) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    const XPUStreamGuardOpaque g = *guard;
    delete guard;
    translate([&] {
      if (runtime::current_queue(g.device).id != g.stream) runtime::set_current_queue(g.device, g.stream);
      runtime::set_current_device(g.before);
    });
  });
}

AOTITorchError aoti_torch_get_current_xpu_stream(int32_t device_index, void** ret_stream) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { *ret_stream = &translate([&]() -> runtime::Queue& { return runtime::current_queue(device_index); }); });
}

AOTITorchError aoti_torch_get_current_xpu_device(int32_t* device_index) {
  *device_index = runtime::current_device();
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError aoti_torch_set_current_xpu_device(const int32_t& device_index) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ translate([&] { runtime::set_current_device(device_index); }); });
}

AOTITorchError aoti_torch_get_current_sycl_queue(void** ret) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { *ret = &translate([]() -> runtime::Queue& { return runtime::current_queue(); }); });
}

}  // extern "C"
#pragma GCC visibility pop
}  // namespace xpu_ops::aoti
