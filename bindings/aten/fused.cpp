#include "bindings/aten/fused.hpp"

#include <cstdlib>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/relu.h>

#include "bindings/aten/convolution.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/ops/convolution.hpp"
#include "kernels/ops/matmul.hpp"
#include "kernels/products/chain.hpp"
#include "kernels/products/run.hpp"

namespace xpu_ops::aten {
namespace {

std::optional<float> sum_scale(const std::string& text) {
  if (text.rfind("sum", 0) != 0 || (text.size() > 3 && text[3] != ':')) return std::nullopt;
  return text.size() > 4 ? std::strtof(text.c_str() + 4, nullptr) : 1.f;
}

void check_operands(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias) {
  TORCH_CHECK_TYPE(a.is_xpu() && b.device() == a.device(), "expected both operands on one XPU device, got ", a.device(),
                   " and ", b.device());
  TORCH_CHECK_TYPE(onednn_float(a.scalar_type()) && a.scalar_type() == b.scalar_type(),
                   "expected operands of one float type (float32, bfloat16, float16), got ", a.scalar_type(), " and ",
                   b.scalar_type());
  if (bias)
    TORCH_CHECK_TYPE(bias->device() == a.device() && bias->scalar_type() == a.scalar_type(),
                     "expected a bias of the operands' type and device");
}

bool run_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const ConvGeometry& g,
                     const Chain& chain, const at::Tensor& out, bool has_out) {
  SplitChain split = split_chain(chain, out, has_out, ops::plan_relu_behind(current_policy()));
  View bias_view;
  auto problem = conv_problem(x, weight, bias, out, g, conv_format(x, weight), bias_view);
  problem.epilogue.post = std::move(split.post);
  problem.epilogue.reads_result = has_out;
  problem.activation = split.activation;
  problem.tail = !split.tail.empty();
  problem.composed = true;
  const auto served = products::run(runtime::current_queue(), problem);
  if (served == products::Served::without_tail) apply_chain(out, split.tail);
  return served != products::Served::no;
}

// Whether oneDNN may be asked at all; what it does not take is composed.
bool plain_call(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias, const at::Tensor& out) {
  return onednn_float(x.scalar_type()) && x.scalar_type() == w.scalar_type() && x.numel() && w.numel() && out.numel() &&
         (!bias.defined() || bias.scalar_type() == x.scalar_type());
}

// An operand that broadcasts to `sizes`, as one that broadcasts to the rows of a matrix of sizes.back() columns.
at::Tensor as_rows(const at::Tensor& t, at::IntArrayRef sizes) {
  const int64_t last = t.dim() ? t.size(-1) : 1;
  if (t.numel() == last) return t.reshape({1, last});
  std::vector<int64_t> full = sizes.vec();
  full.back() = last;
  return t.expand(full).reshape({-1, last});
}

// Takes the last operand off a chain where a pass behind the product reads it faster than the primitive does.
std::optional<std::pair<std::string, at::Tensor>> take_last_operand(Chain& chain, const at::Tensor& out) {
  const auto* last = chain.empty() ? nullptr : std::get_if<std::pair<std::string, at::Tensor>>(&chain.back());
  if (!last || (last->first != "add" && last->first != "mul") || last->second.sizes() != out.sizes() ||
      last->second.scalar_type() != out.scalar_type() || last->second.device() != out.device() ||
      !ops::plan_operand_behind(dtype_of(out), static_cast<int64_t>(out.nbytes()), current_policy()))
    return std::nullopt;
  const auto taken = *last;
  chain.pop_back();
  return taken;
}

}  // namespace

