#include "kernels/onednn/postops.hpp"

#include <algorithm>
#include <cstdlib>

#include "kernels/error.hpp"

namespace xpu_ops::onednn {

using dnnl::algorithm;

PostOp PostOp::sum(float scale) {
  PostOp p;
  p.kind = Kind::sum;
  p.alpha = scale;
  return p;
}

PostOp PostOp::eltwise(dnnl::algorithm a, float alpha, float beta) {
  PostOp p;
  p.algorithm = a;
  p.alpha = alpha;
  p.beta = beta;
  return p;
}

PostOp PostOp::binary(dnnl::algorithm a, const View& other) {
  PostOp p;
  p.kind = Kind::binary;
  p.algorithm = a;
  p.other = other;
  return p;
}

PostOp PostOp::prelu(const View& slopes) {
  PostOp p;
  p.kind = Kind::prelu;
  p.other = slopes;
  return p;
}

namespace {

bool is_relu(const PostOp& op) {
  return op.kind == PostOp::Kind::eltwise && op.alpha == 0 &&
         (op.algorithm == algorithm::eltwise_relu || op.algorithm == algorithm::eltwise_relu_use_dst_for_bwd);
}

}  // namespace

bool keeps_special_values(const PostOp& op, DType type) {
  switch (op.algorithm) {
    case algorithm::eltwise_clip:
    case algorithm::eltwise_clip_v2:
    case algorithm::eltwise_clip_v2_use_dst_for_bwd:
    case algorithm::eltwise_hardsigmoid:
    case algorithm::eltwise_exp:
    case algorithm::eltwise_exp_use_dst_for_bwd:
    case algorithm::eltwise_log:
    case algorithm::binary_max:
    case algorithm::binary_min:
    case algorithm::binary_ge:
    case algorithm::binary_gt: return false;
    case algorithm::eltwise_gelu_erf: return type != DType::f16;
    default: return true;
  }
}

void append_eltwise(std::vector<PostOp>& ops, const PostOp& op) {
  if (is_relu(op))
    ops.insert(ops.end(), {PostOp::eltwise(algorithm::eltwise_elu, 0), PostOp::eltwise(algorithm::eltwise_linear, 1)});
  else
    ops.push_back(op);
}

namespace {

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

void PostOps::add_key(Key& key) const {
  key.add(static_cast<int64_t>(ops.size()) | static_cast<int64_t>(quantization.size()) << 8 |
          static_cast<int64_t>(fpmath) << 16 | static_cast<int64_t>(fpmath_on_integers) << 20 |
          static_cast<int64_t>(deterministic) << 21 | static_cast<int64_t>(dropout.enabled) << 22);
  for (const auto& p : ops) {
    key.add(static_cast<int64_t>(p.kind) | static_cast<int64_t>(p.algorithm) << 8).add(p.alpha).add(p.beta);
    if (p.kind == PostOp::Kind::binary || p.kind == PostOp::Kind::prelu) key.add(p.other);
    if (p.algorithm == algorithm::binary_select) key.add(p.other2);
  }
  for (const auto& q : quantization) {
    key.add(static_cast<int64_t>(q.arg) << 1 | q.zero_points).add(q.mask).add(static_cast<int64_t>(q.type));
    key.add(static_cast<int64_t>(q.groups.size() | q.dims.size() << 8));
    key.add(q.groups.data(), static_cast<int>(q.groups.size()));
    key.add(q.dims.data(), static_cast<int>(q.dims.size()));
  }
  if (dropout.enabled) key.add(dropout.mask);
}

dnnl::primitive_attr PostOps::attributes() const {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (fpmath != FpMath::strict || fpmath_on_integers) {
    static constexpr dnnl::fpmath_mode modes[] = {dnnl::fpmath_mode::strict, dnnl::fpmath_mode::bf16,
                                                  dnnl::fpmath_mode::tf32, dnnl::fpmath_mode::f16,
                                                  dnnl::fpmath_mode::any};
    attr.set_fpmath_mode(modes[static_cast<int>(fpmath)], fpmath_on_integers);
  }
  if (deterministic) attr.set_deterministic(true);
  for (const auto& q : quantization) {
    const dnnl::memory::dims groups(q.groups.begin(), q.groups.end());
    if (q.zero_points)
      attr.set_zero_points(q.arg, q.mask, groups, to_dnnl(q.type));
    else
      attr.set_scales(q.arg, q.mask, groups, to_dnnl(q.type));
  }
  if (!ops.empty()) {
    dnnl::post_ops chain;
    for (const auto& p : ops) switch (p.kind) {
        case PostOp::Kind::sum: chain.append_sum(p.alpha); break;
        case PostOp::Kind::eltwise: chain.append_eltwise(p.algorithm, p.alpha, p.beta); break;
        case PostOp::Kind::binary:
          if (p.algorithm == algorithm::binary_select)
            chain.append_binary(p.algorithm, to_desc(p.other), to_desc(p.other2));
          else
            chain.append_binary(p.algorithm, to_desc(p.other));
          break;
        case PostOp::Kind::prelu: chain.append_prelu(prelu_mask(p.other)); break;
      }
    attr.set_post_ops(chain);
  }
  if (dropout.enabled) attr.set_dropout(to_desc(dropout.mask));
  return attr;
}

void PostOps::add_args(std::vector<ArgSpec>& args) const {
  for (size_t i = 0; i < ops.size(); ++i) {
    const int base = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i));
    if (ops[i].kind == PostOp::Kind::binary) {
      args.push_back({base | DNNL_ARG_SRC_1, to_desc(ops[i].other)});
      if (ops[i].algorithm == algorithm::binary_select) args.push_back({base | DNNL_ARG_SRC_2, to_desc(ops[i].other2)});
    } else if (ops[i].kind == PostOp::Kind::prelu) {
      args.push_back({base | DNNL_ARG_WEIGHTS, to_desc(ops[i].other)});
    }
  }
  for (const auto& q : quantization)
    args.push_back({(q.zero_points ? DNNL_ARG_ATTR_ZERO_POINTS : DNNL_ARG_ATTR_SCALES) | q.arg, quantization_desc(q)});
  if (dropout.enabled) {
    args.push_back({DNNL_ARG_ATTR_DROPOUT_MASK, to_desc(dropout.mask)});
    args.push_back({DNNL_ARG_ATTR_DROPOUT_PROBABILITY, one(dnnl::memory::data_type::f32)});
    args.push_back({DNNL_ARG_ATTR_DROPOUT_SEED, one(dnnl::memory::data_type::s32)});
  }
}

