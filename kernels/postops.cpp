#include "kernels/postops.hpp"

#include <algorithm>
#include <cstdlib>

#include "kernels/error.hpp"

namespace xpu_ops {

PostOp PostOp::sum(float scale) {
  PostOp p;
  p.kind = Kind::sum;
  p.alpha = scale;
  return p;
}

PostOp PostOp::eltwise(PostFunction f, float alpha, float beta) {
  PostOp p;
  p.function = f;
  p.alpha = alpha;
  p.beta = beta;
  return p;
}

PostOp PostOp::binary(PostFunction f, const View& other) {
  PostOp p;
  p.kind = Kind::binary;
  p.function = f;
  p.other = other;
  return p;
}

PostOp PostOp::prelu(const View& slopes) {
  PostOp p;
  p.kind = Kind::prelu;
  p.other = slopes;
  return p;
}

bool is_relu(const PostOp& op) {
  return op.kind == PostOp::Kind::eltwise && op.alpha == 0 && value_of(op.function) == PostFunction::relu;
}

bool keeps_special_values(PostFunction function, DType type) {
  using F = PostFunction;
  switch (value_of(function)) {
    case F::clip:
    case F::hardsigmoid:
    case F::exp:
    case F::log:
    case F::max:
    case F::min:
    case F::ge:
    case F::gt: return false;
    case F::gelu_erf: return type != DType::f16;
    default: return true;
  }
}

void append_eltwise(std::vector<PostOp>& ops, const PostOp& op) {
  if (is_relu(op))
    ops.insert(ops.end(), {PostOp::eltwise(PostFunction::elu, 0), PostOp::eltwise(PostFunction::linear, 1)});
  else
    ops.push_back(op);
}

const std::vector<EltwiseName>& eltwise_names() {
  static const auto* names = new std::vector<EltwiseName>{
      {"relu", PostFunction::relu, 0, 0},
      {"tanh", PostFunction::tanh, 0, 0},
      {"elu", PostFunction::elu, 1, 0},
      {"square", PostFunction::square, 0, 0},
      {"abs", PostFunction::abs, 0, 0},
      {"sqrt", PostFunction::sqrt, 0, 0},
      {"swish", PostFunction::swish, 1, 0},
      {"linear", PostFunction::linear, 1, 0},
      {"soft_relu", PostFunction::soft_relu, 1, 0},
      {"mish", PostFunction::mish, 0, 0},
      {"logistic", PostFunction::logistic, 0, 0},
      {"exp", PostFunction::exp, 0, 0},
      {"gelu_tanh", PostFunction::gelu_tanh, 0, 0},
      {"gelu_erf", PostFunction::gelu_erf, 0, 0},
      {"log", PostFunction::log, 0, 0},
      {"clip", PostFunction::clip, 0, 1},
      {"clip_v2", PostFunction::clip_v2, 0, 1},
      {"pow", PostFunction::pow, 1, 1},
      {"round", PostFunction::round, 0, 0},
      {"hardswish", PostFunction::hardswish, 1.f / 6, 0.5f},
      {"hardsigmoid", PostFunction::hardsigmoid, 1.f / 6, 0.5f},
      {"relu_use_dst_for_bwd", PostFunction::relu_of_result, 0, 0},
      {"tanh_use_dst_for_bwd", PostFunction::tanh_of_result, 0, 0},
      {"elu_use_dst_for_bwd", PostFunction::elu_of_result, 1, 0},
      {"sqrt_use_dst_for_bwd", PostFunction::sqrt_of_result, 0, 0},
      {"logistic_use_dst_for_bwd", PostFunction::logistic_of_result, 0, 0},
      {"exp_use_dst_for_bwd", PostFunction::exp_of_result, 0, 0},
      {"clip_v2_use_dst_for_bwd", PostFunction::clip_v2_of_result, 0, 1},
      // torch's names
      {"sigmoid", PostFunction::logistic, 0, 0},
      {"silu", PostFunction::swish, 1, 0},
      {"gelu", PostFunction::gelu_erf, 0, 0},
      {"softplus", PostFunction::soft_relu, 1, 0},
      {"leaky_relu", PostFunction::relu, 0.01f, 0},
      {"hardtanh", PostFunction::clip, -1, 1},
      {"relu6", PostFunction::clip, 0, 6},
  };
  return *names;
}

const std::vector<BinaryName>& binary_names() {
  static const auto* names = new std::vector<BinaryName>{
      {"add", PostFunction::add},       {"mul", PostFunction::mul}, {"max", PostFunction::max},
      {"min", PostFunction::min},       {"div", PostFunction::div}, {"sub", PostFunction::sub},
      {"ge", PostFunction::ge},         {"gt", PostFunction::gt},   {"le", PostFunction::le},
      {"lt", PostFunction::lt},         {"eq", PostFunction::eq},   {"ne", PostFunction::ne},
      {"select", PostFunction::select},
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
  PostOp p = PostOp::eltwise(found->function, found->alpha, found->beta);
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

PostFunction parse_binary(std::string_view name) {
  for (const auto& b : binary_names())
    if (name == b.name) return b.function;
  throw Error(ErrorKind::value, "unknown binary post-op '" + std::string(name) + "'");
}

}  // namespace xpu_ops
