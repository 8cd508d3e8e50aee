// One declarative description of what follows a matmul or convolution. It makes the primitive attribute, the bytes of
// the cache key and the arguments of an execution, always in the same order.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/onednn/primitive_cache.hpp"
#include "kernels/onednn/tensor.hpp"

namespace xpu_ops::onednn {

struct PostOp {
  enum class Kind : uint8_t { sum, eltwise, binary, prelu };
  Kind kind = Kind::eltwise;
  dnnl::algorithm algorithm = dnnl::algorithm::undef;  // eltwise, binary
  float alpha = 0, beta = 0;                           // eltwise; alpha is the scale of sum
  View other;   // binary: second operand; prelu: slopes. Dims of the destination or 1 (broadcast)
  View other2;  // binary_select: condition

  static PostOp sum(float scale = 1.f);  // dst = result + scale * (what dst held)
  static PostOp eltwise(dnnl::algorithm algorithm, float alpha = 0, float beta = 0);
  static PostOp binary(dnnl::algorithm algorithm, const View& other);
  static PostOp prelu(const View& slopes);
};

// Scales or zero points of one argument (DNNL_ARG_SRC, _WEIGHTS, _DST). Bit i of mask: they vary along dimension i;
// `groups` (for the last two dims) sets how many elements share one.
struct Quantization {
  int arg = 0;
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
  void add_key(Key& key) const;
  dnnl::primitive_attr attributes() const;  // scratchpad in user mode
  void add_args(std::vector<ArgSpec>& args) const;
  void add_pointers(std::vector<void*>& pointers) const;  // same order as add_args
};

// Whether a post-op gives what ATen's operator gives at NaN, infinity and the largest numbers, for results of `type`.
// oneDNN's comparisons drop NaN, exp has infinity for it, log rounds denormals, and gelu_erf has NaN at infinity, as
// at::gelu of float has, but not of half (3.13, x86-64; tests/onednn/test_special_values.py).
bool keeps_special_values(const PostOp& op, DType type);
// Appends an eltwise post-op. For relu it appends two with its value that keep NaN: elu of slope 0, and an addition
// that makes its -0 a 0.
void append_eltwise(std::vector<PostOp>& ops, const PostOp& op);

struct EltwiseName {
  const char* name;
  dnnl::algorithm algorithm;
  float alpha, beta;  // defaults
};
// Every eltwise algorithm of oneDNN by its own name, and torch's names for some of them.
const std::vector<EltwiseName>& eltwise_names();
struct BinaryName {
  const char* name;
  dnnl::algorithm algorithm;
};
const std::vector<BinaryName>& binary_names();

// "relu", "gelu_tanh", "swish:alpha=1", "clip:0,6". Throws Error{value} for an unknown name or parameter.
PostOp parse_eltwise(std::string_view text);
// "add", "mul", "max" ... Throws Error{value}.
dnnl::algorithm parse_binary(std::string_view name);

}  // namespace xpu_ops::onednn
