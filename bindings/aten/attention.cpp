// Scaled dot-product attention: one kernel over blocks of queries, or oneDNN products and own softmax kernels over
// tiles of scores, so that no more than a tile exists at a time; what they do not take goes to the composite of matmul
// and softmax.
#include "bindings/aten/attention.hpp"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <limits>

#include "bindings/aten/core/tangents.hpp"
#include "bindings/runtime/generator.hpp"
#include "bindings/second_kernel.hpp"
#include "kernels/products/run.hpp"
#include "kernels/runtime/memory/allocator.hpp"

namespace xpu_ops::aten {
namespace {

// Whether the tiles take these operands; the gradient of a mask they do not know. Sizes may be symbols: torch.compile
// asks.
bool fits(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask) {
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4) return false;
  if (!is_single_or_half(q.scalar_type()) || k.dtype() != q.dtype() || v.dtype() != q.dtype()) return false;
  const auto qs = q.sym_sizes(), ks = k.sym_sizes(), vs = v.sym_sizes();
  if (qs[0] != ks[0] || qs[0] != vs[0] || ks[1] != vs[1] || ks[2] != vs[2]) return false;
  if (qs[3] != ks[3] || ks[1] == 0 || qs[1] % ks[1] != 0) return false;
  if (q.sym_numel() == 0 || k.sym_numel() == 0 || v.sym_numel() == 0) return false;
  if (qs[2] >= (1 << 22) || ks[2] >= (1 << 22) || qs[0] * qs[1] * qs[2] >= INT32_MAX) return false;
  if (!mask.defined()) return true;
  if (mask.scalar_type() != at::kBool && mask.scalar_type() != at::kFloat && mask.dtype() != q.dtype()) return false;
  if (mask.requires_grad() || mask.dim() > 4) return false;
  const c10::SymInt sizes[4] = {qs[0], qs[1], qs[2], ks[2]};
  for (int64_t d = 0; d < mask.dim(); ++d) {
    const c10::SymInt size = mask.sym_size(mask.dim() - 1 - d);
    if (size != 1 && size != sizes[3 - d]) return false;
  }
  return true;
}

bool multiply(Attention& a, const View& x, const View& y, const View& to, bool add = false) {
  return products::multiply(a.queue, x, y, to, add);
}

// Keys or values of the heads of queries from keys.head0 on, of which so many share them.
ops::AttentionOneProblem one_problem(const at::Tensor& kv, const Part& keys, uint32_t group) {
  ops::AttentionOneProblem problem;
  problem.kv = static_cast<const char*>(kv.const_data_ptr()) + keys.batch0 * kv.stride(0) * kv.element_size();
  for (int d = 0; d < 3; ++d) problem.kv_stride[d] = kv.stride(d);
  problem.tile_heads = static_cast<uint32_t>(keys.heads);
  problem.head0 = static_cast<uint32_t>(keys.head0);
  problem.group = group;
  problem.cols = static_cast<uint32_t>(keys.rows);
  problem.dim = static_cast<uint32_t>(kv.size(3));
  return problem;
}

void score_one(Attention& a, const View& q, const Part& keys, uint32_t group) {
  ops::AttentionOneProblem problem = one_problem(a.k, keys, group);
  problem.q = q.data;
  std::copy(q.strides, q.strides + 2, problem.q_stride);
  problem.scores = a.problem.scores;
  ops::attention_scores_one(a.queue, to_dtype(a.type), a.problem.planes, problem);
}

void mix_one(Attention& a, const View& out, const Part& keys, uint32_t group) {
  ops::AttentionOneProblem problem = one_problem(a.v, keys, group);
  problem.weights = a.problem.weights;
  problem.out = out.data;
  std::copy(out.strides, out.strides + 2, problem.out_stride);
  ops::attention_mix_one(a.queue, to_dtype(a.type), a.problem.planes, problem);
}

void set_strides(int64_t (&to)[3], const at::Tensor& t) {
  for (int d = 0; d < 3; ++d) to[d] = t.stride(d);
}

ops::AttentionBlockProblem block_problem(const Attention& a, const at::Tensor& logsumexp) {
  ops::AttentionBlockProblem problem;
  problem.q = a.q.const_data_ptr();
  problem.k = a.k.const_data_ptr();
  problem.v = a.v.const_data_ptr();
  problem.logsumexp = logsumexp.mutable_data_ptr<float>();
  problem.mask = a.problem.mask;
  set_strides(problem.q_stride, a.q);
  set_strides(problem.k_stride, a.k);
  set_strides(problem.v_stride, a.v);
  std::copy(std::begin(a.problem.mask_stride), std::end(a.problem.mask_stride), problem.mask_stride);
  problem.heads = a.problem.heads;
  problem.head_step = a.problem.head_step;
  problem.nq = a.problem.nq;
  problem.nk = static_cast<uint32_t>(a.k.size(2));
  problem.dim = static_cast<uint32_t>(a.q.size(3));
  problem.value_dim = static_cast<uint32_t>(a.v.size(3));
  problem.batch = static_cast<uint32_t>(a.q.size(0));
  problem.causal = a.problem.causal;
  problem.scale = a.problem.scale;
  return problem;
}

void forward_by_blocks(Attention& a, const at::Tensor& out, const at::Tensor& logsumexp) {
  ops::AttentionBlockProblem problem = block_problem(a, logsumexp);
  problem.out = out.mutable_data_ptr();
  set_strides(problem.out_stride, out);
  if (a.amx)
    ops::attention_amx(a.queue, a.kind, problem);
  else
    ops::attention_blocks(a.queue, a.kind, problem);
}

// False where oneDNN has no fast product of this type.
bool forward(Attention& a, const at::Tensor& out, const at::Tensor& logsumexp) {
  if (a.blocks || a.amx) {
    forward_by_blocks(a, out, logsumexp);
    return true;
  }
  const bool single = a.type == at::kFloat, one = a.problem.nq == 1;
  const bool own_products = ops::plan_attention_one_serves(a.problem.nq, current_policy());
  const uint32_t group = own_products ? a.join_groups() : 1;
  runtime::Scratch scores(a.tile_elements() * sizeof(float)), narrow(single ? 1 : a.tile_elements() * 2);
  a.problem.scores = scores.get<float>();
  a.problem.weights = single ? scores.get() : narrow.get();
  a.problem.logsumexp = logsumexp.mutable_data_ptr<float>();
  return a.for_tiles([&](const Part& queries, const Part& keys) {
    if (own_products) {
      score_one(a, part_of(a.q, queries), keys, group);
      ops::attention_softmax(a.queue, a.kind, a.drop, to_dtype(a.type), a.problem);
      mix_one(a, part_of(out, queries), keys, group);
      return true;
    }
    const int64_t cols = keys.rows;
    // One query, as in generating text: the keys in the layout they have times a vector, instead of their transpose.
    const View products = scratch_view(scores.get(), DType::f32, queries, cols, one);
    if (one ? !multiply(a, part_of(a.k, keys), part_of(a.q, queries, true), products)
            : !multiply(a, part_of(a.q, queries), part_of(a.k, keys, true), products))
      return false;
    ops::attention_softmax(a.queue, a.kind, a.drop, to_dtype(a.type), a.problem);
    return multiply(a, scratch_view(a.problem.weights, to_dtype(a.type), queries, cols), part_of(a.v, keys),
                    part_of(out, queries));
  });
}

struct Gradients { at::Tensor q, k, v; };

void backward_by_blocks(Attention& a, const at::Tensor& grad, const Gradients& to, const at::Tensor& logsumexp,
                        const at::Tensor& delta) {
  ops::AttentionBlockProblem problem = block_problem(a, logsumexp);
  problem.grad = grad.const_data_ptr<float>();
  problem.delta = delta.const_data_ptr<float>();
  set_strides(problem.grad_stride, grad);
  if (to.q.defined()) {
    problem.q_grad = to.q.mutable_data_ptr<float>();
    set_strides(problem.q_grad_stride, to.q);
  }
  const int64_t planes = a.shape.batch * a.shape.kv_heads,
                splits = ops::plan_attention_splits(problem, planes, current_policy());
  problem.splits = static_cast<uint32_t>(splits);
  const auto sums = [&](const at::Tensor& t, float*& data, int64_t (&stride)[3], int64_t& split) {
    if (!t.defined()) return at::Tensor();
    const at::Tensor all =
        splits == 1 ? t.zero_() : new_empty({splits, t.size(0), t.size(1), t.size(2), t.size(3)}, at::kFloat).zero_();
    const at::Tensor one = splits == 1 ? all : all[0];
    data = all.mutable_data_ptr<float>();
    set_strides(stride, one);
    split = one.numel();
    return all;
  };
  const at::Tensor k_sums = sums(to.k, problem.k_grad, problem.k_grad_stride, problem.k_grad_split);
  const at::Tensor v_sums = sums(to.v, problem.v_grad, problem.v_grad_stride, problem.v_grad_split);
  ops::attention_blocks_backward(a.queue, a.kind, planes, problem);
  if (splits == 1) return;
  for (const auto& [from, t] : {std::pair{k_sums, to.k}, std::pair{v_sums, to.v}}) {
    at::Tensor out = t;
    if (t.defined()) at::sum_out(out, from, 0);
  }
}

bool backward(Attention& a, const at::Tensor& grad, const Gradients& to, const at::Tensor& logsumexp,
              const at::Tensor& delta) {
  if (a.blocks && ops::plan_attention_blocks_backward_serve(a.shape)) {
    backward_by_blocks(a, grad, to, logsumexp, delta);
    return true;
  }
  for (const at::Tensor& sum : {to.k, to.v})
    if (sum.defined()) sum.zero_();
  const bool single = a.type == at::kFloat;
  const int64_t elements = a.tile_elements();
  runtime::Scratch scores(elements * sizeof(float)), slopes(elements * sizeof(float));
  runtime::Scratch weights16(single ? 1 : elements * 2), slopes16(single ? 1 : elements * 2);
  a.problem.scores = scores.get<float>();
  a.problem.slopes = slopes.get<float>();
  a.problem.weights = single ? scores.get() : weights16.get();
  a.problem.slopes_out = single ? slopes.get() : slopes16.get();
  a.problem.logsumexp = logsumexp.mutable_data_ptr<float>();
  a.problem.delta = delta.const_data_ptr<float>();
  const DType type = to_dtype(a.type);
  return a.for_tiles([&](const Part& queries, const Part& keys) {
    const int64_t cols = keys.rows;
    const View q = part_of(a.q, queries), g = part_of(grad, queries);
    if (!multiply(a, q, part_of(a.k, keys, true), scratch_view(scores.get(), DType::f32, queries, cols)) ||
        !multiply(a, g, part_of(a.v, keys, true), scratch_view(slopes.get(), DType::f32, queries, cols)))
      return false;
    ops::attention_slopes(a.queue, a.kind, a.drop, type, a.problem);
    if (to.q.defined() && !multiply(a, scratch_view(a.problem.slopes_out, type, queries, cols), part_of(a.k, keys),
                                    part_of(to.q, queries)))
      return false;
    if (to.k.defined() &&
        !multiply(a, scratch_view(a.problem.slopes_out, type, queries, cols, true), q, part_of(to.k, keys), true))
      return false;
    return !to.v.defined() ||
           multiply(a, scratch_view(a.problem.weights, type, queries, cols, true), g, part_of(to.v, keys), true);
  });
}

void check_operands(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask) {
  TORCH_CHECK(fits(q, k, v, mask), "xpu_ops: fused attention does not take query ", q.sizes(), ", key ", k.sizes(),
              ", value ", v.sizes(), " of ", q.scalar_type(), mask.defined() ? " with this attn_bias" : "");
}

// The types to compute in, in turn: oneDNN has no f16 product on a CPU, and one of bf16 only on some, where the kernels
// of blocks are faster in float32 unless the device has units for 16-bit matrices.
std::vector<at::ScalarType> compute_types(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                          double dropout) {
  if (q.scalar_type() != at::kBFloat16) return {at::kFloat};
  if (ops::plan_attention_blocks_serve(shape_of(q, k, v, false), dropout != 0.0, current_policy()) &&
      !current_policy().matrices)
    return {at::kFloat};
  return {at::kBFloat16, at::kFloat};
}

at::Tensor host_number(uint64_t value) {
  const at::Tensor t = at::empty({}, at::kLong);
  *t.mutable_data_ptr<int64_t>() = static_cast<int64_t>(value);
  return t;
}

// Seed and offset for the backward pass: on the host, or where a graph records as its replay has them, side by side on
// the device.
std::pair<at::Tensor, at::Tensor> saved_numbers(const PhiloxState& state) {
  if (!state.state) return {host_number(state.seed), host_number(state.offset)};
  const at::Tensor saved = new_empty({2}, at::kLong);
  runtime::copy_bytes(runtime::current_queue(), saved.mutable_data_ptr(), state.state, 2 * sizeof(uint64_t), false);
  saved.select(0, 1).add_(static_cast<int64_t>(state.offset));
  return {saved.select(0, 0), saved.select(0, 1)};
}
void take_numbers(ops::AttentionProblem& problem, const at::Tensor& seed, const at::Tensor& offset) {
  if (!seed.is_xpu()) {
    problem.seed = static_cast<uint64_t>(seed.item<int64_t>());
    problem.offset = static_cast<uint64_t>(offset.item<int64_t>());
    return;
  }
  const auto* state = seed.const_data_ptr<int64_t>();
  TORCH_CHECK(seed.numel() == 1 && offset.numel() == 1 && offset.const_data_ptr<int64_t>() == state + 1,
              "xpu_ops: philox_seed and philox_offset on the device are those that the forward pass returned");
  problem.state = reinterpret_cast<const uint64_t*>(state);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_fused_attention_overrideable(const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const std::optional<at::Tensor>& attn_bias,
                                                 double dropout_p, bool is_causal, bool, std::optional<double> scale) {
  const at::Tensor mask = attn_bias.has_value() ? *attn_bias : at::Tensor();
  check_operands(query, key, value, mask);
  const int64_t b = query.size(0), h = query.size(1), n = query.size(2), nk = key.size(2);
  const PhiloxState random = dropout_p == 0.0 ? PhiloxState{} : reserve_philox(std::nullopt, 4);
  const auto [seed, offset] = saved_numbers(random);
  const at::Tensor logsumexp = new_empty({b, h, n}, at::kFloat);
  for (at::ScalarType type : compute_types(query, key, value, dropout_p)) {
    Attention a(query, key, value, mask, is_causal, scale, dropout_p, type);
    a.problem.seed = random.seed, a.problem.offset = random.offset, a.problem.state = random.state;
    const at::Tensor out = new_like(query, value.size(3), type);
    if (forward(a, out, logsumexp))
      return {laid_out_as(query, out.to(query.scalar_type())),
              logsumexp,
              at::Tensor(),
              at::Tensor(),
              c10::SymInt(n),
              c10::SymInt(nk),
              seed,
              offset,
              at::Tensor()};
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "xpu_ops: oneDNN has no matrix product for attention on this device");
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_fused_attention_overrideable_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, std::array<bool, 4> grad_input_mask, const at::Tensor& out,
    const at::Tensor& logsumexp, const at::Tensor&, const at::Tensor&, int64_t, int64_t, double dropout_p,
    bool is_causal, const at::Tensor& seed, const at::Tensor& offset, std::optional<double> scale) {
  if (!grad_out.defined()) return {};
  TORCH_CHECK_NOT_IMPLEMENTED(!grad_input_mask[3], "xpu_ops: fused attention has no gradient of attn_bias");
  check_operands(query, key, value, attn_bias);
  const at::ScalarType result = query.scalar_type();
  const at::Tensor lse = logsumexp.contiguous(), delta = new_empty(lse.sizes(), at::kFloat);
  for (at::ScalarType type : compute_types(query, key, value, dropout_p)) {
    Attention a(query, key, value, attn_bias, is_causal, scale, dropout_p, type);
    if (dropout_p != 0.0) take_numbers(a.problem, seed, offset);
    const at::Tensor grad = own_rows(grad_out, type), y = plain_rows(out, type);
    ops::AttentionDeltaProblem d;
    d.grad = grad.const_data_ptr();
    d.out = y.const_data_ptr();
    for (int i = 0; i < 3; ++i) d.grad_stride[i] = grad.stride(i), d.out_stride[i] = y.stride(i);
    d.delta = delta.mutable_data_ptr<float>();
    d.heads = a.problem.heads;
    d.nq = a.problem.nq;
    d.cols = static_cast<uint32_t>(y.size(3));
    d.total = static_cast<uint32_t>(lse.numel());
    ops::attention_delta(a.queue, to_dtype(type), d);
    Gradients to;
    if (grad_input_mask[0]) to.q = new_like(query, query.size(3), type);
    // Tiles add up here, in their order.
    if (grad_input_mask[1]) to.k = new_like(key, key.size(3), at::kFloat);
    if (grad_input_mask[2]) to.v = new_like(value, value.size(3), at::kFloat);
    if (!backward(a, grad, to, lse, delta)) continue;
    const auto give = [&](const at::Tensor& t, const at::Tensor& like) {
      return t.defined() ? laid_out_as(like, t.to(result)) : t;
    };
    return {give(to.q, query), give(to.k, key), give(to.v, value), at::Tensor()};
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "xpu_ops: oneDNN has no matrix product for attention on this device");
}

namespace {

// As upstream declares it: a multiple of 32 for each head, none at all where nobody asks.
int64_t logsumexp_length(int64_t queries, bool wanted) { return wanted ? (queries + 31) / 32 * 32 : 0; }

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_efficient_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& attn_bias,
    bool compute_log_sumexp, double dropout_p, bool is_causal, std::optional<double> scale) {
  const auto result = aten::_scaled_dot_product_fused_attention_overrideable(query, key, value, attn_bias, dropout_p,
                                                                             is_causal, false, scale);
  const at::Tensor& sums = std::get<1>(result);
  const int64_t length = logsumexp_length(query.size(2), compute_log_sumexp);
  at::Tensor padded = new_empty({query.size(0), query.size(1), length}, at::kFloat);
  if (length) {
    padded.fill_(std::numeric_limits<float>::infinity());
    padded.narrow(2, 0, query.size(2)).copy_(sums);
  }
  return {std::get<0>(result), padded, std::get<6>(result), std::get<7>(result)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_efficient_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& attn_bias, const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& seed,
    const at::Tensor& offset, double dropout_p, std::array<bool, 4> grad_input_mask, bool is_causal,
    std::optional<double> scale) {
  if (!grad_out.defined()) return {};
  TORCH_CHECK(logsumexp.dim() == 3 && logsumexp.size(2) >= query.size(2),
              "_scaled_dot_product_efficient_attention_backward: logsumexp was not computed");
  return aten::_scaled_dot_product_fused_attention_overrideable_backward(
      grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp.narrow(2, 0, query.size(2)), {}, {},
      query.size(2), key.size(2), dropout_p, is_causal, seed, offset, scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
_scaled_dot_product_flash_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                    double dropout_p, bool is_causal, bool return_debug_mask,
                                    std::optional<double> scale) {
  return aten::_scaled_dot_product_fused_attention_overrideable(query, key, value, {}, dropout_p, is_causal,
                                                                return_debug_mask, scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _scaled_dot_product_flash_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& cum_seq_q, const at::Tensor& cum_seq_k,
    int64_t max_q, int64_t max_k, double dropout_p, bool is_causal, const at::Tensor& seed, const at::Tensor& offset,
    std::optional<double> scale) {
  auto [q, k, v, bias] = aten::_scaled_dot_product_fused_attention_overrideable_backward(
      grad_out, query, key, value, {}, {true, true, true, false}, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k,
      dropout_p, is_causal, seed, offset, scale);
  return {q, k, v};
}

// torch's CUDA kernel fills in the numbers drawn; 1 and 0 give the same mask where they are compared with dropout_p.
at::Tensor& _fill_mem_eff_dropout_mask_(at::Tensor& self, double dropout_p, int64_t seed, int64_t offset) {
  TORCH_CHECK(self.is_contiguous());
  TORCH_CHECK(self.dtype() == at::ScalarType::Float);
  const int64_t rows = self.size(0) * self.size(1) * self.size(2), cols = self.size(3);
  TORCH_CHECK(rows <= std::numeric_limits<uint32_t>::max() && cols <= std::numeric_limits<uint32_t>::max(),
              "_fill_mem_eff_dropout_mask_: expected at most 2^32 - 1 queries and keys, but got ", self.sizes());
  if (self.numel() == 0) return self;
  ops::AttentionProblem problem;
  problem.weights = self.mutable_data_ptr();
  problem.seed = static_cast<uint64_t>(seed), problem.offset = static_cast<uint64_t>(offset);
  problem.rows = static_cast<uint32_t>(rows), problem.cols = static_cast<uint32_t>(cols);
  problem.keep = static_cast<float>(1.0 - dropout_p);
  ops::attention_dropout(runtime::current_queue(), problem);
  return self;
}

int64_t _fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const std::optional<at::Tensor>& attn_mask, double, bool is_causal, std::optional<double>,
                          bool enable_gqa) {
  const at::Tensor mask = attn_mask.has_value() ? *attn_mask : at::Tensor();
  const at::Context& context = at::globalContext();
  const bool allowed =
      context.userEnabledOverrideableSDP() || context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP();
  const bool fused = allowed && !(mask.defined() && is_causal) && fits(query, key, value, mask) &&
                     (enable_gqa || query.sym_size(1) == key.sym_size(1)) &&
                     query.sym_size(3) > 1;  // oneDNN refuses the gradients of grouped heads of one element
  if (fused) return static_cast<int64_t>(at::SDPBackend::overrideable);
  // as torch's XPU builds, which serve a request for memory-efficient attention by products
  TORCH_CHECK(context.userEnabledMathSDP() || context.userEnabledMemEfficientSDP(),
              "No available kernel. Aborting execution.");
  return static_cast<int64_t>(at::SDPBackend::math);
}

namespace {

void check_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& attn_mask) {
  TORCH_CHECK(query.dtype() == key.dtype() && query.dtype() == value.dtype(),
              "Expected query, key, and value to have the same dtype, but got query.dtype: ", query.dtype(),
              " key.dtype: ", key.dtype(), " and value.dtype: ", value.dtype(), " instead.");
  TORCH_CHECK(query.device() == key.device() && query.device() == value.device(),
              "Expected query, key, and value to have the same device type, but got query.device: ", query.device(),
              " key.device: ", key.device(), " and value.device: ", value.device(), " instead.");
  TORCH_CHECK(query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
              "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: ", query.dim(),
              " key.dim: ", key.dim(), " and value.dim: ", value.dim(), " instead.");
  if (!attn_mask.has_value() || !attn_mask->defined()) return;
  const at::ScalarType type = attn_mask->scalar_type();
  TORCH_CHECK(type == at::kBool || type == at::kFloat || type == query.scalar_type(),
              "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: ",
              attn_mask->dtype(), " and  query.dtype: ", query.dtype(), " instead.");
}

// torch's composite, which adds the mask that it gets.
at::Tensor attention_of_products(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                 const std::optional<at::Tensor>& attn_mask, double dropout_p, bool is_causal,
                                 std::optional<double> scale, bool enable_gqa) {
  std::optional<at::Tensor> mask = attn_mask;
  if (mask.has_value() && mask->scalar_type() == at::kBool)
    mask = at::zeros_like(*mask, mask->options().dtype(query.scalar_type()))
               .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  else if (mask.has_value() && mask->scalar_type() == at::kFloat && query.scalar_type() != at::kFloat)
    mask = mask->to(query.scalar_type());
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, mask, dropout_p, is_causal, std::nullopt,
                                                            scale, enable_gqa));
}

// A mask and the causal one: the kernels take either. Torch's CPU takes both, though its documents exclude that.
at::Tensor causal(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  const at::Tensor past = causal_mask(query.sym_size(-2), key.sym_size(-2), mask.options());
  return mask.scalar_type() == at::kBool
             ? mask.logical_and(past)
             : at::where(past, mask, at::full({}, -std::numeric_limits<double>::infinity(), mask.options()));
}

bool nothing_to_attend(const at::Tensor& query, const at::Tensor& value) {
  return query.sym_size(-2) == 0 || value.sym_size(-2) == 0 || value.sym_size(-1) == 0;
}

// Whether vmap, an outer torch.func.grad or forward differentiation sees the tensor: the fused operators have no
// batching rule and no forward derivative, and their second one is autograd's alone; those of the products do.
bool transformed(const at::Tensor& t) {
  return t.key_set().has(c10::DispatchKey::FuncTorchBatched) ||
         t.key_set().has(c10::DispatchKey::FuncTorchGradWrapper) || has_tangent(t);
}

// Zeros, as torch returns whatever the other sizes are, with gradients of zeros: a sum of no elements of each operand.
at::Tensor attention_of_nothing(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
  sizes.back() = value.sym_size(-1);
  at::Tensor out = at::zeros_symint(sizes, query.options());
  for (const at::Tensor& t : {query, key, value}) out = out + t.narrow(-1, 0, 0).sum();
  return out;
}

// DTensor, and context parallelism with it, knows attention by the name of flash attention only. Tensors of tracers
// have the same key, but come with a mode.
bool is_distributed(const at::Tensor& query) {
  return query.key_set().has(c10::DispatchKey::Python) && !c10::impl::TorchDispatchModeTLS::any_modes_set();
}

}  // namespace

at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const std::optional<at::Tensor>& attn_mask, double dropout_p, bool is_causal,
                                        std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask);
  if (nothing_to_attend(query, value)) return attention_of_nothing(query, key, value);
  if (is_causal && is_given(attn_mask))
    return aten::scaled_dot_product_attention(query, key, value, causal(*attn_mask, query, key), dropout_p, false,
                                              scale, enable_gqa);
  if (transformed(query) || transformed(key) || transformed(value) || (is_given(attn_mask) && transformed(*attn_mask)))
    return attention_of_products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
  // The kernels know operands of four dimensions.
  if (query.dim() < 4 && key.dim() == query.dim() && value.dim() == query.dim() &&
      (!attn_mask.has_value() || attn_mask->dim() <= query.dim()))
    return aten::scaled_dot_product_attention(query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), attn_mask,
                                              dropout_p, is_causal, scale, enable_gqa)
        .squeeze(0);
  const int64_t choice = _fused_sdp_choice(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
  const bool fused = choice == static_cast<int64_t>(at::SDPBackend::overrideable);
  if (fused && is_distributed(query) && !attn_mask.has_value() && query.sym_size(1) == key.sym_size(1) &&
      query.sym_size(3) == value.sym_size(3))
    return std::get<0>(at::_scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, false, scale));
  if (fused)
    return std::get<0>(at::_scaled_dot_product_fused_attention_overrideable(query, key, value, attn_mask, dropout_p,
                                                                            is_causal, false, scale));
  return attention_of_products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

