// Adapters of layer and RMS norm, and of weight norm.
#include "bindings/aten/normalization.hpp"

#include <ATen/native/layer_norm.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include "gen/aten/normalization_ops.hpp"
#include "kernels/ops/normalization.hpp"

namespace xpu_ops::aten {

namespace {

ops::ColumnSumProblem column_problem(const at::Tensor& x, int64_t batches, int64_t rows, int64_t cols) {
  TORCH_CHECK_NOT_IMPLEMENTED(batches * cols < INT32_MAX, "normalisation of 2^31 and more columns is not supported");
  ops::ColumnSumProblem problem;
  problem.x = x.const_data_ptr();
  problem.batches = static_cast<uint32_t>(batches);
  problem.rows = static_cast<uint32_t>(rows);
  problem.cols = static_cast<uint32_t>(cols);
  return problem;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> column_sums(const at::Tensor& x, const at::Tensor& dy, int64_t rows, int64_t cols,
                                              const ColumnSums& options) {
  ops::ColumnSumProblem problem = column_problem(x, options.batches, rows, cols);
  std::pair<at::Tensor, at::Tensor> result;
  if (options.first) result.first = new_empty({options.batches * cols}, options.type);
  if (options.second) result.second = new_empty({options.batches * cols}, options.type);
  problem.dy = dy.const_data_ptr();
  problem.row_shift = data_or_null(options.row_shift);
  problem.row_scale = data_or_null(options.row_scale);
  problem.column_shift = data_or_null(options.column_shift);
  if (options.first) problem.out0 = result.first.mutable_data_ptr();
  if (options.second) problem.out1 = result.second.mutable_data_ptr();
  ops::column_sums(runtime::current_queue(), dtype_of(x), to_dtype(options.type), problem);
  return result;
}

void column_group_moments(const at::Tensor& x, int64_t batches, int64_t rows, int64_t cols, int64_t groups,
                          const at::Tensor& var, const at::Tensor& mean) {
  ops::ColumnSumProblem problem = column_problem(x, batches, rows, cols);
  problem.groups = static_cast<uint32_t>(groups);
  problem.out0 = var.mutable_data_ptr();
  problem.out1 = mean.mutable_data_ptr();
  ops::column_group_moments(runtime::current_queue(), dtype_of(x), problem);
}

void norm_apply(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& y, int64_t rows, int64_t cols,
                const Coefficients& c) {
  ops::NormApplyProblem problem;
  problem.x = x.const_data_ptr();
  problem.dy = data_or_null(dy);
  problem.y = y.mutable_data_ptr();
  problem.a = c.a.const_data_ptr();
  problem.m = c.m.const_data_ptr();
  problem.b = c.b.const_data_ptr();
  problem.d = data_or_null(c.d);
  problem.rows = static_cast<uint32_t>(rows / c.batches);
  problem.cols = static_cast<uint32_t>(cols);
  problem.period = static_cast<uint32_t>(c.period);
  problem.by_column = c.by_column;
  problem.batches = static_cast<uint32_t>(c.batches);
  ops::norm_apply(runtime::current_queue(), dtype_of(x), problem);
}

namespace {

ops::LayerNormProblem layer_problem(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t rows,
                                    int64_t cols) {
  ops::LayerNormProblem problem;
  problem.x = x.const_data_ptr();
  problem.weight = data_or_null(weight);
  problem.bias = data_or_null(bias);
  problem.rows = static_cast<uint32_t>(rows);
  problem.cols = static_cast<uint32_t>(cols);
  return problem;
}

// Gradients of layer or RMS norm (`mean` undefined): dx, and the sums over rows that are those of weight and bias.
struct LayerGradients { at::Tensor dx, weight, bias; };

LayerGradients layer_backward(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& mean, const at::Tensor& rstd,
                              const at::Tensor& weight, at::ScalarType type, int64_t rows, int64_t cols,
                              std::array<bool, 3> mask) {
  LayerGradients g;
  const bool sums = mask[1] || mask[2];
  if (!mask[0]) {
    if (sums) std::tie(g.weight, g.bias) = column_sums(x, dy, rows, cols, {mean, rstd, {}, type, 1, mask[1], mask[2]});
    return g;
  }
  g.dx = new_empty(x.sizes(), x.scalar_type());
  const at::Tensor w = as_parameter(weight, type);
  ops::LayerNormProblem problem = layer_problem(x, w, at::Tensor(), rows, cols);
  problem.dy = dy.const_data_ptr();
  problem.y = g.dx.mutable_data_ptr();
  problem.mean = const_cast<void*>(data_or_null(mean));
  problem.rstd = const_cast<void*>(rstd.const_data_ptr());
  if (mask[1]) g.weight = new_empty({cols}, type);
  if (mask[2]) g.bias = new_empty({cols}, type);
  ops::layer_norm_backward(runtime::current_queue(), dtype_of(x), to_dtype(type), problem,
                           mask[1] ? g.weight.mutable_data_ptr() : nullptr,
                           mask[2] ? g.bias.mutable_data_ptr() : nullptr);
  return g;
}

// Sizes of the statistics: 1 in the normalised dimensions.
std::vector<int64_t> stat_sizes(const at::Tensor& input, size_t normalized) {
  std::vector<int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(normalized), sizes.end(), 1);
  return sizes;
}

// The result with the strides of the composite of element-wise operators, which tracing follows.
at::Tensor laid_out_as_traced(const at::Tensor& y, const at::Tensor& input, at::IntArrayRef normalized_shape) {
  const at::Tensor meta = at::empty_strided(input.sizes(), input.strides(), input.options().device(at::kMeta));
  const at::Tensor like = std::get<0>(at::_fused_rms_norm(meta, normalized_shape, {}, 1.0));
  return like.is_contiguous() ? y : at::empty_strided(y.sizes(), like.strides(), y.options()).copy_(y);
}

}  // namespace

// ---- layer norm
std::tuple<at::Tensor, at::Tensor, at::Tensor> native_layer_norm(const at::Tensor& input,
                                                                 at::IntArrayRef normalized_shape,
                                                                 const std::optional<at::Tensor>& weight_opt,
                                                                 const std::optional<at::Tensor>& bias_opt,
                                                                 double eps) {
  at::Tensor weight = or_undefined(weight_opt), bias = or_undefined(bias_opt);
  const auto [rows, cols] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
  check_parameter_types("LayerNormKernelImpl", input, {&weight, &bias});
  check_rows(rows, cols);
  const at::Tensor x = input.contiguous();
  const at::Tensor y = new_empty(input.sizes(), input.scalar_type());
  const auto sizes = stat_sizes(input, normalized_shape.size());
  const at::Tensor mean = new_empty(sizes, stat_type(x.scalar_type())), rstd = new_empty(sizes, mean.scalar_type());
  if (rows == 0) return {y, mean, rstd};
  if (cols == 0) return {y, mean.zero_(), rstd.fill_(std::numeric_limits<double>::quiet_NaN())};
  const at::ScalarType type = parameter_type(x.scalar_type(), weight.defined() ? weight : bias);
  weight = as_parameter(weight, type);
  bias = as_parameter(bias, type);
  ops::LayerNormProblem problem = layer_problem(x, weight, bias, rows, cols);
  problem.y = y.mutable_data_ptr();
  problem.mean = mean.mutable_data_ptr();
  problem.rstd = rstd.mutable_data_ptr();
  problem.eps = Real(eps);
  ops::layer_norm(runtime::current_queue(), dtype_of(x), to_dtype(type), problem);
  return {y, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_layer_norm_backward(
    const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape, const at::Tensor& mean_,
    const at::Tensor& rstd_, const std::optional<at::Tensor>& weight_opt, const std::optional<at::Tensor>& bias_opt,
    std::array<bool, 3> mask) {
  at::Tensor weight = or_undefined(weight_opt), bias = or_undefined(bias_opt);
  const auto [rows, cols] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
  check_rows(rows, cols);
  const at::Tensor x = input.contiguous(), dy = grad_out.to(x.scalar_type()).contiguous();
  const at::Tensor mean = as_parameter(mean_, stat_type(x.scalar_type())),
                   rstd = as_parameter(rstd_, mean.scalar_type());
  const at::ScalarType type = parameter_type(x.scalar_type(), weight.defined() ? weight : bias);
  at::Tensor dx, dw, db;
  if (rows == 0 || cols == 0) {
    if (mask[0]) dx = new_empty(input.sizes(), input.scalar_type());
    if (mask[1]) dw = at::zeros_like(weight, at::MemoryFormat::Contiguous);
    if (mask[2]) db = at::zeros_like(bias.defined() ? bias : weight, at::MemoryFormat::Contiguous);
    return {dx, dw, db};
  }
  const LayerGradients g = layer_backward(x, dy, mean, rstd, weight, type, rows, cols, mask);
  if (mask[1]) dw = g.weight.view(normalized_shape).to(weight.defined() ? weight.scalar_type() : type);
  if (mask[2]) db = g.bias.view(normalized_shape).to(bias.defined() ? bias.scalar_type() : type);
  return {g.dx, dw, db};
}

// ---- RMS norm
std::tuple<at::Tensor, at::Tensor> _fused_rms_norm(const at::Tensor& input, at::IntArrayRef normalized_shape,
                                                   const std::optional<at::Tensor>& weight_opt,
                                                   std::optional<double> eps) {
  at::Tensor weight = or_undefined(weight_opt);
  const auto [rows, cols] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, at::Tensor());
  check_rows(rows, cols);
  const at::Tensor x = input.contiguous();
  const at::Tensor y = new_empty(input.sizes(), input.scalar_type());
  const at::Tensor rstd = new_empty(stat_sizes(input, normalized_shape.size()), stat_type(x.scalar_type()));
  if (rows == 0) return {y, rstd};
  const at::ScalarType type = parameter_type(x.scalar_type(), weight);
  weight = as_parameter(weight, type);
  ops::LayerNormProblem problem = layer_problem(x, weight, at::Tensor(), rows, cols);
  problem.y = y.mutable_data_ptr();
  problem.rstd = rstd.mutable_data_ptr();
  const double smallest = rstd.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                            : std::numeric_limits<float>::epsilon();
  problem.eps = Real(eps.value_or(smallest));
  ops::layer_norm(runtime::current_queue(), dtype_of(x), to_dtype(type), problem);
  return {input.is_contiguous() ? y : laid_out_as_traced(y, input, normalized_shape), rstd};
}

std::tuple<at::Tensor, at::Tensor> _fused_rms_norm_backward(const at::Tensor& grad_out, const at::Tensor& input,
                                                            at::IntArrayRef normalized_shape, const at::Tensor& rstd_,
                                                            const std::optional<at::Tensor>& weight_opt,
                                                            std::array<bool, 2> mask) {
  at::Tensor weight = or_undefined(weight_opt);
  const auto [rows, cols] = at::native::_check_layer_norm_inputs(input, normalized_shape, weight, at::Tensor());
  check_rows(rows, cols);
  const at::Tensor x = input.contiguous(), dy = grad_out.to(x.scalar_type()).contiguous();
  const at::Tensor rstd = as_parameter(rstd_, stat_type(x.scalar_type()));
  const at::ScalarType type = parameter_type(x.scalar_type(), weight);
  at::Tensor dx, dw;
  const bool want_weight = mask[1] && weight.defined();
  if (rows == 0 || cols == 0) {
    if (mask[0]) dx = new_empty(input.sizes(), input.scalar_type());
    if (want_weight) dw = at::zeros_like(weight, at::MemoryFormat::Contiguous);
    return {dx, dw};
  }
  const LayerGradients g =
      layer_backward(x, dy, at::Tensor(), rstd, weight, type, rows, cols, {mask[0], want_weight, false});
  if (want_weight) dw = g.weight.view(normalized_shape).to(weight.scalar_type());
  return {g.dx, dw};
}

// ---- weight norm: w = v * g / |v|, the norm over all dimensions but `dim` (the first or the last)
namespace {

bool weight_norm_by_rows(const at::Tensor& v, int64_t dim) {
  if (v.dim() == 0 || v.numel() == 0) return false;
  const int64_t rows = v.size(0);
  return dim == 0 && rows < INT32_MAX && v.numel() / rows < INT32_MAX;
}

void weight_norm(const at::Tensor& v, ops::WeightNormProblem& problem) {
  problem.v = v.const_data_ptr();
  problem.rows = static_cast<uint32_t>(v.size(0));
  problem.cols = static_cast<uint32_t>(v.numel() / v.size(0));
  ops::weight_norm(runtime::current_queue(), dtype_of(v), problem);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _weight_norm_interface(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const int64_t lines = v.size(dim);
  TORCH_CHECK(g.numel() == lines, "_weight_norm_interface: expected g of ", lines, " elements, but got ", g.sizes());
  const at::ScalarType wide = stat_type(v.scalar_type()), norm_type = stat_type(g.scalar_type());
  if (weight_norm_by_rows(v, dim) && g.numel() == v.size(0)) {
    const at::Tensor rows = v.contiguous(), factor = g.to(wide).contiguous(), w = new_empty(v.sizes(), v.scalar_type());
    std::vector<int64_t> sizes(v.dim(), 1);
    sizes[0] = v.size(0);
    const at::Tensor norms = new_empty(sizes, wide);
    ops::WeightNormProblem problem;
    problem.g = factor.const_data_ptr();
    problem.norms = norms.mutable_data_ptr();
    problem.out = w.mutable_data_ptr();
    weight_norm(rows, problem);
    return {w, norms.to(norm_type)};
  }
  const at::Tensor norms = at::norm_except_dim(v.to(wide), 2, dim);
  return {v.mul(g.to(wide).div(norms)).to(v.scalar_type()), norms.to(norm_type)};
}

std::tuple<at::Tensor, at::Tensor> _weight_norm_interface_backward(const at::Tensor& grad_w, const at::Tensor& saved_v,
                                                                   const at::Tensor& saved_g,
                                                                   const at::Tensor& saved_norms, int64_t dim) {
  TORCH_CHECK(saved_v.is_contiguous(), "saved_v must be contiguous");
  TORCH_CHECK(saved_g.is_contiguous(), "saved_g must be contiguous");
  TORCH_CHECK(saved_norms.is_contiguous(), "saved_norms must be contiguous");
  TORCH_CHECK(dim == 0 || dim == saved_v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const int64_t lines = saved_v.dim() == 0 ? 1 : saved_v.size(dim);
  TORCH_CHECK(grad_w.sizes() == saved_v.sizes() && saved_g.numel() == lines && saved_norms.numel() == lines,
              "_weight_norm_interface_backward: expected grad_w of size ", saved_v.sizes(), " and ", lines,
              " elements in saved_g and saved_norms, but got ", grad_w.sizes(), ", ", saved_g.sizes(), " and ",
              saved_norms.sizes());
  const at::ScalarType wide = stat_type(saved_v.scalar_type());
  if (weight_norm_by_rows(saved_v, dim)) {
    const at::Tensor dw = grad_w.to(saved_v.scalar_type()).contiguous(), g = saved_g.to(wide),
                     norms = saved_norms.to(wide), grad_v = new_empty(saved_v.sizes(), saved_v.scalar_type()),
                     grad_g = new_empty(saved_g.sizes(), wide);
    ops::WeightNormProblem problem;
    problem.dw = dw.const_data_ptr();
    problem.g = g.const_data_ptr();
    problem.norms = const_cast<void*>(norms.const_data_ptr());
    problem.grad_g = grad_g.mutable_data_ptr();
    problem.out = grad_v.mutable_data_ptr();
    weight_norm(saved_v, problem);
    return {grad_v, grad_g.to(saved_g.scalar_type())};
  }
  const at::Tensor gw = grad_w.to(wide), v = saved_v.to(wide), g = saved_g.to(wide), norms = saved_norms.to(wide);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < v.dim(); ++d)
    if (d != dim) others.push_back(d);
  const at::Tensor dot = at::sum(gw.mul(v), others, /*keepdim=*/true);
  const at::Tensor grad_v = g.div(norms).mul(gw.sub(v.mul(dot.div(norms.mul(norms)))));
  return {grad_v.to(saved_v.scalar_type()).contiguous(), dot.div(norms).to(saved_g.scalar_type()).contiguous()};
}

}  // namespace xpu_ops::aten
