#include "kernels/runtime/queue/pool.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/memory/redzone.hpp"
#include "kernels/runtime/profile/profiler.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {
namespace {

constexpr int kNormal = 1;  // type number of the normal priority

struct DeviceQueues {
  std::array<std::array<std::atomic<Queue*>, kStreamsPerPool>, kStreamPriorities> pool{};
  std::array<std::atomic<uint32_t>, kStreamPriorities> next{};
  std::unordered_map<StreamId, Queue*> external;
};

struct Streams {
  std::mutex mutex;
  std::array<DeviceQueues, kMaxDevices> devices;
  // Queue 0 of the normal pool is the default stream; the first stream a user asks for should be another one.
  Streams() {
    for (auto& d : devices) d.next[kNormal] = 1;
  }
};

// Never destroyed, like everything that may be touched while the process exits.
Streams& streams() {
  static Streams* s = new Streams;
  return *s;
}

thread_local Queue* t_queue = nullptr;             // of the current device; nullptr: not resolved yet
thread_local StreamId t_stream[kMaxDevices] = {};  // 0: default

constexpr StreamId make_id(int type, int index) { return (static_cast<StreamId>(index) << 4) | (type << 1) | 1; }
static_assert(make_id(kNormal, 0) == kDefaultStream);

void on_async_error(sycl::exception_list errors) {
  for (auto& e : errors) std::rethrow_exception(e);
}

template <class... Properties>
sycl::queue create_queue(int device, int type, Properties... more) {
  namespace prop = sycl::ext::oneapi::property::queue;
  const sycl::property_list properties[kStreamPriorities] = {
      {sycl::property::queue::in_order(), prop::priority_low(), more...},
      {sycl::property::queue::in_order(), prop::priority_normal(), more...},
      {sycl::property::queue::in_order(), prop::priority_high(), more...}};
  // The OpenCL runtime refuses priorities it does not know: a plain in-order queue does there.
  try {
    return sycl::queue(sycl_context(device), sycl_device(device), on_async_error, properties[type]);
  } catch (const sycl::exception&) {
    if (type == kNormal) throw;
  }
  return sycl::queue(sycl_context(device), sycl_device(device), on_async_error,
                     {sycl::property::queue::in_order(), more...});
}

Queue* create(int device, int type, int index) {
  return new Queue(create_queue(device, type), device, make_id(type, index), kNormal - type);
}

Queue& pool_queue(int device, int type, int index) {
  auto& slot = streams().devices[device].pool[type][index];
  Queue* q = slot.load(std::memory_order_acquire);
  if (!q) [[unlikely]] {
    check_fork();
    device_info(device);  // throws on a bad index
    std::lock_guard<std::mutex> lock(streams().mutex);
    q = slot.load(std::memory_order_acquire);
    if (!q) {
      q = create(device, type, index);
      slot.store(q, std::memory_order_release);
      if (profiling() && profile_runs()) q->profile().begin();
    }
  }
  return *q;
}

void check_index(int device) {
  if (device < 0 || device >= kMaxDevices) [[unlikely]]
    device_info(device);
}

template <class Fn>
void for_each(int device, Fn&& fn) {
  auto& d = streams().devices[device];
  for (auto& pool : d.pool) {
    for (auto& slot : pool) {
      if (Queue* q = slot.load(std::memory_order_acquire)) fn(*q);
    }
  }
  std::vector<Queue*> external;
  {
    std::lock_guard<std::mutex> lock(streams().mutex);
    for (auto& [id, q] : d.external) external.push_back(q);
  }
  for (Queue* q : external) fn(*q);
}

}  // namespace

