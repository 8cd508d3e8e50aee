// Three-operand pointwise operators whose kernel depends on which tensors are given.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/small_dense.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "gen/aten/binary_ops.hpp"
#include "gen/aten/ternary_ops.hpp"

namespace xpu_ops::aten {

// Upstream's meta builds a binary iterator where one bound is missing.
void clamp_Tensor(at::TensorIteratorBase& iterator, const at::Tensor&, at::OptionalTensorRef min,
                  at::OptionalTensorRef max, const at::Tensor&) {
  if (min && max)
    pointwise(iterator, k_clamp_Tensor);
  else
    pointwise(iterator, min ? k_maximum : k_minimum);
}

namespace {

// `value`: 0-dim, of self's type, on its device or the CPU.
at::Tensor& masked_fill(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  if (const SmallDense small(k_where_self, &self, {&mask, &value, &self}); small) {
    small.run(self, {});
    return self;
  }
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  TORCH_CHECK(self.device() == mask.device(), "expected self and mask to be on the same device, but got mask on ",
              mask.device(), " and self on ", self.device());
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes)
    TORCH_WARN(
        "Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. "
        "This also applies to advanced indexing e.g. tensor[mask] = scalar");
  at::assert_no_partial_overlap(self, mask);
  const c10::MaybeOwned<at::Tensor> expanded = at::expand_inplace(self, mask, "masked_fill_");
  auto it = at::TensorIteratorConfig()
                .set_check_mem_overlap(false)
                .check_all_same_dtype(false)
                .resize_outputs(false)
                .allow_cpu_scalars(true)
                .add_output(self)
                .add_const_input(*expanded)
                .add_const_input(value)
                .add_const_input(self)
                .build();
  pointwise(it, k_where_self);
  return self;
}

}  // namespace

at::Tensor& masked_fill__Scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  // An error where 16 bits do not hold the number, of which a single element on the CPU would make infinity.
  if (at::isReducedFloatingType(self.scalar_type())) (void)element_of(value, self.scalar_type());
  return masked_fill(self, mask, at::scalar_tensor(value, at::dtype(self.scalar_type()).device(at::kCPU)));
}

at::Tensor& masked_fill__Tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  // A value that self's type may not hold is read, so that it is refused as on the CPU.
  if (value.is_cpu() || c10::promoteTypes(value.scalar_type(), self.scalar_type()) != self.scalar_type())
    return masked_fill__Scalar(self, mask, value.item());
  return masked_fill(self, mask, value.to(self.scalar_type()));
}

}  // namespace xpu_ops::aten
