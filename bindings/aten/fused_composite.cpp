// The fused operators in torch's differentiable operators: what the CPU runs, what calls that want gradients run, and
// what runs on the device where oneDNN has no fast implementation. No sizes are read, so that tracing with symbolic
// ones works.
#include <cstdio>

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>

#include "bindings/aten/convolution.hpp"
#include "bindings/aten/fused.hpp"

namespace xpu_ops::aten {
namespace {

at::Tensor eltwise(const at::Tensor& x, const PostOp& op) {
  using F = PostFunction;
  const double a = op.alpha, b = op.beta;
  switch (value_of(op.function)) {
    case F::relu: return a == 0 ? x.relu() : at::leaky_relu(x, a);
    case F::tanh: return x.tanh();
    case F::elu: return at::elu(x, a);
    case F::square: return x * x;
    case F::abs: return x.abs();
    case F::sqrt: return x.sqrt();
    case F::swish: return a == 1 ? at::silu(x) : x * (x * a).sigmoid();
    case F::linear: return x * a + b;
    case F::soft_relu: return at::softplus(x, a);
    case F::mish: return at::mish(x);
    case F::logistic: return x.sigmoid();
    case F::exp: return x.exp();
    case F::gelu_tanh: return at::gelu(x, "tanh");
    case F::gelu_erf: return at::gelu(x);
    case F::log: return x.log();
    case F::clip: return at::clamp(x, a, b);
    case F::pow: return a * x.pow(b);
    case F::round: return x.round();
    case F::hardswish: return x * at::clamp(x * a + b, 0, 1);
    case F::hardsigmoid: return at::clamp(x * a + b, 0, 1);
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, "post-op has no composition");
  }
}

at::Tensor binary(const at::Tensor& x, PostFunction function, const at::Tensor& y) {
  using F = PostFunction;
  switch (function) {
    case F::add: return x + y;
    case F::sub: return x - y;
    case F::mul: return x * y;
    case F::div: return x / y;
    case F::max: return at::maximum(x, y);
    case F::min: return at::minimum(x, y);
    case F::ge: return x.ge(y);
    case F::gt: return x.gt(y);
    case F::le: return x.le(y);
    case F::lt: return x.lt(y);
    case F::eq: return x.eq(y);
    case F::ne: return x.ne(y);
    default: TORCH_CHECK_VALUE(false, "post-op 'select' takes two operands and is not reachable here");
  }
}

std::string with_parameters(const char* name, std::initializer_list<double> values) {
  std::string text = name;
  char separator = ':';
  for (const double v : values) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%c%.9g", separator, v);
    text += buffer;
    separator = ',';
  }
  return text;
}

}  // namespace

Chain make_chain(const c10::List<std::string>& names, at::TensorList operands) {
  Chain chain;
  size_t used = 0;
  for (const std::string& name : names.vec()) {
    bool takes_operand = name == "prelu";
    for (const auto& b : binary_names()) takes_operand |= name == b.name;
    if (!takes_operand) {
      parse_eltwise(name);  // for its error
      chain.emplace_back(name);
      continue;
    }
    TORCH_CHECK_VALUE(used < operands.size(), "post-op '", name, "' needs an operand, and there are only ",
                      operands.size());
    chain.emplace_back(std::pair<std::string, at::Tensor>(name, operands[used++]));
  }
  TORCH_CHECK_VALUE(used == operands.size(), "the post-ops take ", used, " operands, but ", operands.size(),
                    " are given");
  return chain;
}

at::Tensor compose_chain(at::Tensor x, const Chain& chain) {
  const at::ScalarType type = x.scalar_type();
  for (const auto& spec : chain) {
    if (const auto* text = std::get_if<std::string>(&spec)) {
      x = eltwise(x, parse_eltwise(*text));
    } else {
      const auto& [name, operand] = std::get<std::pair<std::string, at::Tensor>>(spec);
      x = name == "prelu" ? at::where(x.gt(0), x, x * operand) : binary(x, parse_binary(name), operand);
    }
    if (x.scalar_type() != type) x = x.to(type);
  }
  return x;
}

std::optional<std::string> unary_attribute(std::string_view name, const c10::List<std::optional<at::Scalar>>& scalars,
                                           std::optional<std::string_view> algorithm) {
  const auto scalar = [&](size_t i) {
    TORCH_CHECK(i < scalars.size() && scalars.get(i).has_value(), "post-op '", name, "' needs ", i + 1, " scalars");
    return scalars.get(i)->toDouble();
  };
  if (name.empty() || name == "none") return std::nullopt;
  if (name == "gelu") {
    TORCH_CHECK(!algorithm || *algorithm == "none" || *algorithm == "tanh", "unknown algorithm of gelu: ", *algorithm);
    return algorithm && *algorithm == "tanh" ? "gelu_tanh" : "gelu_erf";
  }
  if (name == "leaky_relu") return with_parameters("relu", {scalar(0)});
  if (name == "hardtanh" || name == "clamp") return with_parameters("clip", {scalar(0), scalar(1)});
  if (name == "elu") return with_parameters("elu", {scalar(0)});
  parse_eltwise(name);  // for its error
  return std::string(name);
}

at::Tensor compose_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Chain& chain) {
  return compose_chain(at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt), chain);
}

at::Tensor compose_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const ConvCall& call, const Chain& chain, const at::Tensor& accumulate) {
  const size_t spatial = x.dim() - 2;
  const auto each = [&](at::IntArrayRef v, int64_t none) {
    return v.empty()       ? std::vector<int64_t>(spatial, none)
           : v.size() == 1 ? std::vector<int64_t>(spatial, v[0])
                           : v.vec();
  };
  at::Tensor y = at::convolution(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, each(call.stride, 1),
                                 each(call.padding, 0), each(call.dilation, 1), call.transposed,
                                 each(call.output_padding, 0), call.groups);
  if (!accumulate.defined()) return compose_chain(y, chain);
  Chain rest = chain;
  if (!rest.empty() && std::holds_alternative<std::string>(rest[0]) && std::get<std::string>(rest[0]) == "sum") {
    y = y + accumulate;
    rest.erase(rest.begin());
  }
  return accumulate.copy_(compose_chain(y, rest));
}

at::Tensor xpu_ops_linear_composite(const at::Tensor& x, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias, c10::List<std::string> post_ops,
                                    at::TensorList operands) {
  return compose_linear(x, weight, bias.value_or(at::Tensor()), make_chain(post_ops, operands));
}

at::Tensor xpu_ops_matmul_composite(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias,
                                    c10::List<std::string> post_ops, at::TensorList operands) {
  const at::Tensor y = at::matmul(a, b);
  return compose_chain(bias && bias->defined() ? y + *bias : y, make_chain(post_ops, operands));
}

at::Tensor xpu_ops_conv_composite(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                  at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                  int64_t groups, bool transposed, at::IntArrayRef output_padding,
                                  c10::List<std::string> post_ops, at::TensorList operands) {
  return compose_convolution(x, weight, bias.value_or(at::Tensor()),
                             {stride, padding, dilation, groups, transposed, output_padding},
                             make_chain(post_ops, operands));
}

at::Tensor xpu_ops_gated_linear_composite(const at::Tensor& x, const at::Tensor& gate_weight,
                                          const at::Tensor& up_weight, const std::optional<at::Tensor>& gate_bias,
                                          const std::optional<at::Tensor>& up_bias, c10::string_view activation) {
  const at::Tensor gate = at::linear(x, gate_weight, gate_bias), up = at::linear(x, up_weight, up_bias);
  return compose_chain(gate, {std::string(activation)}) * up;
}

}  // namespace xpu_ops::aten
