#include "bindings/distributed/process_group.hpp"

#include <algorithm>
#include <thread>

#include "bindings/distributed/without_gil.hpp"
#include "bindings/errors.hpp"

namespace xpu_ops::distributed {
namespace {

using c10d::OpType;
using std::chrono::milliseconds;

void end_elsewhere(Engine engine, c10::weak_intrusive_ptr<c10d::Backend> borrowed) {
  std::thread([engine = std::move(engine), borrowed = std::move(borrowed)]() mutable {
    engine.reset();
    borrowed.reset();
  }).detach();
}

// Idle, or so soon that a thread of its own is not worth it. Neither is it on one core: the device computes at the pace
// of the thread that waits, and the call travels while the next kernels are submitted.
bool ready(runtime::Queue& queue) {
  return queue.small().ready() || runtime::idle(queue) || runtime::device_info(queue.device).policy.units == 1;
}

}  // namespace

ProcessGroupXCCL::ProcessGroupXCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   c10::intrusive_ptr<Options> options, EngineFactory factory)
    : Backend(rank, size),
      engine_(factory(store, rank, size, options->timeout)),
      borrowed_(Engine()),
      factory_(std::move(factory)),
      options_(std::move(options)),
      peers_(std::make_shared<Peers>(store, rank, size, options_->global_ranks_in_group)) {}

ProcessGroupXCCL::ProcessGroupXCCL(const Engine& borrowed, const c10::intrusive_ptr<c10d::Store>& store)
    : Backend(borrowed->getRank(), borrowed->getSize()),
      borrowed_(borrowed),
      options_(c10::make_intrusive<Options>()),
      peers_(std::make_shared<Peers>(store, borrowed->getRank(), borrowed->getSize(),
                                     borrowed->getBackendOptions()->global_ranks_in_group)) {}

ProcessGroupXCCL::~ProcessGroupXCCL() { close(); }

void ProcessGroupXCCL::close() {
  if (runtime::in_bad_fork()) {  // the threads to wait for are the parent's
    launcher_.stop();
    engine_.release();
    borrowed_.release();
    return;
  }
  const WithoutGil no_gil;
  launcher_.stop();
  if (XcclWork::in_callback()) return end_elsewhere(std::move(engine_), std::move(borrowed_));
  engine_.reset();
  borrowed_.reset();
}

Engine ProcessGroupXCCL::engine() const {
  std::lock_guard<std::mutex> lock(state_);
  Engine e = factory_ ? engine_ : borrowed_.lock();
  TORCH_CHECK(e, "xccl: the process group was destroyed.");
  return e;
}

bool ProcessGroupXCCL::alive() const { return !borrowed_.expired(); }
bool ProcessGroupXCCL::serves(const c10d::Backend* engine) const { return borrowed_.lock().get() == engine; }

void ProcessGroupXCCL::setTimeout(milliseconds timeout) {
  options_->timeout = timeout;
  engine()->setTimeout(timeout);
}

void ProcessGroupXCCL::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  if (factory_) engine()->setGroupUid(uid);
}

milliseconds ProcessGroupXCCL::timeout_of(milliseconds asked) const {
  if (asked != c10d::kUnsetTimeout) return asked;
  return factory_ ? options_->timeout : engine()->getBackendOptions()->timeout;
}

