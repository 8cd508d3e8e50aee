// torch's quantised linear and convolution with fused post-ops (onednn::q*_pointwise): int8 products in oneDNN, and a
// decomposition in float32 for what it does not take. Weights are symmetric: their zero points are not read, as
// upstream.
#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/round.h>

#include "bindings/aten/convolution.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/fused.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/ops/copy.hpp"

namespace xpu_ops::aten {
namespace {

using Scalars = c10::List<std::optional<at::Scalar>>;

struct ConvWindow {
  std::vector<int64_t> stride, padding, dilation;
  ConvWindow(const c10::List<int64_t>& s, const c10::List<int64_t>& p, const c10::List<int64_t>& d)
      : stride(s.vec()), padding(p.vec()), dilation(d.vec()) {}
  ConvCall call(int64_t groups) const { return {stride, padding, dilation, groups}; }
};

// x stands for (x - zero) * x_scale, w for w * w_scale.
struct Input {
  at::Tensor x, w;
  at::Tensor scale;  // x_scale * w_scale, float32 on the device: one, or one per output channel
  at::Tensor zero;   // int32 on the device, one; undefined: 0
};

at::Tensor on_device(const at::Tensor& t, const at::Tensor& like, at::ScalarType type) {
  return t.to(like.options().dtype(type)).contiguous();
}
at::Tensor constant(double value, const at::Tensor& like, at::ScalarType type) {
  return at::full({1}, value, like.options().dtype(type));
}

Input input(const at::Tensor& x, double x_scale, int64_t x_zero, const at::Tensor& w, const at::Tensor& w_scale) {
  Input in{x, w, on_device(w_scale, x, at::kFloat).reshape({-1}) * x_scale, {}};
  if (x_zero) in.zero = constant(static_cast<double>(x_zero), x, at::kInt);
  return in;
}
Input input(const at::Tensor& x, const at::Tensor& x_scale, const at::Tensor& x_zero, const at::Tensor& w,
            const at::Tensor& w_scale) {
  TORCH_CHECK(x_scale.numel() == 1 && x_zero.numel() <= 1, "expected one scale and one zero point of the input, got ",
              x_scale.numel(), " and ", x_zero.numel());
  Input in{x, w, on_device(w_scale, x, at::kFloat).reshape({-1}) * on_device(x_scale, x, at::kFloat).reshape({1}), {}};
  if (x_zero.numel()) in.zero = on_device(x_zero, x, at::kInt).reshape({1});
  return in;
}

struct Output {
  double scale = 1;
  int64_t zero = 0;
  std::optional<at::ScalarType> type;
};

struct Other {
  at::Tensor tensor;  // undefined: none
  double scale = 1;
  int64_t zero = 0;
  bool accumulate = false;  // "sum": the result goes into it
};

Other other_of(const char* what, std::string_view binary, const at::Tensor& tensor, double scale, int64_t zero,
               double alpha) {
  TORCH_CHECK(binary == "sum" || binary == "add", what, ": unsupported binary post-op ", binary,
              ", expected sum or add");
  TORCH_CHECK(tensor.defined(), what, ": the binary post-op ", binary, " needs a tensor");
  TORCH_CHECK(alpha == 1.0, what, ": alpha has to be 1");
  return {tensor, scale, zero, binary == "sum"};
}

bool is_int8(at::ScalarType t) { return t == at::kByte || t == at::kChar; }

at::Tensor dequantised(const Other& other) {
  const at::Tensor t = other.tensor.to(at::kFloat);
  if (!is_int8(other.tensor.scalar_type())) return t;
  return (t - static_cast<double>(other.zero)) * other.scale;
}

// The epilogue of the product: the other tensor, the activation, and the scale of an integer result.
Chain chain_of(const Other& other, const at::Tensor& result, std::string_view unary, const Scalars& scalars,
               std::optional<std::string_view> algorithm, const Output& out) {
  Chain chain;
  if (other.tensor.defined()) {
    at::Tensor value = dequantised(other);
    if (value.sizes() != result.sizes()) value = value.view(result.sizes());
    if (value.is_same(other.tensor) && other.accumulate)
      chain.emplace_back(std::string("sum"));
    else
      chain.emplace_back(std::pair<std::string, at::Tensor>("add", value));
  }
  if (auto activation = unary_attribute(unary, scalars, algorithm)) chain.emplace_back(*activation);
  if (is_int8(result.scalar_type()) || result.scalar_type() == at::kFloat8_e4m3fn) {
    char text[80];
    std::snprintf(text, sizeof text, "linear:%.9g,%lld", 1.0 / out.scale, static_cast<long long>(out.zero));
    chain.emplace_back(std::string(text));
  }
  return chain;
}

void quantize(onednn::PostOps& post, const Input& in, int channel_mask) {
  onednn::Quantization scale;
  scale.arg = DNNL_ARG_WEIGHTS;
  scale.data = const_cast<void*>(in.scale.const_data_ptr());
  if (in.scale.numel() > 1) {
    scale.mask = channel_mask;
    scale.dims = {in.scale.numel()};
  }
  post.quantization.push_back(scale);
  if (in.zero.defined()) {
    onednn::Quantization zero;
    zero.arg = DNNL_ARG_SRC;
    zero.zero_points = true;
    zero.type = DType::i32;
    zero.data = const_cast<void*>(in.zero.const_data_ptr());
    post.quantization.push_back(zero);
  }
}

at::Tensor centred(const Input& in) {
  const at::Tensor x = in.x.to(at::kFloat);
  return in.zero.defined() ? x - in.zero.to(at::kFloat) : x;
}

// x @ w in float32. A weight that is kept is converted when it is packed, another at each call.
at::Tensor float_product(const at::Tensor& x, const at::Tensor& w) {
  auto options = weight_options(w, x.size(0));
  options.widen = plan::cast_to_float;
  if (options.pack && w.scalar_type() == at::kChar) {
    const at::Tensor y = new_empty({x.size(0), w.size(1)}, at::kFloat);
    if (onednn::matmul(runtime::current_queue(), view(x), view(w), nullptr, out_view(y), {}, options)) return y;
  }
  return x.mm(w.to(at::kFloat));
}

// A float32 result into the wanted type, the rounding and saturation of oneDNN.
void store_result(const at::Tensor& value, const at::Tensor& result) {
  if (is_int8(result.scalar_type())) {
    const bool s8 = result.scalar_type() == at::kChar;
    const_cast<at::Tensor&>(result).copy_(at::clamp(at::round(value), s8 ? -128 : 0, s8 ? 127 : 255));
  } else {
    const_cast<at::Tensor&>(result).copy_(value);
  }
}

at::Tensor compose_sum(const at::Tensor& y, const at::Tensor& result, Chain chain) {
  if (!chain.empty() && std::holds_alternative<std::string>(chain[0]) && std::get<std::string>(chain[0]) == "sum") {
    chain[0] = std::pair<std::string, at::Tensor>("add", result);
  }
  return compose_chain(y, chain);
}

at::ScalarType result_type(const char* what, const Input& in, const Output& out, const Other& other) {
  const at::ScalarType type = out.type.value_or(in.x.scalar_type());
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16 || is_int8(type) || type == at::kFloat8_e4m3fn, what,
              ": expected an output of type float32, bfloat16, uint8, int8 or float8_e4m3fn, got ", type);
  TORCH_CHECK(is_int8(type) || type == at::kFloat8_e4m3fn || (out.scale == 1.0 && out.zero == 0), what,
              ": output scale and zero point have to be 1 and 0 for a floating point output");
  TORCH_CHECK(!other.accumulate || other.tensor.scalar_type() == type, what,
              ": the type of the tensor to add to has to be that of the output, got ", other.tensor.scalar_type(),
              " and ", type);
  return type;
}

at::Tensor qlinear(const Input& in, const Other& other, const std::optional<at::Tensor>& bias_opt, const Output& out,
                   std::string_view unary, const Scalars& scalars, std::optional<std::string_view> algorithm) {
  static constexpr char what[] = "qlinear";
  TORCH_CHECK(in.x.dim() >= 1 && in.w.dim() == 2 && in.x.size(-1) == in.w.size(0), what, ": input of shape ",
              in.x.sizes(), " does not fit a packed weight of shape ", in.w.sizes());
  const int64_t n = in.w.size(1), k = in.w.size(0);
  TORCH_CHECK(in.scale.numel() == 1 || in.scale.numel() == n, what, ": expected 1 or ", n, " weight scales, got ",
              in.scale.numel());
  const at::ScalarType type = result_type(what, in, out, other);
  std::vector<int64_t> sizes = in.x.sizes().vec();
  sizes.back() = n;
  const at::Tensor result = other.accumulate ? other.tensor : new_empty(sizes, type);
  TORCH_CHECK(result.numel() == c10::multiply_integers(sizes), what, ": expected a tensor of shape ",
              at::IntArrayRef(sizes), " to add to, got ", result.sizes());
  if (result.numel() == 0) return result;
  const at::Tensor rows = result.is_contiguous() ? result.view({-1, n}) : new_empty({result.numel() / n, n}, type);
  if (!rows.is_alias_of(result) && other.accumulate) rows.copy_(result.reshape({-1, n}));
  const at::Tensor bias = bias_opt && bias_opt->defined() ? bias_opt->to(at::kFloat).contiguous() : at::Tensor();
  TORCH_CHECK(!bias.defined() || bias.numel() == n, what, ": expected a bias of ", n, " elements");
  Other flat = other;
  if (other.accumulate) flat.tensor = rows;
  const Chain chain = chain_of(flat, rows, unary, scalars, algorithm, out);

  bool done = false;
  if (is_int8(in.x.scalar_type()) && in.w.scalar_type() == at::kChar && type != at::kFloat8_e4m3fn && k > 0) {
    std::vector<at::Tensor> keep;
    Chain head = chain;
    const Chain tail = at::isFloatingType(rows.scalar_type()) ? take_tail(head, rows) : Chain();
    onednn::PostOps post = parse_chain(head, rows, other.accumulate, true, keep);
    quantize(post, in, 1 << 1);
    const at::Tensor x = in.x.reshape({-1, k});
    onednn::View b;
    if (bias.defined()) {
      b = view(bias);
      b.ndim = 0;
      b.push(1, n);
      b.push(n, 1);
    }
    auto& queue = runtime::current_queue();
    const onednn::View* b_ptr = bias.defined() ? &b : nullptr;
    const auto options = weight_options(in.w, x.size(0));
    done = onednn::matmul(queue, view(x), view(in.w), b_ptr, out_view(rows), post, options);
    if (!done && options.pack) done = onednn::matmul(queue, view(x), view(in.w), b_ptr, out_view(rows), post);
    if (done) apply_chain(rows, tail);
  }
  if (!done) {
    at::Tensor y = float_product(centred(in).reshape({-1, k}), in.w) * in.scale;
    if (bias.defined()) y = y + bias;
    store_result(compose_sum(y, rows, chain), rows);
  }
  if (!rows.is_alias_of(result)) const_cast<at::Tensor&>(result).copy_(rows.view(result.sizes()));
  return result;
}

at::Tensor qconv(const Input& in, const Other& other, const std::optional<at::Tensor>& bias_opt, const ConvCall& call,
                 const Output& out, std::string_view unary, const Scalars& scalars,
                 std::optional<std::string_view> algorithm) {
  static constexpr char what[] = "qconv";
  const auto g = checked_geometry(in.x, in.w, call);
  const std::vector<int64_t> sizes = conv_output_size(in.x, in.w, g);
  for (int64_t s : sizes) TORCH_CHECK(s >= 0, what, ": the kernel is larger than the padded input");
  TORCH_CHECK(in.scale.numel() == 1 || in.scale.numel() == sizes[1], what, ": expected 1 or ", sizes[1],
              " weight scales, got ", in.scale.numel());
  const at::ScalarType type = result_type(what, in, out, other);
  const at::MemoryFormat format = g.spatial == 3   ? at::MemoryFormat::ChannelsLast3d
                                  : g.spatial == 2 ? at::MemoryFormat::ChannelsLast
                                                   : at::MemoryFormat::Contiguous;
  const at::Tensor result = other.accumulate ? other.tensor : new_empty(sizes, type, format);
  TORCH_CHECK(result.sizes() == at::IntArrayRef(sizes), what, ": expected a tensor of shape ", at::IntArrayRef(sizes),
              " to add to, got ", result.sizes());
  if (result.numel() == 0) return result;
  const at::Tensor bias = bias_opt && bias_opt->defined() ? bias_opt->to(at::kFloat).contiguous() : at::Tensor();
  TORCH_CHECK(!bias.defined() || bias.numel() == sizes[1], what, ": expected a bias of ", sizes[1], " elements");
  const Chain chain = chain_of(other, result, unary, scalars, algorithm, out);
  if (is_int8(in.x.scalar_type()) && in.w.scalar_type() == at::kChar && type != at::kFloat8_e4m3fn && in.x.numel() &&
      in.w.numel()) {
    std::vector<at::Tensor> keep;
    Chain head = chain;
    const Chain tail = at::isFloatingType(result.scalar_type()) ? take_tail(head, result) : Chain();
    onednn::PostOps post = parse_chain(head, result, other.accumulate, false, keep);
    quantize(post, in, g.groups > 1 ? 3 : 1);
    onednn::View b;
    if (bias.defined()) b = view(bias);
    const at::Tensor x = in.x.is_contiguous() ? in.x : in.x.contiguous(format);
    if (onednn::convolution_forward(runtime::current_queue(), view(x), view(in.w), bias.defined() ? &b : nullptr,
                                    out_view(result), g, post, weight_ref(in.w))) {
      apply_chain(result, tail);
      return result;
    }
  }
  std::vector<int64_t> channel(in.x.dim(), 1);
  channel[1] = in.scale.numel();
  at::Tensor y = compose_convolution(centred(in), in.w.to(at::kFloat), {}, call, {}) * in.scale.view(channel);
  channel[1] = sizes[1];
  if (bias.defined()) y = y + bias.view(channel);
  store_result(compose_sum(y, result, chain), result);
  return result;
}

}  // namespace

