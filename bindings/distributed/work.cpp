#include "bindings/distributed/work.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/StringUtil.h>
#include <sched.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <sstream>

#include "bindings/distributed/callbacks.hpp"
#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/profile/profiling.hpp"

namespace xpu_ops::distributed {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string describe(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return "no tensors";
  std::ostringstream os;
  os << tensors[0].scalar_type() << tensors[0].sizes();
  if (tensors.size() > 1) os << " and " << tensors.size() - 1 << " more";
  return os.str();
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) { return e.what_without_backtrace(); } catch (const std::exception& e) {
    return e.what();
  } catch (...) { return "unknown error"; }
}

// The current device and queue of this thread, put back at the end.
class OnStream {
 public:
  OnStream(int device, runtime::StreamId stream)
      : device_(device), before_(runtime::exchange_device(device)), stream_(runtime::current_queue().id) {
    runtime::set_current_queue(device, stream);
  }
  ~OnStream() {
    runtime::set_current_queue(device_, stream_);
    runtime::set_current_device_unchecked(before_);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  int device_, before_;
  runtime::StreamId stream_;
};

thread_local int t_callbacks = 0;

c10::intrusive_ptr<c10::ivalue::Future> new_future(c10::Device device) {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                  std::vector<c10::Device>{device});
}

}  // namespace

XcclWork::XcclWork(Call call, c10::Device device, std::shared_ptr<const Peers> peers, uint64_t sequence,
                   milliseconds timeout, Streams streams, bool discrete)
    : Work(peers->rank(), call.type),
      call_(std::move(call)),
      results_(std::move(call_.results)),
      device_(device),
      peers_(std::move(peers)),
      sequence_(sequence),
      timeout_(timeout),
      streams_(streams),
      discrete_(discrete),
      peer_(c10d::isP2POp(call_.type) ? call_.peer : -1),
      group_(std::move(call_.group)) {}

bool XcclWork::in_callback() { return t_callbacks > 0; }

void XcclWork::release_resources() {
  call_ = {};
  results_.clear();
  cpu_.clear();
  driven_.clear();
  future_.reset();
}

void XcclWork::launch(c10d::Backend& engine, const runtime::Event* ready, const Ticket& ticket, bool waited_for) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (completed_) return;
    starting_ = true;
  }
  const at::NoGradGuard no_grad;
  // The engine's thread lets its tensors go after it has called back, and their memory may be Python's. A send or
  // receive that nobody waits for keeps its own.
  const auto held = c10d::isP2POp(opType_) ? nullptr : std::make_shared<Ticket>(ticket);
  auto not_started = c10::make_scope_exit([&] {
    if (held) held->reset();
  });
  std::vector<at::Tensor> cpu;
  if (discrete_) {
    const OnStream fetching(device_.index(), streams_.fetch);  // pinned memory is of the current device's context
    runtime::Queue& queue = runtime::current_queue();
    if (ready) ready->block(queue);
    for (Image& image : call_.images) image.open(&queue, nullptr);
    queue.wait();
  } else {
    if (ready) ready->synchronize();
    for (Image& image : call_.images) image.open(nullptr, held);
  }
  cpu.reserve(call_.images.size());
  for (Image& image : call_.images) {
    image.encode();
    cpu.push_back(image.cpu());
  }
  if (runtime::profiling()) carried_since_ = runtime::detail::profile_clock();
  Call::Works works;
  try {
    // gloo's own ranges end with its work: after the end of a profile they would write to freed memory.
    std::optional<at::DisableRecordFunctionGuard> unrecorded;
    if (at::hasCallbacks()) unrecorded.emplace();
    works = call_.start(engine, cpu);
    // gloo's thread starts before this one sleeps: on one core it would else be woken twice as often.
    if (waited_for) sched_yield();
    not_started.release();
  } catch (const std::runtime_error&) {  // of a connection: wrong arguments have other types
    std::rethrow_exception(explain(std::current_exception(), true));
  }
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> futures;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    cpu_ = std::move(cpu);
    parts_ = works.size();
    for (auto& work : works) {
      try {
        futures.push_back(work->getFuture());
      } catch (const std::exception&) { driven_.push_back(work); }
    }
    launched_ = true;
  }
  cv_.notify_all();
  auto self = c10::intrusive_ptr<XcclWork>::reclaim_copy(this);
  for (auto& future : futures) {
    future->addCallback([self, ticket](c10::ivalue::Future& done) mutable {
      ++t_callbacks;
      self->part_done(done.hasError() ? done.exception_ptr() : nullptr, ticket);
      self.reset();  // before the ticket
      --t_callbacks;
    });
  }
  if (works.empty()) complete(nullptr, ticket);
}

