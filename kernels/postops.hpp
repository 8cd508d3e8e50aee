// One declarative description of what follows a product: data without a type of oneDNN or torch, and its names.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/view.hpp"

namespace xpu_ops {

// Those of oneDNN, under its names. `*_of_result` differ in their gradients only.
enum class PostFunction : uint8_t {
  none,
  // of one value
  relu,
  tanh,
  elu,
  square,
  abs,
  sqrt,
  swish,
  linear,
  soft_relu,
  mish,
  logistic,
  exp,
  gelu_tanh,
  gelu_erf,
  log,
  clip,
  clip_v2,
  pow,
  round,
  hardswish,
  hardsigmoid,
  relu_of_result,
  tanh_of_result,
  elu_of_result,
  sqrt_of_result,
  logistic_of_result,
  exp_of_result,
  clip_v2_of_result,
  // of two
  add,
  mul,
  max,
  min,
  div,
  sub,
  ge,
  gt,
  le,
  lt,
  eq,
  ne,
  select,
};
// The function of the same values by its shortest name.
constexpr PostFunction value_of(PostFunction f) {
  using F = PostFunction;
  switch (f) {
    case F::relu_of_result: return F::relu;
    case F::tanh_of_result: return F::tanh;
    case F::elu_of_result: return F::elu;
    case F::sqrt_of_result: return F::sqrt;
    case F::logistic_of_result: return F::logistic;
    case F::exp_of_result: return F::exp;
    case F::clip_v2:
    case F::clip_v2_of_result: return F::clip;
    default: return f;
  }
}

struct PostOp {
  enum class Kind : uint8_t { sum, eltwise, binary, prelu };
  Kind kind = Kind::eltwise;
  PostFunction function = PostFunction::none;  // eltwise, binary
  float alpha = 0, beta = 0;                   // eltwise; alpha is the scale of sum
  View other;   // binary: second operand; prelu: slopes. Dims of the destination or 1 (broadcast)
  View other2;  // select: condition

  static PostOp sum(float scale = 1.f);  // dst = result + scale * (what dst held)
  static PostOp eltwise(PostFunction function, float alpha = 0, float beta = 0);
  static PostOp binary(PostFunction function, const View& other);
  static PostOp prelu(const View& slopes);
};

// Scales or zero points of one operand. Bit i of mask: they vary along dimension i; `groups` (for the last two dims)
// sets how many elements share one.
struct Quantization {
  enum class Of : uint8_t { source, weights, result };
  Of of = Of::source;
  bool zero_points = false;
  int mask = 0;
  std::vector<int64_t> groups;
  DType type = DType::f32;
  std::vector<int64_t> dims;  // of the values, dense; empty: one value
  void* data = nullptr;
};

// dst is zeroed with this probability and scaled by 1 / (1 - probability); all three are read on the device.
struct Dropout {
  bool enabled = false;
  View mask;                    // u8, dims of dst: 1 where kept
  void* probability = nullptr;  // one f32
  void* seed = nullptr;         // one s32
};

enum class FpMath : uint8_t { strict, bf16, tf32, f16, any };

struct PostOps {
  std::vector<PostOp> ops;
  std::vector<Quantization> quantization;
  Dropout dropout;
  FpMath fpmath = FpMath::strict;
  bool fpmath_on_integers = false;  // weights decompression: integers are computed in the floating type
  bool deterministic = false;

  bool empty() const { return ops.empty() && quantization.empty() && !dropout.enabled; }
};

// Whether oneDNN's post-op gives what ATen's operator gives at NaN, infinity and the largest numbers, for results of
// `type`. oneDNN's comparisons drop NaN, exp has infinity for it, log rounds denormals, and gelu_erf has NaN at
// infinity, as at::gelu of float has, but not of half (3.13, x86-64; tests/onednn/test_special_values.py).
bool keeps_special_values(PostFunction function, DType type);
bool is_relu(const PostOp& op);  // without a slope
// Appends an eltwise post-op. For relu it appends two with its value that keep NaN: elu of slope 0, and an addition
// that makes its -0 a 0.
void append_eltwise(std::vector<PostOp>& ops, const PostOp& op);

struct EltwiseName {
  const char* name;
  PostFunction function;
  float alpha, beta;  // defaults
};
// Every eltwise algorithm of oneDNN by its own name, and torch's names for some of them.
const std::vector<EltwiseName>& eltwise_names();
struct BinaryName {
  const char* name;
  PostFunction function;
};
const std::vector<BinaryName>& binary_names();

// "relu", "gelu_tanh", "swish:alpha=1", "clip:0,6". Throws Error{value} for an unknown name or parameter.
PostOp parse_eltwise(std::string_view text);
// "add", "mul", "max" ... Throws Error{value}.
PostFunction parse_binary(std::string_view name);

}  // namespace xpu_ops
