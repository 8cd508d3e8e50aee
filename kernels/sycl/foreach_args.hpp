// Launch structs of the multi-tensor kernels: one launch walks the tensors of a table in device memory. Not in the
// struct: the CPU device copies a struct for every item if it is indexed by what is known only at run time.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/sycl/pointwise_args.hpp"

namespace xpu_ops {

constexpr uint32_t kForeachBlock = 4096;  // elements of one work-group

// Writes a part of a table.
struct ForeachTableArgs {
  static constexpr uint32_t kWords = 224;  // a GPU takes about 2 KB of arguments
  uint64_t* dst;
  uint32_t words;
  uint64_t word[kWords];
};

// A tensor's operands (outputs first), its size, where its work-groups begin.
template <int OPERANDS>
struct ForeachTensor {
  void* ptr[OPERANDS];
  uint32_t n, first_group;
};
template <int OPERANDS>
struct ForeachValueTensor {
  void* ptr[OPERANDS];
  uint32_t n, first_group;
  Value scalar;  // the scalar of this tensor
};

template <int OPERANDS>
struct ForeachArgs {
  using Tensor = ForeachValueTensor<OPERANDS>;
  const Tensor* table;
  uint32_t count;
  uint8_t mode[4];     // by input: OperandMode; kImmediate reads the tensor's scalar
  uint8_t own_scalar;  // scalar argument 0 is the tensor's scalar, else `shared`
  Value shared;
};

// Norms and maxima: partial results of every work-group, then one work-group a tensor.
struct ForeachReduceArgs {
  using Tensor = ForeachTensor<2>;  // ptr: result, input
  const Tensor* table;
  uint32_t count;
  void* partial;
};

// Optimizers. Operands: parameter, gradient, state 1, state 2, state 3, step; null where there is none.
struct OptimizerArgs {
  using Tensor = ForeachTensor<6>;
  const Tensor* table;
  uint32_t count;
  float lr, a, b, weight_decay, eps, c;  // adam: a = log beta1, b = log beta2; sgd: a = momentum, b = dampening
  uint64_t lr64, a64, b64, weight_decay64, eps64;  // bits of doubles
  const void* lr_tensor;                           // a scalar in device memory, or null
  const float *grad_scale, *found_inf;             // may be null
  uint8_t maximize, first_step, nesterov;
};

struct UnscaleArgs {
  using Tensor = ForeachTensor<1>;
  const Tensor* table;
  uint32_t count;
  float* found_inf;
  const float* inv_scale;
};

struct UpdateScaleArgs {
  float* scale;
  int32_t* tracker;
  const float* found_inf;
  float growth, backoff;
  int32_t interval;
};

}  // namespace xpu_ops
