// One object of a kind per device, made with its first use.
#pragma once
#include <atomic>
#include <mutex>

#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::onednn {

// make(device) returns a new object; it is never deleted, as the queues are not.
template <auto make>
auto& per_device(int device) {
  using T = decltype(make(0));
  static std::atomic<T> objects[runtime::kMaxDevices]{};
  T object = objects[device].load(std::memory_order_acquire);
  if (object) [[likely]]
    return *object;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if ((object = objects[device].load())) return *object;
  objects[device].store(object = make(device), std::memory_order_release);
  return *object;
}

}  // namespace xpu_ops::onednn