// ---- linear. The packed weight is the (in, out) view of the (out, in) one; oneDNN's layout is found at the first use.

at::Tensor onednn_qlinear_prepack(at::Tensor weight, std::optional<c10::List<int64_t>> x_shape) {
  TORCH_CHECK(weight.dim() == 2, "onednn::qlinear_prepack: expected a matrix, got shape ", weight.sizes());
  return weight.contiguous().t();
}

at::Tensor onednn_qlinear_pointwise(at::Tensor qx, double x_scale, int64_t x_zero_point, at::Tensor qw,
                                    at::Tensor w_scale, at::Tensor w_zero_point, std::optional<at::Tensor> bias,
                                    double output_scale, int64_t output_zero_point,
                                    std::optional<at::ScalarType> output_dtype, c10::string_view post_op_name,
                                    Scalars post_op_args, c10::string_view post_op_algorithm) {
  return qlinear(input(qx, x_scale, x_zero_point, qw, w_scale), {}, bias,
                 {output_scale, output_zero_point, output_dtype}, post_op_name, post_op_args, post_op_algorithm);
}

at::Tensor onednn_qlinear_pointwise_tensor(at::Tensor qx, at::Tensor x_scale, at::Tensor x_zero_point, at::Tensor qw,
                                           at::Tensor w_scale, at::Tensor w_zero_point, std::optional<at::Tensor> bias,
                                           double output_scale, int64_t output_zero_point,
                                           std::optional<at::ScalarType> output_dtype, c10::string_view post_op_name,
                                           Scalars post_op_args, c10::string_view post_op_algorithm) {
  return qlinear(input(qx, x_scale, x_zero_point, qw, w_scale), {}, bias,
                 {output_scale, output_zero_point, output_dtype}, post_op_name, post_op_args, post_op_algorithm);
}

