// Adapters of layer and RMS norm, and of weight norm.
#include "bindings/aten/normalization.hpp"

#include <ATen/native/layer_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include "gen/aten/normalization_ops.hpp"
#include "gen/kernels/normalization_kernels.hpp"
#include "kernels/runtime/allocator.hpp"

namespace xpu_ops::aten {

namespace {

// How the rows of `batches` [rows, cols] matrices are split: enough work-groups, chains of additions that are not too
// long.
ColumnSumArgs column_args(const runtime::Queue& queue, const at::Tensor& x, int64_t batches, int64_t rows,
                          int64_t cols) {
  TORCH_CHECK_NOT_IMPLEMENTED(batches * cols < INT32_MAX, "normalisation of 2^31 and more columns is not supported");
  ColumnSumArgs args;
  args.x = x.const_data_ptr();
  args.batches = static_cast<uint32_t>(batches);
  args.rows = static_cast<uint32_t>(rows);
  args.cols = static_cast<uint32_t>(cols);
  args.by_cols = xpu::make_divider(args.cols);
  constexpr int64_t kChain = 512, kLeast = 16;
  args.blocks = static_cast<uint32_t>(runtime::ceil_div(cols, kColumnVectors * kLanes));
  const int64_t target = int64_t{runtime::device_info(queue.device).policy.units} * 8;
  const int64_t splits =
      std::max<int64_t>(1, std::max(std::min<int64_t>(runtime::ceil_div(target, args.blocks * batches), rows / kLeast),
                                    std::min<int64_t>(rows / kChain, 1024)));
  args.block = static_cast<uint32_t>(std::max<int64_t>(1, runtime::ceil_div(rows, splits)));
  args.splits = static_cast<uint32_t>(runtime::ceil_div(rows, args.block));
  return args;
}
size_t column_groups(const ColumnSumArgs& args) { return size_t{args.batches} * args.splits * args.blocks; }
size_t partial_bytes(const ColumnSumArgs& args, const at::Tensor& x) {
  const size_t each = x.scalar_type() == at::kDouble ? 8 : 4;
  return size_t{args.batches} * std::max<uint32_t>(1, args.splits) * 2 * args.cols * each;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> column_sums(const at::Tensor& x, const at::Tensor& dy, int64_t rows, int64_t cols,
                                              const ColumnSums& options) {
  runtime::Queue& queue = runtime::current_queue();
  ColumnSumArgs args = column_args(queue, x, options.batches, rows, cols);
  std::pair<at::Tensor, at::Tensor> result;
  if (options.first) result.first = new_empty({options.batches * cols}, options.type);
  if (options.second) result.second = new_empty({options.batches * cols}, options.type);
  args.dy = dy.const_data_ptr();
  args.row_shift = data_or_null(options.row_shift);
  args.row_scale = data_or_null(options.row_scale);
  args.column_shift = data_or_null(options.column_shift);
  if (options.first) args.out0 = result.first.mutable_data_ptr();
  if (options.second) args.out1 = result.second.mutable_data_ptr();
  const runtime::Scratch partial(partial_bytes(args, x));
  args.partial = partial.get();
  runtime::launch(queue, kernels::norm_column_sums[dtype_of(x)], column_groups(args), kLanes, args);
  runtime::launch(queue, kernels::norm_column_final(dtype_of(x), to_dtype(options.type)),
                  runtime::ceil_div(size_t{args.batches} * args.cols, 64), 64, args);
  return result;
}

void column_group_moments(const at::Tensor& x, int64_t batches, int64_t rows, int64_t cols, int64_t groups,
                          const at::Tensor& var, const at::Tensor& mean) {
  runtime::Queue& queue = runtime::current_queue();
  ColumnSumArgs args = column_args(queue, x, batches, rows, cols);
  args.groups = static_cast<uint32_t>(groups);
  args.out0 = var.mutable_data_ptr();
  args.out1 = mean.mutable_data_ptr();
  const runtime::Scratch partial(partial_bytes(args, x));
  args.partial = partial.get();
  runtime::launch(queue, kernels::norm_column_moments[dtype_of(x)], column_groups(args), kLanes, args);
  runtime::launch(queue, kernels::norm_group_moments[dtype_of(x)], batches * groups, kLanes, args);
}

void norm_apply(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& y, int64_t rows, int64_t cols,
                const Coefficients& c) {
  runtime::Queue& queue = runtime::current_queue();
  NormApplyArgs args;
  args.x = x.const_data_ptr();
  args.dy = data_or_null(dy);
  args.y = y.mutable_data_ptr();
  args.a = c.a.const_data_ptr();
  args.m = c.m.const_data_ptr();
  args.b = c.b.const_data_ptr();
  args.d = data_or_null(c.d);
  args.rows = static_cast<uint32_t>(rows / c.batches);
  args.cols = static_cast<uint32_t>(cols);
  args.period = static_cast<uint32_t>(c.period);
  args.by_column = c.by_column;
  args.batches = static_cast<uint32_t>(c.batches);
  const auto& info = runtime::device_info(queue.device);
  if ((!c.by_column || (info.policy.single_items && cols >= 16 && cols <= 4096)) &&
      rows >= int64_t{info.policy.units} * 16) {
    runtime::launch(queue, kernels::norm_apply_row[dtype_of(x)], row_groups(queue, rows), kLanes, args);
    return;
  }
  // Long rows are gone through one at a time, in the order of memory, by groups of one size: the last is not left
  // nearly empty.
  const size_t most = std::min<size_t>(4096, runtime::device_info(queue.device).max_work_group_size);
  const size_t across = runtime::ceil_div(cols, most);
  const size_t local = runtime::ceil_div(runtime::ceil_div(cols, across), 16) * 16;
  args.rows_per_group = static_cast<uint32_t>(std::max<size_t>(1, 4096 / local));
  args.parts = static_cast<uint32_t>(runtime::ceil_div(args.rows, args.rows_per_group));
  runtime::launch2(queue, kernels::norm_apply[dtype_of(x)], size_t{args.parts} * c.batches, across, 1, local, args);
}

namespace {

LayerNormArgs layer_args(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t rows,
                         int64_t cols) {
  LayerNormArgs args;
  args.x = x.const_data_ptr();
  args.weight = data_or_null(weight);
  args.bias = data_or_null(bias);
  args.rows = static_cast<uint32_t>(rows);
  args.cols = static_cast<uint32_t>(cols);
  return args;
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
  runtime::Queue& queue = runtime::current_queue();
  g.dx = new_empty(x.sizes(), x.scalar_type());
  const at::Tensor w = as_parameter(weight, type);
  LayerNormArgs args = layer_args(x, w, at::Tensor(), rows, cols);
  args.dy = dy.const_data_ptr();
  args.y = g.dx.mutable_data_ptr();
  args.mean = const_cast<void*>(data_or_null(mean));
  args.rstd = const_cast<void*>(rstd.const_data_ptr());
  size_t groups = row_groups(queue, rows);
  std::optional<runtime::Scratch> partial;
  if (sums) {
    // Few enough that the partial sums cost little, many enough for the compute units and for short chains of
    // additions.
    const int64_t units = runtime::device_info(queue.device).policy.units;
    groups = std::max<int64_t>(1, std::max(std::min(units * 16, rows / 16), std::min<int64_t>(rows / 512, 1024)));
    partial.emplace(groups * 2 * cols * (x.scalar_type() == at::kDouble ? 8 : 4));
    args.partial = partial->get();
  }
  const runtime::KernelTable2& kernel =
      mean.defined() ? (sums ? kernels::layer_norm_backward_row_plain_sums : kernels::layer_norm_backward_row_plain)
                     : (sums ? kernels::layer_norm_backward_row_rms_sums : kernels::layer_norm_backward_row_rms);
  runtime::launch(queue, kernel(dtype_of(x), to_dtype(type)), groups, kLanes, args);
  if (sums) {
    if (mask[1]) g.weight = new_empty({cols}, type);
    if (mask[2]) g.bias = new_empty({cols}, type);
    ColumnSumArgs last;
    last.partial = args.partial;
    if (mask[1]) last.out0 = g.weight.mutable_data_ptr();
    if (mask[2]) last.out1 = g.bias.mutable_data_ptr();
    last.cols = static_cast<uint32_t>(cols);
    last.by_cols = xpu::make_divider(last.cols);
    last.splits = static_cast<uint32_t>(groups);
    runtime::launch(queue, kernels::norm_column_final(dtype_of(x), to_dtype(type)), runtime::ceil_div(cols, 64), 64,
                    last);
  }
  return g;
}

// Sizes of the statistics: 1 in the normalised dimensions.
std::vector<int64_t> stat_sizes(const at::Tensor& input, size_t normalized) {
  std::vector<int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(normalized), sizes.end(), 1);
  return sizes;
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
  LayerNormArgs args = layer_args(x, weight, bias, rows, cols);
  args.y = y.mutable_data_ptr();
  args.mean = mean.mutable_data_ptr();
  args.rstd = rstd.mutable_data_ptr();
  args.eps = Real(eps);
  runtime::Queue& queue = runtime::current_queue();
  runtime::launch(queue, kernels::layer_norm_row_plain(dtype_of(x), to_dtype(type)), row_groups(queue, rows), kLanes,
                  args);
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
  LayerNormArgs args = layer_args(x, weight, at::Tensor(), rows, cols);
  args.y = y.mutable_data_ptr();
  args.rstd = rstd.mutable_data_ptr();
  const double smallest = rstd.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                            : std::numeric_limits<float>::epsilon();
  args.eps = Real(eps.value_or(smallest));
  runtime::Queue& queue = runtime::current_queue();
  runtime::launch(queue, kernels::layer_norm_row_rms(dtype_of(x), to_dtype(type)), row_groups(queue, rows), kLanes,
                  args);
  return {y, rstd};
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

void launch_weight_norm(const runtime::KernelTable& table, const at::Tensor& v, WeightNormArgs& args) {
  runtime::Queue& queue = runtime::current_queue();
  args.v = v.const_data_ptr();
  args.rows = static_cast<uint32_t>(v.size(0));
  args.cols = static_cast<uint32_t>(v.numel() / v.size(0));
  runtime::launch(queue, table[dtype_of(v)], row_groups(queue, args.rows), kLanes, args);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _weight_norm_interface(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or last dim");
  const int64_t lines = v.dim() == 0 ? 1 : v.size(dim);
  TORCH_CHECK(g.numel() == lines, "_weight_norm_interface: expected g of ", lines, " elements, but got ", g.sizes());
  const at::ScalarType wide = stat_type(v.scalar_type()), norm_type = stat_type(g.scalar_type());
  if (weight_norm_by_rows(v, dim) && g.numel() == v.size(0)) {
    const at::Tensor rows = v.contiguous(), factor = g.to(wide).contiguous(), w = new_empty(v.sizes(), v.scalar_type());
    std::vector<int64_t> sizes(v.dim(), 1);
    sizes[0] = v.size(0);
    const at::Tensor norms = new_empty(sizes, wide);
    WeightNormArgs args;
    args.g = factor.const_data_ptr();
    args.norms = norms.mutable_data_ptr();
    args.out = w.mutable_data_ptr();
    launch_weight_norm(kernels::weight_norm_row, rows, args);
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
    WeightNormArgs args;
    args.dw = dw.const_data_ptr();
    args.g = g.const_data_ptr();
    args.norms = const_cast<void*>(norms.const_data_ptr());
    args.grad_g = grad_g.mutable_data_ptr();
    args.out = grad_v.mutable_data_ptr();
    launch_weight_norm(kernels::weight_norm_backward_row, saved_v, args);
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
