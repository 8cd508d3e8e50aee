// Arguments of the LSTM and GRU cells; shared by host and device.
#pragma once
#include "kernels/ops/problem/rnn.hpp"

namespace xpu_ops {

constexpr uint32_t kRnnForwardRows = 4, kRnnBackwardRows = 8;  // of a work-group of a step, which has sixteen units

// Nothing is planned.
using RnnCellArgs = ops::RnnCellProblem;
using RnnStepArgs = ops::RnnStepProblem;

}  // namespace xpu_ops
