// The core of a queue: its identity, the SYCL queue, the lock, the count of its commands, and the wait.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

#include <sycl/sycl.hpp>

#include "kernels/runtime/queue/states.hpp"

namespace xpu_ops::runtime {

// Encoded as upstream's c10::xpu::XPUStream encodes it. A queue of the pool is odd: (index << 4) | (type << 1) | 1 with
// type 0 low, 1 normal, 2 high; an external queue is its address. The default stream, normal queue 0, is 3; 0 means it
// too.
using StreamId = int64_t;
constexpr StreamId kDefaultStream = 3;
constexpr int kStreamsPerPool = 32;
constexpr int kStreamPriorities = 3;

// One holder at a time. Without contention it costs two atomic operations and no call; who has to wait sleeps.
class QueueLock {
 public:
  void lock() noexcept {
    int expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire, std::memory_order_relaxed))
        [[unlikely]]
      wait();
  }
  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      state_.notify_one();
  }

 private:
  enum : int { kFree, kHeld, kAwaited };
  void wait() noexcept;
  std::atomic<int> state_{kFree};
};

class Stream {
 public:
  const int device;
  const StreamId id;
  const int priority;
  Stream(sycl::queue queue, int device, StreamId id, int priority);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // For queries that put nothing on the queue.
  const sycl::queue& get() const { return *active_.load(std::memory_order_acquire); }
  // Which queue it is to a user, as Queue::share() returns it.
  const sycl::queue* handle() const { return &q_; }
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  // Whether this thread submitted the last command. Where it did, and sleeps until some of the work is done, it should
  // wait for the queue: it works beside the CPU device's threads then, which are one less than the cores. Such a wait
  // lasts until the queue is empty, so no other thread may put off its end.
  bool submitted_here() const { return submitter_.load(std::memory_order_relaxed) == this_thread(); }
  QueueMode mode() const { return mode_.load(std::memory_order_relaxed); }
  bool recording() const;

  // For the parts of the queue.
  QueueLock& lock() { return lock_; }
  bool found_done(uint64_t n) const { return n == finished_.load(std::memory_order_acquire); }
  bool done_up_to(uint64_t n) const { return finished_.load(std::memory_order_acquire) >= n; }
  void find_done(uint64_t n) { finished_.store(n, std::memory_order_release); }
  void wait();  // raises what SYCL raises, nothing of native tasks

  // For the parts, under the lock.
  bool settled() const { return found_done(submitted_.load(std::memory_order_relaxed)); }
  void count() {
    submitter_.store(this_thread(), std::memory_order_relaxed);
    submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  sycl::queue& own() { return q_; }
  sycl::queue& active() const { return *active_.load(std::memory_order_relaxed); }
  void activate(sycl::queue& queue) { active_.store(&queue, std::memory_order_release); }
  void set_mode(QueueMode mode) { mode_.store(mode, std::memory_order_relaxed); }
  // The threads that launch on it now keep what they have: only another queue at the same address is written.
  void replace(const sycl::queue& queue) {
    if (q_ != queue) q_ = queue;
  }

 private:
  static const void* this_thread() {
    thread_local char here;
    return &here;
  }

  sycl::queue q_;
  std::atomic<sycl::queue*> active_{&q_};  // q_, or the one with profiling; changes under the lock
  QueueLock lock_;
  std::mutex wait_lock_;
  // Submissions, counted under the lock when they are on the queue; those that a wait or a query has found done. A
  // thread that finds both equal sees what the work has written.
  std::atomic<uint64_t> submitted_{0}, finished_{0};
  std::atomic<const void*> submitter_{nullptr};
  std::atomic<QueueMode> mode_;  // changes under the lock
};

// Graphs of this library that record now. A queue that waits for a recorded event records too, until its graph ends.
int graphs_recording() noexcept;
void count_recording(int change) noexcept;
uint64_t refused_recordings() noexcept;

namespace detail {
// Throws where the stream records, saying that `what` cannot be part of a graph.
void refuse_recording(const Stream& stream, const char* what);
}  // namespace detail

}  // namespace xpu_ops::runtime
