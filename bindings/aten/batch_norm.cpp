// Adapters of batch norm: the family of native_batch_norm and the pieces of synchronised batch norm.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "bindings/aten/normalization.hpp"
#include "bindings/aten/reduction.hpp"
#include "gen/aten/normalization_ops.hpp"
#include "gen/kernels/normalization_kernels.hpp"
#include "kernels/ops/normalization.hpp"

namespace xpu_ops::aten {
namespace {

using OptTensor = std::optional<at::Tensor>;

// [N, C, HW] in one of the two dense layouts; `last` where channels vary fastest.
struct Batch {
  at::Tensor x;
  int64_t N, C, HW;
  bool last;
  int64_t rows() const { return last ? N * HW : N * C; }
  int64_t cols() const { return last ? C : HW; }
};

at::MemoryFormat layout_of(const at::Tensor& input) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return input.is_contiguous(format) ? format : at::MemoryFormat::Contiguous;
}

Batch as_batch(const at::Tensor& input, at::MemoryFormat format) {
  TORCH_CHECK(input.dim() >= 2, "batch norm: expected at least 2 dimensions, got ", input.dim());
  Batch b{input.contiguous(format), input.size(0), input.size(1), 1, false};
  for (int64_t d = 2; d < input.dim(); ++d) b.HW *= input.size(d);
  b.last = format != at::MemoryFormat::Contiguous || b.HW == 1;
  TORCH_CHECK_NOT_IMPLEMENTED(b.N * b.C < INT32_MAX && b.N * b.HW < INT32_MAX,
                              "batch norm of 2^31 and more rows is not supported");
  return b;
}

// Biased variance and mean of each channel, in the statistics' type.
std::pair<at::Tensor, at::Tensor> moments(const Batch& b) {
  const at::ScalarType stats = stat_type(b.x.scalar_type());
  std::pair<at::Tensor, at::Tensor> result{new_empty({b.C}, stats), new_empty({b.C}, stats)};
  if (b.last) {
    reduce(b.x.as_strided({b.N * b.HW, b.C}, {b.C, 1}), DimMask(1), result.first, result.second,
           XPU_OPS_REDUCTION(moments, dtype_of(b.x)));
  } else {
    reduce(b.x.view({b.N, b.C, b.HW}), DimMask(5), result.first, result.second,
           XPU_OPS_REDUCTION(moments, dtype_of(b.x)));
  }
  return result;
}

// Sums of dy * (x - shift) and of dy over each channel; `rows` of them each, to be added.
struct ChannelSums {
  at::Tensor dot, sum;
  int64_t rows;
};

ChannelSums channel_sums(const Batch& b, const at::Tensor& dy, const at::Tensor& shift) {
  const at::ScalarType stats = stat_type(b.x.scalar_type());
  if (b.last) {
    auto [dot, sum] = column_sums(b.x, dy, b.rows(), b.C, {{}, {}, shift, stats});
    return {dot, sum, 1};
  }
  ChannelSums s{new_empty({b.N, b.C}, stats), new_empty({b.N, b.C}, stats), b.N};
  ops::RowSumProblem problem;
  problem.x = b.x.const_data_ptr();
  problem.dy = dy.const_data_ptr();
  problem.shift = data_or_null(shift);
  problem.out0 = s.dot.mutable_data_ptr();
  problem.out1 = s.sum.mutable_data_ptr();
  problem.rows = static_cast<uint32_t>(b.rows());
  problem.cols = static_cast<uint32_t>(b.HW);
  problem.period = static_cast<uint32_t>(b.C);
  ops::row_sums(runtime::current_queue(), dtype_of(b.x), problem);
  return s;
}

Coefficients channel_coefficients(const Batch& b, bool backward) {
  const at::ScalarType stats = stat_type(b.x.scalar_type());
  return {new_empty({b.C}, stats),
          new_empty({b.C}, stats),
          new_empty({b.C}, stats),
          backward ? new_empty({b.C}, stats) : at::Tensor(),
          b.C,
          b.last};
}

void check_channels(const char* name, const at::Tensor& t, int64_t channels) {
  TORCH_CHECK(!t.defined() || t.numel() == channels, name, " should contain ", channels, " elements not ",
              t.defined() ? t.numel() : 0);
}

void check_gradient(const at::Tensor& grad_out, const at::Tensor& input) {
  TORCH_CHECK(grad_out.sizes() == input.sizes(), "expected grad_out of the input's size ", input.sizes(), ", but got ",
              grad_out.sizes());
}

// Running statistics are written in place, so they decide the parameters' type.
at::ScalarType channel_type(at::ScalarType t, const at::Tensor& running, const at::Tensor& weight) {
  return parameter_type(t, running.defined() ? running : weight);
}

struct Result { at::Tensor y, mean, invstd; };

Result forward(const at::Tensor& input, const OptTensor& weight_opt, const OptTensor& bias_opt,
               const OptTensor& mean_opt, const OptTensor& var_opt, bool train, double momentum, double eps,
               const at::Tensor& into = {}) {
  const at::Tensor weight = or_undefined(weight_opt), bias = or_undefined(bias_opt);
  at::Tensor running_mean = or_undefined(mean_opt), running_var = or_undefined(var_opt);
  const at::MemoryFormat format = layout_of(input);
  const Batch b = as_batch(input, format);
  check_channels("weight", weight, b.C);
  check_channels("bias", bias, b.C);
  check_channels("running_mean", running_mean, b.C);
  check_channels("running_var", running_var, b.C);
  TORCH_CHECK(train || (running_mean.defined() && running_var.defined()),
              "running_mean and running_var must be defined in evaluation mode");
  check_parameter_types("batch_norm", input, {&weight, &bias, &running_mean, &running_var});
  const at::ScalarType stats = stat_type(input.scalar_type());
  Result r;
  r.y = into.defined() && into.is_contiguous(format) && into.scalar_type() == input.scalar_type()
            ? into
            : new_empty(input.sizes(), input.scalar_type(), format);
  r.invstd = new_empty({b.C}, stats);
  if (input.numel() == 0 && (train || b.C == 0)) {
    r.mean = at::zeros_like(r.invstd);
    r.invstd.zero_();
    return r;
  }
  const at::ScalarType type =
      channel_type(input.scalar_type(), running_mean.defined() ? running_mean : running_var, weight);
  // Statistics of a type that has no kernel are updated in a copy.
  const at::Tensor rm = as_parameter(running_mean, type), rv = as_parameter(running_var, type);
  const at::Tensor w = as_parameter(weight, type), bi = as_parameter(bias, type);
  const Coefficients c = channel_coefficients(b, false);
  ops::NormCoefProblem problem;
  std::pair<at::Tensor, at::Tensor> found;
  const double count = static_cast<double>(b.N * b.HW);
  problem.rstd = r.invstd.mutable_data_ptr();
  if (train) {
    found = moments(b);
    r.mean = new_empty({b.C}, stats);
    problem.var = found.first.const_data_ptr();
    problem.mean = found.second.const_data_ptr();
    problem.save_mean = r.mean.mutable_data_ptr();
    problem.momentum = Real(momentum);
    problem.unbiased = Real(count / (count - 1));
  }
  problem.channels = static_cast<uint32_t>(b.C);
  problem.train = train;
  problem.eps = Real(eps);
  problem.weight = data_or_null(w);
  problem.bias = data_or_null(bi);
  if (rm.defined()) problem.running_mean = rm.mutable_data_ptr();
  if (rv.defined()) problem.running_var = rv.mutable_data_ptr();
  problem.a = c.a.mutable_data_ptr();
  problem.m = c.m.mutable_data_ptr();
  problem.b = c.b.mutable_data_ptr();
  ops::batch_norm_coefficients(runtime::current_queue(), dtype_of(input), to_dtype(type), problem);
  if (train && rm.defined() && !rm.is_same(running_mean)) running_mean.copy_(rm);
  if (train && rv.defined() && !rv.is_same(running_var)) running_var.copy_(rv);
  if (!train) r.mean = c.m;  // the running statistics, as on CUDA and in the decomposition
  if (input.numel() > 0) norm_apply(b.x, at::Tensor(), r.y, b.rows(), b.cols(), c);
  return r;
}

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using ThreeOut = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;

void give(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_same(from)) return;
  to.resize_(from.sizes());
  to.copy_(from);
}

