// The fast paths of nn.MultiheadAttention and nn.TransformerEncoderLayer, and gradients of attention that are
// themselves differentiated: composed of native operators.
#include <ATen/NestedTensorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fill_mem_eff_dropout_mask.h>
#include <ATen/ops/_native_multi_head_attention.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <array>
#include <cmath>
#include <limits>

#include "bindings/aten/attention.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/nested.hpp"

namespace xpu_ops::aten {
namespace {

// (N, L, heads * D) -> (N, heads, L, D)
at::Tensor split_heads(const at::Tensor& t, int64_t heads) {
  return t.view({t.size(0), t.size(1), heads, t.size(2) / heads}).transpose(1, 2);
}

// mask_type 0: (L, L) over positions, 1: (N, L) over keys, 2: (N, heads, L, L). True, and anything but zero, is masked
// out: the layers' Python turns boolean masks into additive ones.
at::Tensor keep_mask(const at::Tensor& mask, int64_t type, int64_t batch) {
  const at::Tensor keep = mask.logical_not();
  return type == 1 ? keep.view({batch, 1, 1, mask.size(1)}) : keep;
}

void check_projection(int64_t d, int64_t heads, const at::Tensor& qkv_weight, const at::Tensor& qkv_bias) {
  TORCH_CHECK(qkv_weight.dim() == 2, "expected 2-D `qkv_weight`, got ", qkv_weight.dim(), "-D tensor");
  TORCH_CHECK(d * 3 == qkv_weight.sizes()[0], "expected `qkv_weight` first dim to be 3x embed_dim");
  TORCH_CHECK(d == qkv_weight.sizes()[1], "expected `qkv_weight` second dim to be embed_Dim");
  TORCH_CHECK(qkv_bias.dim() == 1, "expected 1-D `qkv_bias`, got ", qkv_bias.dim(), "-D tensor");
  TORCH_CHECK(qkv_bias.sizes()[0] == 3 * d, "expected `qkv_bias` first dim and first dim of query to be equal");
  TORCH_CHECK(heads > 0 && d % heads == 0, "`embed_dim` must divide evenly by `num_heads`");
}

// Attention of (N, heads, L, D) queries, keys and values as (N, L, heads * D), and its weights where they are wanted.
std::tuple<at::Tensor, at::Tensor> attend(const at::Tensor (&heads)[3], const std::optional<at::Tensor>& keep,
                                          bool need_weights, bool average_attn_weights) {
  at::Tensor weights, mixed;
  if (need_weights) {
    const double root = std::sqrt(static_cast<double>(heads[0].size(3)));
    at::Tensor scores = at::matmul(heads[0], heads[1].transpose(2, 3)) / root;
    if (keep) scores = scores.masked_fill(keep->logical_not(), -std::numeric_limits<double>::infinity());
    weights = scores.softmax(-1);
    mixed = at::matmul(weights, heads[2]);
    if (average_attn_weights) weights = weights.mean(1);
  } else {
    mixed = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], keep);
  }
  return {mixed.transpose(1, 2).flatten(2, 3), weights};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t num_head,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const std::optional<at::Tensor>& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t> mask_type) {
  const int64_t d = embed_dim;
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.sizes()[2] == d, "passed-in embed_dim ", d, " didn't match last dim of query ", query.sizes()[2]);
  TORCH_CHECK(key.dim() == 3, "expected 3-D `key`, got ", key.dim(), "-D tensor");
  TORCH_CHECK(value.dim() == 3, "expected 3-D `value`, got ", value.dim(), "-D tensor");
  check_projection(d, num_head, qkv_weight, qkv_bias);
  const at::Tensor inputs[] = {query, key, value};
  at::Tensor heads[3];
  if (query.is_same(key) && key.is_same(value)) {
    const at::Tensor packed = at::linear(query, qkv_weight, qkv_bias);
    for (int64_t i = 0; i < 3; ++i) heads[i] = split_heads(packed.narrow(2, i * d, d), num_head);
  } else {
    for (int64_t i = 0; i < 3; ++i)
      heads[i] =
          split_heads(at::linear(inputs[i], qkv_weight.narrow(0, i * d, d), qkv_bias.narrow(0, i * d, d)), num_head);
  }
  std::optional<at::Tensor> keep;
  if (mask.has_value() && mask->defined()) {
    TORCH_CHECK(mask_type.has_value(), "Mask Type should be defined");
    keep = keep_mask(*mask, *mask_type, query.size(0));
  }
  auto [mixed, weights] = attend(heads, keep, need_weights, average_attn_weights);
  return {at::linear(mixed, proj_weight, proj_bias), weights};
}

