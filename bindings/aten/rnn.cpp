// The cells that torch's lstm and gru composites call on an accelerator, and the lstm itself.
#include <ATen/ops/_thnn_fused_lstm_cell.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>

#include "aten/tensor.hpp"
#include "rnn_kernels.hpp"
#include "runtime/launch.hpp"
#include "sycl/rnn_args.hpp"

namespace xpu_ops::aten {
namespace {

// One cell call: dense operands kept alive, their common shape checked.
class Cell {
 public:
  Cell(const char* name, const at::Tensor& like, int64_t parts)
      : name_(name), type_(like.scalar_type()), parts_(parts) {
    TORCH_CHECK(like.dim() == 2 && like.size(1) % parts == 0, name, ": expected [batch, ", parts,
                " * hidden] gates, got ", like.sizes());
    batch_ = like.size(0);
    hidden_ = like.size(1) / parts;
    args.hidden = static_cast<uint32_t>(hidden_);
  }

  // A dense operand of `parts` parts; null where it is absent.
  const void* matrix(const std::optional<at::Tensor>& t, int64_t parts) {
    if (!t.has_value() || !t->defined()) return nullptr;
    check(*t, {batch_, parts * hidden_});
    return keep(*t);
  }
  const void* bias(const std::optional<at::Tensor>& t) {
    if (!t.has_value() || !t->defined()) return nullptr;
    check(*t, {parts_ * hidden_});
    return keep(*t);
  }
  at::Tensor output(int64_t parts) const { return new_empty({batch_, parts * hidden_}, type_); }

  void run(const runtime::KernelTable& kernel) {
    if (batch_ == 0 || hidden_ == 0) return;
    const size_t local = std::min<size_t>(256, runtime::ceil_div(hidden_, 16) * 16);
    runtime::launch2(runtime::current_queue(), kernel[to_dtype(type_)], batch_, runtime::ceil_div(hidden_, local), 1,
                     local, args);
  }

  RnnCellArgs args{};

 private:
  void check(const at::Tensor& t, at::IntArrayRef sizes) const {
    TORCH_CHECK(t.sizes() == sizes, name_, ": expected a tensor of size ", sizes, ", got ", t.sizes());
    TORCH_CHECK(t.scalar_type() == type_, name_, ": expected ", type_, ", got ", t.scalar_type());
  }
  const void* keep(const at::Tensor& t) {
    kept_.push_back(t.contiguous());
    return kept_.back().const_data_ptr();
  }

