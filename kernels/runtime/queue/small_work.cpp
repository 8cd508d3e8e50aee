#include "kernels/runtime/queue/small_work.hpp"

#include <atomic>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/queue/call_size.hpp"

namespace xpu_ops::runtime {
namespace {

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

// Costs up to which one thread finishes in about the time of a launch that nothing is in front of, and takes about the
// workers' time of one that waits for others (measured: docs/notes/inline.md).
constexpr int64_t kCostNow = 131072, kCostLater = 65536;

}  // namespace

constinit thread_local CallSize* CallSize::t_call = nullptr;

bool inline_enabled() noexcept { return inline_flag().load(std::memory_order_relaxed); }
void set_inline(bool on) noexcept { inline_flag().store(on && inline_supported(), std::memory_order_relaxed); }

bool SmallWork::may_now(int64_t cost) { return cost <= kCostNow && inline_enabled() && ready(); }
bool SmallWork::may_later(int64_t cost) {
  return cost <= kCostLater && inline_enabled() && natives_.able(Way::later) && !natives_.full();
}

// Under the lock: the OpenCL adapter asks the event of the last command, which another thread's command would release.
bool SmallWork::ask_idle(uint64_t submitted) {
  const std::lock_guard<QueueLock> turn(stream_.lock());
  if (graphs_recording() > 0 && stream_.recording()) return false;
  if (!natives_.done() || !stream_.get().ext_oneapi_empty()) return false;
  stream_.find_done(submitted);
  return true;
}

bool SmallWork::run_later(void (*run)(const void*), const void* f, uint32_t bytes) {
  if (!natives_.able(Way::later)) return false;
  const std::lock_guard<QueueLock> turn(stream_.lock());
  return natives_.put(Way::later, run, f, bytes);
}

void SmallWork::close() {
  const std::lock_guard<QueueLock> turn(stream_.lock());
  natives_.end_batch();
  if (stream_.mode() != QueueMode::shared) stream_.set_mode(QueueMode::closed);
}

void SmallWork::open() {
  const std::lock_guard<QueueLock> turn(stream_.lock());
  if (stream_.mode() != QueueMode::shared)
    stream_.set_mode(host_accessible(stream_.device) ? QueueMode::open : QueueMode::closed);
}

}  // namespace xpu_ops::runtime
