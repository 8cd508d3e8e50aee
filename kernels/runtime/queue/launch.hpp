// One kernel, one plain struct, one in-order queue: every launch of the library goes through here.
#pragma once
#include <sycl/sycl.hpp>
#include <sycl/ext/oneapi/experimental/enqueue_functions.hpp>

#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

inline constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

// 1-D: `groups` work-groups of `local` items.
template <class Args>
inline void launch(Queue& queue, KernelSlot& kernel, size_t groups, size_t local, const Args& args) {
  if (groups == 0) return;
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
  if (groups0 == 0 || groups1 == 0) return;
  const sycl::kernel& k = kernel.get(queue.device);
  const sycl::nd_range<2> range({groups0 * local0, groups1 * local1}, {local0, local1});
  if (profiling()) [[unlikely]]
    return launch_profiled(queue, kernel.name(), k, range, &args, sizeof(args));
  queue.submit([&](sycl::queue& q) { sycl::ext::oneapi::experimental::nd_launch(q, range, k, args); });
}

}  // namespace xpu_ops::runtime
