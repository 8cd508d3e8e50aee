// Pointwise kernels for the calling thread: small work on a CPU device whose queue is idle costs less than a launch.
#pragma once
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/sycl/elementwise/pointwise_args.hpp"

namespace xpu_ops::host {

// Computes n elements that lie side by side. Operands of 16-bit floats are float here: the caller converts.
using Block = void (*)(char* const* ptr, uint32_t n, const Value* scalars);

struct Kernel {
  Block run;
  // Cost of an element in units of a vectorised expression: how much of it a launch still costs more than.
  int32_t cost;
};

// Whether the processor has the vectors of XPU_OPS_WIDE_VECTOR.
bool wide_vectors() noexcept;

// By element type; run is nullptr where only the device has the kernel.
using Table = const Kernel (&)[kDTypeSlots];

// Elements of any strides, or of types that are converted, cost more than those side by side.
constexpr int64_t kStridedShare = 4, kConvertedShare = 4;

// Runs a kernel over what ops::fill has made of a launch. `types`: of the operands, outputs first.
void run(Block kernel, const PointwiseArgs& args, const DType* types, int outputs, int operands, bool dense);

// A call of run() as a value.
struct Call {
  PointwiseArgs args;
  Block kernel;
  DType types[kPointwiseOperands];
  int outputs, operands;
  bool dense;
  void operator()() const { run(kernel, args, types, outputs, operands, dense); }
};

}  // namespace xpu_ops::host
