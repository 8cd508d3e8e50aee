// Streams: 3 priorities x 32 in-order queues a device, handed out round robin; external queues.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <utility>

#include <sycl/sycl.hpp>

namespace xpu_ops::runtime {

// Encoded as upstream's c10::xpu::XPUStream encodes it. A queue of the pool is odd: (index << 4) | (type << 1) | 1 with
// type 0 low, 1 normal, 2 high; an external queue is its address. The default stream, normal queue 0, is 3; 0 means it
// too.
using StreamId = int64_t;
constexpr StreamId kDefaultStream = 3;
constexpr int kStreamsPerPool = 32;
constexpr int kStreamPriorities = 3;

class Queue {
 public:
  const int device;
  const StreamId id;
  const int priority;
  // A queue with profiling behind this one; events with timing are recorded there, so launches here stay cheap.
  std::atomic<sycl::queue*> timing{nullptr};

  Queue(sycl::queue queue, int device, StreamId id, int priority);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Calls f(sycl::queue&), which puts work on the queue. Counted afterwards: a count that is seen means that the work
  // was seen by a wait that began later.
  template <class F>
  decltype(auto) submit(F&& f) {
    struct Counted {
      std::atomic<uint64_t>& n;
      ~Counted() { n.fetch_add(1, std::memory_order_release); }
    } counted{submitted_};
    return std::forward<F>(f)(q_);
  }
  // For queries that put nothing on the queue.
  const sycl::queue& get() const { return q_; }
  // For pointers that leave the library. What is put on the queue from outside is not counted, so nothing runs inline
  // any more.
  sycl::queue& share();
  void wait();

  // Whether small work may run on the calling thread, as if it had been submitted and had finished: the device is the
  // CPU, shares its memory with the host, and has nothing left to do on this queue.
  bool inline_ready() {
    if (!inline_allowed_.load(std::memory_order_relaxed)) return false;
    const uint64_t n = submitted_.load(std::memory_order_acquire);
    return n == finished_.load(std::memory_order_relaxed) || ask_idle(n);
  }
  // Nothing runs inline between block and unblock: a graph records.
  void block_inline();
  void unblock_inline();

 private:
  friend StreamId stream_from_external(int device, sycl::queue* external);
  bool ask_idle(uint64_t submitted);

  sycl::queue q_;
  std::atomic<uint64_t> submitted_{0}, finished_{0};  // finished_: what a wait or a query has found done
  std::atomic<bool> inline_allowed_, shared_{false};
};

Queue& queue(int device, StreamId id);
Queue& current_queue();  // of the current device and thread: a thread-local read on the hot path
Queue& current_queue(int device);
void set_current_queue(int device, StreamId id);
StreamId stream_from_pool(int device, int priority);  // priority: -1 high, 0 normal, 1 low
StreamId stream_from_external(int device, sycl::queue* external);
void synchronize(int device);  // waits for every queue of the device, then raises deferred kernel errors
void synchronize(Queue& queue);
// Bytes from anywhere to anywhere that the device or the host can reach; `wait` returns when they are there, with
// deferred kernel errors raised.
void copy_bytes(Queue& queue, void* dst, const void* src, size_t bytes, bool wait);
// Whether small work may run on the calling thread at all: XPU_OPS_INLINE=0 or set_inline(false) turn it off.
bool inline_enabled() noexcept;
void set_inline(bool on) noexcept;
// Whether so many elements of four bytes, side by side and of a simple expression, may be computed on the calling
// thread now.
bool runs_inline(Queue& queue, int64_t elements);
bool idle(Queue& queue);             // true when everything submitted has finished
bool recording(const Queue& queue);  // true while a graph records what is submitted
// Graphs of this library that record now. A queue that waits for a recorded event records too, until its graph ends.
int graphs_recording() noexcept;
void count_recording(int change) noexcept;
// Throws where the queue records, saying that `what` cannot be part of a graph. The graph is incomplete then, see
// refused_recordings.
void refuse_recording(const Queue& queue, const char* what);
uint64_t refused_recordings() noexcept;
// Waits for all queues of all devices without throwing: called from Python's atexit.
void drain() noexcept;

namespace detail {
void forget_current_queue() noexcept;   // the current device of this thread changed
void forget_current_queues() noexcept;  // this is a forked child: the next use must take the slow path
}  // namespace detail

}  // namespace xpu_ops::runtime
