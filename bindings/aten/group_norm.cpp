// Adapters of group norm.
#include "bindings/aten/normalization.hpp"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/sum.h>

#include "bindings/aten/reduction.hpp"
#include "bindings/torch_compat.hpp"
#include "gen/aten/normalization_ops.hpp"
#include "gen/kernels/normalization_kernels.hpp"
#include "kernels/ops/normalization.hpp"

namespace xpu_ops::aten {
namespace {

ops::NormCoefProblem group_problem(int64_t batch, int64_t channels, int64_t groups) {
  ops::NormCoefProblem problem;
  problem.batch = static_cast<uint32_t>(batch);
  problem.channels = static_cast<uint32_t>(channels);
  problem.groups = static_cast<uint32_t>(groups);
  return problem;
}

void check_inputs(const at::Tensor& weight, const at::Tensor& bias, int64_t channels, int64_t groups) {
  check_group_norm_channels(channels);
  TORCH_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  TORCH_CHECK(channels % groups == 0, "Expected number of channels in input to be divisible by num_groups, but got ",
              channels, " channels and num_groups=", groups);
  for (const at::Tensor& t : {weight, bias})
    TORCH_CHECK(!t.defined() || (t.dim() == 1 && t.numel() == channels),
                "Expected a parameter to be a vector of size equal to the number of channels, ", channels, ", but got ",
                t.sizes());
}

// Of each (sample, channel); `last`: channels-last, which is computed as it lies, an [HxW, C] matrix a sample.
Coefficients coefficients(int64_t batch, int64_t channels, at::ScalarType stats, bool last, bool backward) {
  const int64_t n = batch * channels;
  return {new_empty({n}, stats),
          new_empty({n}, stats),
          new_empty({n}, stats),
          backward ? new_empty({n}, stats) : at::Tensor(),
          n,
          last,
          last ? batch : 1};
}

}  // namespace

// Sizes may be symbolic here.
at::Tensor group_norm(const at::Tensor& input, int64_t num_groups, const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias, double eps, bool) {
  const c10::SymInt N = input.sym_size(0), C = input.sym_size(1);
  check_group_norm_channels(C);
  TORCH_CHECK(num_groups > 0, "Expected num groups to be greater than 0, got ", num_groups);
  TORCH_CHECK(C % num_groups == 0, "Expected number of channels in input to be divisible by num_groups, but got input ",
              "of shape ", input.sym_sizes(), " and num_groups=", num_groups);
  const auto check = [&](const char* name, const std::optional<at::Tensor>& t) {
    TORCH_CHECK(!t || !t->defined() || (t->dim() == 1 && t->sym_numel() == C), "Expected ", name,
                " to be a vector of size equal to the number of channels in input, but got ", name, " of shape ",
                t->sym_sizes(), " and input of shape ", input.sym_sizes());
  };
  check("weight", weight);
  check("bias", bias);
  c10::SymInt HxW = 1;
  for (int64_t d = 2; d < input.dim(); ++d) HxW = HxW * input.sym_size(d);
  return std::get<0>(at::native_group_norm_symint(input.contiguous(input.suggest_memory_format()), weight, bias, N, C,
                                                  HxW, num_groups, eps));
}

namespace {

// One element per channel: rows of groups, as of layer norm, whose scale and shift depend on the row.
struct Vectors { int64_t batch, channels, groups; };
bool of_vectors(const at::Tensor& x, int64_t positions, bool last, at::ScalarType parameter) {
  return positions == 1 && !last && parameter == x.scalar_type() && stat_type(parameter) == parameter && x.numel() > 0;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_of_vectors(const at::Tensor& x, const at::Tensor& weight,
                                                               const at::Tensor& bias, Vectors v, double eps) {
  const int64_t rows = v.batch * v.groups, cols = v.channels / v.groups;
  const auto [normed, mean, rstd] = at::native_layer_norm(x.view({rows, cols}), {cols}, {}, {}, eps);
  at::Tensor y = normed.view({v.batch, v.channels});
  if (weight.defined() && bias.defined())
    at::addcmul_out(y, bias, y, weight);
  else if (weight.defined())
    y.mul_(weight);
  else if (bias.defined())
    y.add_(bias);
  return {y.view(x.sizes()), mean.view({v.batch, v.groups}), rstd.view({v.batch, v.groups})};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> gradients_of_vectors(const at::Tensor& grad, const at::Tensor& x,
                                                                    const at::Tensor& mean, const at::Tensor& rstd,
                                                                    const at::Tensor& weight, Vectors v,
                                                                    std::array<bool, 3> mask) {
  const int64_t rows = v.batch * v.groups, cols = v.channels / v.groups;
  const at::Tensor each = grad.view({v.batch, v.channels}), groups = x.view({rows, cols}), m = mean.view({rows, 1}),
                   r = rstd.view({rows, 1});
  at::Tensor dx, dw, db;
  if (mask[0]) {
    const at::Tensor scaled = (weight.defined() ? each * weight : each).view({rows, cols});
    dx = std::get<0>(at::native_layer_norm_backward(scaled, groups, {cols}, m, r, {}, {}, {true, false, false}));
    dx = dx.view(x.sizes());
  }
  if (mask[1]) dw = (groups - m).mul_(r).view({v.batch, v.channels}).mul_(each).sum(0);
  if (mask[2]) db = each.sum(0);
  return {dx, dw, db};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_group_norm(const at::Tensor& input,
                                                                 const std::optional<at::Tensor>& weight_opt,
                                                                 const std::optional<at::Tensor>& bias_opt, int64_t N,
                                                                 int64_t C, int64_t HxW, int64_t group, double eps) {
  at::Tensor weight = or_undefined(weight_opt), bias = or_undefined(bias_opt);
  check_inputs(weight, bias, C, group);
  const at::MemoryFormat memory_format = input.suggest_memory_format();
  check_group_norm_input(input, memory_format, HxW);
  check_parameter_types("GroupNormKernelImpl", input, {&weight, &bias});
  TORCH_CHECK(input.numel() == N * C * HxW, "native_group_norm: ", N, " x ", C, " x ", HxW, " elements expected, got ",
              input.numel());
  check_rows(N * C, HxW);
  const at::ScalarType type = parameter_type(input.scalar_type(), weight.defined() ? weight : bias);
  const at::ScalarType stats = stat_type(input.scalar_type());
  // The statistics that are kept have the input's type, or float where the parameters do.
  const at::ScalarType saved = type == at::kFloat ? at::kFloat : input.scalar_type();
  const bool last = memory_format != at::MemoryFormat::Contiguous;
  const at::Tensor x = input.contiguous(memory_format);
  if (of_vectors(x, HxW, last, type)) return norm_of_vectors(x, weight, bias, {N, C, group}, eps);
  at::Tensor y = new_empty(input.sizes(), input.scalar_type(), memory_format);
  at::Tensor mean = new_empty({N, group}, stats), rstd = new_empty({N, group}, stats);
  if (x.numel() > 0) {
    const at::Tensor var = new_empty({N * group}, stats);
    if (last)
      column_group_moments(x, N, HxW, C, group, var, mean);
    else
      reduce(x.view({N * group, C / group * HxW}), DimMask(2), var, mean.view({N * group}),
             XPU_OPS_REDUCTION(moments, dtype_of(x)));
    const Coefficients c = coefficients(N, C, stats, last, false);
    const at::Tensor w = as_parameter(weight, type), b = as_parameter(bias, type);
    ops::NormCoefProblem problem = group_problem(N, C, group);
    problem.mean = mean.const_data_ptr();
    problem.var = var.const_data_ptr();
    problem.rstd = rstd.mutable_data_ptr();
    problem.weight = data_or_null(w);
    problem.bias = data_or_null(b);
    problem.a = c.a.mutable_data_ptr();
    problem.m = c.m.mutable_data_ptr();
    problem.b = c.b.mutable_data_ptr();
    problem.eps = Real(eps);
    ops::group_norm_coefficients(runtime::current_queue(), dtype_of(x), to_dtype(type), problem);
    norm_apply(x, at::Tensor(), y, N * (last ? HxW : C), last ? C : HxW, c);
  } else {
    mean.fill_(0);
    rstd.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  return {y, mean.to(saved), rstd.to(saved)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> native_group_norm_backward(
    const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean_, const at::Tensor& rstd_,
    const std::optional<at::Tensor>& weight_opt, int64_t N, int64_t C, int64_t HxW, int64_t group,
    std::array<bool, 3> mask) {
  const at::Tensor weight = or_undefined(weight_opt);
  check_rows(N * C, HxW);
  TORCH_CHECK(group > 0 && C % group == 0 && input.numel() == N * C * HxW && mean_.numel() == N * group,
              "native_group_norm_backward: sizes do not match");
  const at::ScalarType type = parameter_type(input.scalar_type(), weight), stats = stat_type(input.scalar_type());
  const at::ScalarType result = weight.defined() ? weight.scalar_type() : input.scalar_type();
  at::Tensor dx, dw, db;
  const at::MemoryFormat memory_format = input.suggest_memory_format();
  const bool last = memory_format != at::MemoryFormat::Contiguous;
  if (mask[0]) dx = new_empty(input.sizes(), input.scalar_type(), memory_format);
  if (mask[1]) dw = new_empty({C}, type);
  if (mask[2]) db = new_empty({C}, type);
  if (input.numel() == 0) {
    if (mask[1]) dw.zero_();
    if (mask[2]) db.zero_();
    return {dx, mask[1] ? dw.to(result) : dw, mask[2] ? db.to(result) : db};
  }
  const at::Tensor x = input.contiguous(memory_format), dy = grad_out.to(x.scalar_type()).contiguous(memory_format);
  const at::Tensor mean = as_parameter(mean_, stats), rstd = as_parameter(rstd_, stats), w = as_parameter(weight, type);
  if (of_vectors(x, HxW, last, type)) return gradients_of_vectors(dy, x, mean, rstd, w, {N, C, group}, mask);
  at::Tensor dot, sum;  // of dy * x and dy over the positions of each (sample, channel)
  runtime::Queue& queue = runtime::current_queue();
  if (last) {
    std::tie(dot, sum) = column_sums(x, dy, HxW, C, {.type = stats, .batches = N});
  } else {
    dot = new_empty({N * C}, stats), sum = new_empty({N * C}, stats);
    ops::RowSumProblem rows;
    rows.x = x.const_data_ptr();
    rows.dy = dy.const_data_ptr();
    rows.out0 = dot.mutable_data_ptr();
    rows.out1 = sum.mutable_data_ptr();
    rows.rows = static_cast<uint32_t>(N * C);
    rows.cols = static_cast<uint32_t>(HxW);
    ops::row_sums(queue, dtype_of(x), rows);
  }

  ops::NormCoefProblem problem = group_problem(N, C, group);
  problem.mean = mean.const_data_ptr();
  problem.rstd = const_cast<void*>(rstd.const_data_ptr());
  problem.weight = data_or_null(w);
  problem.sum0 = dot.const_data_ptr();
  problem.sum1 = sum.const_data_ptr();
  problem.count = Real(static_cast<double>(C / group * HxW));
  if (mask[0]) {
    const Coefficients c = coefficients(N, C, stats, last, true);
    problem.a = c.a.mutable_data_ptr();
    problem.m = c.m.mutable_data_ptr();
    problem.b = c.b.mutable_data_ptr();
    problem.d = c.d.mutable_data_ptr();
    ops::group_norm_backward_coefficients(queue, dtype_of(x), to_dtype(type), problem);
    norm_apply(x, dy, dx, N * (last ? HxW : C), last ? C : HxW, c);
  }
  if (mask[1] || mask[2]) {
    if (mask[1]) problem.grad_weight = dw.mutable_data_ptr();
    if (mask[2]) problem.grad_bias = db.mutable_data_ptr();
    ops::group_norm_backward_parameters(queue, dtype_of(x), to_dtype(type), problem);
    if (mask[1]) dw = dw.to(result);
    if (mask[2]) db = db.to(result);
  }
  return {dx, dw, db};
}

}  // namespace xpu_ops::aten
