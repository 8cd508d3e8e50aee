// Operators that autocast runs in float32 on this device beside those that torch lists for XPU: transforms and
// factorisations have no lower precision. As torch lists them for AutocastCPU.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace xpu_ops {
namespace {

constexpr const char* kInFloat[] = {
    "fft_fft", "fft_ifft", "fft_fft2", "fft_ifft2", "fft_fftn", "fft_ifftn", "fft_rfft", "fft_irfft", "fft_rfft2",
    "fft_irfft2", "fft_rfftn", "fft_irfftn", "fft_hfft", "fft_ihfft", "fft_hfft2", "fft_ihfft2", "fft_hfftn",
    "fft_ihfftn", "stft", "stft.center",
    // linear algebra
    "_lu_with_info", "cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "inverse", "linalg_cholesky",
    "linalg_cholesky_ex", "linalg_cond", "linalg_cond.p_str", "linalg_eig", "linalg_eigh", "linalg_eigvals",
    "linalg_eigvalsh", "linalg_householder_product", "linalg_inv", "linalg_inv_ex", "linalg_lstsq",
    "linalg_matrix_rank", "linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.atol_rtol_tensor",
    "linalg_matrix_rank.tol_tensor", "linalg_qr", "linalg_solve", "linalg_svd", "linalg_svdvals", "linalg_tensorinv",
    "linalg_tensorsolve", "lu_solve", "orgqr", "ormqr", "pinverse", "qr", "svd", "triangular_solve",
    // torch lists the operators that these composites call, which a traced graph decomposes without calling them
    "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", "_upsample_nearest_exact1d.vec",
    "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec", "upsample_linear1d.vec",
    "upsample_bilinear2d.vec", "upsample_trilinear3d.vec", "upsample_bicubic2d.vec", "_upsample_bilinear2d_aa.vec",
    "_upsample_bicubic2d_aa.vec"};

at::Tensor in_float(const at::Tensor& t) {
  return t.defined() ? at::autocast::cached_cast(at::kFloat, t, c10::DeviceType::XPU) : t;
}

void run_in_float(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard without(c10::DispatchKey::AutocastXPU);
  const size_t n = op.schema().arguments().size();
  for (size_t i = stack->size() - n; i < stack->size(); ++i) {
    c10::IValue& v = (*stack)[i];
    if (v.isTensor()) v = in_float(v.toTensor());
  }
  op.callBoxed(stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutocastXPU, m) {
  for (const char* name : kInFloat) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_in_float>());
}

}  // namespace xpu_ops
