// Residual addition with layer or RMS norm, and rotary embeddings: one pass over memory instead of two to five.
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum_to_size.h>
#include <torch/csrc/autograd/custom_function.h>

#include "bindings/aten/fused.hpp"
#include "bindings/aten/normalization.hpp"
#include "kernels/ops/fused.hpp"

namespace xpu_ops::aten {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

std::tuple<at::Tensor, at::Tensor> _fused_rms_norm(const at::Tensor& input, at::IntArrayRef normalized_shape,
                                                   const std::optional<at::Tensor>& weight, std::optional<double> eps);

namespace {

double epsilon(at::ScalarType type) {
  return type == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

struct AddNorm { at::Tensor y, sum, mean, rstd; };

AddNorm add_norm(const at::Tensor& x_in, const at::Tensor& residual_in, at::Tensor weight, at::Tensor bias, double eps,
                 bool rms) {
  TORCH_CHECK(x_in.dim() >= 1 && x_in.sizes() == residual_in.sizes(), "expected x and residual of one shape, got ",
              x_in.sizes(), " and ", residual_in.sizes());
  TORCH_CHECK(x_in.scalar_type() == residual_in.scalar_type(), "expected x and residual of one type, got ",
              x_in.scalar_type(), " and ", residual_in.scalar_type());
  TORCH_CHECK(at::isFloatingType(x_in.scalar_type()), "expected floating point tensors, got ", x_in.scalar_type());
  const int64_t cols = x_in.size(-1), rows = cols ? x_in.numel() / cols : 0;
  for (const at::Tensor* t : {&weight, &bias})
    TORCH_CHECK(!t->defined() || (t->dim() == 1 && t->size(0) == cols), "expected weight and bias of ", cols,
                " elements, got shape ", t->sizes());
  check_rows(rows, cols);
  const at::Tensor x = x_in.contiguous(), residual = residual_in.contiguous();
  AddNorm r;
  r.y = new_empty(x.sizes(), x.scalar_type());
  r.sum = new_empty(x.sizes(), x.scalar_type());
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  r.rstd = new_empty(sizes, stat_type(x.scalar_type()));
  if (!rms) r.mean = new_empty(sizes, r.rstd.scalar_type());
  if (rows == 0) return r;
  const at::ScalarType type = parameter_type(x.scalar_type(), weight.defined() ? weight : bias);
  weight = as_parameter(weight, type);
  bias = as_parameter(bias, type);
  ops::AddNormProblem problem;
  problem.x = x.const_data_ptr();
  problem.residual = residual.const_data_ptr();
  problem.norm.x = r.sum.mutable_data_ptr();
  problem.norm.weight = data_or_null(weight);
  problem.norm.bias = data_or_null(bias);
  problem.norm.y = r.y.mutable_data_ptr();
  problem.norm.mean = rms ? nullptr : r.mean.mutable_data_ptr();
  problem.norm.rstd = r.rstd.mutable_data_ptr();
  problem.norm.rows = static_cast<uint32_t>(rows);
  problem.norm.cols = static_cast<uint32_t>(cols);
  problem.norm.eps = Real(eps);
  ops::add_norm(runtime::current_queue(), dtype_of(x), to_dtype(type), problem);
  return r;
}

// Strides of the leading dims, of which there are at most three.
void strides_of(const at::Tensor& t, int64_t (&out)[3]) {
  for (int64_t i = 0, d = t.dim() - 1; i < d; ++i) out[3 - d + i] = t.size(i) == 1 ? 0 : t.stride(i);
}

}  // namespace

at::Tensor xpu_ops_rms_norm(const at::Tensor& x, const std::optional<at::Tensor>& weight, std::optional<double> eps) {
  TORCH_CHECK(x.dim() >= 1, "expected a tensor of at least one dimension");
  return std::get<0>(aten::_fused_rms_norm(x, {x.size(-1)}, weight, eps));
}

Three xpu_ops_add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const std::optional<at::Tensor>& weight,
                           std::optional<double> eps) {
  const AddNorm r =
      add_norm(x, residual, or_undefined(weight), {}, eps.value_or(epsilon(x.scalar_type())), /*rms=*/true);
  return {r.y, r.sum, r.rstd};
}

Four xpu_ops_add_layer_norm(const at::Tensor& x, const at::Tensor& residual, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, double eps) {
  const AddNorm r = add_norm(x, residual, or_undefined(weight), or_undefined(bias), eps, /*rms=*/false);
  return {r.y, r.sum, r.mean, r.rstd};
}

at::Tensor xpu_ops_rotary_embedding(const at::Tensor& x_in, const at::Tensor& cos_in, const at::Tensor& sin_in,
                                    bool interleaved, bool inverse) {
  TORCH_CHECK(at::isFloatingType(x_in.scalar_type()), "expected floating point tensors, got ", x_in.scalar_type());
  TORCH_CHECK(x_in.dim() >= 1 && x_in.size(-1) % 2 == 0, "expected an even last dimension, got shape ", x_in.sizes());
  const int64_t size = x_in.size(-1), half = size / 2;
  TORCH_CHECK(cos_in.sizes() == sin_in.sizes(), "expected cos and sin of one shape, got ", cos_in.sizes(), " and ",
              sin_in.sizes());
  TORCH_CHECK(cos_in.dim() >= 1 && cos_in.dim() <= x_in.dim() && (cos_in.size(-1) == size || cos_in.size(-1) == half),
              "expected cos and sin of last dimension ", size, " or ", half, ", got shape ", cos_in.sizes());
  if (x_in.dim() > 4) return xpu_ops_rotary_embedding_composite(x_in, cos_in, sin_in, interleaved, inverse);
  at::Tensor x = x_in.stride(-1) == 1 ? x_in : x_in.contiguous();
  at::Tensor y = at::empty_like(x);
  if (y.stride(-1) != 1) y = new_empty(x.sizes(), x.scalar_type());
  if (y.numel() == 0) return y;
  const at::ScalarType type = parameter_type(x.scalar_type(), cos_in);
  std::vector<int64_t> table = x.sizes().vec();
  table.back() = cos_in.size(-1);
  const at::Tensor cos = as_parameter(cos_in, type).expand(table), sin = as_parameter(sin_in, type).expand(table);
  ops::RotaryProblem problem;
  problem.x = x.const_data_ptr();
  problem.cos = cos.const_data_ptr();
  problem.sin = sin.const_data_ptr();
  problem.y = y.mutable_data_ptr();
  strides_of(x, problem.x_strides);
  strides_of(y, problem.y_strides);
  strides_of(cos, problem.cos_strides);
  strides_of(sin, problem.sin_strides);
  const int64_t rows = x.numel() / size;
  TORCH_CHECK_NOT_IMPLEMENTED(rows < INT32_MAX && size < INT32_MAX, "2^31 and more rows are not supported");
  problem.rows = static_cast<uint32_t>(rows);
  if (x.dim() >= 3) problem.size1 = static_cast<uint32_t>(x.size(-3));
  if (x.dim() >= 2) problem.size2 = static_cast<uint32_t>(x.size(-2));
  problem.half = static_cast<uint32_t>(half);
  const bool wide = cos_in.size(-1) == size;
  problem.table_step = interleaved && wide ? 2 : 1;
  problem.table_second = !wide ? 0 : interleaved ? 1 : problem.half;
  problem.inverse = inverse;
  ops::rotary(runtime::current_queue(), dtype_of(x), to_dtype(type), problem, interleaved);
  return y;
}

// ---- compositions

namespace {

// The norm and 1 / sqrt(mean(x^2) + eps).
std::pair<at::Tensor, at::Tensor> compose_rms_norm(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                                                   std::optional<double> eps) {
  const at::Tensor wide = x.to(stat_type(x.scalar_type()));
  const at::Tensor rstd = (at::mean(wide * wide, -1, true) + eps.value_or(epsilon(x.scalar_type()))).rsqrt();
  const at::Tensor y = wide * rstd;
  return {(weight && weight->defined() ? y * *weight : y).to(x.scalar_type()), rstd};
}

}  // namespace

at::Tensor xpu_ops_rms_norm_composite(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                                      std::optional<double> eps) {
  return compose_rms_norm(x, weight, eps).first;
}

Three xpu_ops_add_rms_norm_composite(const at::Tensor& x, const at::Tensor& residual,
                                     const std::optional<at::Tensor>& weight, std::optional<double> eps) {
  const at::Tensor sum = x + residual;
  const auto [y, rstd] = compose_rms_norm(sum, weight, eps);
  return {y, sum, rstd};
}

Four xpu_ops_add_layer_norm_composite(const at::Tensor& x, const at::Tensor& residual,
                                      const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                                      double eps) {
  const at::Tensor sum = x + residual;
  const auto [y, mean, rstd] = at::native_layer_norm_symint(sum, {sum.sym_size(-1)}, weight, bias, eps);
  return {y, sum, mean, rstd};
}

at::Tensor xpu_ops_rotary_embedding_composite(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                                              bool interleaved, bool inverse) {
  const auto halves = [&](const at::Tensor& t) -> std::pair<at::Tensor, at::Tensor> {
    if (!interleaved) {
      const auto parts = t.chunk(2, -1);
      return {parts[0], parts[1]};
    }
    return {t.slice(-1, 0, std::nullopt, 2), t.slice(-1, 1, std::nullopt, 2)};
  };
  const bool wide = cos.sym_size(-1).sym_eq(x.sym_size(-1)).guard_bool(__FILE__, __LINE__);
  const auto table = [&](const at::Tensor& t) { return wide ? halves(t) : std::pair(t, t); };
  const auto [x1, x2] = halves(x);
  const auto [c1, c2] = table(cos);
  auto [s1, s2] = table(sin);
  if (inverse) {
    std::swap(s1, s2);
    s1 = -s1;
    s2 = -s2;
  }
  const at::Tensor y1 = x1 * c1 - x2 * s1, y2 = x2 * c2 + x1 * s2;
  const at::Tensor y = interleaved ? at::stack({y1, y2}, -1).flatten(-2) : at::cat({y1, y2}, -1);
  return y.to(x.scalar_type());
}

// ---- gradients

namespace {

template <class Signature>
auto operation(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

std::optional<at::Tensor> optional(const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }
at::Tensor added(const at::Tensor& a, const at::Tensor& b) { return !a.defined() ? b : b.defined() ? a + b : a; }

struct AddRmsNorm : torch::autograd::Function<AddRmsNorm> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& residual,
                               const std::optional<at::Tensor>& weight, std::optional<double> eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = operation<decltype(xpu_ops_add_rms_norm)>("xpu_ops::add_rms_norm");
    auto [y, sum, rstd] = op.call(x, residual, weight, eps);
    ctx->save_for_backward({sum, rstd, or_undefined(weight)});
    ctx->saved_data["eps"] = eps;
    ctx->mark_non_differentiable({rstd});
    ctx->set_materialize_grads(false);
    return {y, sum, rstd};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &sum = saved[0], &rstd = saved[1], &weight = saved[2];
    at::Tensor dx = grads[1], dw;
    if (grads[0].defined() && c10::GradMode::is_enabled()) {  // torch has no second derivative of its formula
      const at::Tensor root = compose_rms_norm(sum, {}, ctx->saved_data["eps"].toOptional<double>()).second;
      const at::Tensor dy = grads[0].to(root.scalar_type()), h = sum * root, g = weight.defined() ? dy * weight : dy;
      dx = added(dx, (root * (g - h * at::mean(g * h, -1, true))).to(sum.scalar_type()));
      if (weight.defined()) dw = (dy * h).sum_to_size_symint(weight.sym_sizes()).to(weight.scalar_type());
    } else if (grads[0].defined()) {
      const int64_t cols = sum.sym_size(-1).guard_int(__FILE__, __LINE__);
      const auto [d, w] = at::_fused_rms_norm_backward(grads[0], sum, {cols}, rstd, optional(weight),
                                                       {true, weight.defined() && weight.requires_grad()});
      dx = added(dx, d);
      dw = w;
    }
    return {dx, dx, dw, {}};
  }
};

struct AddLayerNorm : torch::autograd::Function<AddLayerNorm> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& residual,
                               const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                               double eps) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = operation<decltype(xpu_ops_add_layer_norm)>("xpu_ops::add_layer_norm");
    auto [y, sum, mean, rstd] = op.call(x, residual, weight, bias, eps);
    ctx->save_for_backward({sum, mean, rstd, or_undefined(weight), or_undefined(bias)});
    ctx->mark_non_differentiable({mean, rstd});
    ctx->set_materialize_grads(false);
    return {y, sum, mean, rstd};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &sum = saved[0], &weight = saved[3], &bias = saved[4];
    at::Tensor dx = grads[1], dw, db;
    if (grads[0].defined()) {
      const auto [d, w, b] = at::native_layer_norm_backward_symint(
          grads[0], sum, {sum.sym_size(-1)}, saved[1], saved[2], optional(weight), optional(bias),
          {true, weight.defined() && weight.requires_grad(), bias.defined() && bias.requires_grad()});
      dx = added(dx, d);
      dw = w;
      db = b;
    }
    return {dx, dx, dw, db, {}};
  }
};

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            bool interleaved, bool inverse) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["interleaved"] = interleaved;
    ctx->saved_data["inverse"] = inverse;
    return operation<decltype(xpu_ops_rotary_embedding)>("xpu_ops::rotary_embedding")
        .call(x, cos, sin, interleaved, inverse);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor dx = operation<decltype(xpu_ops_rotary_embedding)>("xpu_ops::rotary_embedding")
                              .call(grads[0], saved[0], saved[1], ctx->saved_data["interleaved"].toBool(),
                                    !ctx->saved_data["inverse"].toBool());
    return {dx, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor xpu_ops_rms_norm_autograd(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                                     std::optional<double> eps) {
  if (!x.is_xpu()) return xpu_ops_rms_norm_composite(x, weight, eps);
  return std::get<0>(at::_fused_rms_norm(x, {x.sym_size(-1).guard_int(__FILE__, __LINE__)}, weight, eps));
}

Three xpu_ops_add_rms_norm_autograd(const at::Tensor& x, const at::Tensor& residual,
                                    const std::optional<at::Tensor>& weight, std::optional<double> eps) {
  if (!x.is_xpu()) return xpu_ops_add_rms_norm_composite(x, residual, weight, eps);
  const auto r = AddRmsNorm::apply(x, residual, weight, eps);
  return {r[0], r[1], r[2]};
}

Four xpu_ops_add_layer_norm_autograd(const at::Tensor& x, const at::Tensor& residual,
                                     const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                                     double eps) {
  const auto r = AddLayerNorm::apply(x, residual, weight, bias, eps);
  return {r[0], r[1], r[2], r[3]};
}

at::Tensor xpu_ops_rotary_embedding_autograd(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                                             bool interleaved, bool inverse) {
  // Tables are constants as a rule; where they are learned, the composition knows their gradients.
  if (cos.requires_grad() || sin.requires_grad())
    return xpu_ops_rotary_embedding_composite(x, cos, sin, interleaved, inverse);
  return Rotary::apply(x, cos, sin, interleaved, inverse);
}

}  // namespace xpu_ops::aten
