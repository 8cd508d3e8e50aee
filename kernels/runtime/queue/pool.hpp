// Which queues there are: 3 priorities x 32 in-order queues per device, handed out round robin, external queues, and
// the current one of a thread.
#pragma once
#include <functional>

#include "kernels/runtime/queue/stream.hpp"

namespace xpu_ops::runtime {

class Queue;

Queue& queue(int device, StreamId id);
Queue& current_queue();  // of the current device and thread: a thread-local read on the hot path
Queue& current_queue(int device);
void set_current_queue(int device, StreamId id);
StreamId stream_from_pool(int device, int priority);  // priority: -1 high, 0 normal, 1 low
StreamId stream_from_external(int device, sycl::queue* external);
void synchronize(int device);      // waits for every queue of the device, then raises deferred kernel errors
void wait(int device);             // waits only
void settle(int device) noexcept;  // Queue::settle() of every queue
// Every queue of the device that is there, external ones last.
void for_each_queue(int device, const std::function<void(Queue&)>& f);
// Waits for all queues of all devices without throwing: called from Python's atexit.
void drain() noexcept;

namespace detail {
sycl::queue create_timed_queue(int device, int priority);
void forget_current_queue() noexcept;   // the current device of this thread changed
void forget_current_queues() noexcept;  // this is a forked child: the next use must take the slow path
}  // namespace detail

}  // namespace xpu_ops::runtime
