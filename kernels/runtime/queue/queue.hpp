// Streams: 3 priorities x 32 in-order queues a device, handed out round robin; external queues.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include <sycl/sycl.hpp>

#include "kernels/runtime/profile/profiling.hpp"

namespace xpu_ops::runtime {

// Encoded as upstream's c10::xpu::XPUStream encodes it. A queue of the pool is odd: (index << 4) | (type << 1) | 1 with
// type 0 low, 1 normal, 2 high; an external queue is its address. The default stream, normal queue 0, is 3; 0 means it
// too.
using StreamId = int64_t;
constexpr StreamId kDefaultStream = 3;
constexpr int kStreamsPerPool = 32;
constexpr int kStreamPriorities = 3;

// Work of the host that a queue runs on a worker of the device.
struct NativeTask {
  virtual ~NativeTask() = default;
  virtual void run() = 0;
};

class NativeBatch;

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

// Guarantees to several threads and rules under a queue's lock: docs/architecture.md, "Several threads".
class Queue {
 public:
  const int device;
  const StreamId id;
  const int priority;
  Queue(sycl::queue queue, int device, StreamId id, int priority);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Calls f(sycl::queue&), which puts work on the queue, with no inline work and no other submission beside it.
  template <class F>
  decltype(auto) submit(F&& f) {
    const Submission turn(*this);
    return std::forward<F>(f)(*active_.load(std::memory_order_relaxed));
  }
  // The same for a command whose event stands for all before it: sycl::queue does not know the native tasks.
  template <class F>
  decltype(auto) submit_marker(F&& f) {
    const Submission turn(*this);
    sycl::queue& q = *active_.load(std::memory_order_relaxed);
    catch_up(q);
    return std::forward<F>(f)(q);
  }
  // Work of the host in order with the commands of the queue: a worker of the device calls run() and deletes the task.
  // Nobody waits for it. False where the queue takes none (not an OpenCL CPU device, others submit to it, a profile
  // runs); the task is untouched then.
  bool submit_native(std::unique_ptr<NativeTask>& task);
  bool takes_native() const {
    return native_allowed_.load(std::memory_order_relaxed) != Natives::no && !shared_.load(std::memory_order_relaxed) &&
           finished_.load(std::memory_order_acquire) >= natives_after_.load(std::memory_order_acquire) && !profiling();
  }
  // For queries that put nothing on the queue.
  const sycl::queue& get() const { return *active_.load(std::memory_order_acquire); }
  // Which queue it is to a user, as share() returns it.
  const sycl::queue* handle() const { return &q_; }
  // A queue with profiling behind this one. Events with timing are recorded there, so launches stay cheap; while a
  // profile runs, everything is.
  sycl::queue& timed();
  // For pointers that leave the library. What is put on the queue from outside is not counted, so nothing runs inline
  // any more.
  sycl::queue& share();
  void wait();

