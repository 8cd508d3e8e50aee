#include "kernels/runtime/queue/stream.hpp"

#include <string>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/profile/profiling.hpp"
#include "kernels/runtime/queue/float_state.hpp"

namespace xpu_ops::runtime {
namespace {

std::atomic<int> g_recording{0};
std::atomic<uint64_t> g_refused{0};

}  // namespace

void QueueLock::wait() noexcept {
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree)
    state_.wait(kAwaited, std::memory_order_relaxed);
}

Stream::Stream(sycl::queue queue, int device, StreamId id, int priority)
    : device(device),
      id(id),
      priority(priority),
      q_(std::move(queue)),
      mode_(host_accessible(device) ? QueueMode::open : QueueMode::closed) {}

bool Stream::recording() const {
  return get().ext_oneapi_get_state() == sycl::ext::oneapi::experimental::queue_state::recording;
}

void Stream::wait() {
  detail::refuse_recording(*this, "Waiting for the device");
  const uint64_t n = submitted();
  // Nothing since the last wait; commands from outside are not counted.
  const auto done = [&] { return done_up_to(n) && mode() != QueueMode::shared; };
  if (done()) return;
  // One thread after the other: sycl::queue::wait() takes the list of host tasks, and a second thread in it would
  // return before they have run.
  const std::lock_guard<std::mutex> turn(wait_lock_);
  if (done()) return;
  const bool seen = profiling() && n != finished_.load(std::memory_order_relaxed);
  const int64_t begin = seen ? detail::profile_clock() : 0;
  const FloatState state;  // the CPU device's runtime has a waiting thread compute, too
  active_.load(std::memory_order_acquire)->wait_and_throw();
  find_done(n);
  if (seen) detail::profile_wait(device, begin);
}

int graphs_recording() noexcept { return g_recording.load(std::memory_order_relaxed); }
void count_recording(int change) noexcept { g_recording.fetch_add(change); }
uint64_t refused_recordings() noexcept { return g_refused.load(); }

void detail::refuse_recording(const Stream& stream, const char* what) {
  if (graphs_recording() == 0 || !stream.recording()) [[likely]]
    return;
  g_refused.fetch_add(1);
  throw Error(ErrorKind::runtime, std::string(what) + " cannot be captured in an XPU graph by xpu_ops.");
}

}  // namespace xpu_ops::runtime