at::Tensor onednn_qlinear_pointwise_binary(at::Tensor qx, double x_scale, int64_t x_zero_point, at::Tensor qw,
                                           at::Tensor w_scale, at::Tensor w_zero_point, std::optional<at::Tensor> other,
                                           std::optional<at::Tensor> bias, double output_scale,
                                           int64_t output_zero_point, std::optional<at::ScalarType> output_dtype,
                                           double other_scale, int64_t other_zp, c10::string_view binary_post_op,
                                           double binary_alpha, c10::string_view unary_post_op,
                                           Scalars unary_post_op_args, c10::string_view unary_post_op_algorithm) {
  return qlinear(input(qx, x_scale, x_zero_point, qw, w_scale),
                 other_of("qlinear", binary_post_op, other.value_or(at::Tensor()), other_scale, other_zp, binary_alpha),
                 bias, {output_scale, output_zero_point, output_dtype}, unary_post_op, unary_post_op_args,
                 unary_post_op_algorithm);
}

at::Tensor onednn_qlinear_pointwise_binary_tensor(
    at::Tensor qx, at::Tensor x_scale, at::Tensor x_zero_point, at::Tensor qw, at::Tensor w_scale,
    at::Tensor w_zero_point, std::optional<at::Tensor> other, std::optional<at::Tensor> bias, double output_scale,
    int64_t output_zero_point, std::optional<at::ScalarType> output_dtype, double other_scale, int64_t other_zp,
    c10::string_view binary_post_op, double binary_alpha, c10::string_view unary_post_op, Scalars unary_post_op_args,
    c10::string_view unary_post_op_algorithm) {
  return qlinear(input(qx, x_scale, x_zero_point, qw, w_scale),
                 other_of("qlinear", binary_post_op, other.value_or(at::Tensor()), other_scale, other_zp, binary_alpha),
                 bias, {output_scale, output_zero_point, output_dtype}, unary_post_op, unary_post_op_args,
                 unary_post_op_algorithm);
}

