// cat, padding, im2col, col2im, unfold_backward: launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/shape.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/elementwise/shape_args.hpp"

namespace xpu_ops::ops {

// Gathers the parts of a concatenation; launches whenever the arguments are full, and at the end.
class Cat {
 public:
  // Elements of so many bytes; the result is `outer` runs of `total` elements.
  Cat(runtime::Queue& queue, void* dst, size_t element, uint32_t outer, uint32_t total);
  // `outer` runs of `width` elements, `step` elements apart, which land `offset` elements into the runs of the result.
  // False, and nothing is done, where they are neither small nor side by side.
  bool add(const void* src, uint32_t width, int64_t step, uint32_t offset);
  void finish();

 private:
  bool widen();
  runtime::Queue& queue_;
  runtime::KernelSlot& kernel_;
  size_t element_;
  CatArgs args_;
  size_t groups_ = 0;
};

// Rows of a work-group, which has about `share` elements.
uint32_t plan_rows(int64_t row, int64_t share);

struct PadPlan {
  bool by_row;  // else by item
  size_t groups, local;
  uint32_t rows, columns, parts;  // by row: of a work-group, and of a row
};
PadPlan plan_pad(const PadProblem& problem, const runtime::Policy& policy);
void pad(runtime::Queue& queue, size_t element, const PadProblem& problem);
// The gradient of reflection and replication.
void pad_backward(runtime::Queue& queue, DType type, const PadProblem& problem);
void im2col(runtime::Queue& queue, size_t element, const Im2colProblem& problem);
void col2im(runtime::Queue& queue, DType type, const Im2colProblem& problem);
void unfold_backward(runtime::Queue& queue, DType type, const UnfoldBackwardProblem& problem);

}  // namespace xpu_ops::ops