void XcclWork::part_done(std::exception_ptr error, const Ticket& ticket) noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (error && !part_error_) part_error_ = std::move(error);
    if (--parts_ > 0) return;
    error = part_error_;
  }
  if (!error) {
    try {
      const at::NoGradGuard no_grad;
      if (call_.after) call_.after(cpu_);
      for (Image& image : call_.images) image.decode(peers_->size());
      if (discrete_) {
        const OnStream delivering(device_.index(), streams_.deliver);
        runtime::Queue& queue = runtime::current_queue();
        for (Image& image : call_.images) image.deliver(queue);
        delivered_.record(queue);
      }
    } catch (...) { error = std::current_exception(); }
  }
  record_carried(opType_, results_.size(), device_.index(), carried_since_);
  complete(error ? explain(error, true) : nullptr, ticket);
}

void XcclWork::complete(std::exception_ptr error, const Ticket& ticket) noexcept {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  Call call;  // freed outside of the lock: the last reference to a tensor may ask for the GIL
  std::vector<at::Tensor> cpu;
  Call::Works driven;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!completed_) {
      completed_ = true;
      exception_ = error;
      future = future_;
    }
    // After an abort the engine may still write to them, and ends later.
    if (!starting_ || (launched_ && parts_ == 0)) {
      call = std::move(call_);
      cpu.swap(cpu_);
      driven.swap(driven_);
    }
  }
  cv_.notify_all();
  if (!future) return;
  if (!ticket) return mark(*future, error);  // the interpreter's end does not wait for other threads
  auto self = c10::intrusive_ptr<XcclWork>::reclaim_copy(this);
  run_apart([self, future, error, ticket]() mutable {
    self->mark(*future, error);
    future.reset();  // these before the ticket
    self.reset();
  });
}

void XcclWork::mark(c10::ivalue::Future& future, const std::exception_ptr& error) const {
  if (error) {
    future.setErrorIfNeeded(error);
    return;
  }
  // The future records an event on the current stream: on one that has nothing to do but the delivery.
  const OnStream here(device_.index(), streams_.deliver);
  future.markCompleted(c10::IValue(results_));
}

void XcclWork::fail(std::exception_ptr error, const Ticket& ticket) noexcept { complete(std::move(error), ticket); }

bool XcclWork::isCompleted() {
  std::lock_guard<std::mutex> lock(mutex_);
  return completed_;
}

void XcclWork::drive(milliseconds timeout) {
  Call::Works works;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (completed_ || driving_ || driven_.empty()) return;
    driving_ = true;
    works = driven_;
  }
  for (auto& work : works) {
    std::exception_ptr error;
    try {
      work->wait(timeout == kNoTimeout ? timeout_ : timeout);
      if (opType_ == c10d::OpType::RECVANYSOURCE) source_ = work->sourceRank();
    } catch (...) { error = std::current_exception(); }
    part_done(error, nullptr);
  }
}

bool XcclWork::await(milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  const auto wait_for = [&](std::unique_lock<std::mutex>& lock, auto&& ready) {
    if (timeout == kNoTimeout) {
      cv_.wait(lock, ready);
      return true;
    }
    return cv_.wait_until(lock, until, ready);
  };
  const auto late = [&] {
    const std::string text = "the wait of " + std::to_string(timeout.count()) + " ms ended before it did";
    std::rethrow_exception(explain(std::make_exception_ptr(std::runtime_error(text)), true));
  };
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!wait_for(lock, [&] { return completed_ || launched_; })) {
      lock.unlock();
      late();
    }
  }
  drive(timeout);
  if (!discrete_ && timeout == kNoTimeout && !isCompleted()) {
    runtime::Queue& queue = runtime::current_queue(device_.index());
    if (queue.stream().submitted_here()) queue.settle();
  }
  std::exception_ptr error;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!wait_for(lock, [&] { return completed_; })) {
      lock.unlock();
      late();
    }
    error = exception_;
  }
  // torch keeps works of functional collectives until somebody has waited.
  if (c10d::allow_inflight_collective_as_graph_input())
    c10d::unregister_work(c10::intrusive_ptr<XcclWork>::reclaim_copy(this));
  if (error) std::rethrow_exception(error);
  if (discrete_) translate([&] { delivered_.block(runtime::current_queue(device_.index())); });
  return true;
}

