// Problems over lists of tensors; no type of the device, no torch.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/pointwise.hpp"

namespace xpu_ops {

constexpr uint32_t kForeachBlock = 4096;  // elements of one work-group

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

namespace ops {

// An expression of tensors and scalars.
struct ForeachProblem {
  uint8_t mode[4];     // by input: OperandMode; kImmediate reads the tensor's scalar
  uint8_t own_scalar;  // scalar argument 0 is the tensor's scalar, else `shared`
  Value shared;
};

// A step of an optimizer. Operands: parameter, gradient, state 1, state 2, state 3, step; null where there is none.
struct OptimizerProblem {
  float lr, a, b, weight_decay, eps, c;  // adam: a = log beta1, b = log beta2; sgd: a = momentum, b = dampening
  uint64_t lr64, a64, b64, weight_decay64, eps64;  // bits of doubles
  const void* lr_tensor;                           // a scalar in device memory, or null
  const float *grad_scale, *found_inf;             // may be null
  uint8_t maximize, first_step, nesterov;
};

struct UnscaleProblem {
  float* found_inf;
  const float* inv_scale;
};

struct UpdateScaleProblem {
  float* scale;
  int32_t* tracker;
  const float* found_inf;
  float growth, backoff;
  int32_t interval;
};

}  // namespace ops
}  // namespace xpu_ops