ThreeOut forward_out(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias, const OptTensor& mean,
                     const OptTensor& var, bool train, double momentum, double eps, at::Tensor& out,
                     at::Tensor& save_mean, at::Tensor& save_invstd) {
  const at::ScalarType type = input.scalar_type();
  check_scalar_type(out, type);
  for (const at::Tensor* to : {&save_mean, &save_invstd})  // those of 16-bit numbers may have either type
    if (to->scalar_type() != type) check_scalar_type(*to, stat_type(type));
  const bool direct = out.sizes() == input.sizes() && !out.is_alias_of(input);
  const Result r = forward(input, weight, bias, mean, var, train, momentum, eps, direct ? out : at::Tensor());
  give(out, r.y);
  give(save_mean, r.mean);
  give(save_invstd, r.invstd);
  return {out, save_mean, save_invstd};
}

}  // namespace

// ---- forward
Three native_batch_norm(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias, const OptTensor& mean,
                        const OptTensor& var, bool training, double momentum, double eps) {
  Result r = forward(input, weight, bias, mean, var, training, momentum, eps);
  return {r.y, r.mean, r.invstd};
}
ThreeOut native_batch_norm_out(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias,
                               const OptTensor& mean, const OptTensor& var, bool training, double momentum, double eps,
                               at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  return forward_out(input, weight, bias, mean, var, training, momentum, eps, out, save_mean, save_invstd);
}
Three _native_batch_norm_legit(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias,
                               at::Tensor& mean, at::Tensor& var, bool training, double momentum, double eps) {
  return native_batch_norm(input, weight, bias, mean, var, training, momentum, eps);
}
ThreeOut _native_batch_norm_legit_out(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias,
                                      at::Tensor& mean, at::Tensor& var, bool training, double momentum, double eps,
                                      at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  return forward_out(input, weight, bias, mean, var, training, momentum, eps, out, save_mean, save_invstd);
}
Three _native_batch_norm_legit_no_stats(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias,
                                        bool training, double momentum, double eps) {
  return native_batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}
