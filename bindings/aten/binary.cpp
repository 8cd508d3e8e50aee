// Binary operators whose meta leaves the iterator to the kernel.
#include <ATen/TensorIterator.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/ops/can_cast.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/small_dense.hpp"
#include "bindings/aten/core/structured.hpp"
#include "gen/aten/binary_ops.hpp"

namespace xpu_ops::aten {

// sub with its operands exchanged, so that the layout is other's. Checked as sub is, by torch's meta function; the
// short way has no kernel for bool.
at::Tensor rsub_Tensor(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const std::initializer_list<ScalarArg> number{ScalarArg{alpha, ScalarArg::compute}};
  if (const SmallDense small(k_rsub_Tensor, nullptr, {&other, &self}); small && small.takes(alpha))
    return small.run(number);
  at::native::sub_check(self, other);
  auto it = make_iterator(Promotion::binary, k_rsub_Tensor, {at::Tensor()}, {other, self});
  at::native::alpha_check(it.common_dtype(), alpha);
  pointwise(it, k_rsub_Tensor, number);
  return it.output(0);
}

// As torch, truncated quotients of 16 bits by one number are not rounded first; those by a tensor are.
void div_Tensor_mode(at::TensorIteratorBase& it, const at::Tensor&, const at::Tensor&,
                     std::optional<c10::string_view> rounding_mode, const at::Tensor&) {
  const bool by_one = it.is_scalar(2) && at::isReducedFloatingType(it.common_dtype());
  const bool trunc = rounding_mode && *rounding_mode == "trunc";
  pointwise(it, !rounding_mode    ? k_div_Tensor_mode_null
                : trunc && by_one ? k_div_Tensor_mode_trunc_by_one
                : trunc           ? k_div_Tensor_mode_trunc
                                  : k_div_Tensor_mode_floor);
}

// Small squares run on the calling thread; other powers have no function there. The kernel of powers computes complex
// numbers item by item, so that all of their squares are products.
void pow_Tensor_Scalar(at::TensorIteratorBase& it, const at::Tensor& self, const at::Scalar& exponent,
                       const at::Tensor& out) {
  if (it.common_dtype() == at::kBool) {  // to a bool, which is 0 or 1: torch computes neither
    at::Tensor result = out;
    exponent.toBool() ? result.copy_(self) : result.fill_(1);
    return;
  }
  const bool square = exponent.equal(2);
  if (square && !exponent.isComplex())
    if (const SmallDense small(k_mul_Tensor, &out, {&self, &self}); small) return small.run(out, {});
  if (square && self.is_complex() && self.scalar_type() == out.scalar_type()) {
    at::Tensor result = out;
    at::mul_out(result, self, self);
    return;
  }
  // The exponent as 16 bits hold it, as in torch; one beyond them is an error.
  at::Scalar held = exponent;
  if (it.common_dtype() == at::kHalf) held = static_cast<double>(exponent.to<at::Half>());
  if (it.common_dtype() == at::kBFloat16) held = static_cast<double>(exponent.to<at::BFloat16>());
  pointwise(it, k_pow_Tensor_Scalar, {ScalarArg{held, ScalarArg::compute}});
}

// Upstream's meta allocates a contiguous result, whatever the exponent's layout.
void pow_Scalar(const at::Scalar& base, const at::Tensor& exponent, const at::Tensor& out) {
  if (base.equal(1.0)) {
    out.fill_(1);
    return;
  }
  // The base as the common type holds it, as in torch: 1e-45 is 0 in 16 bits.
  at::Scalar held = base;
  const at::ScalarType type = at::result_type(base, exponent);
  if (type == at::kHalf) held = static_cast<double>(at::Half(base.to<float>()));
  if (type == at::kBFloat16) held = static_cast<double>(at::BFloat16(base.to<float>()));
  at::Tensor result = out;
  at::pow_out(result, number(held), exponent);
}

namespace {

// Whether exponents are integers that scale `self` exactly, however far 2 ** other is out of its range.
bool by_exponent(const at::Tensor& self, const at::Tensor& other) {
  return at::isFloatingType(self.scalar_type()) && at::isIntegralType(other.scalar_type(), /*includeBool=*/true);
}

at::Tensor scale(const at::Tensor& out, const at::Tensor& self, const at::Tensor& other) {
  auto it = at::TensorIteratorConfig()
                .check_all_same_dtype(false)
                .allow_cpu_scalars(true)
                .declare_static_dtype(self.scalar_type())
                .add_output(out)
                .add_const_input(self)
                .add_const_input(other)
                .build();
  pointwise(it, k_ldexp_Tensor);
  return it.output();
}

}  // namespace

at::Tensor ldexp_Tensor(const at::Tensor& self, const at::Tensor& other) {
  // part by part, since a complex factor would turn infinities into NaN
  if (self.is_complex() && at::isIntegralType(other.scalar_type(), /*includeBool=*/true))
    return at::view_as_complex(ldexp_Tensor(at::view_as_real(self.resolve_conj()), other.unsqueeze(-1)).contiguous());
  return by_exponent(self, other) ? scale(at::Tensor(), self, other) : at::mul(self, at::pow(2.0, other));
}

at::Tensor& ldexp_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  if (self.is_complex() && at::isIntegralType(other.scalar_type(), /*includeBool=*/true)) {
    const at::Tensor result = ldexp_Tensor(self, other);
    TORCH_CHECK(at::can_cast(result.scalar_type(), out.scalar_type()), "result type ", result.scalar_type(),
                " can't be cast to the desired output type ", out.scalar_type());
    resize_out(out, result.sizes(), {}, out.options());
    return out.copy_(result);
  }
  if (!by_exponent(self, other) || out.scalar_type() != self.scalar_type())
    return at::mul_out(out, self, at::pow(2.0, other));
  scale(out, self, other);
  return out;
}

at::Tensor& ldexp_(at::Tensor& self, const at::Tensor& other) { return ldexp_out(self, other, self); }

}  // namespace xpu_ops::aten
