// Losses: checks, dense operands of one layout, and the layout of results.
#include <cmath>

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "kernels/ops/loss.hpp"
#include "kernels/runtime/device/device_error.hpp"

namespace xpu_ops::aten {
namespace {

uint32_t checked_count(int64_t n) {
  TORCH_CHECK_NOT_IMPLEMENTED(n < (int64_t{1} << 31), "losses over more than 2^31 elements");
  return static_cast<uint32_t>(n);
}

// Operands of one shape in one dense order: as they lie where all agree, else contiguous. The first is what new tensors
// are laid out like.
std::vector<at::Tensor> aligned(std::vector<at::Tensor> operands, at::ScalarType type) {
  std::vector<int64_t> sizes;
  for (const at::Tensor& t : operands)
    if (t.defined()) sizes = at::infer_size(sizes, t.sizes());
  bool same = true;
  for (at::Tensor& t : operands) {
    if (!t.defined()) continue;
    t = t.to(type).expand(sizes);
    same = same && t.strides() == operands[0].strides();
  }
  if (!same || !operands[0].is_non_overlapping_and_dense())
    for (at::Tensor& t : operands)
      if (t.defined()) t = t.contiguous();
  return operands;
}

void elementwise_loss(LossKind kind, const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight,
                      int64_t reduction, double param, const at::Tensor& out) {
  const at::ScalarType common = at::result_type(self, target);
  if (out.is_complex() && !c10::isComplexType(common)) {
    const at::Tensor real = new_empty(out.sizes(), common);
    elementwise_loss(kind, self, target, weight, reduction, param, real);
    out.copy_(real);
    return;
  }
  const std::vector<at::Tensor> t = aligned({self, target, weight}, out.scalar_type());
  const DType type = dtype_of(out);
  ops::LossProblem p{};
  p.input = t[0].const_data_ptr();
  p.target = t[1].const_data_ptr();
  p.weight = weight.defined() ? t[2].const_data_ptr() : nullptr;
  p.n = checked_count(t[0].numel());
  p.param = ops::loss_scalar(param);
  runtime::Queue& queue = runtime::current_queue();
  if (reduction == at::Reduction::None) {
    const bool direct = out.strides() == t[0].strides();
    const at::Tensor dense = direct ? out : new_strided(t[0].sizes(), t[0].strides(), out.scalar_type());
    p.out = dense.mutable_data_ptr();
    ops::loss(queue, kind, type, p);
    if (!direct) out.copy_(dense);
  } else {
    const double divisor = reduction == at::Reduction::Mean ? static_cast<double>(p.n) : 1.0;
    p.out = out.mutable_data_ptr();
    ops::loss_sum(queue, kind, type, p, divisor);
  }
  if (kind == LossKind::bce) runtime::check_kernel_errors(queue);
}

// The gradient of a pair as torch's TensorIterator makes it: the operands, grad_output among them, broadcast and
// promote; grad_input takes their size, and must hold their type.
void elementwise_backward(LossKind kind, const at::Tensor& grad_output, const at::Tensor& self,
                          const at::Tensor& target, const at::Tensor& weight, int64_t reduction, double param,
                          double factor, const at::Tensor& grad_input) {
  std::vector<int64_t> sizes = at::infer_size(at::infer_size(self.sizes(), target.sizes()), grad_output.sizes());
  if (weight.defined()) sizes = at::infer_size(sizes, weight.sizes());
  const at::ScalarType common = c10::promoteTypes(at::result_type(self, target), at::result_type(self, grad_output));
  TORCH_CHECK(at::canCast(common, grad_input.scalar_type()), "result type ", common,
              " can't be cast to the desired output type ", grad_input.scalar_type());
  if (grad_input.sizes() != sizes) at::native::resize_output(grad_input, sizes);
  if (grad_input.numel() == 0) return;
  const bool one = grad_output.numel() == 1 && grad_output.dim() <= std::max(self.dim(), target.dim());
  std::vector<at::Tensor> t =
      aligned({self, target, weight, one ? at::Tensor() : grad_output}, grad_input.scalar_type());
  const at::Tensor grad = one ? grad_output.to(grad_input.scalar_type()) : t[3];
  TORCH_CHECK(t[0].sizes() == grad_input.sizes(), "output with shape ", grad_input.sizes(),
              " doesn't match the broadcast shape ", t[0].sizes());
  ops::LossProblem p{};
  p.input = t[0].const_data_ptr();
  p.target = t[1].const_data_ptr();
  p.weight = weight.defined() ? t[2].const_data_ptr() : nullptr;
  p.grad = grad.const_data_ptr();
  p.grad_scalar = one;
  p.n = checked_count(t[0].numel());
  p.param = ops::loss_scalar(param);
  p.scale = ops::loss_scalar(reduction == at::Reduction::Mean ? factor / static_cast<double>(self.numel()) : factor);
  const bool direct = grad_input.strides() == t[0].strides();
  const at::Tensor dense = direct ? grad_input : new_strided(t[0].sizes(), t[0].strides(), grad_input.scalar_type());
  p.out = dense.mutable_data_ptr();
  ops::loss_backward(runtime::current_queue(), kind, dtype_of(grad_input), p);
  if (!direct) grad_input.copy_(dense);
}

at::Tensor new_like(const at::Tensor& self) { return new_empty(self.sizes(), self.scalar_type()); }

at::Tensor optional(const std::optional<at::Tensor>& t) { return t.has_value() ? *t : at::Tensor(); }

std::vector<int64_t> reduced(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  return reduction == at::Reduction::None ? at::infer_size(self.sizes(), target.sizes()) : std::vector<int64_t>{};
}

}  // namespace

void mse_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, const at::Tensor& out) {
  elementwise_loss(LossKind::mse, self, target, {}, reduction, 0, out);
}

