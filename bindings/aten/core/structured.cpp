#include "bindings/aten/core/structured.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

namespace xpu_ops::aten {

at::Tensor create_out(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  return strides.empty() ? new_empty(sizes, dtype, options.memory_format_opt()) : new_strided(sizes, strides, dtype);
}

void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options) {
  check_out_type(out, options.dtype());
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) return;
  if (!strides.empty())
    out.as_strided_(sizes, strides);
  else if (options.memory_format_opt().has_value())
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
}

void check_apart(const at::Tensor& out, const at::Tensor& input) {
  at::assert_no_internal_overlap(out);
  at::assert_no_partial_overlap(out, input);
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ",
              sizes, " should match");
}

}  // namespace xpu_ops::aten
