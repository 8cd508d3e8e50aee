// Markers in a queue: completion, ordering between queues, and time.
#pragma once
#include <optional>

#include <sycl/sycl.hpp>

#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

// Lazily created by the first record. With timing, record() marks the moment all earlier work of the queue finished.
class Event {
 public:
  explicit Event(bool timing = false) : timing_(timing) {}

  void record(Queue& queue);       // throws Error{runtime} where the event belongs to another device
  void block(Queue& queue) const;  // later work of the queue waits for the event; no-op before record()
  bool query() const;              // true before record()
  void synchronize() const;
  double elapsed_ms(const Event& end) const;  // both recorded, complete and with timing, else Error{runtime}

  bool recorded() const { return event_.has_value(); }
  bool timing() const { return timing_; }
  int device() const { return device_; }
  const sycl::event* sycl_event() const { return event_ ? &*event_ : nullptr; }

 private:
  std::optional<sycl::event> event_;  // in the recorded queue
  std::optional<sycl::event> stamp_;  // carries the time stamp where the queue itself has no profiling
  bool timing_ = false;
  Queue* queue_ = nullptr;
  uint64_t graph_ = 0;  // the number of the graph that keeps what was recorded before; 0: none
  uint64_t place_ = 0;  // in the count of the queue's submissions
  int device_ = -1;
};

}  // namespace xpu_ops::runtime
