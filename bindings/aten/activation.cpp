// Activations whose operands are halves of a tensor, or whose layouts follow another order than the schema's.
#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/glu_backward_jvp_native.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/threshold.h>

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/small_dense.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/torch_compat.hpp"
#include "gen/aten/activation_ops.hpp"

namespace xpu_ops::aten {
namespace {

struct Halves { at::Tensor first, second; };

Halves halves(const at::Tensor& t, int64_t dim) {
  const int64_t n = t.size(dim) / 2;
  return {t.narrow(dim, 0, n), t.narrow(dim, n, n)};
}

int64_t checked_dim(const at::Tensor& self, int64_t dim) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(self.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ",
              self.size(dim));
  return dim;
}

// The bounds of hardtanh, whose fractions torch cuts off for integers.
struct Bounds {
  ScalarArg low, high;
  Bounds(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max)
      : low{whole(self, min), ScalarArg::lower}, high{whole(self, max), ScalarArg::upper} {
    XPU_OPS_CHECK_TYPE(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
    check_hardtanh(self, low.value, high.value);
  }

 private:
  static at::Scalar whole(const at::Tensor& self, const at::Scalar& bound) {
    return c10::isIntegralType(self.scalar_type(), false) ? at::Scalar(bound.to<int64_t>()) : bound;
  }
};

}  // namespace

at::Tensor hardtanh(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max) {
  const Bounds bounds(self, min, max);
  if (const SmallDense small(k_hardtanh, nullptr, {&self}); small) return small.run({bounds.low, bounds.high});
  auto it = make_iterator(Promotion::unary, k_hardtanh, {at::Tensor()}, {self});
  pointwise(it, k_hardtanh, {bounds.low, bounds.high});
  return it.output(0);
}

at::Tensor& hardtanh_out(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max, at::Tensor& out) {
  const Bounds bounds(self, min, max);
  if (const SmallDense small(k_hardtanh, &out, {&self}); small) {
    small.run(out, {bounds.low, bounds.high});
    return out;
  }
  auto it = make_iterator(Promotion::unary, k_hardtanh, {out}, {self});
  pointwise(it, k_hardtanh, {bounds.low, bounds.high});
  return out;
}

at::Tensor& hardtanh_(at::Tensor& self, const at::Scalar& min, const at::Scalar& max) {
  return hardtanh_out(self, min, max, self);
}

at::Tensor& glu_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self, int64_t dim,
                                    at::Tensor& grad_input) {
  dim = checked_dim(self, dim);
  grad_input.resize_as_(self);
  const Halves in = halves(self, dim), out = halves(grad_input, dim);
  auto it = at::TensorIteratorConfig()
                .add_owned_output(out.first)
                .add_owned_output(out.second)
                .add_const_input(grad_output)
                .add_owned_const_input(in.first)
                .add_owned_const_input(in.second)
                .resize_outputs(false)
                .build();
  pointwise(it, k_glu_backward);
  return grad_input;
}

at::Tensor glu_backward(const at::Tensor& grad_output, const at::Tensor& self, int64_t dim) {
  at::Tensor grad_input = at::empty({0}, self.options());
  glu_backward_grad_input(grad_output, self, dim, grad_input);
  return grad_input;
}

// An iterator of its own: that of upstream's meta borrows halves that are gone when meta returns.
void glu(at::TensorIteratorBase&, const at::Tensor& self, int64_t dim, const at::Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = out.size(dim);
  const at::Tensor value = self.narrow(dim, 0, n), gate = self.narrow(dim, n, n);
  auto it = at::TensorIteratorConfig()
                .add_output(out)
                .add_const_input(value)
                .add_const_input(gate)
                .resize_outputs(false)
                .promote_inputs_to_common_dtype(true)
                .cast_common_dtype_to_outputs(true)
                .enforce_safe_casting_to_output(true)
                .build();
  pointwise(it, k_glu);
}

at::Tensor glu_jvp(const at::Tensor& glu, const at::Tensor& x, const at::Tensor& dx, int64_t dim) {
  dim = at::maybe_wrap_dim(dim, x.dim());
  const int64_t n = glu.size(dim);
  const at::Tensor gate = x.narrow(dim, n, n), da = dx.narrow(dim, 0, n), db = dx.narrow(dim, n, n);
  at::Tensor out = at::empty_like(glu);
  auto it = at::TensorIteratorConfig()
                .add_output(out)
                .add_const_input(glu)
                .add_const_input(gate)
                .add_const_input(da)
                .add_const_input(db)
                .build();
  pointwise(it, k_glu_jvp);
  return out;
}

at::Tensor _prelu_kernel(const at::Tensor& self, const at::Tensor& weight) {
  TORCH_CHECK(weight.scalar_type() == self.scalar_type(), "Found dtype ", weight.scalar_type(), " but expected ",
              self.scalar_type());
  auto it =
      at::TensorIteratorConfig().add_owned_output(at::Tensor()).add_const_input(self).add_const_input(weight).build();
  pointwise(it, k__prelu_kernel);
  return it.output(0);
}

// The gradient has the type of self, whatever that of grad_output.
at::Tensor mish_backward(const at::Tensor& grad_output, const at::Tensor& self) {
  at::Tensor grad_input = new_empty({0}, self.scalar_type());
  auto it = at::TensorIterator::binary_op(grad_input, grad_output, self);
  pointwise(it, k_mish_backward);
  return it.output(0);
}

