// Fused optimizers: one step of every parameter in one launch.
#include <bit>
#include <cmath>

#include "bindings/aten/core/scalar_bits.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "gen/kernels/foreach_kernels.hpp"
#include "kernels/ops/foreach.hpp"

namespace xpu_ops::aten {
namespace {

struct Hyper {
  double lr, a, b, weight_decay, eps;
  const at::Tensor* lr_tensor = nullptr;
  bool maximize, first_step = false, nesterov = false;
};

const float* flag_ptr(const MaybeTensor& t, const char* name) {
  if (!is_given(t)) return nullptr;
  TORCH_CHECK(t->is_xpu(), name, " must be on the same XPU device as the params");
  TORCH_CHECK(t->numel() == 1 && t->scalar_type() == at::kFloat, name, " must be a 1-element float tensor");
  return t->const_data_ptr<float>();
}

// A list with one tensor per parameter.
void check_full(const char* name, at::TensorList params, at::TensorList list) {
  TORCH_CHECK(list.size() == params.size(), name, ": tensor lists must have the same number of elements, got ",
              params.size(), " and ", list.size());
}

// `states` are the lists after parameters and gradients; they and `steps` may be empty where the optimizer has none.
void run(const runtime::KernelTable& table, const char* name, at::TensorList params, at::TensorList grads,
         std::initializer_list<at::TensorList> states, at::TensorList steps, const Hyper& h,
         const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  check_full(name, params, grads);
  if (!steps.empty()) check_full(name, params, steps);
  if (params.empty()) return;
  const at::ScalarType type = params[0].scalar_type();
  auto check = [&](at::TensorList list) {
    check_full(name, params, list);
    for (size_t i = 0; i < list.size(); ++i) {
      TORCH_CHECK(
          list[i].scalar_type() == type && list[i].device() == params[0].device() && list[i].layout() == at::kStrided,
          name, ": params, grads and states must have same dtype, device, and layout");
      TORCH_CHECK(list[i].sizes() == params[i].sizes(), name, ": params, grads and states must have the same shape");
      TORCH_CHECK(list[i].numel() < ops::kForeachLimit,
                  "parameters of 2^31 elements and more are not supported on XPU");
    }
  };
  check(params);
  check(grads);
  for (at::TensorList l : states)
    if (!l.empty()) check(l);
  for (const at::Tensor& t : steps)
    TORCH_CHECK(t.is_xpu() && t.numel() == 1 && t.scalar_type() == at::kFloat, name,
                ": state_steps must be 1-element float tensors on the device of the params");
  ops::OptimizerProblem problem{};
  at::Tensor lr;  // lives until the launch is queued
  if (h.lr_tensor) {
    lr = h.lr_tensor->to(at::kFloat);
    problem.lr_tensor = lr.const_data_ptr();
  }
  problem.lr = static_cast<float>(h.lr), problem.lr64 = double_bits(h.lr);
  problem.a = static_cast<float>(h.a), problem.a64 = double_bits(h.a);
  problem.b = static_cast<float>(h.b), problem.b64 = double_bits(h.b);
  problem.weight_decay = static_cast<float>(h.weight_decay), problem.weight_decay64 = double_bits(h.weight_decay);
  problem.eps = static_cast<float>(h.eps), problem.eps64 = double_bits(h.eps);
  problem.grad_scale = flag_ptr(grad_scale, "grad_scale"), problem.found_inf = flag_ptr(found_inf, "found_inf");
  problem.maximize = h.maximize, problem.first_step = h.first_step, problem.nesterov = h.nesterov;
  ops::ForeachTensors<ForeachTensor<6>> tensors;
  // A tensor whose layout differs from its parameter's takes part as a copy.
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  auto pointer = [&](const at::Tensor& t, const at::Tensor& param) -> void* {
    if (t.is_non_overlapping_and_dense() && t.strides() == param.strides()) return t.mutable_data_ptr();
    at::Tensor same = new_strided(param.sizes(), param.strides(), type);
    same.copy_(t);
    copies.emplace_back(t, same);
    return same.mutable_data_ptr();
  };
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].numel() == 0) continue;
    at::Tensor param = params[i];
    if (!param.is_non_overlapping_and_dense()) copies.emplace_back(params[i], param = param.contiguous());
    auto& t = tensors.add(param.numel());
    for (void*& p : t.ptr) p = nullptr;
    t.ptr[0] = param.mutable_data_ptr();
    t.ptr[1] = pointer(grads[i], param);
    int k = 2;
    for (at::TensorList l : states) {
      if (!l.empty()) t.ptr[k] = pointer(l[i], param);
      ++k;
    }
    if (!steps.empty()) t.ptr[5] = steps[i].mutable_data_ptr();
  }
  ops::optimize_each(tensors, table[to_dtype(type)], problem);
  for (auto& [t, same] : copies) t.copy_(same);
}

// A learning rate that is a tensor stays on the device unless it is a CPU tensor.
template <class F>
void with_lr(const at::Tensor& lr, at::TensorList params, F f) {
  if (lr.is_cpu()) return f(lr.item<double>(), nullptr);
  TORCH_CHECK(!params.empty() && lr.device() == params[0].device(), "lr must be on the same GPU device as the params");
  f(0.0, &lr);
}

}  // namespace