at::Tensor& mse_loss_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                         const at::Tensor& target, int64_t reduction, at::Tensor& grad_input) {
  elementwise_backward(LossKind::mse, grad_output, self, target, {}, reduction, 0, 2, grad_input);
  return grad_input;
}

at::Tensor mse_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                             int64_t reduction) {
  at::Tensor grad_input = new_like(self);
  return mse_loss_backward_grad_input(grad_output, self, target, reduction, grad_input);
}

void smooth_l1_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double beta,
                    const at::Tensor& out) {
  elementwise_loss(LossKind::smooth_l1, self, target, {}, reduction, beta, out);
}

at::Tensor& smooth_l1_loss_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                               const at::Tensor& target, int64_t reduction, double beta,
                                               at::Tensor& grad_input) {
  elementwise_backward(LossKind::smooth_l1, grad_output, self, target, {}, reduction, beta, 1, grad_input);
  return grad_input;
}

at::Tensor& huber_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta,
                           at::Tensor& out) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  const at::ScalarType type = at::result_type(self, target);
  TORCH_CHECK(at::canCast(type, out.scalar_type()), "result type ", type, " can't be cast to the desired output type ",
              out.scalar_type());
  if (reduction == at::Reduction::None)
    resize_as_iterator(out, {self, target});
  else
    at::native::resize_output(out, {});
  // The result has the type of self, also where the target is wider.
  const at::Tensor wide = type == out.scalar_type() ? out : new_empty(out.sizes(), type);
  elementwise_loss(LossKind::huber, self, target, {}, reduction, delta, wide);
  if (!wide.is_same(out)) out.copy_(wide);
  return out;
}

at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  return huber_loss_out(self, target, reduction, delta, out);
}

