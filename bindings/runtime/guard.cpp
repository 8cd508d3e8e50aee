// DeviceGuard, Stream and Event of c10 on the runtime's devices, queues and events.
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bindings/aten/memory/allocator.hpp"
#include "bindings/errors.hpp"
#include "bindings/runtime/generator.hpp"
#include "bindings/runtime/guard.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/event.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

// Kernel ids of the threads that autograd runs backward on: it gives each its device when it starts.
std::mutex worker_mutex;
std::vector<pid_t> workers;

void note_worker() {
  thread_local bool noted = false;
  if (noted) return;
  noted = true;
  const pid_t id = gettid();
  if (id == getpid()) return;
  std::lock_guard<std::mutex> lock(worker_mutex);
  workers.push_back(id);
}

bool asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;  // it has ended
  const size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() || text[end + 2] != 'R';
}

using runtime::Event;
using runtime::Queue;

c10::Stream to_stream(int device, runtime::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(device)), id);
}

int index_of(c10::Device d) { return d.has_index() ? d.index() : runtime::current_device(); }

Queue& queue_of(const c10::Stream& s) { return runtime::queue(index_of(s.device()), s.id()); }

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kXPU; }

  c10::Device exchangeDevice(c10::Device d) const override {
    int before = runtime::current_device();
    if (d.has_index() && d.index() != before) translate([&] { runtime::set_current_device(d.index()); });
    return {c10::kXPU, static_cast<c10::DeviceIndex>(before)};
  }
  c10::Device getDevice() const override {
    return {c10::kXPU, static_cast<c10::DeviceIndex>(runtime::current_device())};
  }
  void setDevice(c10::Device d) const override {
    note_worker();
    if (d.has_index()) translate([&] { runtime::set_current_device(d.index()); });
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.has_index()) runtime::set_current_device_unchecked(d.index());
  }

  c10::Stream getStream(c10::Device d) const override {
    int i = index_of(d);
    return translate([&] { return to_stream(i, runtime::current_queue(i).id); });
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return to_stream(index_of(d), runtime::kDefaultStream); }
  c10::Stream getNewStream(c10::Device d, int priority = 0) const override {
    int i = index_of(d);
    return translate([&] { return to_stream(i, runtime::stream_from_pool(i, priority)); });
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high = false) const override {
    return getNewStream(d, high ? -1 : 0);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    int i = index_of(s.device());
    return translate([&] {
      auto before = runtime::current_queue(i).id;
      runtime::set_current_queue(i, s.id());
      return to_stream(i, before);
    });
  }
  void* getStreamNativeHandle(const c10::Stream s) const override {
    return translate([&] { return &queue_of(s).share(); });
  }
  bool queryStream(const c10::Stream& s) const override {
    return translate([&] { return runtime::idle(queue_of(s)); });
  }
  void synchronizeStream(const c10::Stream& s) const override {
    translate([&] { runtime::synchronize(queue_of(s)); });
  }
  bool isStreamCapturing(const c10::Stream& s) const override {
    return runtime::graphs_recording() && translate([&] { return runtime::recording(queue_of(s)); });
  }
  void synchronizeDevice(c10::DeviceIndex d) const override {
    translate([&] { runtime::synchronize(d < 0 ? runtime::current_device() : d); });
  }

  void record(void** event, const c10::Stream& s, c10::DeviceIndex device, c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == s.device_index(), "Event device index ", static_cast<int>(device),
                " does not match recording stream's device index ", static_cast<int>(s.device_index()), ".");
    translate([&] {
      if (!*event) *event = new Event(flag == c10::EventFlag::BACKEND_DEFAULT);
      static_cast<Event*>(*event)->record(queue_of(s));
    });
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event) translate([&] { static_cast<Event*>(event)->block(queue_of(s)); });
  }
  bool queryEvent(void* event) const override {
    return !event || translate([&] { return static_cast<Event*>(event)->query(); });
  }
  void synchronizeEvent(void* event) const override {
    if (event) translate([&] { static_cast<Event*>(event)->synchronize(); });
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (!runtime::in_bad_fork()) delete static_cast<Event*>(event);
  }
  double elapsedTime(void* begin, void* end, c10::DeviceIndex) const override {
    TORCH_CHECK(begin && end, "Both events must be recorded before calculating elapsed time.");
    return translate([&] { return static_cast<Event*>(begin)->elapsed_ms(*static_cast<Event*>(end)); });
  }

  void recordDataPtrOnStream(const c10::DataPtr& ptr, const c10::Stream& s) const override {
    xpu_allocator()->recordStream(ptr, s);
  }

  // autograd asks this in a program that never touches the device, so it must not start one.
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(runtime::device_count_hint());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }
};

C10_REGISTER_GUARD_IMPL(XPU, GuardImpl)

}  // namespace

void settle_workers() noexcept {
  using namespace std::chrono_literals;
  std::lock_guard<std::mutex> lock(worker_mutex);
  int calm = 0;
  for (int i = 0; i < 10000 && calm < 5 && !workers.empty(); ++i) {
    calm = std::all_of(workers.begin(), workers.end(), asleep) ? calm + 1 : 0;
    std::this_thread::sleep_for(200us);
  }
}

}  // namespace xpu_ops
