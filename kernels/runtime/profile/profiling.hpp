// Where the queues tell a profile what they do. While none runs it costs one relaxed load per command. The profile
// itself is kernels/runtime/profile/profiler.hpp.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <sycl/sycl.hpp>

namespace xpu_ops::runtime {

class ProfileTap;
class Queue;

enum class CommandKind : uint8_t { kernel, primitive, copy, fill, graph, wait, collective };

// How a profile calls a command.
struct Label {
  const char* name = nullptr;  // nullptr: as its kernel, or as the operator that it belongs to
  CommandKind kind = CommandKind::kernel;
  uint64_t bytes = 0;            // that a copy or a fill writes
  bool own_event = true;         // the event of the submission has the times; else markers around it do
  const char* kernel = nullptr;  // of inline work: the kernel whose place it takes
};

namespace detail {
extern std::atomic<bool> g_profiling;
struct CommandLog;
CommandLog* new_log();
int64_t profile_clock() noexcept;
void profile_inline(ProfileTap& tap, const Label& label, int64_t begin);  // under the queue's lock
void profile_wait(int device, int64_t begin, const char* name = "wait") noexcept;
}  // namespace detail

inline bool profiling() noexcept { return detail::g_profiling.load(std::memory_order_relaxed); }

// A call by which the host asks for an end of work, shown also where there is nothing to wait for.
class Synchronization {
 public:
  Synchronization(const char* name, int device)
      : name_(name), device_(device), begin_(profiling() ? detail::profile_clock() : 0) {}
  Synchronization(const Synchronization&) = delete;
  Synchronization& operator=(const Synchronization&) = delete;
  ~Synchronization() {
    if (begin_) [[unlikely]]
      detail::profile_wait(device_, begin_, name_);
  }

 private:
  const char* const name_;
  const int device_;
  const int64_t begin_;
};

// While a profile runs: submits one command, whose event f returns.
void submit_profiled(Queue& queue, const Label& label, const std::function<sycl::event(sycl::queue&)>& f);
void launch_profiled(Queue& queue, const char* name, const sycl::kernel& kernel, const sycl::nd_range<1>& range,
                     const void* args, size_t bytes);
void launch_profiled(Queue& queue, const char* name, const sycl::kernel& kernel, const sycl::nd_range<2>& range,
                     const void* args, size_t bytes);

}  // namespace xpu_ops::runtime
