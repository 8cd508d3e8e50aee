// One kernel, one plain struct, one in-order queue: every launch of the library goes through here.
#pragma once
#include <sycl/sycl.hpp>
#include <sycl/ext/oneapi/experimental/enqueue_functions.hpp>

#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/call_size.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

inline constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

inline const Policy& policy_of(const Queue& queue) { return device_info(queue.device).policy; }

// A launch as a function call, with the same bits.
template <class Args> struct HostLaunch {
  HostFunction* function;
  struct Call {
    Args args;
    HostRange range;
  } call;
  void operator()() const { function->call(&call, call.range); }
};

// Of a small call (CallSize), on the calling thread or as a piece behind what the device works on; false: to be
// launched.
template <class Args>
inline bool launch_here(Queue& queue, KernelSlot& kernel, const Args& args, uint32_t dims, size_t groups0,
                        size_t local0, size_t groups1 = 1, size_t local1 = 1) {
  constexpr size_t kMostGroups = 1024;  // each costs some nanoseconds, whatever it computes
  if constexpr (alignof(Args) > alignof(HostRange) || sizeof(Args) > 2048)
    return false;
  else {
    if (!CallSize::small() || groups0 * groups1 > kMostGroups || !queue.small().takes(1)) return false;
    HostFunction* const function = kernel.here(queue.device);
    return function && function->pays(groups0 * groups1) &&
           queue.small().run_taken(
               HostLaunch<Args>{function, {args, HostRange(dims, groups0, local0, groups1, local1)}}, kernel);
  }
}

// 1-D: `groups` work-groups of `local` items.
template <class Args>
inline void launch(Queue& queue, KernelSlot& kernel, size_t groups, size_t local, const Args& args) {
  if (groups == 0 || launch_here(queue, kernel, args, 1, groups, local)) return;
  const sycl::kernel& k = kernel.get(queue.device);
  const sycl::nd_range<1> range(groups * local, local);
  if (profiling()) [[unlikely]]
    return launch_profiled(queue, kernel.name(), k, range, &args, sizeof(args));
  queue.submit([&](sycl::queue& q) { sycl::ext::oneapi::experimental::nd_launch(q, range, k, args); });
}

// 2-D: the last dimension varies fastest.
template <class Args>
inline void launch2(Queue& queue, KernelSlot& kernel, size_t groups0, size_t groups1, size_t local0, size_t local1,
                    const Args& args) {
  if (groups0 == 0 || groups1 == 0 || launch_here(queue, kernel, args, 2, groups1, local1, groups0, local0)) return;
  const sycl::kernel& k = kernel.get(queue.device);
  const sycl::nd_range<2> range({groups0 * local0, groups1 * local1}, {local0, local1});
  if (profiling()) [[unlikely]]
    return launch_profiled(queue, kernel.name(), k, range, &args, sizeof(args));
  queue.submit([&](sycl::queue& q) { sycl::ext::oneapi::experimental::nd_launch(q, range, k, args); });
}

}  // namespace xpu_ops::runtime
