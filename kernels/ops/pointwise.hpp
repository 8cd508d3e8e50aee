// Pointwise: layout planning (pure host code) and launches.
#pragma once
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/host/table.hpp"
#include "kernels/ops/problem/pointwise.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

enum class Layout { rows, strided };  // strided: also for kernels of steps

// Shape (innermost first, collapsed by the caller or not) and strides in elements of each operand.
struct PointwiseShape {
  int ndim = 0;
  int operands = 0;                     // outputs first
  uint8_t element[kPointwiseOperands];  // bytes of an element
  bool immediate[kPointwiseOperands];   // a value of the host: no memory, strides of 0
  uint32_t sizes[64];
  int64_t strides[64][kPointwiseOperands];
};

// Drops size-1 dims and merges neighbours where every operand allows it.
void collapse(PointwiseShape& shape);

// Takes a dimension out of a shape with more than one launch has room for, the shortest, and says whether there was
// one: the caller loops over it. `step`: bytes an operand moves by.
struct OuterDim {
  uint32_t size;
  int64_t step[kPointwiseOperands];
};
bool take_outer(PointwiseShape& shape, OuterDim& outer);

// rows: strides of 0 or 1 along the innermost dimension that no output broadcasts, which is all there is or at least
// kMinRow long.
constexpr uint32_t kMinRow = 16;
Layout classify(const PointwiseShape& shape);

// Whether going along the innermost dimension with any steps keeps the order of memory: rows are long, and no operand
// has closer neighbours in another dimension, as a transposed one has.
bool in_order(const PointwiseShape& shape);

// Fills all but the values from a collapsed shape of at most kPointwiseRowDims + 1 dims. `args.ptr` must be set; an
// immediate operand gets the pointer of its stand-in.
void fill(const PointwiseShape& shape, Layout layout, PointwiseArgs& args, int outputs);

struct PointwiseProblem {
  const PointwiseShape& shape;  // collapsed
  const PointwiseValues& values;
  void* const* ptr;    // of the operands; outputs first
  const DType* types;  // that the kernel expects
  int outputs;
  const runtime::KernelTable& rows;
  DType common;
  const host::Kernel& small;  // of the common type
  int64_t cost;               // of an element on the calling thread, in units of SmallWork::run()
};
// none: operands step through the memory of a row and there is no kernel for that, or not on this device.
enum class PointwiseKernel { rows, steps, none };
// `fits`: as classify() says. `steps`: whether there is a kernel of steps for the type.
PointwiseKernel plan_pointwise(const PointwiseShape& shape, Layout fits, bool steps, const runtime::Policy& policy);
// Items of a work-group over rows of n elements, and the rows and columns that it takes.
struct RowsPlan {
  size_t local;
  uint32_t group, columns;
};
// each: elements that an item takes at a time. bytes: all operands are, so that the kernel is one of kByteVector items.
RowsPlan plan_pointwise_rows(uint32_t rows, uint32_t n, const runtime::Policy& policy, uint32_t each = 1,
                             bool bytes = false);
// Whether the kernel that moves four elements per load serves what fill() has filled, and has enough to do.
bool by_fours(const PointwiseShape& shape, const PointwiseArgs& args, const runtime::Policy& policy);
// False, and nothing is done, where there is no kernel.
bool pointwise(runtime::Queue& queue, const PointwiseProblem& problem);

// An operator of one output over elements side by side, which the calling thread or the queue's worker computes. Where
// another thread has put work on the queue meanwhile, its kernel is launched.
class DenseCall {
 public:
  // `small`: the loop of the common type.
  DenseCall(const runtime::KernelTable& rows, DType common, host::Block small, uint32_t n)
      : rows_(rows), common_(common) {
    call_.kernel = small;
    call_.args.n = n;
    call_.outputs = call_.operands = 1, call_.dense = true;
  }
  Value& scalar(int i) { return call_.args.s[i]; }
  // Operands in their order, the output first.
  void output(void* ptr, DType type) { call_.args.ptr[0] = ptr, call_.types[0] = type; }
  void input(const void* ptr, DType type) { add(const_cast<void*>(ptr), type, kElement); }
  void number(const Value& value, DType type) {
    call_.args.imm[call_.operands - 1] = value;
    add(call_.args.ptr[0], type, kImmediate);
  }
  void run(runtime::Queue& queue) {
    if (!queue.small().run_taken(call_, [&]() -> auto& { return rows_[common_]; })) [[unlikely]]
      launch(queue);
  }

 private:
  void add(void* ptr, DType type, OperandMode mode) {
    call_.args.mode[call_.operands - 1] = mode;
    call_.args.ptr[call_.operands] = ptr, call_.types[call_.operands] = type;
    ++call_.operands;
  }
  void launch(runtime::Queue& queue);

  const runtime::KernelTable& rows_;
  DType common_;
  host::Call call_;
};

}  // namespace xpu_ops::ops