void XcclWork::synchronize() { wait(kNoTimeout); }

void XcclWork::blockCurrentStream() { wait(kNoTimeout); }

void XcclWork::abort() {
  Call::Works works;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    works = driven_;
  }
  for (auto& work : works) work->abort();
  fail(explain(std::make_exception_ptr(std::runtime_error("it was aborted")), false), nullptr);
}

int XcclWork::sourceRank() const { return source_; }

c10::intrusive_ptr<c10::ivalue::Future> XcclWork::getFuture() {
  TORCH_CHECK_NOT_IMPLEMENTED(!c10d::isP2POp(opType_), "xccl: a send or receive has no future; call wait().");
  std::unique_lock<std::mutex> lock(mutex_);
  if (!future_) {
    future_ = new_future(device_);
    if (completed_) {
      const auto future = future_;
      lock.unlock();
      mark(*future, exception_);
      return future;
    }
  }
  return future_;
}

std::string XcclWork::name() const {
  const std::string name = c10d::opTypeToString(opType_);
  if (!c10d::isP2POp(opType_)) return name + " number " + std::to_string(sequence_);
  if (peer_ < 0) return name;
  return name + (opType_ == c10d::OpType::SEND ? " to " : " from ") + peers_->name(peer_);
}

std::exception_ptr XcclWork::explain(const std::exception_ptr& error, bool roll_call) const {
  const auto elapsed = std::chrono::duration_cast<milliseconds>(Clock::now() - begin_).count();
  std::string text = c10::str("[", peers_->name(peers_->rank()), "] xccl: ", name(), " of ", describe(results_),
                              " failed after ", elapsed, " ms (timeout ", timeout_.count(), " ms): ", text_of(error));
  if (text.back() != '.') text += '.';
  if (!roll_call) {
  } else if (c10d::isP2POp(opType_)) {
    text += peers_->ended(peer_);
  } else {
    text += peers_->missing(c10d::opTypeToString(opType_) + std::to_string(sequence_));
  }
  return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text));
}

CoalescedWork::CoalescedWork(std::vector<c10::intrusive_ptr<XcclWork>> works, c10::Device device)
    : Work(-1, c10d::OpType::COALESCED), works_(std::move(works)), device_(device) {}

bool CoalescedWork::isCompleted() {
  for (const auto& work : works_) {
    if (!work->isCompleted()) return false;
  }
  return true;
}

bool CoalescedWork::isSuccess() const {
  for (const auto& work : works_) {
    if (!work->isSuccess()) return false;
  }
  return true;
}

bool CoalescedWork::wait(milliseconds timeout) {
  for (const auto& work : works_) work->wait(timeout);
  return true;
}

void CoalescedWork::synchronize() { wait(kNoTimeout); }

void CoalescedWork::abort() {
  for (const auto& work : works_) work->abort();
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& work : works_) {
    for (auto& t : work->result()) all.push_back(t);
  }
  return all;
}

uint64_t CoalescedWork::getSequencenumber() const { return works_.empty() ? 0 : works_.back()->getSequencenumber(); }

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> futures;
  for (const auto& work : works_) futures.push_back(work->getFuture());
  auto all = new_future(device_);
  auto left = std::make_shared<std::atomic<size_t>>(futures.size());
  auto done = [all, left, results = result()](c10::ivalue::Future& one) {
    if (one.hasError()) return all->setErrorIfNeeded(one.exception_ptr());
    if (--*left == 0 && !all->hasError()) all->markCompleted(c10::IValue(results));
  };
  if (futures.empty()) all->markCompleted(c10::IValue(result()));
  for (auto& future : futures) future->addCallback(done);
  return all;
}

}  // namespace xpu_ops::distributed
