// Launches with an item per element.
#pragma once
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {

template <class Args>
void launch_items(runtime::Queue& queue, runtime::KernelSlot& kernel, size_t items, const Args& args) {
  const size_t local = even_group(items, runtime::policy_of(queue));
  runtime::launch(queue, kernel, runtime::ceil_div(items, local), local, args);
}

// Rows of `items` items each, no work-group over two of them.
template <class Args>
void launch_item_rows(runtime::Queue& queue, runtime::KernelSlot& kernel, size_t rows, size_t items, const Args& args) {
  const size_t local = even_group(items, runtime::policy_of(queue));
  runtime::launch2(queue, kernel, rows, runtime::ceil_div(items, local), 1, local, args);
}

}  // namespace xpu_ops::ops