namespace {

// The operand of a post-op, of the result's rank.
View operand_view(const std::string& name, const at::Tensor& operand, const at::Tensor& out) {
  TORCH_CHECK_VALUE(operand.device() == out.device(), "the operand of post-op '", name, "' is on ", operand.device(),
                    ", the result on ", out.device());
  TORCH_CHECK_VALUE(operand.dim() <= out.dim(), "the operand of post-op '", name,
                    "' has more dimensions than the result");
  const View whole = view(operand);
  View v;
  v.data = whole.data;
  v.type = whole.type;
  for (int64_t i = operand.dim(); i < out.dim(); ++i) v.push(1, 1);
  for (int64_t i = 0; i < operand.dim(); ++i) {
    const int64_t size = operand.size(i), wanted = out.size(out.dim() - operand.dim() + i);
    TORCH_CHECK_VALUE(size == 1 || size == wanted, "the operand of post-op '", name, "' has shape ", operand.sizes(),
                      ", which does not broadcast to ", out.sizes());
    v.push(size, operand.stride(i));
  }
  products::settle(v);
  return v;
}

// Appends one post-op. False if it, and what follows it, is the tail. `relu`: it may be one without a slope.
bool append(const PostOpSpec& spec, const at::Tensor& out, bool has_out, bool floats, bool relu, SplitChain& split) {
  std::vector<PostOp>& ops = split.post.ops;
  if (const auto* text = std::get_if<std::string>(&spec)) {
    if (const auto scale = sum_scale(*text)) {
      TORCH_CHECK_VALUE(has_out, "post-op 'sum' adds what `out` holds: pass out=");
      ops.push_back(PostOp::sum(*scale));
      return true;
    }
    const PostOp op = parse_eltwise(*text);
    split.activation = products::activation_of(op);
    if (!floats) return ops.push_back(op), true;
    if (!keeps_special_values(op.function, dtype_of(out)) || (!relu && is_relu(op))) return false;
    append_eltwise(ops, op);
    return true;
  }
  const auto& [name, operand] = std::get<std::pair<std::string, at::Tensor>>(spec);
  if (name == "prelu") {
    TORCH_CHECK_VALUE(onednn_float(operand.scalar_type()), "the slopes of post-op 'prelu' must be float32");
    ops.push_back(PostOp::prelu(operand_view(name, operand, out)));
    return true;
  }
  const PostFunction function = parse_binary(name);
  if (floats && !keeps_special_values(function, dtype_of(out))) return false;
  const View v = operand_view(name, operand, out);
  TORCH_CHECK_VALUE(name != "select", "post-op 'select' takes two operands and is not reachable here");
  ops.push_back(PostOp::binary(function, v));
  return true;
}

}  // namespace

SplitChain split_chain(const Chain& chain, const at::Tensor& out, bool has_out, bool relu_behind) {
  SplitChain split;
  const bool floats = at::isFloatingType(out.scalar_type());
  auto first = chain.begin();
  while (first != chain.end()) {
    const bool behind = relu_behind && std::next(first) == chain.end();
    if (!append(*first, out, has_out, floats, !behind, split)) break;
    ++first;
  }
  split.tail.assign(first, chain.end());
  for (auto& spec : split.tail)
    if (const auto* text = std::get_if<std::string>(&spec))
      if (const auto scale = sum_scale(*text)) spec = std::pair<std::string, at::Tensor>("add", out * *scale);
  if (!chain.empty() && (chain.size() > 1 || !std::holds_alternative<std::string>(chain[0]) ||
                         sum_scale(std::get<std::string>(chain[0]))))
    split.activation = {.known = false};
  return split;
}

ConvGeometry checked_geometry(const at::Tensor& x, const at::Tensor& weight, const ConvCall& call) {
  const int spatial = static_cast<int>(x.dim()) - 2;
  TORCH_CHECK_VALUE(spatial >= 1 && spatial <= 3 && weight.dim() == x.dim(), "expected 3-D, 4-D or 5-D operands, got ",
                    x.dim(), "-D and ", weight.dim(), "-D");
  for (const auto v : {call.stride, call.padding, call.dilation, call.output_padding})
    TORCH_CHECK_VALUE(static_cast<int>(v.size()) == spatial || v.size() <= 1, "expected ", spatial,
                      " values of stride, padding, dilation and output_padding");
  for (const auto v : {call.stride, call.dilation})
    for (int64_t s : v) TORCH_CHECK_VALUE(s > 0, "stride and dilation must be positive");
  TORCH_CHECK_VALUE(call.groups > 0 && weight.size(0) % call.groups == 0 &&
                        x.size(1) == (call.transposed ? weight.size(0) : weight.size(1) * call.groups),
                    "weight of shape ", weight.sizes(), " and groups ", call.groups, " do not fit an input of shape ",
                    x.sizes());
  const auto given = [](at::IntArrayRef v, int64_t none) { return v.empty() ? std::vector<int64_t>{none} : v.vec(); };
  return conv_geometry(spatial, given(call.stride, 1), given(call.padding, 0), given(call.dilation, 1),
                       given(call.output_padding, 0), call.transposed, call.groups);
}