// ---- convolution. The packed weight is the weight.

at::Tensor onednn_qconv_prepack(at::Tensor weight, at::Tensor w_scales, double x_scale, int64_t x_zp,
                                c10::List<int64_t> stride, c10::List<int64_t> padding, c10::List<int64_t> dilation,
                                int64_t groups, std::optional<c10::List<int64_t>> x_shape) {
  TORCH_CHECK(weight.dim() >= 3 && weight.dim() <= 5, "onednn::qconv_prepack: expected a 3-D, 4-D or 5-D weight, got ",
              weight.dim(), "-D");
  return weight;
}

at::Tensor onednn_qconv_pointwise(at::Tensor qx, double x_scale, int64_t x_zero_point, at::Tensor qw,
                                  at::Tensor w_scale, at::Tensor w_zero_point, std::optional<at::Tensor> bias,
                                  c10::List<int64_t> stride, c10::List<int64_t> padding, c10::List<int64_t> dilation,
                                  int64_t groups, double output_scale, int64_t output_zero_point,
                                  std::optional<at::ScalarType> output_dtype, c10::string_view attr, Scalars scalars,
                                  std::optional<c10::string_view> algorithm) {
  return qconv(input(qx, x_scale, x_zero_point, qw, w_scale), {}, bias,
               ConvWindow(stride, padding, dilation).call(groups), {output_scale, output_zero_point, output_dtype},
               attr, scalars, algorithm);
}