void PostOps::add_pointers(std::vector<void*>& pointers) const {
  for (const auto& p : ops) {
    if (p.kind == PostOp::Kind::binary) {
      pointers.push_back(p.other.data);
      if (p.algorithm == algorithm::binary_select) pointers.push_back(p.other2.data);
    } else if (p.kind == PostOp::Kind::prelu) {
      pointers.push_back(p.other.data);
    }
  }
  for (const auto& q : quantization) pointers.push_back(q.data);
  if (dropout.enabled) pointers.insert(pointers.end(), {dropout.mask.data, dropout.probability, dropout.seed});
}

const std::vector<EltwiseName>& eltwise_names() {
  static const auto* names = new std::vector<EltwiseName>{
      {"relu", algorithm::eltwise_relu, 0, 0},
      {"tanh", algorithm::eltwise_tanh, 0, 0},
      {"elu", algorithm::eltwise_elu, 1, 0},
      {"square", algorithm::eltwise_square, 0, 0},
      {"abs", algorithm::eltwise_abs, 0, 0},
      {"sqrt", algorithm::eltwise_sqrt, 0, 0},
      {"swish", algorithm::eltwise_swish, 1, 0},
      {"linear", algorithm::eltwise_linear, 1, 0},
      {"soft_relu", algorithm::eltwise_soft_relu, 1, 0},
      {"mish", algorithm::eltwise_mish, 0, 0},
      {"logistic", algorithm::eltwise_logistic, 0, 0},
      {"exp", algorithm::eltwise_exp, 0, 0},
      {"gelu_tanh", algorithm::eltwise_gelu_tanh, 0, 0},
      {"gelu_erf", algorithm::eltwise_gelu_erf, 0, 0},
      {"log", algorithm::eltwise_log, 0, 0},
      {"clip", algorithm::eltwise_clip, 0, 1},
      {"clip_v2", algorithm::eltwise_clip_v2, 0, 1},
      {"pow", algorithm::eltwise_pow, 1, 1},
      {"round", algorithm::eltwise_round, 0, 0},
      {"hardswish", algorithm::eltwise_hardswish, 1.f / 6, 0.5f},
      {"hardsigmoid", algorithm::eltwise_hardsigmoid, 1.f / 6, 0.5f},
      {"relu_use_dst_for_bwd", algorithm::eltwise_relu_use_dst_for_bwd, 0, 0},
      {"tanh_use_dst_for_bwd", algorithm::eltwise_tanh_use_dst_for_bwd, 0, 0},
      {"elu_use_dst_for_bwd", algorithm::eltwise_elu_use_dst_for_bwd, 1, 0},
      {"sqrt_use_dst_for_bwd", algorithm::eltwise_sqrt_use_dst_for_bwd, 0, 0},
      {"logistic_use_dst_for_bwd", algorithm::eltwise_logistic_use_dst_for_bwd, 0, 0},
      {"exp_use_dst_for_bwd", algorithm::eltwise_exp_use_dst_for_bwd, 0, 0},
      {"clip_v2_use_dst_for_bwd", algorithm::eltwise_clip_v2_use_dst_for_bwd, 0, 1},
      // torch's names
      {"sigmoid", algorithm::eltwise_logistic, 0, 0},
      {"silu", algorithm::eltwise_swish, 1, 0},
      {"gelu", algorithm::eltwise_gelu_erf, 0, 0},
      {"softplus", algorithm::eltwise_soft_relu, 1, 0},
      {"leaky_relu", algorithm::eltwise_relu, 0.01f, 0},
      {"hardtanh", algorithm::eltwise_clip, -1, 1},
      {"relu6", algorithm::eltwise_clip, 0, 6},
  };
  return *names;
}