at::Tensor& huber_loss_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                    int64_t reduction, double delta, at::Tensor& grad_input) {
  for (const at::Tensor* t : {&target, &grad_output, static_cast<const at::Tensor*>(&grad_input)})
    TORCH_CHECK(t->scalar_type() == self.scalar_type(), "Found dtype ", t->scalar_type(), " but expected ",
                self.scalar_type());
  elementwise_backward(LossKind::huber, grad_output, self, target, {}, reduction, delta, 1, grad_input);
  return grad_input;
}

namespace {
void check_bce(const at::Tensor& self, const at::Tensor& target) {
  TORCH_CHECK(self.scalar_type() == target.scalar_type(), "Found dtype ", target.scalar_type(), " but expected ",
              self.scalar_type());
}
}  // namespace

at::Tensor& binary_cross_entropy_out(const at::Tensor& self, const at::Tensor& target,
                                     const std::optional<at::Tensor>& weight, int64_t reduction, at::Tensor& out) {
  check_bce(self, target);
  resize_out(out, reduced(self, target, reduction), {}, self.options());
  elementwise_loss(LossKind::bce, self, target, optional(weight), reduction, 0, out);
  return out;
}

at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target,
                                const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor out = reduction == at::Reduction::None ? at::empty_like(self) : new_empty({0}, self.scalar_type());
  return binary_cross_entropy_out(self, target, weight, reduction, out);
}

at::Tensor& binary_cross_entropy_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                     const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                                     int64_t reduction, at::Tensor& grad_input) {
  check_bce(self, target);
  check_bce(self, grad_output);
  resize_out(grad_input, self.sizes(), {}, self.options());
  elementwise_backward(LossKind::bce, grad_output, self, target, optional(weight), reduction, 0, 1, grad_input);
  return grad_input;
}

at::Tensor binary_cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                         const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                         int64_t reduction) {
  at::Tensor grad_input = at::empty_like(self);
  return binary_cross_entropy_backward_grad_input(grad_output, self, target, weight, reduction, grad_input);
}

// --- negative log likelihood ---

namespace {

struct Nll {
  at::Tensor target, weight;
  ops::NllProblem problem{};
  // `self` is [C], [N, C] or [N, C, H, W]; `target` has one element for each of N * H * W.
  Nll(const at::Tensor& self, const at::Tensor& target_, const at::Tensor& weight_, int64_t ignore_index) {
    const bool bytes = target_.scalar_type() == at::kByte && self.dim() <= 2;
    if (!bytes) check_scalar_type(target_, at::kLong);
    if (weight_.defined()) check_scalar_type(weight_, self.scalar_type());
    target = target_.contiguous();
    if (weight_.defined()) weight = weight_.contiguous();
    const int64_t classes = self.dim() == 1 ? self.size(0) : self.size(1);
    const int64_t spatial = self.dim() == 4 ? self.size(2) * self.size(3) : 1;
    TORCH_CHECK_NOT_IMPLEMENTED(classes * std::max<int64_t>(spatial, 1) < (int64_t{1} << 31), "nll_loss over rows of ",
                                classes * spatial, " elements");
    problem.target = target.const_data_ptr();
    problem.weight = weight.defined() ? weight.const_data_ptr() : nullptr;
    problem.ignore_index = ignore_index;
    problem.n = checked_count(target.numel());
    problem.classes = static_cast<uint32_t>(classes);
    problem.byte_target = bytes;
    problem.places = static_cast<uint32_t>(std::max<int64_t>(spatial, 1));
  }
};

void nll_forward(const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight, int64_t reduction,
                 int64_t ignore_index, const at::Tensor& output, const at::Tensor& total_weight) {
  Nll nll(self, target, weight, ignore_index);
  ops::NllProblem& p = nll.problem;
  const DType type = dtype_of(self);
  const at::Tensor input = self.contiguous();
  p.input = input.const_data_ptr();
  runtime::Queue& queue = runtime::current_queue();
  // One sample is its own sum, and has a weight.
  if (reduction == at::Reduction::None && self.dim() > 1) {
    const at::Tensor dense = output.is_contiguous() ? output : new_like(output);
    p.out = dense.mutable_data_ptr();
    ops::nll(queue, type, p);
    if (!dense.is_same(output)) output.copy_(dense);
    total_weight.zero_();
  } else {
    p.mean = reduction == at::Reduction::Mean;
    p.out = output.mutable_data_ptr();
    ops::nll_sum(queue, type, p, total_weight.mutable_data_ptr());
  }
  runtime::check_kernel_errors(queue);
}

void nll_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                  const at::Tensor& weight, int64_t reduction, int64_t ignore_index, const at::Tensor& total_weight,
                  const at::Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  check_scalar_type(grad_output, self.scalar_type());
  check_scalar_type(total_weight, self.scalar_type());
  Nll nll(self, target, weight, ignore_index);
  ops::NllProblem& p = nll.problem;
  const at::Tensor grad = grad_output.contiguous();
  const at::Tensor dense = grad_input.is_contiguous() ? grad_input : new_like(grad_input);
  p.input = grad.const_data_ptr();
  p.total_weight = total_weight.const_data_ptr();
  p.out = dense.mutable_data_ptr();
  p.grad_scalar = reduction != at::Reduction::None || grad.numel() == 1;
  p.mean = reduction == at::Reduction::Mean;
  fill_device(dense, 0);
  ops::nll_backward(runtime::current_queue(), dtype_of(self), p);
  if (!dense.is_same(grad_input)) grad_input.copy_(dense);
}