ThreeOut _native_batch_norm_legit_no_stats_out(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias,
                                               bool training, double momentum, double eps, at::Tensor& out,
                                               at::Tensor& save_mean, at::Tensor& save_invstd) {
  return forward_out(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps, out, save_mean,
                     save_invstd);
}
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> _batch_norm_with_update(const at::Tensor& input,
                                                                                   const OptTensor& weight,
                                                                                   const OptTensor& bias,
                                                                                   at::Tensor& mean, at::Tensor& var,
                                                                                   double momentum, double eps) {
  Result r = forward(input, weight, bias, mean, var, /*train=*/true, momentum, eps);
  return {r.y, r.mean, r.invstd, new_empty({0}, at::kByte)};
}
std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> _batch_norm_with_update_out(
    const at::Tensor& input, const OptTensor& weight, const OptTensor& bias, at::Tensor& mean, at::Tensor& var,
    double momentum, double eps, at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd, at::Tensor& reserve) {
  forward_out(input, weight, bias, mean, var, /*training=*/true, momentum, eps, out, save_mean, save_invstd);
  reserve.resize_({0});
  return {out, save_mean, save_invstd, reserve};
}

// ---- backward
Three native_batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const OptTensor& weight_opt,
                                 const OptTensor& mean_opt, const OptTensor& var_opt, const OptTensor& save_mean_opt,
                                 const OptTensor& save_invstd_opt, bool train, double eps, std::array<bool, 3> mask) {
  const at::Tensor weight = or_undefined(weight_opt);
  const at::Tensor running_mean = or_undefined(mean_opt), running_var = or_undefined(var_opt);
  const at::MemoryFormat format = layout_of(input);
  const Batch b = as_batch(input, format);
  const at::ScalarType stats = stat_type(input.scalar_type());
  // Without a weight, a bias has its gradient as the saved statistics have their type.
  const at::Tensor owner = train && !weight.defined() ? or_undefined(save_mean_opt) : weight;
  const at::ScalarType type = channel_type(input.scalar_type(), train ? at::Tensor() : running_mean, owner);
  check_channels("weight", weight, b.C);
  at::Tensor dx, dw, db;
  if (mask[0]) dx = new_empty(input.sizes(), input.scalar_type(), format);
  if (mask[1]) dw = new_empty({b.C}, type);
  if (mask[2]) db = new_empty({b.C}, type);
  const at::ScalarType result = weight.defined() ? weight.scalar_type() : type;
  if (input.numel() == 0) {
    if (mask[1]) dw.zero_();
    if (mask[2]) db.zero_();
    return {dx, mask[1] ? dw.to(result) : dw, mask[2] ? db.to(result) : db};
  }
  const at::Tensor dy = grad_out.to(input.scalar_type()).contiguous(format);
  at::Tensor mean, invstd, rm, rv;
  if (train) {
    mean = as_parameter(or_undefined(save_mean_opt), stats);
    invstd = as_parameter(or_undefined(save_invstd_opt), stats);
    TORCH_CHECK(mean.defined() && invstd.defined() && mean.numel() == b.C && invstd.numel() == b.C,
                "batch norm backward: the saved statistics do not match the input");
  } else {
    rm = as_parameter(running_mean, type);
    rv = as_parameter(running_var, type);
    TORCH_CHECK(rm.defined() && rv.defined() && rm.numel() == b.C && rv.numel() == b.C,
                "batch norm backward: the running statistics do not match the input");
    mean = as_parameter(running_mean, stats);
  }
  const ChannelSums sums = channel_sums(b, dy, mean);
  const at::Tensor w = as_parameter(weight, type);
  ops::NormCoefProblem problem;
  problem.channels = static_cast<uint32_t>(b.C);
  problem.train = train;
  problem.sum_rows = static_cast<uint32_t>(sums.rows);
  problem.sum0 = sums.dot.const_data_ptr();
  problem.sum1 = sums.sum.const_data_ptr();
  problem.mean = mean.const_data_ptr();
  if (train) problem.rstd = const_cast<void*>(invstd.const_data_ptr());
  problem.running_mean = const_cast<void*>(data_or_null(rm));
  problem.running_var = const_cast<void*>(data_or_null(rv));
  problem.weight = data_or_null(w);
  problem.eps = Real(eps);
  problem.count = Real(static_cast<double>(b.N * b.HW));
  if (mask[1]) problem.grad_weight = dw.mutable_data_ptr();
  if (mask[2]) problem.grad_bias = db.mutable_data_ptr();
  Coefficients c;
  if (mask[0]) {
    c = channel_coefficients(b, true);
    problem.a = c.a.mutable_data_ptr();
    problem.m = c.m.mutable_data_ptr();
    problem.b = c.b.mutable_data_ptr();
    problem.d = c.d.mutable_data_ptr();
  }
  ops::batch_norm_backward_coefficients(runtime::current_queue(), dtype_of(input), to_dtype(type), problem);
  if (mask[0]) norm_apply(b.x, dy, dx, b.rows(), b.cols(), c);
  return {dx, mask[1] ? dw.to(result) : dw, mask[2] ? db.to(result) : db};
}

