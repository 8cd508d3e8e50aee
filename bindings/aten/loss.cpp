// Losses: dense operands to one elementwise launch, or to partial sums and one launch that ends them.
#include <atomic>
#include <bit>
#include <cmath>

#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>

#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "gen/kernels/loss_kernels.hpp"
#include "kernels/runtime/allocator.hpp"
#include "kernels/runtime/device_error.hpp"
#include "kernels/runtime/launch.hpp"
#include "kernels/sycl/loss_args.hpp"

namespace xpu_ops::aten {
namespace {

constexpr size_t kLanes = 16;      // items of one work-group of partial sums
constexpr int64_t kNllShare = 16;  // what a target costs on the calling thread, in units of Queue::may_run_inline

// The kernels of one kind of loss.
struct LossKernels { const runtime::KernelTable &point, &back, &partial; };
const LossKernels& kernels_of(LossKind kind) {
  static const LossKernels all[] = {
      {kernels::loss_point_mse, kernels::loss_back_mse, kernels::loss_partial_mse},
      {kernels::loss_point_smooth_l1, kernels::loss_back_smooth_l1, kernels::loss_partial_smooth_l1},
      {kernels::loss_point_huber, kernels::loss_back_huber, kernels::loss_partial_huber},
      {kernels::loss_point_bce, kernels::loss_back_bce, kernels::loss_partial_bce},
  };
  return all[static_cast<int>(kind)];
}

LossScalar scalar(double v) { return {static_cast<float>(v), std::bit_cast<int64_t>(v)}; }

// Work-groups of partial sums over n elements.
size_t partial_groups(size_t n) { return std::clamp<size_t>(runtime::ceil_div(n, 4096), 1, 64); }

size_t accumulate_size(const at::Tensor& t) { return t.scalar_type() == at::kDouble ? 8 : 4; }

uint32_t checked_count(int64_t n) {
  TORCH_CHECK_NOT_IMPLEMENTED(n < (int64_t{1} << 31), "losses over more than 2^31 elements");
  return static_cast<uint32_t>(n);
}

void finish_sum(const at::Tensor& out, const void* partial, size_t count, double divisor,
                const at::Tensor& total_weight = {}, bool mean = false) {
  LossFinishArgs f{};
  f.partial = partial;
  f.out = out.mutable_data_ptr();
  f.total_weight = total_weight.defined() ? total_weight.mutable_data_ptr() : nullptr;
  f.count = static_cast<uint32_t>(count);
  f.mean = mean;
  f.divisor = scalar(divisor);
  runtime::launch(runtime::current_queue(), kernels::loss_finish[dtype_of(out)], 1, 1, f);
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
  const std::vector<at::Tensor> t = aligned({self, target, weight}, out.scalar_type());
  const DType type = dtype_of(out);
  LossArgs p{};
  p.input = t[0].const_data_ptr();
  p.target = t[1].const_data_ptr();
  p.weight = weight.defined() ? t[2].const_data_ptr() : nullptr;
  p.n = checked_count(t[0].numel());
  p.param = scalar(param);
  runtime::Queue& queue = runtime::current_queue();
  if (kind == LossKind::bce) p.error = runtime::error_flag(queue.device);
  if (reduction == at::Reduction::None) {
    runtime::KernelSlot& kernel = kernels_of(kind).point[type];
    const bool direct = out.strides() == t[0].strides();
    const at::Tensor dense = direct ? out : new_strided(t[0].sizes(), t[0].strides(), out.scalar_type());
    p.out = dense.mutable_data_ptr();
    runtime::launch(queue, kernel, runtime::ceil_div(p.n, 1024), 1024, p);
    if (!direct) out.copy_(dense);
  } else {
    const size_t groups = partial_groups(p.n), count = groups * kLanes;
    runtime::Scratch partial(count * accumulate_size(out));
    p.out = partial.get();
    runtime::launch(queue, kernels_of(kind).partial[type], groups, kLanes, p);
    finish_sum(out, partial.get(), count, reduction == at::Reduction::Mean ? static_cast<double>(p.n) : 1.0);
  }
  if (p.error) runtime::check_kernel_errors(queue);
}

// What torch's TensorIterator does with the gradient of a pair: the operands, grad_output among them, broadcast and
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
  LossArgs p{};
  p.input = t[0].const_data_ptr();
  p.target = t[1].const_data_ptr();
  p.weight = weight.defined() ? t[2].const_data_ptr() : nullptr;
  p.grad = grad.const_data_ptr();
  p.grad_scalar = one;
  p.n = checked_count(t[0].numel());
  p.param = scalar(param);
  p.scale = scalar(reduction == at::Reduction::Mean ? factor / static_cast<double>(self.numel()) : factor);
  const bool direct = grad_input.strides() == t[0].strides();
  const at::Tensor dense = direct ? grad_input : new_strided(t[0].sizes(), t[0].strides(), grad_input.scalar_type());
  p.out = dense.mutable_data_ptr();
  runtime::launch(runtime::current_queue(), kernels_of(kind).back[dtype_of(grad_input)], runtime::ceil_div(p.n, 1024),
                  1024, p);
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
  at::native::resize_output(out, reduced(self, target, reduction));
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
  NllArgs args{};
  // `self` is [C], [N, C] or [N, C, H, W]; `target` has one element for each of N * H * W.
  Nll(const at::Tensor& self, const at::Tensor& target_, const at::Tensor& weight_, int64_t ignore_index) {
    const bool bytes = target_.scalar_type() == at::kByte && self.dim() <= 2;
    TORCH_CHECK(bytes || target_.scalar_type() == at::kLong, "expected scalar type Long but found ",
                target_.scalar_type());
    TORCH_CHECK(!weight_.defined() || weight_.scalar_type() == self.scalar_type(), "expected scalar type ",
                self.scalar_type(), " but found ", weight_.defined() ? weight_.scalar_type() : at::kFloat);
    target = target_.contiguous();
    if (weight_.defined()) weight = weight_.contiguous();
    const int64_t classes = self.dim() == 1 ? self.size(0) : self.size(1);
    const int64_t spatial = self.dim() == 4 ? self.size(2) * self.size(3) : 1;
    TORCH_CHECK_NOT_IMPLEMENTED(classes * std::max<int64_t>(spatial, 1) < (int64_t{1} << 31), "nll_loss over rows of ",
                                classes * spatial, " elements");
    args.target = target.const_data_ptr();
    args.weight = weight.defined() ? weight.const_data_ptr() : nullptr;
    args.error = runtime::error_flag(runtime::current_queue().device);
    args.ignore_index = ignore_index;
    args.n = checked_count(target.numel());
    args.classes = static_cast<uint32_t>(classes);
    args.byte_target = bytes;
    args.spatial = xpu::make_divider(static_cast<uint32_t>(std::max<int64_t>(spatial, 1)));
  }
};

// As report_error of device code: raised at the next synchronisation, too.
void report_here(DeviceError* flag, const DeviceError& error) {
  uint32_t expected = 0;
  if (!std::atomic_ref<uint32_t>(flag->code).compare_exchange_strong(expected, error.code)) return;
  flag->dim = error.dim;
  flag->value = error.value;
  flag->size = error.size;
}

// What nll_partial and loss_finish do with one work-group, on the calling thread: sums of every sixteenth target, added
// as loss_total adds. Without weights: there is no product that a compiler may round with its sum.
template <class T>
void nll_sum_here(const NllArgs& p, void* output, void* total_weight, bool mean) {
  const T* input = static_cast<const T*>(p.input);
  T sums[kLanes] = {}, totals[kLanes] = {};
  for (uint32_t i = 0; i < p.n; ++i) {
    const int64_t t =
        p.byte_target ? static_cast<const uint8_t*>(p.target)[i] : static_cast<const int64_t*>(p.target)[i];
    if (t == p.ignore_index) continue;
    if (static_cast<uint64_t>(t) >= p.classes) {
      report_here(p.error, {static_cast<uint32_t>(DeviceErrorCode::target), 1, t, p.classes});
      continue;
    }
    const uint32_t row = i / p.spatial.d, s = i - row * p.spatial.d;
    sums[i % kLanes] -= input[(static_cast<int64_t>(row) * p.classes + t) * p.spatial.d + s];
    totals[i % kLanes] += T(1);
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half], totals[j] += totals[j + half];
  const T sum = sums[0], total = totals[0];
  *static_cast<T*>(total_weight) = total;
  *static_cast<T*>(output) = mean ? sum / total : sum;
}

void nll_forward(const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight, int64_t reduction,
                 int64_t ignore_index, const at::Tensor& output, const at::Tensor& total_weight) {
  Nll nll(self, target, weight, ignore_index);
  NllArgs& p = nll.args;
  const DType type = dtype_of(self);
  runtime::KernelSlot& point = kernels::nll_point[type];
  const at::Tensor input = self.contiguous();
  p.input = input.const_data_ptr();
  runtime::Queue& queue = runtime::current_queue();
  const size_t groups = partial_groups(p.n), count = groups * kLanes;
  const auto here = [&] {
    if (groups != 1 || p.weight || (self.scalar_type() != at::kFloat && self.scalar_type() != at::kDouble))
      return false;
    void *const sum = output.mutable_data_ptr(), *const total = total_weight.mutable_data_ptr();
    const auto run = self.scalar_type() == at::kFloat ? &nll_sum_here<float> : &nll_sum_here<double>;
    return queue.run_inline(int64_t{p.n} * kNllShare, [&] { run(p, sum, total, reduction == at::Reduction::Mean); });
  };
  // One sample is its own sum, and has a weight.
  if (reduction == at::Reduction::None && self.dim() > 1) {
    const at::Tensor dense = output.is_contiguous() ? output : new_like(output);
    p.out = dense.mutable_data_ptr();
    runtime::launch(queue, point, runtime::ceil_div(p.n, 256), 256, p);
    if (!dense.is_same(output)) output.copy_(dense);
    total_weight.zero_();
  } else if (!here()) {
    runtime::Scratch partial(2 * count * accumulate_size(self));
    p.out = partial.get();
    runtime::launch(queue, kernels::nll_partial[type], groups, kLanes, p);
    finish_sum(output, partial.get(), count, 1, total_weight, reduction == at::Reduction::Mean);
  }
  runtime::check_kernel_errors(queue);
}

void nll_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                  const at::Tensor& weight, int64_t reduction, int64_t ignore_index, const at::Tensor& total_weight,
                  const at::Tensor& grad_input) {
  if (grad_input.numel() == 0) return;
  Nll nll(self, target, weight, ignore_index);
  NllArgs& p = nll.args;
  const at::Tensor grad = grad_output.contiguous();
  const at::Tensor dense = grad_input.is_contiguous() ? grad_input : new_like(grad_input);
  p.input = grad.const_data_ptr();
  p.total_weight = total_weight.const_data_ptr();
  p.out = dense.mutable_data_ptr();
  p.grad_scalar = reduction != at::Reduction::None || grad.numel() == 1;
  p.mean = reduction == at::Reduction::Mean;
  fill_device(dense, 0);
  runtime::launch(runtime::current_queue(), kernels::nll_back[dtype_of(self)], runtime::ceil_div(p.n, 256), 256, p);
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
  MarginArgs args{};
  Margin(const at::Tensor& self, const at::Tensor& target_, const at::Tensor& weight_, int64_t rows, int64_t classes) {
    TORCH_CHECK(target_.scalar_type() == at::kLong, "expected scalar type Long but found ", target_.scalar_type());
    TORCH_CHECK(!weight_.defined() || weight_.scalar_type() == self.scalar_type(), "expected scalar type ",
                self.scalar_type(), " but found ", weight_.defined() ? weight_.scalar_type() : at::kFloat);
    input = self.contiguous();
    target = target_.contiguous();
    if (weight_.defined()) weight = weight_.contiguous();
    args.input = input.const_data_ptr();
    args.target = target.const_data_ptr<int64_t>();
    args.weight = weight.defined() ? weight.const_data_ptr() : nullptr;
    args.error = runtime::error_flag(runtime::current_queue().device);
    args.rows = checked_count(rows);
    args.classes = checked_count(classes);
  }

  // Row losses into `out`, summed where a reduction asks for it.
  void forward(const runtime::KernelTable& table, int64_t reduction, const at::Tensor& out) {
    runtime::Queue& queue = runtime::current_queue();
    const at::Tensor losses = new_empty({static_cast<int64_t>(args.rows)}, input.scalar_type());
    args.out = losses.mutable_data_ptr();
    runtime::launch(queue, table[dtype_of(input)], runtime::ceil_div(args.rows, 64), 64, args);
    if (reduction == at::Reduction::None)
      out.copy_(losses.view(out.sizes()));
    else
      finish_sum(out, losses.const_data_ptr(), args.rows, reduction == at::Reduction::Mean ? args.rows : 1);
    runtime::check_kernel_errors(queue);
  }

  // Upstream leaves the loss of an empty batch to what the memory held.
  static void nothing(int64_t reduction, at::Tensor out) {
    if (out.numel() != 0) out.fill_(reduction == at::Reduction::Mean ? NAN : 0.0);
  }

  void backward(const runtime::KernelTable& table, const at::Tensor& grad_output, int64_t reduction,
                const at::Tensor& grad_input) {
    const at::Tensor grad = grad_output.contiguous();
    const at::Tensor dense = grad_input.is_contiguous() ? grad_input : new_like(grad_input);
    args.grad = grad.const_data_ptr();
    args.grad_scalar = reduction != at::Reduction::None || grad.numel() == 1;
    const double rows = reduction == at::Reduction::Mean ? args.rows : 1;
    args.scale = scalar(1.0 / (rows * args.classes));
    args.out = dense.mutable_data_ptr();
    runtime::launch(runtime::current_queue(), table[dtype_of(input)], runtime::ceil_div(args.rows, 64), 64, args);
    if (!dense.is_same(grad_input)) grad_input.copy_(dense);
  }
};