const std::vector<BinaryName>& binary_names() {
  static const auto* names = new std::vector<BinaryName>{
      {"add", algorithm::binary_add},       {"mul", algorithm::binary_mul}, {"max", algorithm::binary_max},
      {"min", algorithm::binary_min},       {"div", algorithm::binary_div}, {"sub", algorithm::binary_sub},
      {"ge", algorithm::binary_ge},         {"gt", algorithm::binary_gt},   {"le", algorithm::binary_le},
      {"lt", algorithm::binary_lt},         {"eq", algorithm::binary_eq},   {"ne", algorithm::binary_ne},
      {"select", algorithm::binary_select},
  };
  return *names;
}

PostOp parse_eltwise(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto& names = eltwise_names();
  const auto found = std::find_if(names.begin(), names.end(), [&](const EltwiseName& e) { return name == e.name; });
  if (found == names.end())
    throw Error(ErrorKind::value, "unknown post-op '" + std::string(name) + "'; see xpu_ops.onednn.eltwise_names()");
  PostOp p = PostOp::eltwise(found->algorithm, found->alpha, found->beta);
  int position = 0;
  for (size_t at = colon; at != std::string_view::npos && at < text.size();) {
    const size_t comma = text.find(',', at + 1);
    std::string item(text.substr(at + 1, comma == std::string_view::npos ? comma : comma - at - 1));
    at = comma;
    float* target = position == 0 ? &p.alpha : position == 1 ? &p.beta : nullptr;
    ++position;
    if (const size_t eq = item.find('='); eq != std::string::npos) {
      const std::string key = item.substr(0, eq);
      target = key == "alpha" ? &p.alpha : key == "beta" ? &p.beta : nullptr;
      item.erase(0, eq + 1);
    }
    char* end = nullptr;
    const float value = std::strtof(item.c_str(), &end);
    if (!target || item.empty() || *end)
      throw Error(ErrorKind::value, "bad parameter in post-op '" + std::string(text) + "': expected alpha=X,beta=Y");
    *target = value;
  }
  return p;
}

dnnl::algorithm parse_binary(std::string_view name) {
  for (const auto& b : binary_names())
    if (name == b.name) return b.algorithm;
  throw Error(ErrorKind::value, "unknown binary post-op '" + std::string(name) + "'");
}

}  // namespace xpu_ops::onednn
