// Multi-tensor launches: the table of tensors, put into device memory, and the kernels that walk it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/foreach_args.hpp"

namespace xpu_ops::plan::inline foreach_family {

constexpr int64_t kForeachLimit = int64_t{1} << 31;  // elements of one tensor

// Puts a table into device memory, in the order of the queue.
void upload(runtime::Queue& queue, void* dst, const void* src, size_t bytes);

// Gathers the tensors of a multi-tensor launch.
template <class Args>
class ForeachLaunch {
 public:
  using Tensor = typename Args::Tensor;

  // The entry of a tensor of n elements; its pointers are the caller's to fill before the next call.
  Tensor& add(int64_t n) {
    Tensor& t = tensors_.emplace_back();
    t.n = static_cast<uint32_t>(n);
    t.first_group = static_cast<uint32_t>(groups_);
    groups_ += runtime::ceil_div(static_cast<size_t>(n), kForeachBlock);
    return t;
  }
  // Calls launch(queue, groups) with args that hold the table, if there is anything to do.
  template <class F>
  void run(Args& args, F&& launch) {
    if (tensors_.empty()) return;
    runtime::Queue& queue = runtime::current_queue();
    const size_t bytes = tensors_.size() * sizeof(Tensor);
    runtime::Scratch table(bytes);
    upload(queue, table.get(), tensors_.data(), bytes);
    args.table = table.get<const Tensor>();
    args.count = static_cast<uint32_t>(tensors_.size());
    launch(queue, groups_);
  }
  void run(runtime::KernelSlot& kernel, Args& args) {
    run(args, [&](runtime::Queue& queue, size_t groups) {
      runtime::launch(queue, kernel, groups, runtime::device_info(queue.device).policy.tile_items, args);
    });
  }

 private:
  std::vector<Tensor> tensors_;
  size_t groups_ = 0;
};

// A reduction of each tensor: partial results of `accumulator` bytes per item, then one work-group per tensor.
void reduce_each(ForeachLaunch<ForeachReduceArgs>& tensors, runtime::KernelSlot& kernel,
                 runtime::KernelSlot& final_kernel, size_t accumulator);

void update_scale(runtime::Queue& queue, const UpdateScaleArgs& args);

}  // namespace xpu_ops::plan::inline foreach_family