Queue& queue(int device, StreamId id) {
  check_index(device);
  if (id == 0) id = kDefaultStream;
  if (id & 1) {
    int type = static_cast<int>((id >> 1) & 7), index = static_cast<int>(id >> 4);
    if (type >= kStreamPriorities || index >= kStreamsPerPool || id < 0) [[unlikely]]
      throw Error(ErrorKind::runtime, "Unrecognized stream id " + std::to_string(id) +
                                          " of xpu:" + std::to_string(device) + ": it names no queue of the pool.");
    return pool_queue(device, type, index);
  }
  check_fork();
  std::lock_guard<std::mutex> lock(streams().mutex);
  auto& external = streams().devices[device].external;
  auto it = external.find(id);
  if (it == external.end())
    throw Error(ErrorKind::runtime, "Unrecognized stream id " + std::to_string(id) + " of xpu:" +
                                        std::to_string(device) + ": no external queue was registered at this address.");
  return *it->second;
}

Queue& current_queue() {
  if (Queue* q = t_queue) [[likely]]
    return *q;
  check_fork();
  int device = current_device();
  check_index(device);
  Queue& q = queue(device, t_stream[device]);
  t_queue = &q;
  return q;
}

Queue& current_queue(int device) {
  if (device == current_device()) [[likely]]
    return current_queue();
  check_fork();
  check_index(device);
  return queue(device, t_stream[device]);
}

void set_current_queue(int device, StreamId id) {
  Queue& q = queue(device, id);
  t_stream[device] = q.id;
  if (device == current_device()) t_queue = &q;
}

StreamId stream_from_pool(int device, int priority) {
  check_fork();
  device_info(device);
  int type = kNormal - (priority < -1 ? -1 : priority > 1 ? 1 : priority);
  uint32_t index = streams().devices[device].next[type].fetch_add(1, std::memory_order_relaxed) % kStreamsPerPool;
  return pool_queue(device, type, static_cast<int>(index)).id;
}

StreamId stream_from_external(int device, sycl::queue* external) {
  check_fork();
  device_info(device);
  if (!external) throw Error(ErrorKind::runtime, "External SYCL queue is a null pointer.");
  if (!external->is_in_order()) throw Error(ErrorKind::runtime, "External SYCL queue must be in-order.");
  auto id = static_cast<StreamId>(reinterpret_cast<uintptr_t>(external));
  std::lock_guard<std::mutex> lock(streams().mutex);
  auto& slot = streams().devices[device].external[id];
  // A new queue may live where an old one was: refresh the copy, keep the object that others point to.
  if (slot) {
    const std::lock_guard<QueueLock> turn(slot->lock());
    slot->replace(*external);
  } else {
    slot = new Queue(*external, device, id, 0);
    slot->share();
  }
  return id;
}

void for_each_queue(int device, const std::function<void(Queue&)>& f) {
  // Who makes a queue holds the mutex until it has seen whether a profile runs.
  { std::lock_guard<std::mutex> lock(streams().mutex); }
  for_each(device, f);
}

void wait(int device) {
  check_fork();
  device_info(device);
  for_each(device, [](Queue& q) { q.wait(); });
}

void synchronize(int device) {
  const Synchronization shown("synchronize device", device);
  wait(device);
  throw_pending_errors(device);
  if (redzones()) [[unlikely]]
    check_redzones(device);
}

void settle(int device) noexcept {
  for_each(device, [](Queue& q) { q.settle(); });
}

void drain() noexcept {
  if (in_bad_fork() || !initialized()) return;
  for (int d = 0; d < kMaxDevices; ++d) {
    for_each(d, [](Queue& q) {
      try {
        q.wait();
        q.profile().wait_timed();
      } catch (const std::exception&) {
        // The process is leaving: there is nobody to tell.
      }
    });
  }
}

namespace detail {
sycl::queue create_timed_queue(int device, int priority) {
  return create_queue(device, kNormal - priority, sycl::property::queue::enable_profiling());
}
void forget_current_queue() noexcept { t_queue = nullptr; }
void forget_current_queues() noexcept { t_queue = nullptr; }
}  // namespace detail

}  // namespace xpu_ops::runtime