#define ADAM(NAME, TABLE)                                                                                           \
  static void NAME##run(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs,                         \
                        at::TensorList exp_avg_sqs, at::TensorList max_exp_avg_sqs, at::TensorList state_steps,     \
                        double lr, const at::Tensor* lr_tensor, double beta1, double beta2, double weight_decay,    \
                        double eps, bool amsgrad, bool maximize, const MaybeTensor& grad_scale,                     \
                        const MaybeTensor& found_inf) {                                                             \
    for (at::TensorList list : {exp_avgs, exp_avg_sqs, state_steps}) check_full(#NAME, self, list);                 \
    if (amsgrad) check_full(#NAME, self, max_exp_avg_sqs);                                                          \
    const Hyper h{lr, std::log(beta1), std::log(beta2), weight_decay, eps, lr_tensor, maximize};                    \
    run(kernels::TABLE, #NAME, self, grads, {exp_avgs, exp_avg_sqs, amsgrad ? max_exp_avg_sqs : at::TensorList()},  \
        state_steps, h, grad_scale, found_inf);                                                                     \
  }                                                                                                                 \
  void NAME(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,         \
            at::TensorList max_exp_avg_sqs, at::TensorList state_steps, double lr, double beta1, double beta2,      \
            double weight_decay, double eps, bool amsgrad, bool maximize, const MaybeTensor& grad_scale,            \
            const MaybeTensor& found_inf) {                                                                         \
    NAME##run(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, nullptr, beta1, beta2,          \
              weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);                                         \
  }                                                                                                                 \
  void NAME##_tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs,                         \
                        at::TensorList exp_avg_sqs, at::TensorList max_exp_avg_sqs, at::TensorList state_steps,     \
                        const at::Tensor& lr, double beta1, double beta2, double weight_decay, double eps,          \
                        bool amsgrad, bool maximize, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) { \
    with_lr(lr, self, [&](double value, const at::Tensor* tensor) {                                                 \
      NAME##run(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, value, tensor, beta1, beta2,      \
                weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);                                       \
    });                                                                                                             \
  }
ADAM(_fused_adam_, optimizer_step_adam)
ADAM(_fused_adamw_, optimizer_step_adamw)
#undef ADAM

static void sgd(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffers, double weight_decay,
                double momentum, double lr, const at::Tensor* lr_tensor, double dampening, bool nesterov, bool maximize,
                bool is_first_step, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  const Hyper h{lr, momentum, dampening, weight_decay, 0, lr_tensor, maximize, is_first_step, nesterov};
  if (momentum != 0.0) check_full("_fused_sgd_", self, momentum_buffers);
  run(kernels::optimizer_step_sgd, "_fused_sgd_", self, grads, {momentum_buffers}, {}, h, grad_scale, found_inf);
}
void _fused_sgd_(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffer_list, double weight_decay,
                 double momentum, double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                 const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  sgd(self, grads, momentum_buffer_list, weight_decay, momentum, lr, nullptr, dampening, nesterov, maximize,
      is_first_step, grad_scale, found_inf);
}
void _fused_sgd__tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffer_list,
                           double weight_decay, double momentum, const at::Tensor& lr, double dampening, bool nesterov,
                           bool maximize, bool is_first_step, const MaybeTensor& grad_scale,
                           const MaybeTensor& found_inf) {
  with_lr(lr, self, [&](double value, const at::Tensor* tensor) {
    sgd(self, grads, momentum_buffer_list, weight_decay, momentum, value, tensor, dampening, nesterov, maximize,
        is_first_step, grad_scale, found_inf);
  });
}

static void adagrad(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                    double lr, const at::Tensor* lr_tensor, double lr_decay, double weight_decay, double eps,
                    bool maximize, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  for (at::TensorList list : {state_sums, state_steps}) check_full("_fused_adagrad_", self, list);
  const Hyper h{lr, lr_decay, 0, weight_decay, eps, lr_tensor, maximize};
  run(kernels::optimizer_step_adagrad, "_fused_adagrad_", self, grads, {state_sums}, state_steps, h, grad_scale,
      found_inf);
}
void _fused_adagrad_(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
                     double lr, double lr_decay, double weight_decay, double eps, bool maximize,
                     const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  adagrad(self, grads, state_sums, state_steps, lr, nullptr, lr_decay, weight_decay, eps, maximize, grad_scale,
          found_inf);
}
void _fused_adagrad__tensor_lr(at::TensorList self, at::TensorList grads, at::TensorList state_sums,
                               at::TensorList state_steps, const at::Tensor& lr, double lr_decay, double weight_decay,
                               double eps, bool maximize, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  with_lr(lr, self, [&](double value, const at::Tensor* tensor) {
    adagrad(self, grads, state_sums, state_steps, value, tensor, lr_decay, weight_decay, eps, maximize, grad_scale,
            found_inf);
  });
}

}  // namespace xpu_ops::aten