std::tuple<at::Tensor, at::Tensor> nested__native_multi_head_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t embed_dim, int64_t num_head,
    const at::Tensor& qkv_weight, const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
    const at::Tensor& proj_bias, const std::optional<at::Tensor>& mask, bool need_weights, bool average_attn_weights,
    std::optional<int64_t>) {
  TORCH_CHECK(!mask.has_value() || !mask->defined(), "NestedTensor with mask is not supported yet");
  TORCH_CHECK(query.is_nested() && key.is_nested() && value.is_nested(),
              "expected `query`, `key` and `value` to be nested tensors, or none of them");
  const at::Tensor inputs[] = {query, key, value};
  for (const at::Tensor& t : inputs) {
    TORCH_CHECK(t.dim() == 3, "expected 3-D `query`, `key` and `value`, got ", t.dim(), "-D tensor");
    TORCH_CHECK(t.size(2) == embed_dim, "passed-in embed_dim ", embed_dim, " didn't match last dim ", t.size(2));
    TORCH_CHECK(t.size(0) == query.size(0), "expected ", query.size(0), " items, got ", t.size(0));
  }
  check_projection(embed_dim, num_head, qkv_weight, qkv_bias);
  at::Tensor heads[3];
  if (query.is_same(key) && key.is_same(value)) {
    const at::Tensor packed = aten::nested_to_padded_tensor(at::linear(query, qkv_weight, qkv_bias), 0.0, std::nullopt);
    for (int64_t i = 0; i < 3; ++i) heads[i] = split_heads(packed.narrow(2, i * embed_dim, embed_dim), num_head);
  } else {
    for (int64_t i = 0; i < 3; ++i) {
      const at::Tensor weight = qkv_weight.narrow(0, i * embed_dim, embed_dim);
      const at::Tensor part = at::linear(inputs[i], weight, qkv_bias.narrow(0, i * embed_dim, embed_dim));
      heads[i] = split_heads(aten::nested_to_padded_tensor(part, 0.0, std::nullopt), num_head);
    }
  }
  TORCH_CHECK(heads[1].size(2) == heads[2].size(2), "expected `key` and `value` of one length, got ", heads[1].size(2),
              " and ", heads[2].size(2));
  const int64_t items = query.size(0), longest = heads[1].size(2);
  const at::Tensor keep = present_rows(key, longest).view({items, 1, 1, longest});
  auto [mixed, weights] = attend(heads, keep, need_weights, average_attn_weights);
  if (weights.defined()) {
    std::vector<int64_t> shape(weights.dim(), 1);
    shape[0] = items, shape[weights.dim() - 2] = heads[0].size(2);
    weights = weights.masked_fill(present_rows(query, heads[0].size(2)).logical_not().view(shape), 0.0);
  }
  mixed = aten::_nested_from_padded(mixed, at::native::get_nested_sizes(query), false);
  return {at::linear(mixed, proj_weight, proj_bias), weights};
}