at::Tensor nested_scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                               const std::optional<at::Tensor>& attn_mask, double dropout_p,
                                               bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (!query.is_xpu())
    return at::native::scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale,
                                                    enable_gqa);
  check_attention(query, key, value, attn_mask);
  TORCH_CHECK(at::globalContext().userEnabledMathSDP(), "No available kernel. Aborting execution.");
  return attention_of_products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

namespace {

// torch's own composite asserts: it asks a table without this device for the choice of kernels. vmap calls it, and so
// does whoever decomposes the operator (torch.export, FlopCounterMode).
at::Tensor composite_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const std::optional<at::Tensor>& attn_mask, double dropout_p, bool is_causal,
                               std::optional<double> scale, bool enable_gqa) {
  const auto& attention =
      query.device().is_xpu() ? aten::scaled_dot_product_attention : at::native::scaled_dot_product_attention;
  return attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

// Never destroyed, since that would take the registration back.
const auto* serve_composite(c10::DispatchKey key) {
  const SecondKernel quiet;
  auto* library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  library->impl("scaled_dot_product_attention", &composite_attention);
  return library;
}

[[maybe_unused]] const auto* const batched_library = serve_composite(c10::DispatchKey::FuncTorchVmapMode);
[[maybe_unused]] const auto* const decomposed_library = serve_composite(c10::DispatchKey::CompositeImplicitAutograd);

}  // namespace

}  // namespace xpu_ops::aten
