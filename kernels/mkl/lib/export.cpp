// The one symbol that libxpu_ops_mkl.so shows.
#include <mkl_service.h>

#include "kernels/mkl/lib/blas.hpp"
#include "kernels/mkl/lib/dft.hpp"
#include "kernels/mkl/lib/lapack.hpp"

namespace xpu_ops::mkl {
namespace {

const char* library_version() {
  static char text[198];
  static const bool asked = (mkl_get_version_string(text, sizeof text), true);
  (void)asked;
  return text;
}

constexpr Table kTable{.version = kTableVersion,
                       .fft_host_plan = fft_host_plan,
                       .library_version = library_version,
                       .potrf = potrf,
                       .potri = potri,
                       .potrs = potrs,
                       .getrf = getrf,
                       .getrs = getrs,
                       .trsm = trsm,
                       .geqrf = geqrf,
                       .orgqr = orgqr,
                       .ormqr = ormqr,
                       .gesdd = gesdd,
                       .syevd = syevd,
                       .geev = geev,
                       .lstsq = lstsq,
                       .sytrf = sytrf,
                       .sytrs = sytrs,
                       .gemm = gemm};

}  // namespace
}  // namespace xpu_ops::mkl

extern "C" __attribute__((visibility("default"))) const xpu_ops::mkl::Table* xpu_ops_mkl_table() {
  return &xpu_ops::mkl::kTable;
}
