// A queue of a device: a stream and its parts. Which work may run where: kernels/runtime/queue/states.hpp. Guarantees
// to several threads and the order of locks: docs/threads.md.
#pragma once
#include <cstddef>
#include <mutex>
#include <utility>

#include <sycl/sycl.hpp>

#include "kernels/runtime/profile/profiling.hpp"
#include "kernels/runtime/queue/native_tasks.hpp"
#include "kernels/runtime/queue/pool.hpp"
#include "kernels/runtime/queue/profile_tap.hpp"
#include "kernels/runtime/queue/small_work.hpp"
#include "kernels/runtime/queue/stream.hpp"

namespace xpu_ops::runtime {

class Queue : private Stream {
 public:
  using Stream::device;
  using Stream::id;
  using Stream::priority;
  Queue(sycl::queue queue, int device, StreamId id, int priority) : Stream(std::move(queue), device, id, priority) {}

  // Calls f(sycl::queue&), which puts work on the queue, with no inline work and no other submission beside it.
  template <class F>
  decltype(auto) submit(F&& f) {
    const Submission turn(*this);
    return std::forward<F>(f)(active());
  }
  // The same for a command whose event stands for all before it: sycl::queue does not know the native tasks.
  template <class F>
  decltype(auto) submit_marker(F&& f) {
    const Submission turn(*this);
    sycl::queue& q = active();
    natives_.catch_up(q);
    return std::forward<F>(f)(q);
  }
  // For pointers that leave the library. What is put on the queue from outside is not counted, so nothing runs inline
  // any more.
  sycl::queue& share();
  void wait();
  // Returns when everything submitted has finished, and inline work that was going on too. Raises nothing.
  void settle() noexcept;
  bool idle();  // everything submitted has finished
  QueueState state();

  using Stream::get;
  const Stream& stream() const { return *this; }
  SmallWork& small() { return small_; }
  NativeTasks& natives() { return natives_; }
  ProfileTap& profile() { return tap_; }

 private:
  friend StreamId stream_from_external(int device, sycl::queue* external);
  struct Submission {
    Queue& queue;
    explicit Submission(Queue& q) : queue(q) {
      queue.lock().lock();
      queue.natives_.end_batch();
    }
    Submission(const Submission&) = delete;
    Submission& operator=(const Submission&) = delete;
    ~Submission() {
      queue.count();
      queue.lock().unlock();
    }
  };

  NativeTasks natives_{*this};
  ProfileTap tap_{*this, natives_};
  SmallWork small_{*this, natives_, tap_};
};

// f returns the event of the one command that it submits.
template <class F>
void submit_named(Queue& queue, const Label& label, F&& f) {
  if (profiling()) [[unlikely]]
    return submit_profiled(queue, label, f);
  queue.submit([&](sycl::queue& q) { f(q); });
}

void synchronize(Queue& queue);
// Bytes from anywhere to anywhere that the device or the host can reach; `wait` returns when they are there, with
// deferred kernel errors raised.
void copy_bytes(Queue& queue, void* dst, const void* src, size_t bytes, bool wait);
bool idle(Queue& queue);                                                          // checks for a fork first
inline bool recording(const Queue& queue) { return queue.stream().recording(); }  // a graph records what is submitted
// Throws where the queue records, saying that `what` cannot be part of a graph. The graph is incomplete then, see
// refused_recordings.
inline void refuse_recording(const Queue& queue, const char* what) { detail::refuse_recording(queue.stream(), what); }

}  // namespace xpu_ops::runtime
