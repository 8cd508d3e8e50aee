#include "kernels/runtime/queue/sleep.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace xpu_ops::runtime {
namespace {
// MHz. A virtual machine may report 0.
constexpr uint32_t kSlowest = 100, kUnknown = 2000;
}  // namespace

void sleep(Queue& queue, int64_t cycles) {
  refuse_recording(queue, "A pause of the host");
  const auto reported = queue.get().get_device().get_info<sycl::info::device::max_clock_frequency>();
  const auto clock = reported < kSlowest ? kUnknown : reported;
  const std::chrono::nanoseconds time(std::max<int64_t>(cycles, 0) * 1000 / clock);
  queue.submit([&](sycl::queue& q) {
    q.submit([&](sycl::handler& h) { h.host_task([time] { std::this_thread::sleep_for(time); }); });
  });
  queue.natives().hold();
}

}  // namespace xpu_ops::runtime
