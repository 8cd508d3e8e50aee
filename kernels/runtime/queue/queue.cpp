#include "kernels/runtime/queue/queue.hpp"

#include <cstring>
#include <exception>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/profile/profiler.hpp"
#include "kernels/runtime/queue/command_graph.hpp"

namespace xpu_ops::runtime {
namespace {

// Above this a copy is worth the workers of the device.
constexpr size_t kInlineCopy = size_t{1} << 16;

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

sycl::queue& Queue::share() {
  const std::lock_guard<QueueLock> turn(lock());
  tap_.leave_timed();
  natives_.catch_up(own());
  set_mode(QueueMode::shared);
  return own();
}

void Queue::wait() {
  Stream::wait();
  natives_.throw_error();
}

void Queue::settle() noexcept {
  try {
    Stream::wait();
  } catch (const std::exception&) {
    // A recording queue has nothing to wait for; what else failed is raised by the waits of its users.
  }
  const std::lock_guard<QueueLock> turn(lock());
}

bool Queue::idle() {
  const std::lock_guard<QueueLock> turn(lock());
  return natives_.done() && get().ext_oneapi_empty();
}

QueueState Queue::state() {
  const std::lock_guard<QueueLock> turn(lock());
  return state_of(natives_.facts());
}

void synchronize(Queue& queue) {
  check_fork();
  const Synchronization shown("synchronize stream", queue.device);
  queue.wait();
  throw_pending_errors(queue.device);
}

void copy_bytes(Queue& queue, void* dst, const void* src, size_t bytes, bool wait) {
  Label label{nullptr, CommandKind::copy, bytes};
  if (profiling()) [[unlikely]]
    label.name = copy_name(queue, dst, src);
  const auto here = [=] { std::memcpy(dst, src, bytes); };
  if (bytes <= kInlineCopy && inline_enabled() && host_accessible(queue.device)) {
    SmallWork& small = queue.small();
    if (wait) synchronize(queue);
    if (wait ? small.run_waited(here, label) : small.ready() && small.run_taken(here, not_later, label)) return;
  }
  if (CommandGraph* graph = wait ? nullptr : graph_of(queue); graph && graph->keeps() && host_accessible(queue.device))
    return graph->add("copy", here);
  submit_named(queue, label, [&](sycl::queue& q) { return q.memcpy(dst, src, bytes); });
  if (wait) synchronize(queue);
}

bool idle(Queue& queue) {
  check_fork();
  return queue.idle();
}

}  // namespace xpu_ops::runtime