void apply_chain(const at::Tensor& out, const Chain& tail) {
  if (tail.empty()) return;
  using F = PostFunction;
  Chain rest = tail;
  if (const auto* text = std::get_if<std::string>(&tail[0])) {
    const PostOp op = parse_eltwise(*text);
    at::Tensor t = out;
    bool done = true;
    switch (value_of(op.function)) {
      case F::clip: at::clamp_(t, op.alpha, op.beta); break;
      case F::relu: is_relu(op) ? at::relu_(t) : at::leaky_relu_(t, op.alpha); break;
      case F::gelu_erf: at::gelu_(t); break;
      case F::exp: at::exp_(t); break;
      default: done = false;
    }
    if (done) rest.erase(rest.begin());
  }
  if (!rest.empty()) out.copy_(compose_chain(out, rest));
}

bool run_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias, const Chain& chain,
                const at::Tensor& out, bool has_out, const products::Weight& weight) {
  SplitChain split = split_chain(chain, out, has_out,
                                 ops::plan_relu_behind_product(static_cast<int64_t>(out.nbytes()), current_policy()));
  View bias_view;
  if (bias.defined()) bias_view = view(bias);
  const products::FusedProblem problem{
      .a = operand(a),
      .b = operand(b),
      .out = out_operand(out),
      .epilogue = {bias.defined() ? &bias_view : nullptr, std::move(split.post), has_out},
      .weight = weight};
  if (!products::run(runtime::current_queue(), problem)) return false;
  apply_chain(out, split.tail);
  return true;
}

at::Tensor fused_matmul(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias,
                        const Chain& post_ops, const std::optional<at::Tensor>& out) {
  const CallGuard guard(a);
  check_operands(a, b, bias);
  const int64_t d = a.dim();
  TORCH_CHECK_VALUE(
      (d == 2 || d == 3) && b.dim() == d && a.size(d - 1) == b.size(d - 2) && (d == 2 || a.size(0) == b.size(0)),
      "shapes ", a.sizes(), " and ", b.sizes(), " cannot be multiplied");
  TORCH_CHECK_VALUE(!bias || (bias->dim() == 1 && bias->size(0) == b.size(d - 1)), "expected a bias of ", b.size(d - 1),
                    " elements");
  std::vector<int64_t> sizes(a.sizes().vec());
  sizes[d - 1] = b.size(d - 1);
  const at::Tensor result = out ? *out : new_empty(sizes, a.scalar_type());
  TORCH_CHECK_VALUE(result.sizes() == at::IntArrayRef(sizes) && result.is_contiguous() && result.device() == a.device(),
                    "out must be contiguous, of shape ", at::IntArrayRef(sizes), " and on ", a.device());
  if (result.numel() == 0) return result;
  TORCH_CHECK_VALUE(a.numel() && b.numel(), "an empty inner dimension is not supported");
  TORCH_CHECK_NOT_IMPLEMENTED(run_matmul(a, b, bias.value_or(at::Tensor()), post_ops, result, out.has_value()),
                              "oneDNN has no fast implementation of this matmul with these post-ops");
  return result;
}

at::Tensor fused_convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                             const std::vector<int64_t>& stride, const std::vector<int64_t>& padding,
                             const std::vector<int64_t>& dilation, int64_t groups, bool transposed,
                             const std::vector<int64_t>& output_padding, const Chain& post_ops,
                             const std::optional<at::Tensor>& out) {
  const CallGuard guard(x);
  check_operands(x, weight, bias);
  const ConvCall call{stride, padding, dilation, groups, transposed, output_padding};
  const auto g = checked_geometry(x, weight, call);
  const std::vector<int64_t> sizes = conv_output_size(x, weight, g);
  for (int64_t s : sizes) TORCH_CHECK_VALUE(s >= 0, "the kernel is larger than the padded input");
  const at::Tensor result = out ? *out : new_empty(sizes, x.scalar_type(), conv_format(x, weight));
  TORCH_CHECK_VALUE(result.sizes() == at::IntArrayRef(sizes) && result.device() == x.device(), "out must be of shape ",
                    at::IntArrayRef(sizes), " and on ", x.device());
  TORCH_CHECK_VALUE(!bias || (bias->dim() == 1 && bias->size(0) == sizes[1]), "expected a bias of ", sizes[1],
                    " elements");
  if (result.numel() == 0) return result;
  TORCH_CHECK_VALUE(x.numel() && weight.numel(), "empty operands are not supported");
  TORCH_CHECK_NOT_IMPLEMENTED(
      run_convolution(x, weight, bias.value_or(at::Tensor()), g, post_ops, result, out.has_value()),
      "oneDNN has no fast implementation of this convolution with these post-ops");
  return result;
}

