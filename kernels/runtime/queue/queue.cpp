#include "kernels/runtime/queue/queue.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/memory/redzone.hpp"
#include "kernels/runtime/profile/profiler.hpp"
#include "kernels/runtime/queue/command_graph.hpp"

namespace xpu_ops::runtime {
namespace {

constexpr int kNormal = 1;  // type number of the normal priority
constexpr StreamId kExternalType = 7;

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

std::atomic<int> g_recording{0};
std::atomic<uint64_t> g_refused{0};

thread_local Queue* t_queue = nullptr;             // of the current device; nullptr: not resolved yet
thread_local StreamId t_stream[kMaxDevices] = {};  // 0: default

constexpr StreamId make_id(int type, int index) { return (static_cast<StreamId>(index) << 4) | (type << 1) | 1; }
static_assert(make_id(kNormal, 0) == kDefaultStream);

// The loops of kernels/host are compiled for it.
bool inline_supported() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

std::atomic<bool>& inline_flag() {
  static std::atomic<bool> on{env_flag("XPU_OPS_INLINE", true) && inline_supported()};
  return on;
}

// Elements up to which one thread finishes in about the time of a launch (measured: docs/notes/inline.md).
constexpr int64_t kInlineElements = 65536;
// Above this a copy is worth the workers of the device.
constexpr size_t kInlineCopy = size_t{1} << 16;

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
      if (profiling() && profile_runs()) q->begin_profile();
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

Queue::Queue(sycl::queue queue, int device, StreamId id, int priority)
    : device(device), id(id), priority(priority), q_(std::move(queue)), inline_allowed_(host_accessible(device)) {}

void QueueLock::wait() noexcept {
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
    state_.wait(kAwaited, std::memory_order_relaxed);
}

sycl::queue& Queue::timed() {
  sycl::queue* t = timed_.load(std::memory_order_acquire);
  if (!t) [[unlikely]] {
    auto* made = new sycl::queue(create_queue(device, kNormal - priority, sycl::property::queue::enable_profiling()));
    if (timed_.compare_exchange_strong(t, made, std::memory_order_acq_rel)) return *made;
    delete made;
  }
  return *t;
}

void Queue::begin_profile() {
  sycl::queue& t = timed();
  const std::lock_guard<QueueLock> turn(lock_);
  if (log_ || !profiling()) return;
  batch_.reset();
  log_ = detail::new_log();
  if (active_.load(std::memory_order_relaxed) == &t || shared_.load(std::memory_order_relaxed) || recording(*this))
    return;
  catch_up(q_);
  t.ext_oneapi_submit_barrier({q_.ext_oneapi_submit_barrier()});
  active_.store(&t, std::memory_order_release);
}

detail::CommandLog* Queue::end_profile() {
  const std::lock_guard<QueueLock> turn(lock_);
  leave_timed();
  return std::exchange(log_, nullptr);
}

// A recording queue stays, until the next profile ends.
void Queue::leave_timed() {
  batch_.reset();
  sycl::queue* t = active_.load(std::memory_order_relaxed);
  if (t == &q_ || recording(*this)) return;
  q_.ext_oneapi_submit_barrier({t->ext_oneapi_submit_barrier()});
  active_.store(&q_, std::memory_order_release);
}

sycl::queue& Queue::share() {
  const std::lock_guard<QueueLock> turn(lock_);
  leave_timed();
  catch_up(q_);
  inline_allowed_.store(false, std::memory_order_relaxed);
  shared_.store(true, std::memory_order_relaxed);
  return q_;
}

// The threads that launch on it now keep what they have: only another queue at the same address is written.
void Queue::replace(const sycl::queue& queue) {
  const std::lock_guard<QueueLock> turn(lock_);
  if (q_ != queue) q_ = queue;
}

void Queue::block_inline() {
  const std::lock_guard<QueueLock> turn(lock_);
  batch_.reset();
  inline_allowed_.store(false, std::memory_order_relaxed);
}
void Queue::unblock_inline() {
  const std::lock_guard<QueueLock> turn(lock_);
  if (!shared_.load(std::memory_order_relaxed))
    inline_allowed_.store(host_accessible(device), std::memory_order_relaxed);
}

void Queue::wait() {
  finish();
  throw_native_error();
}

void Queue::finish() {
  refuse_recording(*this, "Waiting for the device");
  const uint64_t n = submitted_.load(std::memory_order_acquire);
  // Nothing since the last wait; commands from outside are not counted.
  const auto done = [&] {
    return n <= finished_.load(std::memory_order_acquire) && !shared_.load(std::memory_order_relaxed);
  };
  if (done()) return;
  // One thread after the other: sycl::queue::wait() takes the list of host tasks, and a second thread in it would
  // return before they have run.
  const std::lock_guard<std::mutex> turn(wait_lock_);
  if (done()) return;
  const bool seen = profiling() && n != finished_.load(std::memory_order_relaxed);
  const int64_t begin = seen ? detail::profile_clock() : 0;
  active_.load(std::memory_order_acquire)->wait_and_throw();
  finished_.store(n, std::memory_order_release);
  if (seen) detail::profile_wait(device, begin);
}

void Queue::drain() {
  wait();
  if (sycl::queue* t = timed_.load(std::memory_order_acquire)) t->wait();
}

void Queue::settle() noexcept {
  try {
    finish();
  } catch (const std::exception&) {
    // A recording queue has nothing to wait for; what else failed is raised by the waits of its users.
  }
  const std::lock_guard<QueueLock> turn(lock_);
}

// Under the lock: the OpenCL adapter asks the event of the last command, which another thread's command would release.
bool Queue::ask_idle(uint64_t submitted) {
  const std::lock_guard<QueueLock> turn(lock_);
  if (graphs_recording() > 0 && recording(*this)) return false;
  if (!empty()) return false;
  finished_.store(submitted, std::memory_order_release);
  return true;
}

bool Queue::idle() {
  const std::lock_guard<QueueLock> turn(lock_);
  return empty();
}

bool Queue::is_small(int64_t elements) { return elements <= kInlineElements && inline_enabled(); }
bool Queue::may_run_inline(int64_t elements) { return is_small(elements) && inline_ready(); }

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
    slot->replace(*external);
  } else {
    slot = new Queue(*external, device, id, 0);
    slot->share();
  }
  return id;
}