// The gradients take their layout from self, then weight: their order in the iterator.
std::tuple<at::Tensor, at::Tensor> _prelu_kernel_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                                          const at::Tensor& weight) {
  for (const at::Tensor* t : {&weight, &grad_output})
    TORCH_CHECK(t->scalar_type() == self.scalar_type(), "Found dtype ", t->scalar_type(), " but expected ",
                self.scalar_type(), " (in _prelu_kernel_backward)");
  auto it = at::TensorIteratorConfig()
                .add_owned_output(at::Tensor())
                .add_owned_output(at::Tensor())
                .add_const_input(self)
                .add_const_input(weight)
                .add_const_input(grad_output)
                .build();
  pointwise(it, k__prelu_kernel_backward);
  return {it.output(0), it.output(1)};
}

namespace {

void log_sigmoid(const at::Tensor& self, const at::Tensor& output, const at::Tensor& buffer) {
  auto it = at::TensorIteratorConfig().add_output(output).add_output(buffer).add_const_input(self).build();
  pointwise(it, k_log_sigmoid_forward);
}

}  // namespace

// Both results are contiguous, as on the CPU.
std::tuple<at::Tensor, at::Tensor> log_sigmoid_forward(const at::Tensor& self) {
  at::Tensor output = new_empty(self.sizes(), self.scalar_type()), buffer = new_empty(self.sizes(), self.scalar_type());
  log_sigmoid(self, output, buffer);
  return {output, buffer};
}

std::tuple<at::Tensor&, at::Tensor&> log_sigmoid_forward_output(const at::Tensor& self, at::Tensor& output,
                                                                at::Tensor& buffer) {
  output.resize_as_(self);
  buffer.resize_as_(self, at::MemoryFormat::Contiguous);
  log_sigmoid(self, output, buffer);
  return {output, buffer};
}

// The operands in the CPU's order, which decides the layout of an out and what a wrong type is held against.
at::Tensor& log_sigmoid_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                            const at::Tensor& buffer, at::Tensor& grad_input) {
  auto it = make_iterator(Promotion::unary, k_log_sigmoid_backward, {grad_input}, {self, buffer, grad_output});
  pointwise(it, k_log_sigmoid_backward);
  return grad_input;
}

at::Tensor log_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& buffer) {
  at::Tensor grad_input = at::empty_like(grad_output);
  return log_sigmoid_backward_grad_input(grad_output, self, buffer, grad_input);
}

at::Tensor glu_backward_jvp(const at::Tensor& grad_x, const at::Tensor& grad_glu, const at::Tensor& x,
                            const at::Tensor& dgrad_glu, const at::Tensor& dx, int64_t dim) {
  // upstream composes it from other operators, but only for the devices it names
  return at::native::glu_backward_jvp(grad_x, grad_glu, x, dgrad_glu, dx, dim);
}

namespace {

const PointwiseOp& gated_unit(std::string_view activation) {
  if (activation == "silu") return k_gated_unit_silu;
  if (activation == "gelu") return k_gated_unit_gelu;
  if (activation == "gelu_tanh") return k_gated_unit_gelu_tanh;
  if (activation == "fatrelu") return k_gated_unit_fatrelu;
  if (activation == "situ") return k_gated_unit_situ;
  if (activation == "swigluoai") return k_gated_unit_swigluoai;
  TORCH_CHECK_VALUE(activation == "swiglustep", "unknown activation of a gated unit: ", activation);
  return k_gated_unit_swiglustep;
}

void check_gated_unit(const at::Tensor& out, const at::Tensor& gate, const at::Tensor& up) {
  for (const at::Tensor* t : {&gate, &up})
    TORCH_CHECK(t->sym_sizes() == out.sym_sizes() && t->scalar_type() == out.scalar_type(),
                "expected operands like the output, ", out.sym_sizes(), " of ", out.scalar_type(), ", got ",
                t->sym_sizes(), " of ", t->scalar_type());
}

}  // namespace

void _gated_unit(at::Tensor& out, const at::Tensor& gate, const at::Tensor& up, std::string_view activation,
                 double first, double second) {
  const PointwiseOp& op = gated_unit(activation);
  check_gated_unit(out, gate, up);
  auto it = at::TensorIteratorConfig()
                .add_output(out)
                .add_const_input(gate)
                .add_const_input(up)
                .resize_outputs(false)
                .build();
  pointwise(it, op, {{first}, {second}});
  mark_written(out);
}

void _gated_unit_composite(at::Tensor& out, const at::Tensor& gate, const at::Tensor& up, std::string_view activation,
                           double first, double second) {
  const PointwiseOp& op = gated_unit(activation);
  check_gated_unit(out, gate, up);
  const auto limited = [&](const at::Tensor& t) { return at::clamp(t, -second, second); };
  if (&op == &k_gated_unit_silu) {
    out.copy_(at::silu(gate) * up);
  } else if (&op == &k_gated_unit_gelu) {
    out.copy_(at::gelu(gate) * up);
  } else if (&op == &k_gated_unit_gelu_tanh) {
    out.copy_(at::gelu(gate, "tanh") * up);
  } else if (&op == &k_gated_unit_fatrelu) {
    out.copy_(at::threshold(gate, first, 0) * up);
  } else if (&op == &k_gated_unit_situ) {
    const at::Tensor bent = at::tanh(gate / first) * first * at::sigmoid(gate);
    out.copy_(bent * (second > 0 ? at::tanh(up / second) * second : up));
  } else if (&op == &k_gated_unit_swigluoai) {
    const at::Tensor below = at::clamp_max(gate, second);
    out.copy_(at::sigmoid(below * first) * below * (limited(up) + 1));
  } else {
    out.copy_(at::clamp_max(at::silu(gate), second) * limited(up));
  }
}

}  // namespace xpu_ops::aten