  const char* name_;
  at::ScalarType type_;
  int64_t parts_, batch_ = 0, hidden_ = 0;
  c10::SmallVector<at::Tensor, 8> kept_;
};

void forward_operands(Cell& cell, int64_t parts, const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                      const at::Tensor& state, const std::optional<at::Tensor>& input_bias,
                      const std::optional<at::Tensor>& hidden_bias) {
  TORCH_CHECK((input_bias.has_value() && input_bias->defined()) == (hidden_bias.has_value() && hidden_bias->defined()),
              "expected both biases or none");
  cell.args.input_gates = cell.matrix(input_gates, parts);
  cell.args.hidden_gates = cell.matrix(hidden_gates, parts);
  cell.args.state = cell.matrix(state, 1);
  cell.args.input_bias = cell.bias(input_bias);
  cell.args.hidden_bias = cell.bias(hidden_bias);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell(const at::Tensor& input_gates,
                                                                     const at::Tensor& hidden_gates,
                                                                     const at::Tensor& cx,
                                                                     const std::optional<at::Tensor>& input_bias,
                                                                     const std::optional<at::Tensor>& hidden_bias) {
  Cell cell("_thnn_fused_lstm_cell", input_gates, 4);
  forward_operands(cell, 4, input_gates, hidden_gates, cx, input_bias, hidden_bias);
  at::Tensor hy = cell.output(1), cy = cell.output(1), workspace = cell.output(4);
  cell.args.hy = hy.mutable_data_ptr();
  cell.args.cy = cy.mutable_data_ptr();
  cell.args.workspace = workspace.mutable_data_ptr();
  cell.run(kernels::lstm_cell);
  return {hy, cy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell_backward_impl(
    const std::optional<at::Tensor>& grad_hy, const std::optional<at::Tensor>& grad_cy, const at::Tensor& cx,
    const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  if (!(grad_hy.has_value() && grad_hy->defined()) && !(grad_cy.has_value() && grad_cy->defined())) return {};
  Cell cell("_thnn_fused_lstm_cell_backward", workspace, 4);
  cell.args.saved = cell.matrix(workspace, 4);
  cell.args.state = cell.matrix(cx, 1);
  cell.args.new_state = cell.matrix(cy, 1);
  cell.args.grad_hy = cell.matrix(grad_hy, 1);
  cell.args.grad_cy = cell.matrix(grad_cy, 1);
  at::Tensor grad_gates = cell.output(4), grad_cx = cell.output(1);
  cell.args.grad_input_gates = grad_gates.mutable_data_ptr();
  cell.args.grad_state = grad_cx.mutable_data_ptr();
  cell.run(kernels::lstm_cell_backward);
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                        const at::Tensor& hx,
                                                        const std::optional<at::Tensor>& input_bias,
                                                        const std::optional<at::Tensor>& hidden_bias) {
  Cell cell("_thnn_fused_gru_cell", input_gates, 3);
  forward_operands(cell, 3, input_gates, hidden_gates, hx, input_bias, hidden_bias);
  at::Tensor hy = cell.output(1), workspace = cell.output(5);
  cell.args.hy = hy.mutable_data_ptr();
  cell.args.workspace = workspace.mutable_data_ptr();
  cell.run(kernels::gru_cell);
  return {hy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> _thnn_fused_gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  Cell cell("_thnn_fused_gru_cell_backward", workspace, 5);
  cell.args.saved = cell.matrix(workspace, 5);
  cell.args.grad_hy = cell.matrix(grad_hy, 1);
  at::Tensor grad_input = cell.output(3), grad_hidden = cell.output(3), grad_hx = cell.output(1);
  cell.args.grad_input_gates = grad_input.mutable_data_ptr();
  cell.args.grad_hidden_gates = grad_hidden.mutable_data_ptr();
  cell.args.grad_state = grad_hx.mutable_data_ptr();
  cell.run(kernels::gru_cell_backward);
  if (!has_bias) return {grad_input, grad_hidden, grad_hx, at::Tensor(), at::Tensor()};
  return {grad_input, grad_hidden, grad_hx, grad_input.sum(0), grad_hidden.sum(0)};
}

// Upstream's composite cannot be left in place: without gradients it takes a stub that no extension can fill (it
// asserts).
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_input(const at::Tensor& input, at::TensorList hx,
                                                          at::TensorList params, bool has_biases, int64_t num_layers,
                                                          double dropout, bool train, bool bidirectional,
                                                          bool batch_first) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  TORCH_CHECK(input.dim() == 3, "lstm: expected a 3-dimensional input, got ", input.sizes());
  const int64_t directions = bidirectional ? 2 : 1, cells = num_layers * directions;
  // A projection shows in the sizes of the two states; its weight is the last of a cell.
  const bool projected = hx[0].size(2) != hx[1].size(2);
  const int64_t each = 2 + (has_biases ? 2 : 0) + (projected ? 1 : 0);
  TORCH_CHECK(static_cast<int64_t>(params.size()) == cells * each, "lstm: expected ", cells * each, " parameters, got ",
              params.size());
  at::Tensor x = batch_first ? input.transpose(0, 1) : input;
  TORCH_CHECK(x.size(0) > 0, "Expected sequence length to be larger than 0 in RNN");
  const std::vector<at::Tensor> h0 = hx[0].unbind(0), c0 = hx[1].unbind(0);
  TORCH_CHECK(static_cast<int64_t>(h0.size()) == cells && static_cast<int64_t>(c0.size()) == cells, "lstm: expected ",
              cells, " states, got ", h0.size(), " and ", c0.size());
  std::vector<at::Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const at::TensorList p = params.slice((layer * directions + direction) * each, each);
      const std::optional<at::Tensor> input_bias = has_biases ? std::optional(p[2]) : std::nullopt;
      const std::optional<at::Tensor> hidden_bias = has_biases ? std::optional(p[3]) : std::nullopt;
      const std::vector<at::Tensor> gates = at::linear(x, p[0]).unbind(0);  // of all steps in one product
      at::Tensor h = h0[layer * directions + direction], c = c0[layer * directions + direction];
      const size_t length = gates.size();
      std::vector<at::Tensor> steps(length);
      for (size_t i = 0; i < length; ++i) {
        const size_t t = direction == 0 ? i : length - 1 - i;
        std::tie(h, c, std::ignore) =
            at::_thnn_fused_lstm_cell(gates[t], at::linear(h, p[1]), c, input_bias, hidden_bias);
        if (projected) h = at::linear(h, p[each - 1]);
        steps[t] = h;
      }
      outputs.push_back(at::stack(steps));
      last_h.push_back(h);
      last_c.push_back(c);
    }
    x = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout != 0 && train && layer + 1 < num_layers) x = at::dropout(x, dropout, true);
  }
  return {batch_first ? x.transpose(0, 1) : x, at::stack(last_h), at::stack(last_c)};
}

// Sequences of equal lengths are not packed; upstream would send them to its own lstm.input, past the dispatcher.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_data(const at::Tensor& data, const at::Tensor& batch_sizes,
                                                         at::TensorList hx, at::TensorList params, bool has_biases,
                                                         int64_t num_layers, double dropout, bool train,
                                                         bool bidirectional) {
  TORCH_CHECK(batch_sizes.device().is_cpu() && batch_sizes.scalar_type() == at::kLong && batch_sizes.dim() == 1 &&
                  batch_sizes.numel() > 0 && batch_sizes.is_contiguous(),
              "batch_sizes should be a non-empty 1-dimensional int64 tensor on the CPU");
  const int64_t length = batch_sizes.numel();
  const int64_t* sizes = batch_sizes.const_data_ptr<int64_t>();
  if (data.dim() != 2 || sizes[0] != sizes[length - 1])  // lengths never grow
    return at::native::lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional);
  auto [out, h, c] = lstm_input(data.reshape({length, sizes[0], data.size(1)}), hx, params, has_biases, num_layers,
                                dropout, train, bidirectional, false);
  return {out.reshape({length * sizes[0], out.size(2)}), h, c};
}

}  // namespace xpu_ops::aten