  // Whether small work may run on the calling thread, as if it had been submitted and had finished: the device is the
  // CPU, shares its memory with the host, and has nothing left to do on this queue. Another thread may change that at
  // any time: run_inline() has the last word.
  bool inline_ready() {
    if (!inline_allowed_.load(std::memory_order_relaxed)) return false;
    const uint64_t n = submitted_.load(std::memory_order_acquire);
    return n == finished_.load(std::memory_order_acquire) || ask_idle(n);
  }
  // The same for so many elements of four bytes, side by side and of a simple expression.
  bool may_run_inline(int64_t elements);
  // Runs f() on the calling thread as one command of the queue, or returns false: then the caller launches. All memory
  // that f touches is allocated before. f only computes: it asks for no memory of the device, no lock and not the GIL.
  // `label` is a Label, the KernelSlot whose work f does, or a function that returns it, called while a profile runs.
  template <class F, class L>
  bool run_inline(F&& f, const L& label) {
    const std::lock_guard<QueueLock> turn(lock_);
    if (!inline_allowed_.load(std::memory_order_relaxed) || !settled()) return false;
    run_here(std::forward<F>(f), label);
    return true;
  }
  template <class F, class L>
  bool run_inline(int64_t elements, F&& f, const L& label) {
    return may_run_inline(elements) && run_inline(std::forward<F>(f), label);
  }
  // The same where the queue has something left to do: a worker of the device runs a copy of f, a plain value, in its
  // place. Pieces that nothing else comes between share a native task, which costs a fraction of a launch.
  bool may_run_later(int64_t elements);
  template <class F>
  bool run_later(const F& f) {
    static_assert(std::is_trivially_copyable_v<F> && alignof(F) <= alignof(std::max_align_t));
    return run_later([](const void* p) { (*static_cast<const F*>(p))(); }, &f, static_cast<uint32_t>(sizeof f));
  }
  // One or the other. Where a copy is large, here() works with references, and later() returns f for a worker.
  bool may_run_small(int64_t elements) { return may_run_inline(elements) || may_run_later(elements); }
  template <class F, class L>
  bool run_small(const F& f, const L& label) {
    return run_inline(f, label) || run_later(f);
  }
  template <class F, class L>
  bool run_small(int64_t elements, const F& f, const L& label) {
    return may_run_small(elements) && run_small(f, label);
  }
  template <class H, class M, class L>
  bool run_small(int64_t elements, H&& here, M&& later, const L& label) {
    return may_run_small(elements) && (run_inline(std::forward<H>(here), label) || run_later(later()));
  }
  // For the host's reads and writes after a wait(): runs f() unless something was submitted since.
  template <class F>
  bool run_settled(F&& f, const Label& label) {
    const std::lock_guard<QueueLock> turn(lock_);
    if (!settled()) return false;
    run_here(std::forward<F>(f), label);
    return true;
  }
  // No native tasks until what is on the queue now has been waited for: SYCL holds back what follows a host task, and
  // they would overtake it.
  void hold_natives() { natives_after_.store(submitted(), std::memory_order_release); }
  // Whether this thread submitted the last command. Where it did, and sleeps until some of the work is done, it should
  // wait for the queue: it works beside the CPU device's threads then, which are one less than the cores. Such a wait
  // lasts until the queue is empty, so no other thread may put off its end.
  bool submitted_here() const { return submitter_.load(std::memory_order_relaxed) == this_thread(); }
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  bool shared() const { return shared_.load(std::memory_order_relaxed); }
  // Nothing runs inline between block and unblock: a graph records.
  void block_inline();
  void unblock_inline();
  void drain();  // wait(), and for the time stamps beside the queue
  // Returns when everything submitted has finished, and inline work that was going on too. Raises nothing.
  void settle() noexcept;
  bool idle();  // everything submitted has finished

  // For the profiler. Between begin and end, commands go to the queue with profiling, in order with those before and
  // after. A queue that others submit to stays where it is, and so does one that a graph records.
  void prepare_profile() { timed(); }
  void begin_profile();
  detail::CommandLog* end_profile();                        // nullptr where it had not begun; the caller owns it
  detail::CommandLog* profile_log() const { return log_; }  // under the lock