at::Tensor optional(at::OptionalTensorRef t) { return t.has_value() ? *t : at::Tensor(); }

void check_nll2d(const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(!weight.defined() || weight.numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

}  // namespace

void nll_loss_forward(const at::Tensor& self, const at::Tensor& target, at::OptionalTensorRef weight, int64_t reduction,
                      int64_t ignore_index, const at::Tensor& output, const at::Tensor& total_weight) {
  nll_forward(self, target, optional(weight), reduction, ignore_index, output, total_weight);
}

void nll_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                       at::OptionalTensorRef weight, int64_t reduction, int64_t ignore_index,
                       const at::Tensor& total_weight, const at::Tensor& grad_input) {
  nll_backward(grad_output, self, target, optional(weight), reduction, ignore_index, total_weight, grad_input);
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_forward_output(const at::Tensor& self, const at::Tensor& target,
                                                               const std::optional<at::Tensor>& weight,
                                                               int64_t reduction, int64_t ignore_index,
                                                               at::Tensor& output, at::Tensor& total_weight) {
  check_nll2d(self, target, optional(weight));
  resize_out(output, reduction == at::Reduction::None ? target.sizes() : at::IntArrayRef(), {}, self.options());
  resize_out(total_weight, {}, {}, self.options());
  nll_forward(self, target, optional(weight), reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

std::tuple<at::Tensor, at::Tensor> nll_loss2d_forward(const at::Tensor& self, const at::Tensor& target,
                                                      const std::optional<at::Tensor>& weight, int64_t reduction,
                                                      int64_t ignore_index) {
  at::Tensor output = new_empty({0}, self.scalar_type()), total_weight = new_empty({}, self.scalar_type());
  nll_loss2d_forward_output(self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

at::Tensor& nll_loss2d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                           int64_t reduction, int64_t ignore_index, const at::Tensor& total_weight,
                                           at::Tensor& grad_input) {
  check_nll2d(self, target, optional(weight));
  TORCH_CHECK(total_weight.numel() == 1,
              "expected total_weight to be a single element tensor, got: ", total_weight.sizes(), " (",
              total_weight.numel(), " elements)");
  if (reduction == at::Reduction::None) {
    TORCH_CHECK(grad_output.dim() == 3,
                "grad_output must have same dimension as target (3) but got dimension: ", grad_output.sizes());
    TORCH_CHECK(grad_output.sizes() == target.sizes(), "size mismatch (got grad_output: ", grad_output.sizes(),
                " target: ", target.sizes());
  }
  resize_out(grad_input, self.sizes(), {}, self.options());
  nll_backward(grad_output, self, target, optional(weight), reduction, ignore_index, total_weight, grad_input);
  return grad_input;
}

at::Tensor nll_loss2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                               const std::optional<at::Tensor>& weight, int64_t reduction, int64_t ignore_index,
                               const at::Tensor& total_weight) {
  at::Tensor grad_input = new_like(self);
  return nll_loss2d_backward_grad_input(grad_output, self, target, weight, reduction, ignore_index, total_weight,
                                        grad_input);
}

// --- margin losses ---

namespace {

struct Margin {
  at::Tensor input, target, weight;
  ops::MarginProblem problem{};
  Margin(const at::Tensor& self, const at::Tensor& target_, const at::Tensor& weight_, int64_t rows, int64_t classes) {
    check_scalar_type(target_, at::kLong);
    if (weight_.defined()) check_scalar_type(weight_, self.scalar_type());
    input = self.contiguous();
    target = target_.contiguous();
    if (weight_.defined()) weight = weight_.contiguous();
    problem.input = input.const_data_ptr();
    problem.target = target.const_data_ptr<int64_t>();
    problem.weight = weight.defined() ? weight.const_data_ptr() : nullptr;
    problem.rows = checked_count(rows);
    problem.classes = checked_count(classes);
  }

  // Row losses into `out`, summed where a reduction asks for it.
  void forward(ops::MarginKind kind, int64_t reduction, const at::Tensor& out) {
    runtime::Queue& queue = runtime::current_queue();
    const bool each = reduction == at::Reduction::None, direct = out.is_contiguous();
    const at::Tensor dense = direct ? out : new_like(out);
    const double divisor = each ? 0 : reduction == at::Reduction::Mean ? problem.rows : 1;
    problem.out = dense.mutable_data_ptr();
    ops::margin(queue, kind, dtype_of(input), problem, divisor);
    if (!direct) out.copy_(dense);
    runtime::check_kernel_errors(queue);
  }

  // Upstream leaves the loss of an empty batch to what the memory held.
  static void nothing(int64_t reduction, at::Tensor out) {
    if (out.numel() != 0) out.fill_(reduction == at::Reduction::Mean ? NAN : 0.0);
  }

  void backward(ops::MarginKind kind, const at::Tensor& grad_output, int64_t reduction, const at::Tensor& grad_input) {
    const at::Tensor grad = grad_output.contiguous();
    const at::Tensor dense = grad_input.is_contiguous() ? grad_input : new_like(grad_input);
    problem.grad = grad.const_data_ptr();
    problem.grad_scalar = reduction != at::Reduction::None || grad.numel() == 1;
    const double rows = reduction == at::Reduction::Mean ? problem.rows : 1;
    problem.scale = ops::loss_scalar(1.0 / (rows * problem.classes));
    problem.out = dense.mutable_data_ptr();
    ops::margin_backward(runtime::current_queue(), kind, dtype_of(input), problem);
    if (!dense.is_same(grad_input)) grad_input.copy_(dense);
  }
};

Margin multi_margin(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                    const std::optional<at::Tensor>& weight) {
  int64_t rows = 0, classes = 0;
  at::native::multi_margin_loss_shape_check(rows, classes, self.dim(), self, target, weight);
  const int64_t power = p.toLong();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  Margin m(self, target, optional(weight), rows, classes);
  m.problem.square = power == 2;
  m.problem.margin = ops::loss_scalar(margin.toDouble());
  return m;
}

}  // namespace

at::Tensor& multi_margin_loss_out(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                                  const at::Scalar& margin, const std::optional<at::Tensor>& weight, int64_t reduction,
                                  at::Tensor& out) {
  Margin m = multi_margin(self, target, p, margin, weight);
  const std::vector<int64_t> sizes = reduction == at::Reduction::None && target.dim() > 0
                                         ? std::vector<int64_t>{m.problem.rows}
                                         : std::vector<int64_t>{};
  resize_out(out, sizes, {}, self.options());
  if (self.numel() != 0)
    m.forward(ops::MarginKind::multi, reduction, out);
  else
    Margin::nothing(reduction, out);
  return out;
}

at::Tensor multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                             const at::Scalar& margin, const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  return multi_margin_loss_out(self, target, p, margin, weight, reduction, out);
}

at::Tensor& multi_margin_loss_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                  const at::Tensor& target, const at::Scalar& p,
                                                  const at::Scalar& margin, const std::optional<at::Tensor>& weight,
                                                  int64_t reduction, at::Tensor& grad_input) {
  Margin m = multi_margin(self, target, p, margin, weight);
  resize_out(grad_input, self.sizes(), {}, self.options());
  if (self.numel() != 0) m.backward(ops::MarginKind::multi, grad_output, reduction, grad_input);
  return grad_input;
}

at::Tensor multi_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                      const at::Scalar& p, const at::Scalar& margin,
                                      const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor grad_input = new_like(self);
  return multi_margin_loss_backward_grad_input(grad_output, self, target, p, margin, weight, reduction, grad_input);
}