at::Tensor _transformer_encoder_layer_fwd(const at::Tensor& src, int64_t embed_dim, int64_t num_heads,
                                          const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                          const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
                                          bool norm_first, double eps, const at::Tensor& norm_weight_1,
                                          const at::Tensor& norm_bias_1, const at::Tensor& norm_weight_2,
                                          const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
                                          const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2,
                                          const at::Tensor& ffn_bias_2, const std::optional<at::Tensor>& mask,
                                          std::optional<int64_t> mask_type) {
  auto norm1 = [&](const at::Tensor& t) { return at::layer_norm(t, {embed_dim}, norm_weight_1, norm_bias_1, eps); };
  auto norm2 = [&](const at::Tensor& t) { return at::layer_norm(t, {embed_dim}, norm_weight_2, norm_bias_2, eps); };
  const at::Tensor attended_input = norm_first ? norm1(src) : src;
  at::Tensor x =
      std::get<0>(at::_native_multi_head_attention(attended_input, attended_input, attended_input, embed_dim, num_heads,
                                                   qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
                                                   /*need_weights=*/false, /*average_attn_weights=*/true, mask_type));
  x = x + src;
  if (!norm_first) x = norm1(x);
  at::Tensor hidden = at::linear(norm_first ? norm2(x) : x, ffn_weight_1, ffn_bias_1);
  hidden = use_gelu ? at::gelu(hidden) : at::relu(hidden);
  x = at::linear(hidden, ffn_weight_2, ffn_bias_2) + x;
  return norm_first ? x : norm2(x);
}

at::Tensor nested__transformer_encoder_layer_fwd(
    const at::Tensor& src, int64_t embed_dim, int64_t num_heads, const at::Tensor& qkv_weight,
    const at::Tensor& qkv_bias, const at::Tensor& proj_weight, const at::Tensor& proj_bias, bool use_gelu,
    bool norm_first, double eps, const at::Tensor& norm_weight_1, const at::Tensor& norm_bias_1,
    const at::Tensor& norm_weight_2, const at::Tensor& norm_bias_2, const at::Tensor& ffn_weight_1,
    const at::Tensor& ffn_bias_1, const at::Tensor& ffn_weight_2, const at::Tensor& ffn_bias_2,
    const std::optional<at::Tensor>& mask, std::optional<int64_t> mask_type) {
  if (src.numel() == 0) return at::empty_like(src);
  return aten::_transformer_encoder_layer_fwd(
      src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
      norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type);
}

