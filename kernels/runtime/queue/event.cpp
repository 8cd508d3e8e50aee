#include "kernels/runtime/queue/event.hpp"

#include <string>

#include <sycl/ext/oneapi/experimental/profiling_tag.hpp>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/command_graph.hpp"
#include "kernels/runtime/queue/float_state.hpp"

namespace xpu_ops::runtime {
namespace {

bool is_complete(const sycl::event& e) {
  return e.get_info<sycl::info::event::command_execution_status>() == sycl::info::event_command_status::complete;
}

}  // namespace

void Event::record(Queue& queue) {
  check_fork();
  if (recorded() && device_ != queue.device)
    throw Error(ErrorKind::runtime, "Event device " + std::to_string(device_) +
                                        " does not match recording stream's device " + std::to_string(queue.device) +
                                        ".");
  device_ = queue.device;
  queue_ = &queue;
  stamp_.reset();
  const CommandGraph* graph = graph_of(queue);
  graph_ = graph && graph->keeps() ? graph->number : 0;
  place_ = queue.stream().submitted();
  if (graph_) {  // its commands have one order
    event_.emplace();
    return;
  }
  const bool tags = timing_ && queue.get().get_device().has(sycl::aspect::ext_oneapi_queue_profiling_tag);
  queue.submit_marker([&](sycl::queue& q) {
    if (tags) {
      stamp_ = event_ = sycl::ext::oneapi::experimental::submit_profiling_tag(q);
      return;
    }
    event_ = q.ext_oneapi_submit_barrier();
    if (!timing_) return;
    sycl::queue& timed = queue.profile().timed();
    stamp_ = q == timed ? *event_ : timed.ext_oneapi_submit_barrier({*event_});
  });
  place_ = queue.stream().submitted();
}

void Event::block(Queue& queue) const {
  if (!recorded()) return;
  check_fork();
  if (graph_) return join_graph(graph_, queue);
  queue.submit([&](sycl::queue& q) { q.ext_oneapi_submit_barrier({*event_}); });
  if (queue_->stream().mode() == QueueMode::shared)
    queue.natives().hold();  // a host task of theirs may stand before it
}

bool Event::query() const {
  if (!recorded()) return true;
  check_fork();
  return is_complete(stamp_ ? *stamp_ : *event_);
}

void Event::synchronize() const {
  if (!recorded()) return;
  check_fork();
  if (graph_) refuse_recording(*queue_, "Waiting for an event");
  const Synchronization shown("synchronize event", device_);
  sycl::event e = stamp_ ? *stamp_ : *event_;
  const int64_t begin = profiling() && !is_complete(e) ? detail::profile_clock() : 0;
  if (place_ == queue_->stream().submitted() && queue_->stream().submitted_here() && !is_complete(e) &&
      !recording(*queue_))
    queue_->wait();
  const FloatState state;  // as in Stream::wait
  e.wait_and_throw();
  if (begin) detail::profile_wait(device_, begin);
}

double Event::elapsed_ms(const Event& end) const {
  if (!recorded() || !end.recorded())
    throw Error(ErrorKind::runtime, "Both events must be recorded before calculating elapsed time.");
  if (!query() || !end.query())
    throw Error(ErrorKind::runtime, "Both events must be completed before calculating elapsed time.");
  if (!timing_ || !end.timing_)
    throw Error(ErrorKind::runtime, "Both events must be created with argument 'enable_timing=True'.");
  if (!stamp_ || !end.stamp_) throw Error(ErrorKind::runtime, "Events that were recorded in a graph have no time.");
  using sycl::info::event_profiling::command_end;
  auto from = static_cast<double>(stamp_->get_profiling_info<command_end>());
  auto to = static_cast<double>(end.stamp_->get_profiling_info<command_end>());
  return (to - from) * 1e-6;
}

}  // namespace xpu_ops::runtime
