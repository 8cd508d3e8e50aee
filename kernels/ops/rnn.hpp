// LSTM and GRU: cells, and the steps of a layer that multiply with the hidden state themselves. Plans (pure host code)
// and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/rnn.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

enum class RnnKind { lstm, lstm_backward, gru, gru_backward };

// Work-groups over the batch and over the hidden units, or the other way round.
struct RnnPlan { size_t groups0 = 0, groups1 = 0, local = 1; };

RnnPlan plan_rnn_cell(int64_t batch, int64_t hidden);
void rnn_cell(runtime::Queue& queue, RnnKind kind, DType type, int64_t batch, const RnnCellProblem& problem);

// Whether the steps serve a layer of float.
bool plan_rnn_steps_serve(int64_t batch, int64_t hidden, const runtime::Policy& policy);
RnnPlan plan_rnn_step(RnnKind kind, int64_t batch, int64_t hidden);
void rnn_step(runtime::Queue& queue, RnnKind kind, const RnnStepProblem& problem);
// The step at which backward begins: no product yet.
void rnn_first_step(runtime::Queue& queue, RnnKind kind, const RnnStepProblem& problem);

}  // namespace xpu_ops::ops
