#include "kernels/onednn/attributes.hpp"

#include <iterator>

#include "kernels/onednn/tensor.hpp"

namespace xpu_ops::onednn {
namespace {

using dnnl::algorithm;

// In the order of PostFunction.
constexpr algorithm kAlgorithms[] = {
    algorithm::undef,
    algorithm::eltwise_relu,
    algorithm::eltwise_tanh,
    algorithm::eltwise_elu,
    algorithm::eltwise_square,
    algorithm::eltwise_abs,
    algorithm::eltwise_sqrt,
    algorithm::eltwise_swish,
    algorithm::eltwise_linear,
    algorithm::eltwise_soft_relu,
    algorithm::eltwise_mish,
    algorithm::eltwise_logistic,
    algorithm::eltwise_exp,
    algorithm::eltwise_gelu_tanh,
    algorithm::eltwise_gelu_erf,
    algorithm::eltwise_log,
    algorithm::eltwise_clip,
    algorithm::eltwise_clip_v2,
    algorithm::eltwise_pow,
    algorithm::eltwise_round,
    algorithm::eltwise_hardswish,
    algorithm::eltwise_hardsigmoid,
    algorithm::eltwise_relu_use_dst_for_bwd,
    algorithm::eltwise_tanh_use_dst_for_bwd,
    algorithm::eltwise_elu_use_dst_for_bwd,
    algorithm::eltwise_sqrt_use_dst_for_bwd,
    algorithm::eltwise_logistic_use_dst_for_bwd,
    algorithm::eltwise_exp_use_dst_for_bwd,
    algorithm::eltwise_clip_v2_use_dst_for_bwd,
    algorithm::binary_add,
    algorithm::binary_mul,
    algorithm::binary_max,
    algorithm::binary_min,
    algorithm::binary_div,
    algorithm::binary_sub,
    algorithm::binary_ge,
    algorithm::binary_gt,
    algorithm::binary_le,
    algorithm::binary_lt,
    algorithm::binary_eq,
    algorithm::binary_ne,
    algorithm::binary_select,
};
static_assert(std::size(kAlgorithms) == static_cast<size_t>(PostFunction::select) + 1);
algorithm algorithm_of(PostFunction f) { return kAlgorithms[static_cast<size_t>(f)]; }

int argument_of(Quantization::Of of) {
  static constexpr int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  return arguments[static_cast<size_t>(of)];
}

// prelu takes its slopes dense, in logical order; the mask says along which dims they vary.
int prelu_mask(const View& slopes) {
  int mask = 0;
  for (int i = 0; i < slopes.ndim; ++i)
    if (slopes.dims[i] != 1) mask |= 1 << i;
  return mask;
}

dnnl::memory::desc quantization_desc(const Quantization& q) {
  using dnnl::memory;
  memory::dims dims = q.dims.empty() ? memory::dims{1} : memory::dims(q.dims.begin(), q.dims.end());
  memory::dims strides(dims.size(), 1);
  for (int i = static_cast<int>(dims.size()) - 2; i >= 0; --i) strides[i] = strides[i + 1] * dims[i + 1];
  return memory::desc(dims, to_dnnl(q.type), strides);
}

dnnl::memory::desc one(dnnl::memory::data_type t) { return {{1}, t, dnnl::memory::format_tag::a}; }

}  // namespace

void add_key(Key& key, const PostOps& post) {
  key.add(static_cast<int64_t>(post.ops.size()) | static_cast<int64_t>(post.quantization.size()) << 8 |
          static_cast<int64_t>(post.fpmath) << 16 | static_cast<int64_t>(post.fpmath_on_integers) << 20 |
          static_cast<int64_t>(post.deterministic) << 21 | static_cast<int64_t>(post.dropout.enabled) << 22);
  for (const auto& p : post.ops) {
    key.add(static_cast<int64_t>(p.kind) | static_cast<int64_t>(p.function) << 8).add(p.alpha).add(p.beta);
    if (p.kind == PostOp::Kind::binary || p.kind == PostOp::Kind::prelu) key.add(p.other);
    if (p.function == PostFunction::select) key.add(p.other2);
  }
  for (const auto& q : post.quantization) {
    key.add(static_cast<int64_t>(q.of) << 1 | q.zero_points).add(q.mask).add(static_cast<int64_t>(q.type));
    key.add(static_cast<int64_t>(q.groups.size() | q.dims.size() << 8));
    key.add(q.groups.data(), static_cast<int>(q.groups.size()));
    key.add(q.dims.data(), static_cast<int>(q.dims.size()));
  }
  if (post.dropout.enabled) key.add(post.dropout.mask);
}

dnnl::primitive_attr attributes(const PostOps& post) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (post.fpmath != FpMath::strict || post.fpmath_on_integers) {
    static constexpr dnnl::fpmath_mode modes[] = {dnnl::fpmath_mode::strict, dnnl::fpmath_mode::bf16,
                                                  dnnl::fpmath_mode::tf32, dnnl::fpmath_mode::f16,
                                                  dnnl::fpmath_mode::any};
    attr.set_fpmath_mode(modes[static_cast<int>(post.fpmath)], post.fpmath_on_integers);
  }
  if (post.deterministic) attr.set_deterministic(true);
  for (const auto& q : post.quantization) {
    const dnnl::memory::dims groups(q.groups.begin(), q.groups.end());
    if (q.zero_points)
      attr.set_zero_points(argument_of(q.of), q.mask, groups, to_dnnl(q.type));
    else
      attr.set_scales(argument_of(q.of), q.mask, groups, to_dnnl(q.type));
  }
  if (!post.ops.empty()) {
    dnnl::post_ops chain;
    for (const auto& p : post.ops) switch (p.kind) {
        case PostOp::Kind::sum: chain.append_sum(p.alpha); break;
        case PostOp::Kind::eltwise: chain.append_eltwise(algorithm_of(p.function), p.alpha, p.beta); break;
        case PostOp::Kind::binary:
          if (p.function == PostFunction::select)
            chain.append_binary(algorithm_of(p.function), to_desc(p.other), to_desc(p.other2));
          else
            chain.append_binary(algorithm_of(p.function), to_desc(p.other));
          break;
        case PostOp::Kind::prelu: chain.append_prelu(prelu_mask(p.other)); break;
      }
    attr.set_post_ops(chain);
  }
  if (post.dropout.enabled) attr.set_dropout(to_desc(post.dropout.mask));
  return attr;
}

