#include "kernels/products/chain.hpp"

#include <algorithm>

#include "kernels/ops/copy.hpp"
#include "kernels/products/copies.hpp"

namespace xpu_ops::products {
namespace {

bool has_operand(const PostOp& op) { return op.kind == PostOp::Kind::binary || op.kind == PostOp::Kind::prelu; }

int64_t values_of(const Quantization& q) {
  int64_t n = 1;
  for (const int64_t d : q.dims) n *= d;
  return n;
}

}  // namespace

void settle(View& v) {
  int64_t dense = 1;
  for (int i = v.ndim - 1; i >= 0; --i) {
    if (v.dims[i] == 1) v.strides[i] = dense;
    dense = std::max(dense, v.dims[i] * v.strides[i]);
  }
}

View wanted_operand(const PostOp& op, const View& out, bool wide, bool matrices) {
  const bool slopes = op.kind == PostOp::Kind::prelu;
  View t = op.other;
  const DType type = (wide || slopes) && is_half(t.type) ? DType::f32 : t.type;
  if (std::equal(t.dims, t.dims + t.ndim, out.dims) && !same_layout(t, out)) {
    std::copy_n(out.strides, out.ndim, t.strides);
    t.data = nullptr;
  } else if (matrices && out.ndim == 3 && !slopes && t.dims[0] == 1 && t.dims[1] == 1 && t.dims[2] > 1 &&
             (out.dims[0] > 1 || t.strides[2] != 1)) {
    t.dims[0] = out.dims[0];
    t.strides[0] = t.strides[1] = t.dims[2];
    t.strides[2] = 1;
    t.data = nullptr;
  } else if (type != t.type) {
    t = like(t, type);
  }
  if (type != t.type) t.data = nullptr;
  t.type = type;
  settle(t);
  return t;
}

DepthwiseActivation activation_of(const PostOp& op) {
  using F = PostFunction;
  const auto as = [&](ConvActivation kind) { return DepthwiseActivation{true, kind, op.alpha, op.beta}; };
  switch (op.kind == PostOp::Kind::eltwise ? value_of(op.function) : F::none) {
    case F::relu: return as(ConvActivation::relu);
    case F::linear: return as(ConvActivation::linear);
    case F::clip: return as(ConvActivation::clip);
    case F::hardswish: return as(ConvActivation::hardswish);
    case F::hardsigmoid: return as(ConvActivation::hardsigmoid);
    case F::swish: return as(ConvActivation::swish);
    case F::logistic: return as(ConvActivation::logistic);
    case F::gelu_tanh: return as(ConvActivation::gelu_tanh);
    case F::gelu_erf: return as(ConvActivation::gelu_erf);
    default: return {.known = false};
  }
}

std::optional<ConvGate> gate_of(const DepthwiseActivation& f) {
  switch (f.kind) {
    case ConvActivation::none: return ConvGate{};
    // Leaky relu has no gate: its slope is not 0 or 1.
    case ConvActivation::relu: return f.alpha == 0 ? std::optional(ConvGate{.low = 0}) : std::nullopt;
    case ConvActivation::linear: return ConvGate{.scale = f.alpha, .shift = f.beta};
    case ConvActivation::clip: return ConvGate{.low = f.alpha, .high = f.beta};
    case ConvActivation::hardswish: return ConvGate{.scale = f.alpha, .shift = f.beta, .low = 0, .high = 1, .times = 1};
    case ConvActivation::hardsigmoid: return ConvGate{.scale = f.alpha, .shift = f.beta, .low = 0, .high = 1};
    default: return std::nullopt;
  }
}

PreparedEpilogue::PreparedEpilogue(const Epilogue& given, const View& out, bool wide, bool matrices) : given_(given) {
  if (given.bias) {
    bias_ = *given.bias;
    const bool converted = wide && is_half(bias_.type);
    if (converted || (bias_.dims[0] != 1 && bias_.strides[0] != 1)) {
      if (converted) bias_.type = DType::f32;
      bias_.strides[0] = 1;
      bias_.data = nullptr;
      copies_ = true;
    }
  }
  const auto own = [&]() -> PostOps& {
    copies_ = true;
    return own_ ? *own_ : own_.emplace(given.post);
  };
  for (size_t i = 0; i < given.post.ops.size(); ++i) {
    if (!has_operand(given.post.ops[i])) continue;
    const View t = wanted_operand(given.post.ops[i], out, wide, matrices);
    if (!t.data) own().ops[i].other = t;
  }
  if (!wide) return;
  for (size_t i = 0; i < given.post.quantization.size(); ++i)
    if (is_half(given.post.quantization[i].type)) own().quantization[i].type = DType::f32;
}

void* PreparedEpilogue::memory(const View& v) { return memory_.emplace_back(v.numel() * dtype_size(v.type)).get(); }

void PreparedEpilogue::copy(runtime::Queue& queue) {
  if (given_.bias && !bias_.data) {
    bias_.data = memory(bias_);
    convert(queue, bias_, *given_.bias);
  }
  if (!own_) return;
  for (size_t i = 0; i < own_->ops.size(); ++i) {
    View& to = own_->ops[i].other;
    if (!has_operand(own_->ops[i]) || to.data) continue;
    View from = given_.post.ops[i].other;
    for (int d = 0; d < from.ndim; ++d)
      if (from.dims[d] != to.dims[d]) from.dims[d] = to.dims[d], from.strides[d] = 0;
    to.data = memory(to);
    convert(queue, to, from);
  }
  for (size_t i = 0; i < own_->quantization.size(); ++i) {
    Quantization& to = own_->quantization[i];
    const Quantization& from = given_.post.quantization[i];
    if (to.type == from.type) continue;
    to.data = memory_.emplace_back(values_of(to) * dtype_size(to.type)).get();
    ops::cast(queue, to.data, to.type, from.data, from.type, values_of(to), 0);
  }
}

}  // namespace xpu_ops::products
