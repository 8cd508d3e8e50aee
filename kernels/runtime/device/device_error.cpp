#include "kernels/runtime/device/device_error.hpp"

#include <atomic>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/environment.hpp"

namespace xpu_ops::runtime {
namespace {

std::atomic<DeviceError*> g_flags[kMaxDevices];
std::mutex g_mutex;

struct Messages {
  std::vector<std::string> texts;
  std::unordered_map<std::string, int64_t> numbers;
};
Messages& messages() {
  static auto* m = new Messages;
  return *m;
}
std::string message(int64_t number) {
  std::lock_guard lock(g_mutex);
  auto& texts = messages().texts;
  return number >= 0 && number < static_cast<int64_t>(texts.size()) ? texts[number] : std::string();
}

Error to_error(const DeviceError& e) {
  const std::string value = std::to_string(e.value), size = std::to_string(e.size), dim = std::to_string(e.dim);
  const std::string bounds = "index " + value + " is out of bounds for dimension " + dim + " with size " + size;
  switch (static_cast<DeviceErrorCode>(e.code)) {
    case DeviceErrorCode::index: return {ErrorKind::index, bounds};
    case DeviceErrorCode::index_runtime: return {ErrorKind::runtime, bounds};
    case DeviceErrorCode::index_self: return {ErrorKind::index, "index out of range in self"};
    case DeviceErrorCode::index_copy: return {ErrorKind::index, "index_copy_(): " + bounds};
    case DeviceErrorCode::take:
      return {ErrorKind::index,
              "out of range: tried to access index " + value + " on a tensor of " + size + " elements."};
    case DeviceErrorCode::bag_index:
      return {ErrorKind::runtime,
              "Index " + dim + " of input takes value " + value + " which is not in the valid range [0, " + size + ")"};
    case DeviceErrorCode::unpool: return {ErrorKind::runtime, "Found an invalid max index: " + value + message(e.dim)};
    case DeviceErrorCode::masked_scatter:
      return {ErrorKind::runtime, "Number of elements of source < number of ones in mask"};
    case DeviceErrorCode::assertion: return {ErrorKind::runtime, message(e.value)};
    case DeviceErrorCode::target: return {ErrorKind::index, "Target " + value + " is out of bounds."};
    case DeviceErrorCode::target_range: return {ErrorKind::runtime, "target out of range"};
    case DeviceErrorCode::probability: return {ErrorKind::runtime, "all elements of input should be between 0 and 1"};
    case DeviceErrorCode::none: break;
  }
  return {ErrorKind::runtime, "a kernel reported unknown error " + std::to_string(e.code)};
}

}  // namespace

DeviceError* error_flag(int device) {
  DeviceError* flag = g_flags[device].load(std::memory_order_acquire);
  if (!flag) [[unlikely]] {
    std::lock_guard lock(g_mutex);
    flag = g_flags[device].load(std::memory_order_acquire);
    if (!flag) {
      void* memory = sycl::malloc_host(sizeof(DeviceError), sycl_context(device));
      if (!memory) throw Error(ErrorKind::runtime, "no host memory for the error flag of a device");
      flag = new (memory) DeviceError{};
      g_flags[device].store(flag, std::memory_order_release);
    }
  }
  return flag;
}

void throw_pending_errors(int device) {
  DeviceError* flag = g_flags[device].load(std::memory_order_acquire);
  if (!flag) return;
  std::atomic_ref<uint32_t> code(flag->code);
  if (code.load(std::memory_order_acquire) == 0) [[likely]]
    return;
  // Of several threads one raises it, when the kernel that has claimed the record, on whichever queue, has filled it.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (code.load(std::memory_order_acquire) == 0) return;
  settle(device);
  const DeviceError found = *flag;
  code.store(0, std::memory_order_release);
  throw to_error(found);
}

void check_kernel_errors(Queue& queue) {
  static const bool sync = env_flag("XPU_OPS_SYNC_ERRORS");
  if (!sync) return;
  queue.wait();
  throw_pending_errors(queue.device);
}

int64_t register_error_message(const std::string& text) {
  std::lock_guard lock(g_mutex);
  Messages& m = messages();
  auto [it, added] = m.numbers.try_emplace(text, static_cast<int64_t>(m.texts.size()));
  if (added) m.texts.push_back(text);
  return it->second;
}

}  // namespace xpu_ops::runtime
