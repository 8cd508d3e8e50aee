// Adapters of softmax and log_softmax.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>

#include "bindings/aten/core/tensor.hpp"
#include "gen/aten/softmax_ops.hpp"
#include "kernels/ops/softmax.hpp"

namespace xpu_ops::aten {
namespace {

// `y` is undefined in the forward direction.
void run(bool log, const at::Tensor& x, const at::Tensor& y, int64_t dim, const at::Tensor& out) {
  if (y.defined()) check_scalar_type(y, x.scalar_type());
  if (out.numel() == 0) return;
  const at::Tensor in = x.contiguous();
  at::Tensor result = out.is_contiguous() ? out : new_empty(out.sizes(), out.scalar_type());
  ops::SoftmaxProblem problem;
  problem.x = in.const_data_ptr();
  const at::Tensor saved = y.defined() ? y.contiguous() : at::Tensor();
  if (saved.defined()) problem.y = saved.const_data_ptr();
  problem.out = result.mutable_data_ptr();
  int64_t outer = 1, inner = 1, n = 1;
  if (in.dim() > 0) {
    dim = at::maybe_wrap_dim(dim, in.dim());
    n = in.size(dim);
    for (int64_t d = 0; d < dim; ++d) outer *= in.size(d);
    for (int64_t d = dim + 1; d < in.dim(); ++d) inner *= in.size(d);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(outer < INT32_MAX && n < INT32_MAX && inner < INT32_MAX,
                              "softmax over tensors with 2^31 and more rows is not supported");
  problem.outer = static_cast<uint32_t>(outer);
  problem.dim = static_cast<uint32_t>(n);
  problem.inner = static_cast<uint32_t>(inner);
  ops::softmax(runtime::current_queue(), log, dtype_of(in), dtype_of(out), problem);
  if (!result.is_same(out)) out.copy_(result);
}

}  // namespace

void _softmax(const at::Tensor& self, int64_t dim, bool, const at::Tensor& out) {
  run(/*log=*/false, self, at::Tensor(), dim, out);
}

void _log_softmax(const at::Tensor& self, int64_t dim, bool, const at::Tensor& out) {
  run(/*log=*/true, self, at::Tensor(), dim, out);
}

void _softmax_backward_data(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim, at::ScalarType,
                            const at::Tensor& grad_input) {
  run(/*log=*/false, grad_output, output, dim, grad_input);
}

void _log_softmax_backward_data(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim, at::ScalarType,
                                const at::Tensor& out) {
  run(/*log=*/true, grad_output, output, dim, out);
}

// A true mask hides an element. mask_type: 0 the mask is (L, L), 1 it is (B, L), 2 it has the input's shape, which any
// type may have.
at::Tensor _masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> dim,
                           std::optional<int64_t> mask_type) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  const bool whole = mask.sizes() == self.sizes();
  TORCH_CHECK(whole || mask_type.has_value(), "Mask Type should be defined");
  TORCH_CHECK(!mask_type.has_value() || (*mask_type >= 0 && *mask_type <= 2),
              "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
  at::Tensor wide = mask;
  if (!whole) {
    TORCH_CHECK(*mask_type != 2, "For mask_type == 2 mask shape should match input shape");
    TORCH_CHECK(*mask_type != 0 || (mask.dim() == 2 && self.dim() >= 2 && mask.size(0) == self.size(-2) &&
                                    mask.size(1) == self.size(-1)),
                "For mask_type == 0 mask shape should be (L, L)");
    TORCH_CHECK(*mask_type != 1 || (mask.dim() == 2 && self.dim() == 4 && mask.size(0) == self.size(0) &&
                                    mask.size(1) == self.size(3)),
                "For mask_type == 1 mask shape should be (B, L)");
    if (*mask_type == 1) wide = mask.view({mask.size(0), 1, 1, mask.size(1)});
  }
  return at::_softmax(self.masked_fill(wide, -std::numeric_limits<double>::infinity()), dim.value_or(self.dim() - 1),
                      false);
}

at::Tensor _masked_softmax_backward(const at::Tensor& grad_output, const at::Tensor& output, const at::Tensor& mask,
                                    std::optional<int64_t> dim) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  TORCH_CHECK(mask.sizes() == grad_output.sizes(), "Mask shape should match grad shape");
  return at::_softmax_backward_data(grad_output.masked_fill(mask, 0), output.masked_fill(mask, 0),
                                    dim.value_or(output.dim() - 1), output.scalar_type())
      .masked_fill(mask, 0);
}

}  // namespace xpu_ops::aten