Three batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& weight,
                          const OptTensor& running_mean, const OptTensor& running_var, const OptTensor& save_mean,
                          const OptTensor& save_var, bool update, double eps, std::array<bool, 3> mask,
                          const at::Tensor&) {
  return native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_var, update,
                                    eps, mask);
}

// ---- pieces of synchronised batch norm
namespace {

// running = (1 - momentum) * running + momentum * found
void update_running(const OptTensor& running, const at::Tensor& found, double momentum) {
  if (!running || !running->defined()) return;
  running->copy_(running->to(found.scalar_type()).mul(1 - momentum).add(found, momentum));
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> batch_norm_update_stats(const at::Tensor& input, const OptTensor& running_mean,
                                                           const OptTensor& running_var, double momentum) {
  const Batch b = as_batch(input, layout_of(input));
  auto [var, mean] = moments(b);
  const double n = static_cast<double>(b.N * b.HW);
  update_running(running_mean, mean, momentum);
  update_running(running_var, var.mul(n / (n - 1)), momentum);
  return {mean, var};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_stats(const at::Tensor& input, double eps) {
  auto [var, mean] = moments(as_batch(input, layout_of(input)));
  return {mean, var.add(eps).rsqrt()};
}

at::Tensor batch_norm_elemt(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias,
                            const at::Tensor& mean, const at::Tensor& invstd, double) {
  const at::MemoryFormat format = layout_of(input);
  const Batch b = as_batch(input, format);
  const at::ScalarType stats = stat_type(input.scalar_type());
  check_channels("mean", mean, b.C);
  check_channels("invstd", invstd, b.C);
  const at::Tensor y = new_empty(input.sizes(), input.scalar_type(), format);
  if (input.numel() == 0) return y;
  const at::Tensor scale = as_parameter(invstd, stats), w = or_undefined(weight), bi = or_undefined(bias);
  const Coefficients c{w.defined() ? scale.mul(w.to(stats)) : scale,
                       as_parameter(mean, stats),
                       bi.defined() ? as_parameter(bi, stats) : at::zeros_like(scale),
                       {},
                       b.C,
                       b.last};
  norm_apply(b.x, at::Tensor(), y, b.rows(), b.cols(), c);
  return y;
}

at::Tensor& batch_norm_elemt_out(const at::Tensor& input, const OptTensor& weight, const OptTensor& bias,
                                 const at::Tensor& mean, const at::Tensor& invstd, double eps, at::Tensor& out) {
  give(out, batch_norm_elemt(input, weight, bias, mean, invstd, eps));
  return out;
}

std::tuple<at::Tensor, at::Tensor> batch_norm_gather_stats_with_counts(const at::Tensor&, const at::Tensor& mean_,
                                                                       const at::Tensor& invstd_,
                                                                       const OptTensor& running_mean,
                                                                       const OptTensor& running_var, double momentum,
                                                                       double eps, const at::Tensor& counts_) {
  const at::ScalarType stats = stat_type(mean_.scalar_type());
  const at::Tensor means = mean_.to(stats), counts = counts_.to(stats).view({-1, 1});
  const at::Tensor total = counts.sum();
  const at::Tensor mean = means.mul(counts).sum(0).div(total);
  const at::Tensor vars = invstd_.to(stats).pow(-2).sub(eps), away = means.sub(mean);
  const at::Tensor squares = vars.add(away.mul(away)).mul(counts).sum(0);
  update_running(running_mean, mean, momentum);
  update_running(running_var, squares.div(total.sub(1)), momentum);
  return {mean, squares.div(total).add(eps).rsqrt()};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_gather_stats(const at::Tensor& input, const at::Tensor& mean,
                                                           const at::Tensor& invstd, const OptTensor& running_mean,
                                                           const OptTensor& running_var, double momentum, double eps,
                                                           int64_t count) {
  const at::Tensor counts = at::ones_like(mean.select(1, 0)).mul_(count);
  return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reduce(
    const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const OptTensor& weight, bool input_g, bool weight_g, bool bias_g) {
  const at::MemoryFormat format = layout_of(input);
  const Batch b = as_batch(input, format);
  const at::ScalarType stats = stat_type(input.scalar_type());
  check_channels("mean", mean, b.C);
  check_channels("invstd", invstd, b.C);
  check_gradient(grad_out, input);
  const at::Tensor dy = grad_out.to(input.scalar_type()).contiguous(format);
  at::Tensor dot, sum;
  if (input.numel() == 0) {
    dot = at::zeros({b.C}, input.options().dtype(stats)), sum = at::zeros_like(dot);
  } else {
    const ChannelSums s = channel_sums(b, dy, as_parameter(mean, stats));
    dot = s.dot.view({-1, b.C}).sum(0), sum = s.sum.view({-1, b.C}).sum(0);
  }
  const at::Tensor w = or_undefined(weight);
  const at::ScalarType type = w.defined() ? w.scalar_type() : stats;
  return {input_g ? sum : at::Tensor(), input_g ? dot : at::Tensor(),
          weight_g ? dot.mul(invstd).to(type) : at::Tensor(), bias_g ? sum.to(type) : at::Tensor()};
}

at::Tensor batch_norm_backward_elemt(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                                     const at::Tensor& invstd, const OptTensor& weight, const at::Tensor& sum_dy,
                                     const at::Tensor& sum_dy_xmu, const at::Tensor& count) {
  const at::MemoryFormat format = layout_of(input);
  const Batch b = as_batch(input, format);
  const at::ScalarType stats = stat_type(input.scalar_type());
  check_channels("mean", mean, b.C);
  check_channels("invstd", invstd, b.C);
  check_gradient(grad_out, input);
  const at::Tensor dx = new_empty(input.sizes(), input.scalar_type(), format);
  if (input.numel() == 0) return dx;
  const at::Tensor dy = grad_out.to(input.scalar_type()).contiguous(format), rstd = as_parameter(invstd, stats);
  const at::Tensor w = or_undefined(weight), n = count.to(stats).sum();
  const at::Tensor scale = w.defined() ? rstd.mul(w.to(stats)) : rstd;
  const Coefficients c{scale,
                       as_parameter(mean, stats),
                       scale.mul(sum_dy.to(stats)).div(n).neg(),
                       scale.mul(rstd).mul(rstd).mul(sum_dy_xmu.to(stats)).div(n).neg(),
                       b.C,
                       b.last};
  norm_apply(b.x, dy, dx, b.rows(), b.cols(), c);
  return dx;
}

}  // namespace xpu_ops::aten