 private:
  friend StreamId stream_from_external(int device, sycl::queue* external);
  struct Submission {
    Queue& queue;
    explicit Submission(Queue& q) : queue(q) {
      queue.lock_.lock();
      queue.batch_.reset();
    }
    Submission(const Submission&) = delete;
    Submission& operator=(const Submission&) = delete;
    ~Submission() {
      queue.count_submission();
      queue.lock_.unlock();
    }
  };
  void count_submission() {  // under the lock
    submitter_.store(this_thread(), std::memory_order_relaxed);
    submitted_.store(submitted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  static const void* this_thread() {
    thread_local char here;
    return &here;
  }
  bool settled() const {
    return submitted_.load(std::memory_order_relaxed) == finished_.load(std::memory_order_acquire);
  }
  template <class F, class L>
  void run_here(F&& f, const L& label) {
    const int64_t begin = profiling() ? detail::profile_clock() : 0;
    std::forward<F>(f)();
    if (begin) [[unlikely]]
      detail::profile_inline(*this, label_of(label), begin);
  }
  template <class L>
  static Label label_of(const L& label) {
    if constexpr (std::is_same_v<L, Label>)
      return label;
    else if constexpr (std::is_invocable_v<const L&>)
      return {.kernel = label().name()};
    else
      return {.kernel = label.name()};
  }
  bool ask_idle(uint64_t submitted);
  static bool is_small(int64_t elements);
  bool run_later(void (*run)(const void*), const void* f, uint32_t bytes);
  bool put_native(void (*run)(const void*), const void* f, uint32_t bytes);  // under the lock
  bool empty() const { return natives_done() && get().ext_oneapi_empty(); }  // under the lock
  bool natives_done() const {
    return natives_.load(std::memory_order_relaxed) == natives_ended_.load(std::memory_order_acquire);
  }
  bool able_natives() {
    return (native_allowed_.load(std::memory_order_relaxed) != Natives::unknown || ask_natives()) && takes_native();
  }
  bool ask_natives();  // once; true
  uint64_t natives_in_flight() const {
    return natives_.load(std::memory_order_relaxed) - natives_ended_.load(std::memory_order_relaxed);
  }
  void count_native(int change) {  // under the lock
    natives_.store(natives_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  // Puts a command of SYCL behind the native tasks, under the lock.
  void catch_up(sycl::queue& q);
  void finish();  // wait() without the errors of native tasks
  static void run_batch(void* args);
  static void run_native(const void* args);
  void throw_native_error();
  void leave_timed();
  void replace(const sycl::queue& queue);

  sycl::queue q_;
  std::atomic<sycl::queue*> active_{&q_};  // q_ or *timed_; changes under the lock
  std::atomic<sycl::queue*> timed_{nullptr};
  detail::CommandLog* log_ = nullptr;  // of the profile that runs; under the lock
  QueueLock lock_;
  std::mutex wait_lock_;
  // Submissions, counted under the lock when they are on the queue; those that a wait or a query has found done. A
  // thread that finds both equal sees what the work has written.
  std::atomic<uint64_t> submitted_{0}, finished_{0};
  std::atomic<const void*> submitter_{nullptr};
  std::atomic<bool> inline_allowed_, shared_{false};

  enum class Natives : uint8_t { unknown, yes, no };
  std::atomic<Natives> native_allowed_{Natives::unknown};  // asked with the first one
  void* native_queue_ = nullptr;                           // cl_command_queue of q_; under the lock
  char* native_mark_ = nullptr;                            // one byte on the device, written by catch_up
  std::atomic<uint64_t> natives_{0}, natives_ended_{0}, natives_after_{0};
  std::shared_ptr<NativeBatch> batch_;  // the last command, where that is one; under the lock
  std::mutex native_error_lock_;
  std::exception_ptr native_error_;  // the first, raised by the next wait
  std::atomic<bool> native_failed_{false};
};

// f returns the event of the one command that it submits.
template <class F>
void submit_named(Queue& queue, const Label& label, F&& f) {
  if (profiling()) [[unlikely]]
    return submit_profiled(queue, label, f);
  queue.submit([&](sycl::queue& q) { f(q); });
}

Queue& queue(int device, StreamId id);
Queue& current_queue();  // of the current device and thread: a thread-local read on the hot path
Queue& current_queue(int device);
void set_current_queue(int device, StreamId id);
StreamId stream_from_pool(int device, int priority);  // priority: -1 high, 0 normal, 1 low
StreamId stream_from_external(int device, sycl::queue* external);
void synchronize(int device);      // waits for every queue of the device, then raises deferred kernel errors
void wait(int device);             // waits only
void settle(int device) noexcept;  // Queue::settle() of every queue
void synchronize(Queue& queue);
// Bytes from anywhere to anywhere that the device or the host can reach; `wait` returns when they are there, with
// deferred kernel errors raised.
void copy_bytes(Queue& queue, void* dst, const void* src, size_t bytes, bool wait);
// Whether small work may run on the calling thread at all: XPU_OPS_INLINE=0 or set_inline(false) turn it off.
bool inline_enabled() noexcept;
void set_inline(bool on) noexcept;
bool idle(Queue& queue);             // true when everything submitted has finished
bool recording(const Queue& queue);  // true while a graph records what is submitted
// Graphs of this library that record now. A queue that waits for a recorded event records too, until its graph ends.
int graphs_recording() noexcept;
void count_recording(int change) noexcept;
// Throws where the queue records, saying that `what` cannot be part of a graph. The graph is incomplete then, see
// refused_recordings.
void refuse_recording(const Queue& queue, const char* what);
uint64_t refused_recordings() noexcept;
// Every queue of the device that is there, external ones last.
void for_each_queue(int device, const std::function<void(Queue&)>& f);
// Waits for all queues of all devices without throwing: called from Python's atexit.
void drain() noexcept;

namespace detail {
void forget_current_queue() noexcept;   // the current device of this thread changed
void forget_current_queues() noexcept;  // this is a forked child: the next use must take the slow path
}  // namespace detail

}  // namespace xpu_ops::runtime
