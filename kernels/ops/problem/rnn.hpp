// Problems of LSTM and GRU; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// A cell over dense rows; `gates` holds 4 (LSTM: input, forget, cell, output) or 3 (GRU: reset, input, new) parts of
// `hidden` elements.
struct RnnCellProblem {
  const void* input_gates;   // [batch, parts * hidden]; null in backward
  const void* hidden_gates;  // the same
  const void* input_bias;    // [parts * hidden] or null
  const void* hidden_bias;
  const void* state;       // LSTM: cx; GRU forward: hx. [batch, hidden]
  const void* new_state;   // LSTM backward: cy
  const void* grad_hy;     // backward; null: zero
  const void* grad_cy;     // backward, null: zero; of a GRU what the step after gave to the state past its product
  const void* saved;       // backward: workspace
  void* hy;                // forward
  void* cy;                // LSTM forward
  void* workspace;         // forward: LSTM the 4 gates; GRU reset, input, new, hx, hidden part of new
  void* grad_input_gates;  // backward; of an LSTM also those of the hidden ones
  void* grad_hidden_gates;
  void* grad_state;
  uint32_t hidden;
};

// A step of a layer: the product with the hidden state (forward) or with the gradient of the gates of the step after
// (backward), and the cell.
struct RnnStepProblem {
  const void* left;     // forward [batch, hidden], backward [batch, parts * hidden]
  const void* weight;   // forward [hidden / 16, hidden, parts, 16], backward [hidden / 16, parts * hidden, 16]
  RnnCellProblem cell;  // hidden_gates, or the part of grad_hy that the product is, is not read
  uint32_t batch;
};

}  // namespace xpu_ops::ops
