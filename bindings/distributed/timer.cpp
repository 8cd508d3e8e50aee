// The times that DistributedDataParallel logs: forward, backward and communication, by events on the current stream.
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>
#include <optional>

namespace xpu_ops::distributed {
namespace {

class XpuTimer final : public c10d::Timer {
 public:
  explicit XpuTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);  // the time of the host
    const c10::DeviceGuard guard(device_);
    auto& slot = slots_[static_cast<size_t>(event)];
    slot.emplace(c10::kXPU, c10::EventFlag::BACKEND_DEFAULT);
    slot->record(c10::impl::VirtualGuardImpl(c10::kXPU).getStream(device_));
  }

  // Nanoseconds; nothing where one of them was not recorded, as in steps without communication.
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    auto &from = slots_[static_cast<size_t>(start)], &to = slots_[static_cast<size_t>(end)];
    if (!from || !to) return std::nullopt;
    const c10::DeviceGuard guard(device_);
    from->synchronize();
    to->synchronize();
    const double ms = from->elapsedTime(*to);
    if (ms < 0) return std::nullopt;
    return static_cast<int64_t>(ms * 1e6);
  }

 private:
  c10::Device device_;
  std::array<std::optional<c10::Event>, static_cast<size_t>(Event::kBackwardCommEnd) + 1> slots_;
};

}  // namespace
}  // namespace xpu_ops::distributed

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kXPU, xpu_ops::distributed::XpuTimer)
}
