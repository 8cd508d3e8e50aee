// Arguments of the LSTM and GRU cells; shared by host and device.
#pragma once
#include <cstdint>

namespace xpu_ops {

// Dense rows; `gates` holds 4 (LSTM: input, forget, cell, output) or 3 (GRU: reset, input, new) parts of `hidden`
// elements.
struct RnnCellArgs {
  const void* input_gates;   // [batch, parts * hidden]; null in backward
  const void* hidden_gates;  // the same
  const void* input_bias;    // [parts * hidden] or null
  const void* hidden_bias;
  const void* state;       // LSTM: cx; GRU forward: hx. [batch, hidden]
  const void* new_state;   // LSTM backward: cy
  const void* grad_hy;     // backward; null: zero
  const void* grad_cy;     // LSTM backward; null: zero
  const void* saved;       // backward: workspace
  void* hy;                // forward
  void* cy;                // LSTM forward
  void* workspace;         // forward: LSTM the 4 gates; GRU reset, input, new, hx, hidden part of new
  void* grad_input_gates;  // backward; of an LSTM also those of the hidden ones
  void* grad_hidden_gates;
  void* grad_state;
  uint32_t hidden;
};

}  // namespace xpu_ops