void synchronize(Queue& queue) {
  check_fork();
  const Synchronization shown("synchronize stream", queue.device);
  queue.wait();
  throw_pending_errors(queue.device);
}

namespace {
// Sides as a profile names them.
const char* copy_name(const Queue& queue, const void* dst, const void* src) {
  static const char* const names[2][2] = {{"copy host to host", "copy host to device"},
                                          {"copy device to host", "copy device to device"}};
  auto on_device = [&](const void* p) {
    return sycl::get_pointer_type(p, sycl_context(queue.device)) == sycl::usm::alloc::device;
  };
  return names[on_device(src)][on_device(dst)];
}
}  // namespace

void copy_bytes(Queue& queue, void* dst, const void* src, size_t bytes, bool wait) {
  Label label{nullptr, CommandKind::copy, bytes};
  if (profiling()) [[unlikely]]
    label.name = copy_name(queue, dst, src);
  const auto here = [=] { std::memcpy(dst, src, bytes); };
  if (bytes <= kInlineCopy && inline_enabled() && host_accessible(queue.device)) {
    if (wait) synchronize(queue);
    if (wait ? queue.run_settled(here, label) : queue.inline_ready() && queue.run_inline(here, label)) return;
  }
  if (CommandGraph* graph = wait ? nullptr : graph_of(queue); graph && graph->keeps() && host_accessible(queue.device))
    return graph->add("copy", here);
  submit_named(queue, label, [&](sycl::queue& q) { return q.memcpy(dst, src, bytes); });
  if (wait) synchronize(queue);
}

bool inline_enabled() noexcept { return inline_flag().load(std::memory_order_relaxed); }
void set_inline(bool on) noexcept { inline_flag().store(on && inline_supported(), std::memory_order_relaxed); }

bool idle(Queue& queue) {
  check_fork();
  return queue.idle();
}

void for_each_queue(int device, const std::function<void(Queue&)>& f) {
  // Who makes a queue holds the mutex until it has seen whether a profile runs.
  { std::lock_guard<std::mutex> lock(streams().mutex); }
  for_each(device, f);
}

bool recording(const Queue& queue) {
  return queue.get().ext_oneapi_get_state() == sycl::ext::oneapi::experimental::queue_state::recording;
}
int graphs_recording() noexcept { return g_recording.load(std::memory_order_relaxed); }
void count_recording(int change) noexcept { g_recording.fetch_add(change); }
void refuse_recording(const Queue& queue, const char* what) {
  if (graphs_recording() == 0 || !recording(queue)) [[likely]]
    return;
  g_refused.fetch_add(1);
  throw Error(ErrorKind::runtime, std::string(what) + " cannot be captured in an XPU graph by xpu_ops.");
}
uint64_t refused_recordings() noexcept { return g_refused.load(); }

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
        q.drain();
      } catch (const std::exception&) {
        // The process is leaving: there is nobody to tell.
      }
    });
  }
}

namespace detail {
void forget_current_queue() noexcept { t_queue = nullptr; }
void forget_current_queues() noexcept { t_queue = nullptr; }
}  // namespace detail

}  // namespace xpu_ops::runtime
