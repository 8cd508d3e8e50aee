// CTC loss: lengths come from the host or are read back once; one work-group per batch entry.
#include <numeric>

#include <ATen/ops/from_blob.h>

#include "bindings/aten/core/tensor.hpp"
#include "gen/kernels/ctc_kernels.hpp"
#include "kernels/ops/ctc.hpp"

namespace xpu_ops::aten {
namespace {

struct Ctc {
  at::Tensor log_probs, targets, lengths;
  ops::CtcProblem problem{};
  int64_t longest = 0;

  Ctc(const at::Tensor& log_probs_, const at::Tensor& targets_, at::IntArrayRef input_lengths,
      at::IntArrayRef target_lengths, int64_t blank)
      : log_probs(log_probs_) {
    TORCH_CHECK(log_probs.is_xpu(), "Expected log_probs to be on xpu, but it is on ", log_probs.device());
    TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
    const int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
    TORCH_CHECK(0 <= blank && blank < classes, "blank must be in label range");
    TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == batch, "input_lengths must be of size batch_size");
    TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch, "target_lengths must be of size batch_size");
    TORCH_CHECK(targets_.scalar_type() == at::kLong || targets_.scalar_type() == at::kInt,
                "Expected tensor for argument #2 'targets' to have scalar type Long or Int; but got ",
                targets_.scalar_type());
    std::vector<int64_t> host(3 * batch);
    int64_t total = 0;
    for (int64_t b = 0; b < batch; ++b) {
      TORCH_CHECK(target_lengths[b] >= 0, "Expected target_lengths to have value at least 0, but got value ",
                  target_lengths[b]);
      TORCH_CHECK(input_lengths[b] >= 0, "Expected input_lengths to have value at least 0, but got value ",
                  input_lengths[b]);
      TORCH_CHECK(input_lengths[b] <= steps, "Expected input_lengths to have value at most ", steps, ", but got value ",
                  input_lengths[b]);
      host[b] = input_lengths[b];
      host[batch + b] = target_lengths[b];
      host[2 * batch + b] = targets_.dim() == 1 ? total : b * targets_.size(1);
      total += target_lengths[b];
      longest = std::max(longest, target_lengths[b]);
    }
    if (targets_.dim() == 1) {
      TORCH_CHECK(targets_.numel() >= total, "Expected targets to have at least ", total, " elements, but got ",
                  targets_.numel());
    } else {
      TORCH_CHECK(targets_.dim() == 2 && targets_.size(0) == batch, "Expected targets of size [", batch, ", ", longest,
                  "], but got ", targets_.sizes());
      TORCH_CHECK(targets_.size(1) >= longest, "Expected tensor to have size at least ", longest,
                  " at dimension 1, but got size ", targets_.sizes());
    }
    targets = targets_.to(log_probs.device(), at::kLong).contiguous();
    lengths = at::from_blob(host.data(), {3 * batch}, at::kLong).to(log_probs.device());
    problem.log_probs = log_probs.const_data_ptr();
    problem.targets = targets.const_data_ptr<int64_t>();
    problem.input_lengths = lengths.const_data_ptr<int64_t>();
    problem.target_lengths = problem.input_lengths + batch;
    problem.target_offsets = problem.input_lengths + 2 * batch;
    problem.stride_t = log_probs.stride(0);
    problem.stride_n = log_probs.stride(1);
    problem.stride_c = log_probs.stride(2);
    problem.steps = static_cast<uint32_t>(steps);
    problem.batch = static_cast<uint32_t>(batch);
    problem.classes = static_cast<uint32_t>(classes);
    problem.states = static_cast<uint32_t>(2 * longest + 1);
    problem.target_stride = 1;
    problem.blank = static_cast<uint32_t>(blank);
  }
};

std::vector<int64_t> host_lengths(const at::Tensor& t, const char* name) {
  TORCH_CHECK(at::isIntegralType(t.scalar_type(), false), name, " must be integral");
  const at::Tensor host = t.to(at::kCPU, at::kLong).contiguous();
  return std::vector<int64_t>(host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel());
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> _ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                                             at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                                             int64_t blank, bool) {
  (void)kernels::ctc_forward[dtype_of(log_probs)];
  Ctc ctc(log_probs, targets, input_lengths, target_lengths, blank);
  at::Tensor loss = new_empty({log_probs.size(1)}, log_probs.scalar_type());
  at::Tensor alpha = new_empty({log_probs.size(1), log_probs.size(0), 2 * ctc.longest + 1}, log_probs.scalar_type());
  ctc.problem.alpha = alpha.mutable_data_ptr();
  ctc.problem.loss = loss.mutable_data_ptr();
  ops::ctc_loss(runtime::current_queue(), dtype_of(log_probs), ctc.problem);
  return {loss, alpha};
}

std::tuple<at::Tensor, at::Tensor> _ctc_loss_Tensor(const at::Tensor& log_probs, const at::Tensor& targets,
                                                    const at::Tensor& input_lengths, const at::Tensor& target_lengths,
                                                    int64_t blank, bool zero_infinity) {
  return _ctc_loss(log_probs, targets, host_lengths(input_lengths, "input_lengths"),
                   host_lengths(target_lengths, "target_lengths"), blank, zero_infinity);
}

at::Tensor _ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                              at::IntArrayRef input_lengths, at::IntArrayRef target_lengths,
                              const at::Tensor& neg_log_likelihood, const at::Tensor& log_alpha, int64_t blank,
                              bool zero_infinity) {
  (void)kernels::ctc_backward[dtype_of(log_probs)];
  Ctc ctc(log_probs, targets, input_lengths, target_lengths, blank);
  for (const at::Tensor* t : {&grad, &neg_log_likelihood, &log_alpha}) check_scalar_type(*t, log_probs.scalar_type());
  TORCH_CHECK(log_alpha.dim() == 3 && log_alpha.size(0) == log_probs.size(1) &&
                  log_alpha.size(1) == log_probs.size(0) && log_alpha.size(2) > 2 * ctc.longest,
              "log_alpha does not fit the lengths: ", log_alpha.sizes());
  ctc.problem.states = static_cast<uint32_t>(log_alpha.size(2));  // FakeTensorMode calls with lengths of zero
  const at::Tensor alpha = log_alpha.contiguous(), loss = neg_log_likelihood.contiguous();
  const at::Tensor scale = grad.expand({log_probs.size(1)}).contiguous();
  at::Tensor out = new_empty(log_probs.sizes(), log_probs.scalar_type());
  ctc.problem.alpha = alpha.mutable_data_ptr();
  ctc.problem.loss = loss.mutable_data_ptr();
  ctc.problem.grad_out = scale.const_data_ptr();
  ctc.problem.grad_out_stride = 1;
  ctc.problem.grad = out.mutable_data_ptr();
  ctc.problem.zero_infinity = zero_infinity;
  ops::ctc_loss_backward(runtime::current_queue(), dtype_of(log_probs), ctc.problem);
  return out;
}

at::Tensor _ctc_loss_backward_Tensor(const at::Tensor& grad, const at::Tensor& log_probs, const at::Tensor& targets,
                                     const at::Tensor& input_lengths, const at::Tensor& target_lengths,
                                     const at::Tensor& neg_log_likelihood, const at::Tensor& log_alpha, int64_t blank,
                                     bool zero_infinity) {
  return _ctc_loss_backward(grad, log_probs, targets, host_lengths(input_lengths, "input_lengths"),
                            host_lengths(target_lengths, "target_lengths"), neg_log_likelihood, log_alpha, blank,
                            zero_infinity);
}

}  // namespace xpu_ops::aten
