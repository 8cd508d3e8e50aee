// Multi-tensor launches: the table of tensors, put into device memory, and the kernels that walk it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops/problem/foreach.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {

constexpr int64_t kForeachLimit = int64_t{1} << 31;  // elements of one tensor

// Puts a table into device memory, in the order of the queue.
void upload(runtime::Queue& queue, void* dst, const void* src, size_t bytes);

// The tensors of a multi-tensor launch.
template <class Tensor>
class ForeachTensors {
 public:
  // The entry of a tensor of n elements; its pointers are the caller's to fill before the next call.
  Tensor& add(int64_t n) {
    Tensor& t = tensors_.emplace_back();
    t.n = static_cast<uint32_t>(n);
    t.first_group = static_cast<uint32_t>(groups_);
    groups_ += runtime::ceil_div(static_cast<size_t>(n), kForeachBlock);
    return t;
  }
  const std::vector<Tensor>& table() const { return tensors_; }
  size_t groups() const { return groups_; }

 private:
  std::vector<Tensor> tensors_;
  size_t groups_ = 0;
};
template <int OPERANDS>
using ForeachOperands = ForeachTensors<ForeachValueTensor<OPERANDS>>;

// Launches on the current queue, where there are tensors. OPERANDS: 1 to 4.
template <int OPERANDS>
void foreach_elements(const ForeachOperands<OPERANDS>& tensors, runtime::KernelSlot& kernel,
                      const ForeachProblem& problem);
void optimize_each(const ForeachTensors<ForeachTensor<6>>& tensors, runtime::KernelSlot& kernel,
                   const OptimizerProblem& problem);
void unscale_each(const ForeachTensors<ForeachTensor<1>>& tensors, runtime::KernelSlot& kernel,
                  const UnscaleProblem& problem);
// A reduction of each tensor: partial results of `accumulator` bytes per item, then one work-group per tensor.
void reduce_each(const ForeachTensors<ForeachTensor<2>>& tensors, runtime::KernelSlot& kernel,
                 runtime::KernelSlot& final_kernel, size_t accumulator);

void update_scale(runtime::Queue& queue, const UpdateScaleProblem& problem);

}  // namespace xpu_ops::ops
