// Unary operators whose outs follow rules of their own: types that must fit, layouts, integers that are only copied.
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>

#include "bindings/aten/core/tensor.hpp"
#include "gen/aten/unary_ops.hpp"

namespace xpu_ops::aten {
namespace {

void check_frexp(const at::Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "torch.frexp() only supports floating-point dtypes");
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> frexp_Tensor(const at::Tensor& self) {
  check_frexp(self);
  auto it = make_iterator(Promotion::unary, k_frexp_Tensor, {at::Tensor(), at::Tensor()}, {self});
  pointwise(it, k_frexp_Tensor);
  return {it.output(0), it.output(1)};
}

std::tuple<at::Tensor&, at::Tensor&> frexp_Tensor_out(const at::Tensor& self, at::Tensor& mantissa,
                                                      at::Tensor& exponent) {
  check_frexp(self);
  TORCH_CHECK(mantissa.dtype() == self.dtype(), "torch.frexp() expects mantissa to have dtype ", self.dtype(),
              " but got ", mantissa.dtype());
  TORCH_CHECK(exponent.dtype() == at::kInt, "torch.frexp() expects exponent to have int dtype but got ",
              exponent.dtype());
  auto it = make_iterator(Promotion::unary, k_frexp_Tensor, {mantissa, exponent}, {self});
  pointwise(it, k_frexp_Tensor);
  return {mantissa, exponent};
}

// Upstream computes the angle of a complex tensor into a temporary: what is allocated or resized is then contiguous.
at::Tensor angle(const at::Tensor& self) {
  at::Tensor out;
  if (self.is_complex()) out = new_empty(self.sizes(), c10::toRealValueType(self.scalar_type()));
  auto it = make_iterator(Promotion::unary_float, k_angle, {out}, {self});
  pointwise(it, k_angle);
  return it.output(0);
}

at::Tensor& angle_out(const at::Tensor& self, at::Tensor& out) {
  if (self.is_complex() && !out.is_complex()) at::native::resize_output(out, self.sizes());
  auto it = make_iterator(Promotion::unary_float, k_angle, {out}, {self});
  pointwise(it, k_angle);
  return out;
}

at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  if (at::isIntegralType(self.scalar_type(), true)) {
    at::native::resize_output(out, self.sizes());
    return out.copy_(self);
  }
  const auto limit = [](std::optional<double> value, ScalarArg::Kind otherwise) {
    return value ? ScalarArg{*value} : ScalarArg{at::Scalar(), otherwise};
  };
  auto it = make_iterator(Promotion::unary, k_nan_to_num, {out}, {self});
  pointwise(it, k_nan_to_num,
            {ScalarArg{nan.value_or(0.0)}, limit(posinf, ScalarArg::highest), limit(neginf, ScalarArg::lowest)});
  return out;
}

at::Tensor nan_to_num(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                      std::optional<double> neginf) {
  at::Tensor out = at::empty_like(self);
  return nan_to_num_out(self, nan, posinf, neginf, out);
}

at::Tensor& nan_to_num_(at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                        std::optional<double> neginf) {
  return nan_to_num_out(self, nan, posinf, neginf, self);
}

}  // namespace xpu_ops::aten
