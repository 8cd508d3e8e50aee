// Launch arguments of the loss kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/device_error_args.hpp"
#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

enum class LossKind : int32_t { mse, smooth_l1, huber, bce };

// Scalars come in both widths; the double as its bits, since even copying one needs fp64.
struct LossScalar {
  float f32;
  int64_t f64;
};

// Losses of one element; operands are dense and of one layout.
struct LossArgs {
  const void* input;
  const void* target;
  const void* weight;  // bce; may be null
  const void* grad;    // backward
  void* out;           // losses, partial sums or grad_input
  uint32_t n;
  LossScalar param;      // beta, delta
  LossScalar scale;      // backward: factor of every gradient
  uint32_t grad_scalar;  // grad has one element
  DeviceError* error;    // bce forward: reports inputs outside [0, 1]
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

// Negative log likelihood over [N, C, spatial]; dense.
struct NllArgs {
  const void* input;         // log probabilities; backward: grad_output
  const void* target;        // int64 or uint8, [N, spatial]
  const void* weight;        // [C], may be null
  const void* total_weight;  // backward with mean
  void* out;
  DeviceError* error;
  int64_t ignore_index;
  uint32_t n;  // targets
  uint32_t classes;
  uint32_t byte_target;
  uint32_t grad_scalar;
  uint32_t mean;
  xpu::Divider spatial;
};

// Margin losses over rows of [N, C].
struct MarginArgs {
  const void* input;
  const int64_t* target;  // [N], or [N, C] for the multi-label loss
  const void* weight;
  const void* grad;
  void* out;        // row losses, or grad_input
  void* is_target;  // multi-label: [N, C], written forward, read backward
  DeviceError* error;
  uint32_t rows, classes;
  uint32_t square;  // p == 2
  uint32_t grad_scalar;
  LossScalar margin, scale;
};

// CTC: one work-group a batch entry.
struct CtcArgs {
  const void* log_probs;   // [T, N, C]
  const int64_t* targets;  // padded [N, S] or concatenated
  const int64_t* input_lengths;
  const int64_t* target_lengths;
  const int64_t* target_offsets;
  void* alpha;           // [N, T, 2 * S + 1]
  void* beta;            // backward scratch of the same shape
  void* loss;            // [N]
  const void* grad_out;  // backward
  int64_t grad_out_stride;
  void* grad;                              // [T, N, C]
  int64_t stride_t, stride_n, stride_c;    // of log_probs
  uint32_t steps, batch, classes, states;  // states: 2 * longest target + 1
  uint32_t target_stride;
  uint32_t blank;
  uint32_t zero_infinity;
};

}  // namespace xpu_ops
