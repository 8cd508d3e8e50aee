// A convolution with the batch norm of an inference behind it, folded into weights that stay packed.
#include <array>

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty_like.h>

#include "bindings/aten/convolution.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/fused.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/ops/convolution.hpp"
#include "kernels/products/run.hpp"

namespace xpu_ops::aten {
namespace {

// Everything that the folded weights are made of.
struct Norm {
  const at::Tensor &layer, bias, weight, shift, mean, var;
  double eps;
  mutable at::Tensor made{};  // until the copy of it is on its way

  at::Tensor scale() const {
    const at::Tensor s = (var.to(at::kFloat) + eps).rsqrt();
    return weight.defined() ? s * weight.to(at::kFloat) : s;
  }
  at::Tensor weights() const { return layer.to(at::kFloat) * scale().view({-1, 1, 1, 1}); }
  at::Tensor offset() const {
    at::Tensor from = mean.to(at::kFloat).neg();
    if (bias.defined()) from = from + bias.to(at::kFloat);
    const at::Tensor moved = from * scale();
    return shift.defined() ? moved + shift.to(at::kFloat) : moved;
  }
  View keep(const at::Tensor& t) const {
    made = t;
    return view(made);
  }
};

at::Tensor of(const MaybeTensor& t) { return t.value_or(at::Tensor()); }

const Norm& norm_of(const void* owner) { return *static_cast<const Norm*>(owner); }
View folded_weights(const void* owner) {
  const Norm& n = norm_of(owner);
  const at::Tensor w = n.weights().to(n.layer.scalar_type());
  return n.keep(w.strides() == n.layer.strides() ? w : at::empty_like(n.layer).copy_(w));
}
View folded_bias(const void* owner) {
  const Norm& n = norm_of(owner);
  return n.keep(n.offset().to(n.layer.scalar_type()));
}
View folded_taps(const void* owner) {
  const Norm& n = norm_of(owner);
  return n.keep(at::cat({n.weights().flatten(1).t().flatten(), n.offset()}));
}

at::Tensor compose(const at::Tensor& x, const Norm& n, const ConvCall& call, at::ArrayRef<double> bounds,
                   const Chain& chain) {
  const auto given = [](const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
  const at::Tensor read = bounds.empty() ? x : at::clamp(x, bounds[0], bounds[1]);
  const at::Tensor y = at::convolution(read, n.layer, given(n.bias), call.stride, call.padding, call.dilation, false,
                                       std::vector<int64_t>(call.stride.size(), 0), call.groups);
  const at::Tensor normed = at::batch_norm(y, given(n.weight), given(n.shift), n.mean, n.var, false, 0, n.eps, false);
  return compose_chain(normed, chain).contiguous(conv_format(x, n.layer));
}

void check(at::ArrayRef<double> bounds) {
  TORCH_CHECK_VALUE(bounds.empty() || bounds.size() == 2, "expected two bounds or none, got ", bounds.size());
}

// Whether the operands are what the folded form takes; everything else is composed.
bool folds(const at::Tensor& x, const Norm& n) {
  if (x.dim() != 4 || n.layer.dim() != 4 || !onednn_float(x.scalar_type()) || x.numel() == 0 || n.layer.numel() == 0 ||
      n.layer.scalar_type() != x.scalar_type() || !x.is_contiguous(at::MemoryFormat::ChannelsLast) ||
      !n.layer.is_non_overlapping_and_dense())
    return false;
  for (const at::Tensor* t : {&n.bias, &n.weight, &n.shift, &n.mean, &n.var})
    if (t->defined() && (t->device() != x.device() || t->dim() != 1 || t->size(0) != n.layer.size(0) ||
                         !onednn_float(t->scalar_type())))
      return false;
  return true;
}

}  // namespace

at::Tensor xpu_ops_conv_norm_composite(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& norm_weight, const std::optional<at::Tensor>& norm_bias, const at::Tensor& mean,
    const at::Tensor& var, double eps, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
    int64_t groups, at::ArrayRef<double> bounds, c10::List<std::string> post_ops, at::TensorList operands) {
  check(bounds);
  return compose(x, {weight, of(bias), of(norm_weight), of(norm_bias), mean, var, eps},
                 {stride, padding, dilation, groups}, bounds, make_chain(post_ops, operands));
}

at::Tensor xpu_ops_conv_norm(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                             const std::optional<at::Tensor>& norm_weight, const std::optional<at::Tensor>& norm_bias,
                             const at::Tensor& mean, const at::Tensor& var, double eps, at::IntArrayRef stride,
                             at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                             at::ArrayRef<double> bounds, c10::List<std::string> post_ops, at::TensorList operands) {
  check(bounds);
  const Norm n{weight, of(bias), of(norm_weight), of(norm_bias), mean, var, eps};
  const ConvCall call{stride, padding, dilation, groups};
  const Chain chain = make_chain(post_ops, operands);
  const auto g = checked_geometry(x, weight, call);
  const std::vector<int64_t> sizes = conv_output_size(x, weight, g);
  if (!folds(x, n)) return compose(x, n, call, bounds, chain);
  for (int64_t s : sizes) TORCH_CHECK_VALUE(s >= 0, "the kernel is larger than the padded input");
  const std::array<at::Tensor, 5> others{n.bias, n.weight, n.shift, n.mean, n.var};
  WeightRef ref = weight_ref(weight, others);
  if (!ref.storage) return compose(x, n, call, bounds, chain);
  uint64_t bits = 0;
  std::memcpy(&bits, &eps, sizeof bits);
  ref.version = (ref.version ^ bits) * 0x9e3779b97f4a7c15ull;
  const at::Tensor out = new_empty(sizes, x.scalar_type(), conv_format(x, weight));
  if (out.numel() == 0) return out;
  SplitChain split = split_chain(chain, out, false, ops::plan_relu_behind(current_policy()));
  View none;
  auto problem = conv_problem(x, weight, {}, out, g, at::MemoryFormat::ChannelsLast, none);
  problem.epilogue.post = std::move(split.post);
  problem.activation = split.activation;
  problem.tail = !split.tail.empty();
  products::Folded folded{ref, &folded_weights, &folded_bias, &folded_taps, &n, !bounds.empty()};
  if (folded.bounded) folded.low = static_cast<float>(bounds[0]), folded.high = static_cast<float>(bounds[1]);
  switch (products::run(runtime::current_queue(), problem, folded)) {
    case products::Served::no: return compose(x, n, call, bounds, chain);
    case products::Served::without_tail: apply_chain(out, split.tail); break;
    case products::Served::whole: break;
  }
  return out;
}

}  // namespace xpu_ops::aten