std::tuple<at::Tensor&, at::Tensor&> multilabel_margin_loss_forward_output(const at::Tensor& self,
                                                                           const at::Tensor& target, int64_t reduction,
                                                                           at::Tensor& output, at::Tensor& is_target) {
  int64_t rows = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(rows, classes, self.dim(), self, target);
  Margin m(self, target, {}, rows, classes);
  const std::vector<int64_t> sizes =
      reduction == at::Reduction::None && target.dim() > 1 ? std::vector<int64_t>{rows} : std::vector<int64_t>{};
  resize_out(output, sizes, {}, self.options());
  resize_out(is_target, target.sizes(), {}, self.options());
  if (self.numel() == 0) {
    Margin::nothing(reduction, output);
    return {output, is_target};
  }
  const at::Tensor flags = is_target.is_contiguous() ? is_target : new_like(is_target);
  m.problem.is_target = flags.mutable_data_ptr();
  m.forward(ops::MarginKind::multilabel, reduction, output);
  if (!flags.is_same(is_target)) is_target.copy_(flags);
  return {output, is_target};
}

std::tuple<at::Tensor, at::Tensor> multilabel_margin_loss_forward(const at::Tensor& self, const at::Tensor& target,
                                                                  int64_t reduction) {
  at::Tensor output = new_empty({0}, self.scalar_type()), is_target = new_empty({0}, self.scalar_type());
  multilabel_margin_loss_forward_output(self, target, reduction, output, is_target);
  return {output, is_target};
}

at::Tensor& multilabel_margin_loss_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                       const at::Tensor& target, int64_t reduction,
                                                       const at::Tensor& is_target, at::Tensor& grad_input) {
  int64_t rows = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(rows, classes, self.dim(), self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes() && is_target.scalar_type() == self.scalar_type(),
              "inconsistent is_target: ", is_target.sizes(), " of ", is_target.scalar_type());
  resize_out(grad_input, self.sizes(), {}, self.options());
  if (self.numel() == 0) return grad_input;
  Margin m(self, target, {}, rows, classes);
  const at::Tensor flags = is_target.contiguous();
  m.problem.is_target = flags.mutable_data_ptr();
  m.backward(ops::MarginKind::multilabel, grad_output, reduction, grad_input);
  return grad_input;
}

at::Tensor multilabel_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, int64_t reduction, const at::Tensor& is_target) {
  at::Tensor grad_input = new_like(self);
  return multilabel_margin_loss_backward_grad_input(grad_output, self, target, reduction, is_target, grad_input);
}

}  // namespace xpu_ops::aten
