#include "kernels/runtime/queue/profile_tap.hpp"

#include <mutex>
#include <utility>

#include "kernels/runtime/queue/pool.hpp"

namespace xpu_ops::runtime {

sycl::queue& ProfileTap::timed() {
  sycl::queue* t = timed_.load(std::memory_order_acquire);
  if (!t) [[unlikely]] {
    auto* made = new sycl::queue(detail::create_timed_queue(stream_.device, stream_.priority));
    if (timed_.compare_exchange_strong(t, made, std::memory_order_acq_rel)) return *made;
    delete made;
  }
  return *t;
}

void ProfileTap::wait_timed() {
  if (sycl::queue* t = timed_.load(std::memory_order_acquire)) t->wait();
}

void ProfileTap::begin() {
  sycl::queue& t = timed();
  const std::lock_guard<QueueLock> turn(stream_.lock());
  if (log_ || !profiling()) return;
  natives_.end_batch();
  log_ = detail::new_log();
  if (&stream_.active() == &t || stream_.mode() == QueueMode::shared || stream_.recording()) return;
  sycl::queue& own = stream_.own();
  natives_.catch_up(own);
  t.ext_oneapi_submit_barrier({own.ext_oneapi_submit_barrier()});
  stream_.activate(t);
}

detail::CommandLog* ProfileTap::end() {
  const std::lock_guard<QueueLock> turn(stream_.lock());
  leave_timed();
  return std::exchange(log_, nullptr);
}

// A recording queue stays, until the next profile ends.
void ProfileTap::leave_timed() {
  natives_.end_batch();
  sycl::queue &t = stream_.active(), &own = stream_.own();
  if (&t == &own || stream_.recording()) return;
  own.ext_oneapi_submit_barrier({t.ext_oneapi_submit_barrier()});
  stream_.activate(own);
}

}  // namespace xpu_ops::runtime