c10d::ErrorType ProcessGroupXCCL::getError() {
  return aborted_ ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

// gloo cannot take an operation back: it ends by its own timeout, in a thread that then frees the engine.
void ProcessGroupXCCL::abort() {
  if (aborted_.exchange(true)) return;
  std::vector<c10::weak_intrusive_ptr<XcclWork>> live;
  Engine engine;
  {
    std::lock_guard<std::mutex> lock(state_);
    live.swap(live_);
    engine.swap(engine_);
  }
  bool pending = false;
  for (auto& weak : live) {
    if (auto work = weak.lock(); work && !work->isCompleted()) {
      work->abort();
      pending = true;
    }
  }
  if (!engine) return;
  if (pending || XcclWork::in_callback()) return end_elsewhere(std::move(engine), borrowed_);
  const WithoutGil no_gil;
  engine.reset();
}

void ProcessGroupXCCL::shutdown() {
  const WithoutGil no_gil;
  closed_ = true;
  launcher_.stop();
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupXCCL::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const std::vector<int>& ranks,
                                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto it = std::find(ranks.begin(), ranks.end(), rank_);
  if (it == ranks.end()) return nullptr;
  auto own = c10::make_intrusive<Options>(*options_);
  if (const auto* given = dynamic_cast<const Options*>(options.get()))
    own->is_high_priority_stream = given->is_high_priority_stream;
  if (options) {
    own->timeout = options->timeout;
    own->group_name = options->group_name;
    own->group_desc = options->group_desc;
  }
  own->global_ranks_in_group.clear();
  for (const int r : ranks) {
    const auto& parents = options_->global_ranks_in_group;
    own->global_ranks_in_group.push_back(parents.empty() ? r : parents.at(r));
  }
  const int rank = static_cast<int>(it - ranks.begin()), size = static_cast<int>(ranks.size());
  return c10::make_intrusive<ProcessGroupXCCL>(store, rank, size, own, factory_);
}

XcclWork::Streams& ProcessGroupXCCL::streams(int device) {
  std::lock_guard<std::mutex> lock(state_);
  auto& streams = streams_[device];
  const int priority = options_->is_high_priority_stream ? -1 : 0;
  if (!streams) streams = {runtime::stream_from_pool(device, priority), runtime::stream_from_pool(device, priority)};
  return *streams;
}

void ProcessGroupXCCL::remember(const c10::intrusive_ptr<XcclWork>& work) {
  std::lock_guard<std::mutex> lock(state_);
  if (live_.size() >= 64) std::erase_if(live_, [](const auto& weak) { return weak.expired(); });
  live_.emplace_back(work);
  if (coalesced_) coalesced_->push_back(work);
}

ProcessGroupXCCL::Result ProcessGroupXCCL::enqueue(Call call, c10::Device device, milliseconds timeout, bool async) {
  TORCH_CHECK(!aborted_, "xccl: the process group was aborted.");
  TORCH_CHECK(!closed_, "xccl: the process group was destroyed.");
  return translate([&]() -> Result {
    runtime::Queue& queue = runtime::current_queue(device.index());
    runtime::refuse_recording(queue, "A collective");
    const Engine engine = this->engine();
    const bool shared = runtime::host_accessible(device.index());
    const uint64_t number = c10d::isP2POp(call.type) ? ++transfers_ : ++sequence_;
    const milliseconds limit = timeout_of(timeout);
    auto work =
        c10::make_intrusive<XcclWork>(std::move(call), device, peers_, number, limit, streams(device.index()), !shared);
    Ticket ticket =
        outstanding(c10::weak_intrusive_ptr<ProcessGroupXCCL>(c10::intrusive_ptr<ProcessGroupXCCL>::reclaim_copy(this)),
                    c10::weak_intrusive_ptr<XcclWork>(work), limit);

    std::lock_guard<std::mutex> order(order_);
    if (shared && launcher_.idle() && (!async || ready(queue))) {
      if (!queue.small().ready()) runtime::synchronize(queue);
      work->launch(*engine, nullptr, ticket, !async);
    } else {
      auto event = std::make_shared<runtime::Event>();
      event->record(queue);
      launcher_.push([work, engine, event, ticket]() mutable {
        try {
          work->launch(*engine, event.get(), ticket, false);
        } catch (...) { work->fail(std::current_exception(), ticket); }
        work.reset();  // before the ticket
      });
    }
    remember(work);
    return work;
  });
}

void ProcessGroupXCCL::startCoalescing() {
  std::lock_guard<std::mutex> lock(state_);
  coalesced_.emplace();
}

ProcessGroupXCCL::Result ProcessGroupXCCL::endCoalescing() {
  std::vector<c10::intrusive_ptr<XcclWork>> works;
  {
    std::lock_guard<std::mutex> lock(state_);
    if (!coalesced_ || coalesced_->empty()) {
      coalesced_.reset();
      return nullptr;
    }
    works.swap(*coalesced_);
    coalesced_.reset();
  }
  const c10::Device device(c10::kXPU, static_cast<c10::DeviceIndex>(runtime::current_device()));
  return c10::make_intrusive<CoalescedWork>(std::move(works), device);
}

}  // namespace xpu_ops::distributed
