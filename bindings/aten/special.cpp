// Special functions that are composed of others.
#include <ATen/native/Resize.h>
#include <ATen/ops/can_cast.h>
#include <ATen/ops/mvlgamma.h>

#include "bindings/aten/core/pointwise.hpp"

namespace xpu_ops::aten {

at::Tensor& mvlgamma_out(const at::Tensor& self, int64_t p, at::Tensor& out) {
  const at::Tensor result = at::mvlgamma(self, p);
  TORCH_CHECK(at::can_cast(result.scalar_type(), out.scalar_type()), "mvlgamma: result type ", self.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace xpu_ops::aten