at::Tensor linear_chain(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Chain& chain) {
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1), "mat1 and mat2 shapes cannot be ",
              "multiplied: input of shape ", x.sizes(), ", weight of shape ", weight.sizes());
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "expected a bias of ",
              weight.size(0), " elements, got shape ", bias.sizes());
  std::vector<int64_t> sizes(x.sizes().vec());
  sizes.back() = weight.size(0);
  const at::Tensor out = new_empty(sizes, x.scalar_type());
  if (plain_call(x, weight, bias, out)) {
    Chain rows = chain;
    for (auto& spec : rows)
      if (auto* pair = std::get_if<std::pair<std::string, at::Tensor>>(&spec))
        pair->second = as_rows(pair->second, sizes);
    const at::Tensor a = x.reshape({-1, x.size(-1)}), b = weight.t(), result = out.view({-1, weight.size(0)});
    const auto behind = take_last_operand(rows, result);
    if (run_matmul(a, b, bias, rows, result, false, weight_of(b, a.size(0)))) {
      if (behind) behind->first == "add" ? result.add_(behind->second) : result.mul_(behind->second);
      return out;
    }
  }
  return compose_linear(x, weight, bias, chain);
}

at::Tensor convolution_chain(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             const ConvCall& call, const Chain& chain, const at::Tensor& accumulate) {
  const auto g = checked_geometry(x, weight, call);
  const std::vector<int64_t> sizes = conv_output_size(x, weight, g);
  for (int64_t s : sizes) TORCH_CHECK_VALUE(s >= 0, "the kernel is larger than the padded input");
  TORCH_CHECK(!accumulate.defined() || accumulate.sizes() == at::IntArrayRef(sizes), "expected a tensor of shape ",
              at::IntArrayRef(sizes), " to add to, got ", accumulate.sizes());
  const at::MemoryFormat format = call.format ? *call.format : conv_format(x, weight);
  const at::Tensor out = accumulate.defined() ? accumulate : new_empty(sizes, x.scalar_type(), format);
  if (plain_call(x, weight, bias, out) && out.scalar_type() == x.scalar_type() &&
      run_convolution(x, weight, bias, g, chain, out, accumulate.defined()))
    return out;
  const at::Tensor composed = compose_convolution(x, weight, bias, call, chain, accumulate);
  return call.format && !accumulate.defined() ? composed.contiguous(format) : composed;
}

// ---- torch.ops.xpu_ops

at::Tensor xpu_ops_linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                          c10::List<std::string> post_ops, at::TensorList operands) {
  return linear_chain(x, weight, bias.value_or(at::Tensor()), make_chain(post_ops, operands));
}

at::Tensor xpu_ops_matmul(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias_opt,
                          c10::List<std::string> post_ops, at::TensorList operands) {
  const Chain chain = make_chain(post_ops, operands);
  const at::Tensor bias = bias_opt.value_or(at::Tensor());
  if (b.dim() == 2 && a.dim() >= 2 && a.size(-1) == b.size(0)) return linear_chain(a, b.t(), bias, chain);
  if (a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1) &&
      (!bias.defined() || (bias.dim() == 1 && bias.size(0) == b.size(2)))) {
    const at::Tensor out = new_empty({a.size(0), a.size(1), b.size(2)}, a.scalar_type());
    if (plain_call(a, b, bias, out) && run_matmul(a, b, bias, chain, out, false)) return out;
  }
  return xpu_ops_matmul_composite(a, b, bias_opt, post_ops, operands);
}

at::Tensor xpu_ops_conv(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                        bool transposed, at::IntArrayRef output_padding, c10::List<std::string> post_ops,
                        at::TensorList operands) {
  return convolution_chain(x, weight, bias.value_or(at::Tensor()),
                           {stride, padding, dilation, groups, transposed, output_padding},
                           make_chain(post_ops, operands));
}

at::Tensor xpu_ops_gated_linear(const at::Tensor& x, const at::Tensor& gate_weight, const at::Tensor& up_weight,
                                const std::optional<at::Tensor>& gate_bias, const std::optional<at::Tensor>& up_bias,
                                c10::string_view activation) {
  TORCH_CHECK(gate_weight.sizes() == up_weight.sizes(), "expected two weights of one shape, got ", gate_weight.sizes(),
              " and ", up_weight.sizes());
  const at::Tensor up = linear_chain(x, up_weight, up_bias.value_or(at::Tensor()), {});
  return linear_chain(x, gate_weight, gate_bias.value_or(at::Tensor()),
                      {std::string(activation), std::pair<std::string, at::Tensor>("mul", up)});
}

// ---- torch's own fused schemas

