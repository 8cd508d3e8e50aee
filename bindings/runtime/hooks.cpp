// Hooks through which ATen asks about the XPU device.
#include <ATen/detail/XPUHooksInterface.h>

#include <atomic>

#include "bindings/aten/memory/allocator.hpp"
#include "bindings/errors.hpp"
#include "bindings/runtime/generator.hpp"
#include "bindings/runtime/hooks.hpp"
#include "bindings/runtime/mapped_memory.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

std::atomic<bool> g_hidden{false};

struct Hooks final : at::XPUHooksInterface {
  void init() const override {
    translate([] {
      runtime::check_fork();
      if (runtime::device_count() == 0) runtime::device_info(0);  // throws, saying why
    });
  }
  bool hasXPU() const override { return isBuilt(); }
  bool isBuilt() const override { return !g_hidden.load(std::memory_order_relaxed); }
  bool isAvailable() const override { return isBuilt() && runtime::device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex d) const override {
    return runtime::initialized() && d >= 0 && d < runtime::device_count();
  }
  std::string showConfig() const override { return "XPU device of xpu_ops (SYCL, oneDNN)\n"; }
  int32_t getGlobalIdxFromDevice(const c10::Device& d) const override {
    return d.has_index() ? d.index() : runtime::current_device();
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex d = -1) const override { return default_generator(d); }
  at::Generator getNewGenerator(c10::DeviceIndex d = -1) const override { return new_generator(d); }

  c10::DeviceIndex getNumGPUs() const override { return deviceCount(); }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(runtime::device_count()); }
  c10::DeviceIndex current_device() const override { return getCurrentDevice(); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(runtime::current_device());
  }
  void setCurrentDevice(c10::DeviceIndex d) const override {
    translate([&] { runtime::set_current_device(d); });
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override {
    return static_cast<c10::DeviceIndex>(translate([&] { return runtime::exchange_device(d); }));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override {
    return d < 0 ? getCurrentDevice() : exchangeDevice(d);
  }

  // An alias of host memory has no owner on the SYCL side: where the current device works on it, that is the answer.
  c10::Device getDeviceFromPtr(void* ptr) const override {
    return translate([&] {
      // Several indices may name one device, XPU_OPS_CPU_DEVICES: the allocator knows whose block it is.
      if (const auto block = runtime::block_of(ptr); block.size)
        return c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(block.device));
      if (const auto mapped = device_of_mapping(ptr))
        return c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(*mapped));
      for (int i = 0, n = runtime::device_count(); i < n; ++i) {
        if (sycl::get_pointer_type(ptr, runtime::sycl_context(i)) != sycl::usm::alloc::unknown &&
            sycl::get_pointer_device(ptr, runtime::sycl_context(i)) == runtime::sycl_device(i))
          return c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(i));
      }
      if (runtime::host_accessible(runtime::current_device())) return c10::Device(c10::kXPU, getCurrentDevice());
      throw Error(ErrorKind::runtime, "The pointer does not belong to any XPU device.");
    });
  }
  void deviceSynchronize(c10::DeviceIndex d) const override {
    translate([&] { runtime::synchronize(d < 0 ? runtime::current_device() : d); });
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  bool isPinnedPtr(const void* ptr) const override { return is_pinned(ptr); }
};

struct HooksSetup {
  HooksSetup() {
    at::XPUHooksRegistry()->Register(
        "XPUHooks", +[]() -> std::unique_ptr<at::XPUHooksInterface> { return std::make_unique<Hooks>(); });
  }
} hooks_setup;

}  // namespace

void hide_xpu() noexcept { g_hidden.store(true, std::memory_order_relaxed); }

}  // namespace xpu_ops