at::Tensor onednn_qconv_pointwise_tensor(at::Tensor qx, at::Tensor x_scale, at::Tensor x_zero_point, at::Tensor qw,
                                         at::Tensor w_scale, at::Tensor w_zero_point, std::optional<at::Tensor> bias,
                                         c10::List<int64_t> stride, c10::List<int64_t> padding,
                                         c10::List<int64_t> dilation, int64_t groups, double output_scale,
                                         int64_t output_zero_point, std::optional<at::ScalarType> output_dtype,
                                         c10::string_view attr, Scalars scalars,
                                         std::optional<c10::string_view> algorithm) {
  return qconv(input(qx, x_scale, x_zero_point, qw, w_scale), {}, bias,
               ConvWindow(stride, padding, dilation).call(groups), {output_scale, output_zero_point, output_dtype},
               attr, scalars, algorithm);
}

at::Tensor onednn_qconv2d_pointwise_binary(at::Tensor qx, double x_scale, int64_t x_zero_point, at::Tensor qw,
                                           at::Tensor w_scale, at::Tensor w_zero_point, at::Tensor qaccum,
                                           std::optional<at::Tensor> bias, c10::List<int64_t> stride,
                                           c10::List<int64_t> padding, c10::List<int64_t> dilation, int64_t groups,
                                           double output_scale, int64_t output_zero_point,
                                           std::optional<at::ScalarType> output_dtype, double accum_scale,
                                           int64_t accum_zero_point, c10::string_view binary_attr,
                                           std::optional<at::Scalar> alpha, std::optional<c10::string_view> unary_attr,
                                           Scalars unary_scalars, std::optional<c10::string_view> unary_algorithm) {
  return qconv(input(qx, x_scale, x_zero_point, qw, w_scale),
               other_of("qconv", binary_attr, qaccum, accum_scale, accum_zero_point, alpha ? alpha->toDouble() : 1.0),
               bias, ConvWindow(stride, padding, dilation).call(groups),
               {output_scale, output_zero_point, output_dtype}, unary_attr.value_or("none"), unary_scalars,
               unary_algorithm);
}

at::Tensor onednn_qconv2d_pointwise_binary_tensor(
    at::Tensor qx, at::Tensor x_scale, at::Tensor x_zero_point, at::Tensor qw, at::Tensor w_scale,
    at::Tensor w_zero_point, at::Tensor qaccum, std::optional<at::Tensor> bias, c10::List<int64_t> stride,
    c10::List<int64_t> padding, c10::List<int64_t> dilation, int64_t groups, double output_scale,
    int64_t output_zero_point, std::optional<at::ScalarType> output_dtype, double accum_scale, int64_t accum_zero_point,
    c10::string_view binary_attr, std::optional<at::Scalar> alpha, std::optional<c10::string_view> unary_attr,
    Scalars unary_scalars, std::optional<c10::string_view> unary_algorithm) {
  return qconv(input(qx, x_scale, x_zero_point, qw, w_scale),
               other_of("qconv", binary_attr, qaccum, accum_scale, accum_zero_point, alpha ? alpha->toDouble() : 1.0),
               bias, ConvWindow(stride, padding, dilation).call(groups),
               {output_scale, output_zero_point, output_dtype}, unary_attr.value_or("none"), unary_scalars,
               unary_algorithm);
}

}  // namespace xpu_ops::aten