namespace {

Chain with_attribute(Chain chain, std::string_view name, const c10::List<std::optional<at::Scalar>>& scalars,
                     std::optional<std::string_view> algorithm) {
  if (auto unary = unary_attribute(name, scalars, algorithm)) chain.push_back(*unary);
  return chain;
}

void check_alpha(const std::optional<at::Scalar>& alpha) {
  TORCH_CHECK(!alpha || alpha->toDouble() == 1.0, "the alpha value for the binary fusion should be none or 1.0");
}

}  // namespace

at::Tensor mkldnn__linear_pointwise(const at::Tensor& X, const at::Tensor& W, const std::optional<at::Tensor>& B,
                                    c10::string_view attr, c10::List<std::optional<at::Scalar>> scalars,
                                    std::optional<c10::string_view> algorithm) {
  return linear_chain(X, W, B.value_or(at::Tensor()), with_attribute({}, attr, scalars, algorithm));
}

at::Tensor mkldnn__linear_pointwise_binary(const at::Tensor& X, const at::Tensor& other, const at::Tensor& W,
                                           const std::optional<at::Tensor>& B, c10::string_view attr) {
  return linear_chain(X, W, B.value_or(at::Tensor()), {std::pair<std::string, at::Tensor>(attr, other)});
}

at::Tensor mkldnn__convolution_pointwise(const at::Tensor& X, const at::Tensor& W, const std::optional<at::Tensor>& B,
                                         at::IntArrayRef padding, at::IntArrayRef stride, at::IntArrayRef dilation,
                                         int64_t groups, c10::string_view attr,
                                         c10::List<std::optional<at::Scalar>> scalars,
                                         std::optional<c10::string_view> algorithm) {
  return convolution_chain(X, W, B.value_or(at::Tensor()),
                           {stride, padding, dilation, groups, false, {}, X.suggest_memory_format()},
                           with_attribute({}, attr, scalars, algorithm));
}

at::Tensor mkldnn__convolution_pointwise_binary(const at::Tensor& X, const at::Tensor& other, const at::Tensor& W,
                                                const std::optional<at::Tensor>& B, at::IntArrayRef padding,
                                                at::IntArrayRef stride, at::IntArrayRef dilation, int64_t groups,
                                                c10::string_view binary_attr, std::optional<at::Scalar> alpha,
                                                std::optional<c10::string_view> unary_attr,
                                                c10::List<std::optional<at::Scalar>> unary_scalars,
                                                std::optional<c10::string_view> unary_algorithm) {
  check_alpha(alpha);
  return convolution_chain(X, W, B.value_or(at::Tensor()),
                           {stride, padding, dilation, groups, false, {}, X.suggest_memory_format()},
                           with_attribute({std::pair<std::string, at::Tensor>(binary_attr, other)},
                                          unary_attr.value_or("none"), unary_scalars, unary_algorithm));
}

at::Tensor& mkldnn__convolution_pointwise__binary(at::Tensor& self, const at::Tensor& X, const at::Tensor& W,
                                                  const std::optional<at::Tensor>& B, at::IntArrayRef padding,
                                                  at::IntArrayRef stride, at::IntArrayRef dilation, int64_t groups,
                                                  c10::string_view binary_attr, std::optional<at::Scalar> alpha,
                                                  std::optional<c10::string_view> unary_attr,
                                                  c10::List<std::optional<at::Scalar>> unary_scalars,
                                                  std::optional<c10::string_view> unary_algorithm) {
  TORCH_CHECK(binary_attr == "add", "expected the binary attribute of an in-place convolution to be add, got ",
              binary_attr);
  check_alpha(alpha);
  convolution_chain(X, W, B.value_or(at::Tensor()), {stride, padding, dilation, groups},
                    with_attribute({std::string("sum")}, unary_attr.value_or("none"), unary_scalars, unary_algorithm),
                    self);
  return self;
}

at::Tensor mkldnn__convolution_transpose_pointwise(const at::Tensor& X, const at::Tensor& W,
                                                   const std::optional<at::Tensor>& B, at::IntArrayRef padding,
                                                   at::IntArrayRef output_padding, at::IntArrayRef stride,
                                                   at::IntArrayRef dilation, int64_t groups, c10::string_view attr,
                                                   c10::List<std::optional<at::Scalar>> scalars,
                                                   std::optional<c10::string_view> algorithm) {
  return convolution_chain(X, W, B.value_or(at::Tensor()),
                           {stride, padding, dilation, groups, true, output_padding, X.suggest_memory_format()},
                           with_attribute({}, attr, scalars, algorithm));
}

}  // namespace xpu_ops::aten
