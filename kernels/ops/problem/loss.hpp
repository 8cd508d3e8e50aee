// Problems of the losses; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops {

enum class LossKind : int32_t { mse, smooth_l1, huber, bce };

// Scalars come in both widths; the double as its bits, since even copying one needs fp64.
struct LossScalar {
  float f32;
  int64_t f64;
};

namespace ops {

// Losses of each element; operands are dense and of one layout.
struct LossProblem {
  const void* input;
  const void* target;
  const void* weight;  // bce; may be null
  const void* grad;    // backward
  void* out;           // losses, their sum or grad_input
  uint32_t n;
  LossScalar param;      // beta, delta
  LossScalar scale;      // backward: factor of every gradient
  uint32_t grad_scalar;  // grad has one element
};

// Negative log likelihood over [N, C, spatial]; dense.
struct NllProblem {
  const void* input;         // log probabilities; backward: grad_output
  const void* target;        // int64 or uint8, [N, spatial]
  const void* weight;        // [C], may be null
  const void* total_weight;  // backward with mean
  void* out;                 // losses, their sum or grad_input
  int64_t ignore_index;
  uint32_t n;  // targets
  uint32_t classes;
  uint32_t places;  // spatial ones, at least one
  uint32_t byte_target;
  uint32_t grad_scalar;
  uint32_t mean;
};

// Margin losses over rows of [N, C].
struct MarginProblem {
  const void* input;
  const int64_t* target;  // [N], or [N, C] for the multi-label loss
  const void* weight;
  const void* grad;
  void* out;        // row losses, their sum or grad_input
  void* is_target;  // multi-label: [N, C], written forward, read backward
  uint32_t rows, classes;
  uint32_t square;  // p == 2
  uint32_t grad_scalar;
  LossScalar margin, scale;
};

// CTC over log probabilities of [T, N, C].
struct CtcProblem {
  const void* log_probs;   // [T, N, C]
  const int64_t* targets;  // padded [N, S] or concatenated
  const int64_t* input_lengths;
  const int64_t* target_lengths;
  const int64_t* target_offsets;
  void* alpha;           // [N, T, 2 * S + 1]
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

}  // namespace ops
}  // namespace xpu_ops