void add_args(std::vector<ArgSpec>& args, const PostOps& post) {
  for (size_t i = 0; i < post.ops.size(); ++i) {
    const int base = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i));
    if (post.ops[i].kind == PostOp::Kind::binary) {
      args.push_back({base | DNNL_ARG_SRC_1, to_desc(post.ops[i].other)});
      if (post.ops[i].function == PostFunction::select)
        args.push_back({base | DNNL_ARG_SRC_2, to_desc(post.ops[i].other2)});
    } else if (post.ops[i].kind == PostOp::Kind::prelu) {
      args.push_back({base | DNNL_ARG_WEIGHTS, to_desc(post.ops[i].other)});
    }
  }
  for (const auto& q : post.quantization)
    args.push_back(
        {(q.zero_points ? DNNL_ARG_ATTR_ZERO_POINTS : DNNL_ARG_ATTR_SCALES) | argument_of(q.of), quantization_desc(q)});
  if (post.dropout.enabled) {
    args.push_back({DNNL_ARG_ATTR_DROPOUT_MASK, to_desc(post.dropout.mask)});
    args.push_back({DNNL_ARG_ATTR_DROPOUT_PROBABILITY, one(dnnl::memory::data_type::f32)});
    args.push_back({DNNL_ARG_ATTR_DROPOUT_SEED, one(dnnl::memory::data_type::s32)});
  }
}

void add_pointers(std::vector<void*>& pointers, const PostOps& post) {
  for (const auto& p : post.ops) {
    if (p.kind == PostOp::Kind::binary) {
      pointers.push_back(p.other.data);
      if (p.function == PostFunction::select) pointers.push_back(p.other2.data);
    } else if (p.kind == PostOp::Kind::prelu) {
      pointers.push_back(p.other.data);
    }
  }
  for (const auto& q : post.quantization) pointers.push_back(q.data);
  if (post.dropout.enabled)
    pointers.insert(pointers.end(), {post.dropout.mask.data, post.dropout.probability, post.dropout.seed});
}

}  // namespace xpu_ops::onednn
