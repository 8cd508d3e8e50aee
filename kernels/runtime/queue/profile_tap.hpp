// The queue with profiling behind a queue, and the log of the profile that runs.
#pragma once
#include <atomic>

#include <sycl/sycl.hpp>

#include "kernels/runtime/profile/profiling.hpp"
#include "kernels/runtime/queue/native_tasks.hpp"
#include "kernels/runtime/queue/stream.hpp"

namespace xpu_ops::runtime {

class ProfileTap {
 public:
  ProfileTap(Stream& stream, NativeTasks& natives) : stream_(stream), natives_(natives) {}

  // A queue with profiling. Events with timing are recorded there, so launches stay cheap; while a profile runs,
  // everything is.
  sycl::queue& timed();
  void wait_timed();
  // Between begin and end, commands go to the queue with profiling, in order with those before and after. A queue that
  // others submit to stays where it is, and so does one that a graph records.
  void begin();
  detail::CommandLog* end();  // nullptr where it had not begun; the caller owns it

  // Under the lock.
  detail::CommandLog* log() const { return log_; }
  void leave_timed();
  const Stream& stream() const { return stream_; }

 private:
  Stream& stream_;
  NativeTasks& natives_;
  std::atomic<sycl::queue*> timed_{nullptr};
  detail::CommandLog* log_ = nullptr;  // of the profile that runs; under the lock
};

}  // namespace xpu_ops::runtime
