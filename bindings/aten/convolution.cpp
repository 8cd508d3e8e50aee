// Convolution and its backward: checks, shapes and the gradients that are made of several products. kernels/products
// decides what serves each.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/sum.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "bindings/aten/convolution.hpp"

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/ops/convolution.hpp"
#include "kernels/products/plan.hpp"
#include "kernels/products/run.hpp"

namespace xpu_ops::aten {

ConvGeometry conv_geometry(int spatial, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                           at::IntArrayRef output_padding, bool transposed, int64_t groups) {
  ConvGeometry g;
  const auto at = [](at::IntArrayRef v, int i) { return v.size() == 1 ? v[0] : v[i]; };
  g.spatial = spatial;
  g.groups = groups;
  g.transposed = transposed;
  for (int i = 0; i < spatial; ++i) {
    g.stride[i] = at(stride, i);
    g.padding[i] = at(padding, i);
    g.dilation[i] = at(dilation, i);
    if (transposed) g.output_padding[i] = at(output_padding, i);
  }
  return g;
}

// Raises where a transposed convolution would make no element, as torch's CPU in the types that it computes by loops.
std::vector<int64_t> conv_output_size(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& g) {
  std::vector<int64_t> sizes{input.size(0), g.transposed ? weight.size(1) * g.groups : weight.size(0)};
  for (int i = 0; i < g.spatial; ++i) {
    const int64_t in = input.size(2 + i), reach = g.dilation[i] * (weight.size(2 + i) - 1) + 1;
    sizes.push_back(g.transposed ? (in - 1) * g.stride[i] - 2 * g.padding[i] + reach + g.output_padding[i]
                                 : (in + 2 * g.padding[i] - reach) / g.stride[i] + 1);
  }
  const at::IntArrayRef spatial = at::IntArrayRef(sizes).slice(2);
  TORCH_CHECK(!g.transposed || input.numel() == 0 || *std::min_element(spatial.begin(), spatial.end()) > 0,
              "Given input size per channel: (", c10::Join(" x ", input.sizes().slice(2)),
              "). Calculated output size per channel: (", c10::Join(" x ", spatial), "). Output size is too small");
  return sizes;
}

at::MemoryFormat conv_format(const at::Tensor& input, const at::Tensor& weight) {
  const auto wanted = [](const at::Tensor& t) { return t.suggest_memory_format(); };
  for (const at::MemoryFormat f : {wanted(input), wanted(weight)})
    if ((f == at::MemoryFormat::ChannelsLast && input.dim() == 4) ||
        (f == at::MemoryFormat::ChannelsLast3d && input.dim() == 5))
      return f;
  return at::MemoryFormat::Contiguous;
}

namespace {

// The form that oneDNN reads: dense in one of the two formats.
at::Tensor dense(const at::Tensor& t, at::MemoryFormat format) {
  if (t.is_contiguous()) return t;
  return t.contiguous(format);
}

bool half_type(const at::Tensor& t) { return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16; }

products::Weight conv_weight(const at::Tensor& w, WeightUse use) {
  using Name = WeightRef (*)(const void*);
  const Name as_it_is = [](const void* t) { return weight_ref(*static_cast<const at::Tensor*>(t)); };
  const Name transposed = [](const void* t) {
    return weight_ref(*static_cast<const at::Tensor*>(t), WeightUse::transposed);
  };
  return {use == WeightUse::as_it_is ? as_it_is : transposed, &w};
}

ops::DirectProblem direct_problem(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                                  const ConvGeometry& g) {
  return products::direct_problem(view(x), view(w), view(y), g);
}

bool may_be_depthwise(const at::Tensor& x, const at::Tensor& y, const ConvGeometry& g) {
  return products::may_be_depthwise(view(x), view(y), g);
}

bool is_depthwise(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y, const ConvGeometry& g) {
  return products::is_depthwise(view(x), view(w), view(y), g, current_policy());
}

}  // namespace

products::ConvProblem conv_problem(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                   const at::Tensor& out, const ConvGeometry& g, at::MemoryFormat format,
                                   View& bias_view) {
  if (bias.defined()) bias_view = view(bias);
  products::ConvProblem p{.src = view(x), .weights = view(weight), .dst = out_view(out), .geometry = g};
  p.epilogue.bias = bias.defined() ? &bias_view : nullptr;
  p.weight = conv_weight(weight, WeightUse::as_it_is);
  p.channels_last = format != at::MemoryFormat::Contiguous;
  return p;
}

namespace {

// With stride 1 the gradient is a depthwise convolution too, with the taps in reverse.
bool depthwise_backward_data(const at::Tensor& grad, const at::Tensor& w, const at::Tensor& out,
                             const ConvGeometry& g) {
  const int64_t k = w.size(-1);
  if (!is_depthwise(out, w, grad, g) || g.stride[0] != 1 || g.padding[0] >= k || g.padding[1] >= k) return false;
  ConvGeometry reverse = g;
  for (int i = 0; i < 2; ++i) reverse.padding[i] = k - 1 - g.padding[i];
  const at::Tensor reversed = w.flip({2, 3});
  View none;
  return products::run_depthwise(runtime::current_queue(),
                                 conv_problem(grad, reversed, {}, out, reverse, at::MemoryFormat::Contiguous, none));
}

bool depthwise_backward_weights(const at::Tensor& x, const at::Tensor& grad, const at::Tensor& out,
                                const ConvGeometry& g) {
  if (!out.is_contiguous() || !may_be_depthwise(x, grad, g)) return false;
  if (!is_depthwise(x, out, grad, g))
    return ops::plan_depthwise_copies(direct_problem(x, out, grad, g), dtype_of(x), current_policy()) &&
           depthwise_backward_weights(x.contiguous(), grad.contiguous(), out, g);
  ops::DirectProblem a = direct_problem(x, out, grad, g);
  a.src = x.const_data_ptr();
  a.dst = grad.const_data_ptr();
  a.weights = out.mutable_data_ptr();
  ops::depthwise_weights(runtime::current_queue(), dtype_of(x), a);
  return true;
}

// The gradient of the weights as one product over columns, see plan_columns_serve().
bool columns_backward_weights(const at::Tensor& x, const at::Tensor& grad, const at::Tensor& out,
                              const ConvGeometry& g) {
  const auto last = at::MemoryFormat::ChannelsLast;
  if (x.scalar_type() != at::kBFloat16 || g.spatial != 2 || g.transposed || g.groups != 1 ||
      !products::has_type(runtime::current_queue(), DType::bf16) ||
      !ops::plan_columns_serve(direct_problem(x, out, grad, g), x.is_contiguous(last), current_policy()))
    return false;
  const int64_t channels = out.size(0), positions = grad.numel() / channels, taps = out.numel() / channels;
  const at::Tensor images = x.contiguous(last), columns = new_empty({positions, taps}, x.scalar_type());
  runtime::Queue& queue = runtime::current_queue();
  ops::DirectProblem a = direct_problem(images, out, grad, g);
  a.src = images.const_data_ptr();
  a.dst = columns.mutable_data_ptr();
  ops::convolution_columns(queue, dtype_of(x), a);
  const at::Tensor rows = grad.contiguous(last).permute({0, 2, 3, 1}).view({positions, channels}).t();
  const bool direct = out.is_contiguous(last);
  const at::Tensor sums = direct ? out : new_empty(out.sizes(), out.scalar_type(), last);
  const at::Tensor product = sums.permute({0, 2, 3, 1}).view({channels, taps});
  if (!products::multiply(queue, view(rows), view(columns), out_view(product))) return false;
  if (!direct) out.copy_(sums);
  return true;
}

// A 1x1 convolution with strides reads some positions only. Of contiguous images the gradient of those is a product,
// and not a copy of all of them from another layout.
bool skips_positions(const at::Tensor& w, const ConvGeometry& g, at::MemoryFormat format) {
  bool strided = false;
  for (int i = 0; i < g.spatial; ++i) {
    if (w.size(2 + i) != 1 || g.padding[i] != 0) return false;
    strided |= g.stride[i] != 1;
  }
  return strided && !g.transposed && g.groups == 1 && format == at::MemoryFormat::Contiguous;
}

at::Tensor read_positions(at::Tensor t, const ConvGeometry& g) {
  for (int i = 0; i < g.spatial; ++i) t = t.slice(2 + i, 0, t.size(2 + i), g.stride[i]);
  return t;
}

void backward_data(const at::Tensor& grad, const at::Tensor& w, const at::Tensor& out, const ConvGeometry& g,
                   at::MemoryFormat format, products::SharedCopies& copies) {
  const bool floats = onednn_float(grad.scalar_type());
  if (floats && depthwise_backward_data(grad, w, out, g)) return;
  if (floats && skips_positions(w, g, format)) {
    const at::Tensor read = new_empty(read_positions(out, g).sizes(), out.scalar_type());
    ConvGeometry dense = g;
    std::fill_n(dense.stride, 3, 1);
    backward_data(grad, w, read, dense, format, copies);
    out.zero_();
    read_positions(out, g).copy_(read);
    return;
  }
  products::ConvProblem p{.src = out_view(out), .weights = view(w), .dst = view(grad), .geometry = g};
  p.weight = conv_weight(w, WeightUse::transposed);
  products::run_backward_data(runtime::current_queue(), p, copies);
}

// True if the bias gradient was made as well.
bool backward_weights(const at::Tensor& x, const at::Tensor& grad, const at::Tensor& out, const at::Tensor& grad_bias,
                      const ConvGeometry& g, products::SharedCopies& copies) {
  if (onednn_float(x.scalar_type()) &&
      (depthwise_backward_weights(x, grad, out, g) || columns_backward_weights(x, grad, out, g)))
    return false;
  const bool with_bias = grad_bias.defined() && !g.transposed;
  products::ConvProblem p{.src = view(x), .weights = out_view(out), .dst = view(grad), .geometry = g};
  View b;
  if (with_bias) b = out_view(grad_bias);
  p.epilogue.bias = with_bias ? &b : nullptr;
  p.composed = half_type(x);
  const auto served = products::run_backward_weights(runtime::current_queue(), p, copies);
  if (served != products::Served::no) return with_bias && served == products::Served::whole;
  const at::Tensor wide = new_empty(out.sizes(), at::kFloat);
  products::SharedCopies none;
  backward_weights(x.to(at::kFloat), grad.to(at::kFloat), wide, {}, g, none);
  out.copy_(wide);
  return false;
}

// Checks that at::convolution makes for its callers; others may call the operators below.
void check_geometry(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& g) {
  const int64_t dims = input.dim();
  TORCH_CHECK(g.groups > 0, "non-positive groups is not supported");
  TORCH_CHECK(weight.dim() == dims, "Expected ", weight.dim(), "-dimensional input for ", weight.dim(),
              "-dimensional weight ", weight.sizes(), ", but got ", dims, "-dimensional input of size ", input.sizes(),
              " instead");
  TORCH_CHECK(weight.size(0) >= g.groups && weight.size(0) % g.groups == 0, "Given groups=", g.groups,
              ", expected weight to be divisible by ", g.groups, " at dimension 0, but got weight of size ",
              weight.sizes(), " instead");
  const int64_t channels = g.transposed ? weight.size(0) : weight.size(1) * g.groups;
  TORCH_CHECK(input.size(1) == channels, "Given groups=", g.groups, ", transposed=", g.transposed, ", weight of size ",
              weight.sizes(), ", expected input", input.sizes(), " to have ", channels, " channels, but got ",
              input.size(1), " channels instead");
  for (int i = 0; i < g.spatial; ++i) {
    TORCH_CHECK(g.stride[i] > 0, "non-positive stride is not supported");
    TORCH_CHECK(g.padding[i] >= 0, "negative padding is not supported");
    TORCH_CHECK(g.dilation[i] > 0, "dilation should be greater than zero");
    TORCH_CHECK(!g.transposed || g.output_padding[i] >= 0, "negative output_padding is not supported");
    const int64_t padded = input.size(2 + i) + 2 * g.padding[i], reach = g.dilation[i] * (weight.size(2 + i) - 1) + 1;
    TORCH_CHECK(g.transposed || reach <= padded, "Calculated padded input size in dimension ", 2 + i, ": ", padded,
                ". Kernel size: ", reach, ". Kernel size can't be greater than actual input size");
  }
}

void check_lists(int spatial, std::initializer_list<at::IntArrayRef> lists) {
  for (const at::IntArrayRef v : lists)
    TORCH_CHECK(v.size() == 1 || static_cast<int>(v.size()) == spatial, "convolution: expected ", spatial,
                " elements in stride, padding, dilation and output_padding, but got ", v);
}

}  // namespace

at::Tensor convolution_overrideable(const at::Tensor& input, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias_opt, at::IntArrayRef stride,
                                    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                    at::IntArrayRef output_padding, int64_t groups) {
  const int spatial = static_cast<int>(input.dim()) - 2;
  TORCH_CHECK(spatial >= 1 && spatial <= 3, "convolution: expected 3-D, 4-D or 5-D input, but got ", input.dim(), "-D");
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
              weight.toString(), ") should be the same");
  const at::Tensor bias = bias_opt && bias_opt->defined() ? bias_opt->contiguous() : at::Tensor();
  TORCH_CHECK(!bias.defined() || bias.scalar_type() == input.scalar_type(), "Input type (", input.toString(),
              ") and bias type (", bias.toString(), ") should be the same");
  check_lists(spatial, {stride, padding, dilation, output_padding});
  const auto g = conv_geometry(spatial, stride, padding, dilation, output_padding, transposed, groups);
  check_geometry(input, weight, g);
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == channels), "Given transposed=", transposed,
              ", weight of size ", weight.sizes(), ", expected bias to be 1-dimensional with ", channels,
              " elements, but got bias of size ", bias.sizes(), " instead");
  const at::MemoryFormat format = conv_format(input, weight);
  const at::Tensor out = new_empty(conv_output_size(input, weight, g), input.scalar_type(), format);
  if (out.numel() == 0) return out;
  if (input.numel() == 0 || weight.numel() == 0) {
    out.zero_();
    if (bias.defined()) {
      std::vector<int64_t> shape(input.dim(), 1);
      shape[1] = bias.numel();
      out.add_(bias.view(shape));
    }
    return out;
  }
  View bias_view;
  const at::Tensor x = dense(input, format);
  products::run(runtime::current_queue(), conv_problem(x, weight, bias, out, g, format, bias_view));
  return out;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask) {
  const int spatial = static_cast<int>(input.dim()) - 2;
  TORCH_CHECK(spatial >= 1 && spatial <= 3, "convolution: expected 3-D, 4-D or 5-D input, but got ", input.dim(), "-D");
  TORCH_CHECK(grad_output.scalar_type() == input.scalar_type() && input.scalar_type() == weight.scalar_type(),
              "expected grad_output, input and weight to have the same dtype, but got ", grad_output.scalar_type(),
              ", ", input.scalar_type(), " and ", weight.scalar_type());
  check_lists(spatial, {stride, padding, dilation, output_padding});
  const auto g = conv_geometry(spatial, stride, padding, dilation, output_padding, transposed, groups);
  check_geometry(input, weight, g);
  const std::vector<int64_t> made = conv_output_size(input, weight, g);
  TORCH_CHECK(grad_output.sizes() == at::IntArrayRef(made), "Expected grad_output of size ", at::IntArrayRef(made),
              " for input of size ", input.sizes(), " and weight of size ", weight.sizes(), ", but got ",
              grad_output.sizes());
  const at::MemoryFormat format = conv_format(input, weight);
  const at::Tensor grad = dense(grad_output, format), x = dense(input, format);
  at::Tensor grad_input, grad_weight, grad_bias;
  products::SharedCopies copies;
  const bool empty = grad.numel() == 0 || x.numel() == 0 || weight.numel() == 0;
  if (output_mask[0]) {
    grad_input = new_empty(input.sizes(), input.scalar_type(), format);
    if (empty)
      grad_input.zero_();
    else
      backward_data(grad, weight, grad_input, g, format, copies);
  }
  bool bias_done = false;
  if (output_mask[1]) {
    if (output_mask[2] && !transposed && !empty) grad_bias = new_empty({weight.size(0)}, weight.scalar_type());
    grad_weight = new_empty(weight.sizes(), weight.scalar_type(), format);
    if (empty)
      grad_weight.zero_();
    else
      bias_done = backward_weights(x, grad, grad_weight, grad_bias, g, copies);
  }
  if (output_mask[2] && !bias_done) {
    std::vector<int64_t> dims{0};
    for (int i = 0; i < spatial; ++i) dims.push_back(2 + i);
    grad_bias = grad_output.sum(dims);
  }
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace xpu_ops::aten
