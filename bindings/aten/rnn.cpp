// The cells that torch's lstm and gru composites call on an accelerator, and the layers themselves.
#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_thnn_fused_gru_cell.h>
#include <ATen/ops/_thnn_fused_lstm_cell.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "bindings/aten/core/tangents.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/rnn.hpp"

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
    problem.hidden = static_cast<uint32_t>(hidden_);
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

  void run(ops::RnnKind kind) { ops::rnn_cell(runtime::current_queue(), kind, to_dtype(type_), batch_, problem); }

  ops::RnnCellProblem problem{};

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
  cell.problem.input_gates = cell.matrix(input_gates, parts);
  cell.problem.hidden_gates = cell.matrix(hidden_gates, parts);
  cell.problem.state = cell.matrix(state, 1);
  cell.problem.input_bias = cell.bias(input_bias);
  cell.problem.hidden_bias = cell.bias(hidden_bias);
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
  cell.problem.hy = hy.mutable_data_ptr();
  cell.problem.cy = cy.mutable_data_ptr();
  cell.problem.workspace = workspace.mutable_data_ptr();
  cell.run(ops::RnnKind::lstm);
  return {hy, cy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell_backward_impl(
    const std::optional<at::Tensor>& grad_hy, const std::optional<at::Tensor>& grad_cy, const at::Tensor& cx,
    const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  if (!(grad_hy.has_value() && grad_hy->defined()) && !(grad_cy.has_value() && grad_cy->defined())) return {};
  Cell cell("_thnn_fused_lstm_cell_backward", workspace, 4);
  cell.problem.saved = cell.matrix(workspace, 4);
  cell.problem.state = cell.matrix(cx, 1);
  cell.problem.new_state = cell.matrix(cy, 1);
  cell.problem.grad_hy = cell.matrix(grad_hy, 1);
  cell.problem.grad_cy = cell.matrix(grad_cy, 1);
  at::Tensor grad_gates = cell.output(4), grad_cx = cell.output(1);
  cell.problem.grad_input_gates = grad_gates.mutable_data_ptr();
  cell.problem.grad_state = grad_cx.mutable_data_ptr();
  cell.run(ops::RnnKind::lstm_backward);
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                        const at::Tensor& hx,
                                                        const std::optional<at::Tensor>& input_bias,
                                                        const std::optional<at::Tensor>& hidden_bias) {
  Cell cell("_thnn_fused_gru_cell", input_gates, 3);
  forward_operands(cell, 3, input_gates, hidden_gates, hx, input_bias, hidden_bias);
  at::Tensor hy = cell.output(1), workspace = cell.output(5);
  cell.problem.hy = hy.mutable_data_ptr();
  cell.problem.workspace = workspace.mutable_data_ptr();
  cell.run(ops::RnnKind::gru);
  return {hy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> _thnn_fused_gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  Cell cell("_thnn_fused_gru_cell_backward", workspace, 5);
  cell.problem.saved = cell.matrix(workspace, 5);
  cell.problem.grad_hy = cell.matrix(grad_hy, 1);
  at::Tensor grad_input = cell.output(3), grad_hidden = cell.output(3), grad_hx = cell.output(1);
  cell.problem.grad_input_gates = grad_input.mutable_data_ptr();
  cell.problem.grad_hidden_gates = grad_hidden.mutable_data_ptr();
  cell.problem.grad_state = grad_hx.mutable_data_ptr();
  cell.run(ops::RnnKind::gru_backward);
  if (!has_bias) return {grad_input, grad_hidden, grad_hx, at::Tensor(), at::Tensor()};
  return {grad_input, grad_hidden, grad_hx, grad_input.sum(0), grad_hidden.sum(0)};
}

// ---- the cells in operators that have forward derivatives, with the workspace of the kernels

namespace {

at::Tensor biased(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> fused_lstm_cell_tangents(const at::Tensor& input_gates,
                                                                        const at::Tensor& hidden_gates,
                                                                        const at::Tensor& cx,
                                                                        const std::optional<at::Tensor>& input_bias,
                                                                        const std::optional<at::Tensor>& hidden_bias) {
  const std::vector<at::Tensor> gates =
      (biased(input_gates, input_bias) + biased(hidden_gates, hidden_bias)).chunk(4, 1);
  const at::Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(),
                   out = gates[3].sigmoid();
  const at::Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<at::Tensor, at::Tensor> fused_gru_cell_tangents(const at::Tensor& input_gates,
                                                           const at::Tensor& hidden_gates, const at::Tensor& hx,
                                                           const std::optional<at::Tensor>& input_bias,
                                                           const std::optional<at::Tensor>& hidden_bias) {
  const std::vector<at::Tensor> in = biased(input_gates, input_bias).chunk(3, 1);
  const std::vector<at::Tensor> hidden = biased(hidden_gates, hidden_bias).chunk(3, 1);
  const at::Tensor reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
  const at::Tensor fresh = (in[2] + reset * hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

// ---- layers: one product for the input of all steps, a kernel per step for the product with the hidden state and the
// cell; backward the same, and one product per weight for all steps

namespace rnn {

// One layer and direction over a sequence.
struct RnnLayer {
  at::Tensor x, h0, c0;  // [steps, batch, inner], [batch, hidden]; c0 is undefined for a GRU
  at::Tensor input_weight, hidden_weight;
  std::optional<at::Tensor> input_bias, hidden_bias, projection;
  bool reverse = false;

  bool lstm() const { return c0.defined(); }
  int64_t parts() const { return lstm() ? 4 : 3; }
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;

bool steps_fit(const RnnLayer& l) {
  std::vector<at::Tensor> all{l.x, l.h0, l.input_weight, l.hidden_weight};
  for (const auto* t : {&l.input_bias, &l.hidden_bias})
    if (t->has_value()) all.push_back(**t);
  if (l.lstm()) all.push_back(l.c0);
  if (l.projection || at::areAnyTensorSubclassLike(all) || at::autocast::is_autocast_enabled(at::kXPU)) return false;
  for (const auto& t : all)
    if (!t.is_xpu() || t.scalar_type() != at::kFloat || t.device() != l.x.device() || has_tangent(t)) return false;
  const int64_t batch = l.h0.size(0), hidden = l.h0.size(1), gates = l.parts() * hidden;
  const auto bias_fits = [&](const Optional& b) { return !b || b->sizes() == at::IntArrayRef({gates}); };
  return l.x.size(1) == batch && l.hidden_weight.sizes() == at::IntArrayRef({gates, hidden}) &&
         l.input_weight.sizes() == at::IntArrayRef({gates, l.x.size(2)}) && bias_fits(l.input_bias) &&
         bias_fits(l.hidden_bias) && (!l.lstm() || l.c0.sizes() == l.h0.sizes()) &&
         ops::plan_rnn_steps_serve(batch, hidden, current_policy());
}

at::Tensor dense(const at::Tensor& t) { return t.resolve_neg().contiguous(); }
const void* data(const Optional& t) { return t ? t->const_data_ptr() : nullptr; }

// A dense [steps, ...] tensor, or one slot for all steps.
struct Steps {
  explicit Steps(const at::Tensor& t, bool shared = false)
      : base(static_cast<char*>(t.mutable_data_ptr())), pitch(shared ? 0 : t.stride(0) * t.element_size()) {}
  char* operator[](int64_t t) const { return base + t * pitch; }
  char* base;
  int64_t pitch;
};

struct Forward {
  at::Tensor out, cells, work;  // [steps, batch, hidden], of an LSTM the same, what backward reads
};

Forward forward_steps(const RnnLayer& l, bool keep) {
  const int64_t steps = l.x.size(0), batch = l.h0.size(0), hidden = l.h0.size(1), parts = l.parts();
  const at::Tensor gates = dense(at::linear(l.x, l.input_weight)), h0 = dense(l.h0), c0 = l.lstm() ? dense(l.c0) : l.c0;
  const at::Tensor weight =
      dense(l.hidden_weight).view({parts, hidden / 16, 16, hidden}).permute({1, 3, 0, 2}).contiguous();
  const Optional input_bias = l.input_bias ? Optional(dense(*l.input_bias)) : l.input_bias;
  const Optional hidden_bias = l.hidden_bias ? Optional(dense(*l.hidden_bias)) : l.hidden_bias;
  Forward f;
  f.out = new_empty({steps, batch, hidden}, at::kFloat);
  if (l.lstm()) f.cells = new_empty({steps, batch, hidden}, at::kFloat);
  f.work = new_empty({keep ? steps : 1, batch, (l.lstm() ? 4 : 5) * hidden}, at::kFloat);
  const Steps in(gates), out(f.out), cells(l.lstm() ? f.cells : f.out), work(f.work, !keep);
  ops::RnnStepProblem problem{};
  problem.weight = weight.const_data_ptr();
  problem.batch = static_cast<uint32_t>(batch);
  problem.cell.hidden = static_cast<uint32_t>(hidden);
  problem.cell.input_bias = data(input_bias);
  problem.cell.hidden_bias = data(hidden_bias);
  problem.left = h0.const_data_ptr();
  problem.cell.state = l.lstm() ? c0.const_data_ptr() : problem.left;
  const ops::RnnKind kind = l.lstm() ? ops::RnnKind::lstm : ops::RnnKind::gru;
  auto& queue = runtime::current_queue();
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = l.reverse ? steps - 1 - i : i;
    problem.cell.input_gates = in[t];
    problem.cell.hy = out[t];
    problem.cell.cy = l.lstm() ? cells[t] : nullptr;
    problem.cell.workspace = work[t];
    ops::rnn_step(queue, kind, problem);
    problem.left = out[t];
    problem.cell.state = cells[t];
  }
  return f;
}

struct Gradients {
  at::Tensor input_gates, hidden_gates;  // [steps, batch, parts * hidden]; of an LSTM they are one
  at::Tensor state;                      // of c0; of a GRU's h0 without its product
};

Gradients backward_steps(const RnnLayer& l, const Forward& f, const at::Tensor& grad_out, const at::Tensor& grad_c) {
  const int64_t steps = f.out.size(0), batch = f.out.size(1), hidden = f.out.size(2), parts = l.parts();
  const at::Tensor weight =
      dense(l.hidden_weight).view({parts * hidden, hidden / 16, 16}).permute({1, 0, 2}).contiguous();
  const at::Tensor gy = grad_out.defined() ? dense(grad_out) : grad_out, gc = grad_c.defined() ? dense(grad_c) : grad_c;
  const at::Tensor c0 = l.lstm() ? dense(l.c0) : l.c0;
  Gradients g;
  g.input_gates = new_empty({steps, batch, parts * hidden}, at::kFloat);
  g.hidden_gates = l.lstm() ? g.input_gates : new_empty({steps, batch, parts * hidden}, at::kFloat);
  g.state = new_empty({batch, hidden}, at::kFloat);
  const Steps in(g.input_gates), hid(g.hidden_gates);
  const auto read = [](const at::Tensor& t, int64_t i) {
    return static_cast<const char*>(t.const_data_ptr()) + i * t.stride(0) * t.element_size();
  };
  ops::RnnStepProblem problem{};
  problem.weight = weight.const_data_ptr();
  problem.batch = static_cast<uint32_t>(batch);
  problem.cell.hidden = static_cast<uint32_t>(hidden);
  problem.cell.grad_cy = gc.defined() ? gc.const_data_ptr() : nullptr;
  problem.cell.grad_state = g.state.mutable_data_ptr();
  const ops::RnnKind kind = l.lstm() ? ops::RnnKind::lstm_backward : ops::RnnKind::gru_backward;
  auto& queue = runtime::current_queue();
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = l.reverse ? i : steps - 1 - i, before = l.reverse ? t + 1 : t - 1;
    problem.cell.saved = read(f.work, t);
    problem.cell.grad_hy = gy.defined() ? read(gy, t) : nullptr;
    if (l.lstm()) {
      problem.cell.state = i + 1 < steps ? read(f.cells, before) : c0.const_data_ptr();
      problem.cell.new_state = read(f.cells, t);
    }
    problem.cell.grad_input_gates = in[t];
    problem.cell.grad_hidden_gates = hid[t];
    if (i == 0)
      ops::rnn_first_step(queue, kind, problem);
    else
      ops::rnn_step(queue, kind, problem);
    problem.left = hid[t];
    problem.cell.grad_cy = problem.cell.grad_state;
  }
  return g;
}

// The path of double backward, tensor subclasses and all other shapes and types.
std::tuple<at::Tensor, at::Tensor, at::Tensor> compose(const RnnLayer& l) {
  const std::vector<at::Tensor> gates = at::linear(l.x, l.input_weight).unbind(0);  // of all steps in one product
  at::Tensor h = l.h0, c = l.c0;
  const size_t length = gates.size();
  std::vector<at::Tensor> steps(length);
  for (size_t i = 0; i < length; ++i) {
    const size_t t = l.reverse ? length - 1 - i : i;
    const at::Tensor hidden = at::linear(h, l.hidden_weight);
    if (l.lstm())
      std::tie(h, c, std::ignore) = at::_thnn_fused_lstm_cell(gates[t], hidden, c, l.input_bias, l.hidden_bias);
    else
      std::tie(h, std::ignore) = at::_thnn_fused_gru_cell(gates[t], hidden, h, l.input_bias, l.hidden_bias);
    if (l.projection) h = at::linear(h, *l.projection);
    steps[t] = h;
  }
  return {at::stack(steps), h, c};
}

struct Layer : torch::autograd::Function<Layer> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& h0, const Optional& c0,
                               const at::Tensor& input_weight, const at::Tensor& hidden_weight,
                               const Optional& input_bias, const Optional& hidden_bias, bool reverse) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor none;
    const RnnLayer l{x, h0, c0.value_or(none), input_weight, hidden_weight, input_bias, hidden_bias, {}, reverse};
    const Forward f = forward_steps(l, true);
    ctx->saved_data["reverse"] = reverse;
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({x, h0, l.c0, input_weight, hidden_weight, input_bias.value_or(none),
                            hidden_bias.value_or(none), f.out, f.cells, f.work});
    if (!l.lstm()) return {f.out};
    return {f.out, f.cells[reverse ? 0 : x.size(0) - 1].clone()};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto optional = [](const at::Tensor& t) { return t.defined() ? Optional(t) : std::nullopt; };
    const RnnLayer l{saved[0],
                     saved[1],
                     saved[2],
                     saved[3],
                     saved[4],
                     optional(saved[5]),
                     optional(saved[6]),
                     std::optional<at::Tensor>(),
                     ctx->saved_data["reverse"].toBool()};
    const at::Tensor grad_out = grads[0], grad_c = l.lstm() ? grads[1] : at::Tensor();
    variable_list result(8);
    if (!grad_out.defined() && !grad_c.defined()) return result;
    const auto batched = [](const at::Tensor& t) { return t.defined() && at::isTensorSubclassLike(t); };
    if (c10::GradMode::is_enabled() || batched(grad_out) || batched(grad_c)) {
      differentiable(l, grad_out, grad_c, variable_list(saved.begin(), saved.begin() + 7), result);
      return result;
    }
    const Forward f{saved[7], saved[8], saved[9]};
    const Gradients g = backward_steps(l, f, grad_out, grad_c);
    const int64_t steps = f.out.size(0), batch = f.out.size(1), hidden = f.out.size(2), gates = l.parts() * hidden;
    const at::Tensor in = g.input_gates.view({steps * batch, gates}), hid = g.hidden_gates.view({steps * batch, gates});
    const int64_t first = l.reverse ? steps - 1 : 0;
    const auto wanted = [&](int i) { return saved[i].defined() && saved[i].requires_grad(); };
    if (wanted(0)) result[0] = at::mm(in, l.input_weight).view(l.x.sizes());
    if (wanted(1)) {
      result[1] = at::mm(g.hidden_gates[first], l.hidden_weight);
      if (!l.lstm()) result[1].add_(g.state);
    }
    if (wanted(2)) result[2] = g.state;
    if (wanted(3)) result[3] = at::mm(in.t(), l.x.reshape({steps * batch, l.x.size(2)}));
    if (wanted(4)) {
      result[4] = at::mm(g.hidden_gates[first].t(), l.h0);
      // Each later step with the state of the one before it.
      const int64_t rows = (steps - 1) * batch, from = l.reverse ? 0 : batch;
      if (rows)
        result[4].addmm_(hid.narrow(0, from, rows).t(),
                         f.out.view({steps * batch, hidden}).narrow(0, batch - from, rows));
    }
    if (wanted(5)) result[5] = in.sum(0);
    if (wanted(6)) result[6] = l.lstm() && result[5].defined() ? result[5] : hid.sum(0);
    return result;
  }

 private:
  static void differentiable(const RnnLayer& l, const at::Tensor& grad_out, const at::Tensor& grad_c,
                             const variable_list& inputs, variable_list& result) {
    const bool further = c10::GradMode::is_enabled();
    const at::AutoGradMode graph(true);
    const auto [out, h, c] = compose(l);
    variable_list outputs, given, leaves;
    if (grad_out.defined()) outputs.push_back(out), given.push_back(grad_out);
    if (grad_c.defined()) outputs.push_back(c), given.push_back(grad_c);
    std::vector<size_t> places;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined() && inputs[i].requires_grad()) leaves.push_back(inputs[i]), places.push_back(i);
    const variable_list found = torch::autograd::grad(outputs, leaves, given, true, further, true);
    for (size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
  }
};

// The output of all steps, the last state and, of an LSTM, the last cell state. With gradients.
std::tuple<at::Tensor, at::Tensor, at::Tensor> run_rnn_layer(const RnnLayer& l) {
  if (!steps_fit(l)) return compose(l);
  const int64_t last = l.reverse ? 0 : l.x.size(0) - 1;
  bool gradients = false;
  if (c10::GradMode::is_enabled()) {
    for (const auto* t : {&l.x, &l.h0, &l.c0, &l.input_weight, &l.hidden_weight})
      gradients |= t->defined() && t->requires_grad();
    for (const auto* t : {&l.input_bias, &l.hidden_bias}) gradients |= t->has_value() && (*t)->requires_grad();
  }
  if (!gradients) {
    const Forward f = forward_steps(l, false);
    return {f.out, f.out[last], l.lstm() ? f.cells[last] : at::Tensor()};
  }
  const variable_list r = Layer::apply(l.x, l.h0, l.lstm() ? Optional(l.c0) : std::nullopt, l.input_weight,
                                       l.hidden_weight, l.input_bias, l.hidden_bias, l.reverse);
  return {r[0], r[0][last], l.lstm() ? r[1] : at::Tensor()};
}

}  // namespace
}  // namespace rnn

namespace {

// All layers and directions; c0 is empty for a GRU.
std::tuple<at::Tensor, at::Tensor, at::Tensor> run_layers(const char* name, const at::Tensor& input,
                                                          const at::Tensor& hx, const at::Tensor& cx,
                                                          at::TensorList params, bool has_biases, int64_t num_layers,
                                                          double dropout, bool train, bool bidirectional,
                                                          bool batch_first) {
  TORCH_CHECK(input.dim() == 3, name, ": expected a 3-dimensional input, got ", input.sizes());
  const int64_t directions = bidirectional ? 2 : 1, cells = num_layers * directions;
  // A projection shows in the sizes of the two states; its weight is the last of a cell.
  const bool projected = cx.defined() && hx.size(2) != cx.size(2);
  const int64_t each = 2 + (has_biases ? 2 : 0) + (projected ? 1 : 0);
  TORCH_CHECK(static_cast<int64_t>(params.size()) == cells * each, name, ": expected ", cells * each,
              " parameters, got ", params.size());
  at::Tensor x = batch_first ? input.transpose(0, 1) : input;
  TORCH_CHECK(x.size(0) > 0, "Expected sequence length to be larger than 0 in RNN");
  const std::vector<at::Tensor> h0 = hx.unbind(0), c0 = cx.defined() ? cx.unbind(0) : std::vector<at::Tensor>(cells);
  TORCH_CHECK(static_cast<int64_t>(h0.size()) == cells && static_cast<int64_t>(c0.size()) == cells, name, ": expected ",
              cells, " states, got ", h0.size(), " and ", c0.size());
  std::vector<at::Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = layer * directions + direction;
      const at::TensorList p = params.slice(i * each, each);
      rnn::RnnLayer one{x, h0[i], c0[i], p[0], p[1], {}, {}, {}, direction == 1};
      if (has_biases) one.input_bias = p[2], one.hidden_bias = p[3];
      if (projected) one.projection = p[each - 1];
      auto [out, h, c] = rnn::run_rnn_layer(one);
      outputs.push_back(out);
      last_h.push_back(h);
      last_c.push_back(c);
    }
    x = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout != 0 && train && layer + 1 < num_layers) x = at::dropout(x, dropout, true);
  }
  return {batch_first ? x.transpose(0, 1) : x, at::stack(last_h), cx.defined() ? at::stack(last_c) : at::Tensor()};
}

}  // namespace

// Upstream's composite cannot be left in place: without gradients it takes a stub that no extension can fill (it
// asserts).
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_input(const at::Tensor& input, at::TensorList hx,
                                                          at::TensorList params, bool has_biases, int64_t num_layers,
                                                          double dropout, bool train, bool bidirectional,
                                                          bool batch_first) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  return run_layers("lstm", input, hx[0], hx[1], params, has_biases, num_layers, dropout, train, bidirectional,
                    batch_first);
}

// Upstream's takes a product for the input of each step.
std::tuple<at::Tensor, at::Tensor> gru_input(const at::Tensor& input, const at::Tensor& hx, at::TensorList params,
                                             bool has_biases, int64_t num_layers, double dropout, bool train,
                                             bool bidirectional, bool batch_first) {
  auto [out, h, _] =
      run_layers("gru", input, hx, {}, params, has_biases, num_layers, dropout, train, bidirectional, batch_first);
  return {out, h};
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