Margin multi_margin_args(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                         const at::Scalar& margin, const std::optional<at::Tensor>& weight) {
  int64_t rows = 0, classes = 0;
  at::native::multi_margin_loss_shape_check(rows, classes, self.dim(), self, target, weight);
  const int64_t power = p.toLong();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  Margin m(self, target, optional(weight), rows, classes);
  m.args.square = power == 2;
  m.args.margin = scalar(margin.toDouble());
  return m;
}

}  // namespace

at::Tensor& multi_margin_loss_out(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                                  const at::Scalar& margin, const std::optional<at::Tensor>& weight, int64_t reduction,
                                  at::Tensor& out) {
  Margin m = multi_margin_args(self, target, p, margin, weight);
  const std::vector<int64_t> sizes =
      reduction == at::Reduction::None && target.dim() > 0 ? std::vector<int64_t>{m.args.rows} : std::vector<int64_t>{};
  resize_out(out, sizes, {}, self.options());
  if (self.numel() != 0)
    m.forward(kernels::multi_margin, reduction, out);
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
  Margin m = multi_margin_args(self, target, p, margin, weight);
  resize_out(grad_input, self.sizes(), {}, self.options());
  if (self.numel() != 0) m.backward(kernels::multi_margin_back, grad_output, reduction, grad_input);
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
  m.args.is_target = flags.mutable_data_ptr();
  m.forward(kernels::multilabel_margin, reduction, output);
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
  Margin m(self, target, {}, rows, classes);
  resize_out(grad_input, self.sizes(), {}, self.options());
  if (self.numel() == 0) return grad_input;
  const at::Tensor flags = is_target.contiguous();
  m.args.is_target = flags.mutable_data_ptr();
  m.backward(kernels::multilabel_margin_back, grad_output, reduction, grad_input);
  return grad_input;
}

at::Tensor multilabel_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, int64_t reduction, const at::Tensor& is_target) {
  at::Tensor grad_input = new_like(self);
  return multilabel_margin_loss_backward_grad_input(grad_output, self, target, reduction, is_target, grad_input);
}

}  // namespace xpu_ops::aten
