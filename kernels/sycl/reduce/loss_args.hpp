// Launch arguments of the loss kernels; shared by host and device.
#pragma once
#include "kernels/ops/problem/loss.hpp"
#include "kernels/sycl/core/device_error_args.hpp"
#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

// `out`: losses, partial sums or grad_input.
struct LossArgs : ops::LossProblem {
  DeviceError* error;  // bce forward: reports inputs outside [0, 1]
};

// Ends a reduction: out = sum of partials / divisor; with weights also their sum, by which a mean divides instead.
struct LossFinishArgs {
  const void* partial;  // opmath values, `count` of them, then as many weights
  void* out;
  void* total_weight;  // may be null
  uint32_t count;
  uint32_t mean;  // divide by the weights
  LossScalar divisor;
};

struct NllArgs : ops::NllProblem {
  DeviceError* error;
  xpu::Divider spatial;
};

struct MarginArgs : ops::MarginProblem { DeviceError* error; };

// One work-group per batch entry.
struct CtcArgs : ops::CtcProblem {
  void* beta;  // backward: scratch of alpha's shape
};

}  // namespace xpu_ops
