// Linear, matmul and convolution with any chain of post-ops: what torch.ops.xpu_ops, torch's own fused schemas and
// xpu_ops.onednn share.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "bindings/export.hpp"
#include "kernels/postops.hpp"
#include "kernels/products/problem.hpp"

namespace xpu_ops::aten {

// "relu", "clip:0,6", "sum", "sum:0.5", or ("add", operand), ("prelu", slopes).
using PostOpSpec = std::variant<std::string, std::pair<std::string, at::Tensor>>;
using Chain = std::vector<PostOpSpec>;

// Binary post-ops and prelu take the next operand. Throws ValueError for a name that is neither, or if operands are
// left over or missing.
Chain make_chain(const c10::List<std::string>& names, at::TensorList operands);
// The chain on a result that is there already, in torch's operators.
at::Tensor compose_chain(at::Tensor x, const Chain& chain);

// The activation of torch's fused schemas (attr, scalars, algorithm) as a post-op; nothing for "none".
std::optional<std::string> unary_attribute(std::string_view name, const c10::List<std::optional<at::Scalar>>& scalars,
                                           std::optional<std::string_view> algorithm);

// A chain for a result like `out`, whose operands stay those of the chain. `tail`: what follows the first post-op whose
// value at NaN or infinity oneDNN has otherwise than ATen. `activation`: the whole chain, where it is one.
struct SplitChain {
  PostOps post;
  Chain tail;
  products::DepthwiseActivation activation;
};
// `has_out`: a "sum" may read what out holds. `relu_behind`: a relu at the end is the tail, too.
SplitChain split_chain(const Chain& chain, const at::Tensor& out, bool has_out, bool relu_behind = false);
// Computes a tail in place, by this library's own kernels.
void apply_chain(const at::Tensor& out, const Chain& tail);

// out = chain(a @ b + bias), all 2-d or all 3-d; false if oneDNN has no fast implementation, also not around float32
// for the 16-bit types. out may be of another type than a; `has_out`: a "sum" may read it.
bool run_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias, const Chain& chain,
                const at::Tensor& out, bool has_out = false, const products::Weight& weight = {});

// The functions of xpu_ops.onednn: no decomposition. NotImplementedError where oneDNN has no fast implementation, also
// not around float32 for the 16-bit types; ValueError for an unknown post-op.
XPU_OPS_EXPORT at::Tensor fused_matmul(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias,
                                       const Chain& post_ops, const std::optional<at::Tensor>& out);
XPU_OPS_EXPORT at::Tensor fused_convolution(const at::Tensor& x, const at::Tensor& weight,
                                            const std::optional<at::Tensor>& bias, const std::vector<int64_t>& stride,
                                            const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation,
                                            int64_t groups, bool transposed, const std::vector<int64_t>& output_padding,
                                            const Chain& post_ops, const std::optional<at::Tensor>& out);

// The same with a decomposed path: these compute for all types and shapes that the operators take one by one.
at::Tensor linear_chain(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Chain& chain);
at::Tensor compose_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Chain& chain);
struct ConvCall {
  at::IntArrayRef stride, padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
  at::IntArrayRef output_padding;
  // Of the result; none: as at::convolution has it. Torch's compiler takes it for that of the images.
  std::optional<at::MemoryFormat> format = std::nullopt;
};
// `accumulate`, if defined, is overwritten by the result; a chain that starts with "sum" adds what it held.
at::Tensor convolution_chain(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             const ConvCall& call, const Chain& chain, const at::Tensor& accumulate = {});
at::Tensor compose_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const ConvCall& call, const Chain& chain, const at::Tensor& accumulate = {});

ConvGeometry checked_geometry(const at::Tensor& x, const at::Tensor& weight, const ConvCall& call);

at::Tensor xpu_ops_matmul_composite(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias,
                                    c10::List<std::string> post_ops, at::TensorList operands);
at::Tensor xpu_ops_rotary_embedding_composite(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                                              bool interleaved, bool inverse);

inline bool wants_gradient(const at::Tensor& t) { return t.defined() && t.requires_grad(); }
inline bool wants_gradient(const std::optional<at::Tensor>& t) { return t && wants_gradient(*t); }
inline bool wants_gradient(at::TensorList list) {
  for (const at::Tensor& t : list)
    if (wants_gradient(t)) return true;
  return false;
}
template <class... T>
bool wants_gradients(const T&... args) {
  return c10::GradMode::is_enabled() && (wants_gradient(args) || ...);
}

}  // namespace xpu_ops::aten