// (N, L, 3 * heads * D) and a bias to queries over the root of D, keys and values, each (N, heads, L, D).
std::tuple<at::Tensor, at::Tensor, at::Tensor> _transform_bias_rescale_qkv(const at::Tensor& qkv,
                                                                           const at::Tensor& bias, int64_t num_heads) {
  TORCH_CHECK(qkv.dim() == 3, "expected 3-D `qkv`, got ", qkv.dim(), "-D tensor");
  const int64_t d = qkv.size(2) / 3;
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == qkv.size(2) && 3 * d == qkv.size(2), "expected `qkv_bias` of size [",
              qkv.size(2), "], a multiple of 3, got ", bias.sizes());
  TORCH_CHECK(num_heads > 0 && d % num_heads == 0, "`embed_dim` must divide evenly by `num_heads`");
  const at::Tensor parts = (qkv + bias.to(qkv.scalar_type()))
                               .view({qkv.size(0), qkv.size(1), 3, num_heads, d / num_heads})
                               .permute({2, 0, 3, 1, 4})
                               .contiguous();
  at::Tensor query = parts.select(0, 0);
  query.mul_(1.0 / std::sqrt(static_cast<double>(d / num_heads)));
  return {query, parts.select(0, 1), parts.select(0, 2)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> nested__transform_bias_rescale_qkv(const at::Tensor& qkv,
                                                                                  const at::Tensor& bias,
                                                                                  int64_t num_heads) {
  return aten::_transform_bias_rescale_qkv(aten::nested_to_padded_tensor(qkv, 0.0, std::nullopt), bias, num_heads);
}

namespace {

// --- gradients of gradients (create_graph=True), for which the fused kernels have no formula ---

// Each key or value beside the queries of its group, and back.
at::Tensor for_queries(const at::Tensor& kv, const c10::SymInt& heads) {
  const at::Tensor single = kv.to(at::kFloat);
  return kv.sym_size(1) == heads ? single : single.repeat_interleave_symint(heads / kv.sym_size(1), 1);
}
at::Tensor of_groups(const at::Tensor& grad, const at::Tensor& kv) {
  const c10::SymInt heads = kv.sym_size(1);
  const at::Tensor sum =
      grad.sym_size(1) == heads ? grad : grad.unflatten_symint(1, {heads, grad.sym_size(1) / heads}).sum(2);
  return sum.to(kv.scalar_type());
}

at::Tensor masked(const at::Tensor& scores, const at::Tensor& bias, bool causal) {
  const double out = -std::numeric_limits<double>::infinity();
  at::Tensor result = scores;
  if (bias.defined())
    result = bias.scalar_type() == at::kBool ? result.masked_fill(bias.logical_not(), out) : result + bias;
  if (!causal) return result;
  const at::Tensor past = causal_mask(scores.sym_size(2), scores.sym_size(3), scores.options());
  return result.masked_fill(past.logical_not(), out);
}

// By which dropout multiplied each weight.
at::Tensor drawn(const at::Tensor& weights, double dropout, const at::Tensor& seed, const at::Tensor& offset) {
  at::Tensor numbers = at::empty_symint(weights.sym_sizes(), weights.options());
  at::_fill_mem_eff_dropout_mask_(numbers, dropout, seed.item<int64_t>(), offset.item<int64_t>());
  return numbers.gt(dropout).to(at::kFloat) / (1.0 - dropout);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_differentiable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, std::array<bool, 4> wanted, const at::Tensor&, const at::Tensor&, const at::Tensor&,
    const at::Tensor&, c10::SymInt, c10::SymInt, double dropout, bool causal, const at::Tensor& seed,
    const at::Tensor& offset, std::optional<double> scale) {
  if (!grad_out.defined()) return {};
  TORCH_CHECK_NOT_IMPLEMENTED(!wanted[3], "xpu_ops: fused attention has no gradient of attn_bias");
  const c10::SymInt heads = query.sym_size(1);
  const double factor =
      scale.value_or(1.0 / std::sqrt(static_cast<double>(query.sym_size(3).guard_int(__FILE__, __LINE__))));
  const at::Tensor grad = grad_out.to(at::kFloat), q = query.to(at::kFloat);
  const at::Tensor k = for_queries(key, heads), v = for_queries(value, heads);
  const at::Tensor weights = at::_safe_softmax(masked(at::matmul(q, k.transpose(2, 3)) * factor, bias, causal), -1);
  at::Tensor mixed = weights, slopes = at::matmul(grad, v.transpose(2, 3));
  if (dropout != 0.0) {
    const at::Tensor multiplier = drawn(weights, dropout, seed, offset);
    mixed = mixed * multiplier;
    slopes = slopes * multiplier;
  }
  slopes = weights * (slopes - (slopes * weights).sum(-1, true)) * factor;
  at::Tensor to_q, to_k, to_v;
  if (wanted[0]) to_q = at::matmul(slopes, k).to(query.scalar_type());
  if (wanted[1]) to_k = of_groups(at::matmul(slopes.transpose(2, 3), q), key);
  if (wanted[2]) to_v = of_groups(at::matmul(mixed.transpose(2, 3), grad), value);
  return {to_q, to_k, to_v, at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention_differentiable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& seed,
    const at::Tensor& offset, double dropout, std::array<bool, 4> wanted, bool causal, std::optional<double> scale) {
  return attention_differentiable_backward(grad_out, query, key, value, bias, wanted, out, logsumexp, {}, {}, 0, 0,
                                           dropout, causal, seed, offset, scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_attention_differentiable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt,
    double dropout, bool causal, const at::Tensor& seed, const at::Tensor& offset, std::optional<double> scale) {
  auto [q, k, v, bias] =
      attention_differentiable_backward(grad_out, query, key, value, {}, {true, true, true, false}, out, logsumexp, {},
                                        {}, 0, 0, dropout, causal, seed, offset, scale);
  return {q, k, v};
}

}  // namespace xpu_ops::aten
