// LAPACK and BLAS by element type, from the Fortran interface with 64-bit integers.
#pragma once
#include <complex>

#define MKL_Complex8 std::complex<float>
#define MKL_Complex16 std::complex<double>
#include <mkl_blas_64.h>
#include <mkl_lapack.h>

#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

template <class T>
struct Routines;

#define XPU_OPS_COMMON_ROUTINES(x)                                  \
  static constexpr auto potrf = &x##potrf_64, potri = &x##potri_64; \
  static constexpr auto potrs = &x##potrs_64;                       \
  static constexpr auto getrf = &x##getrf_64;                       \
  static constexpr auto getrfnp = &mkl_##x##getrfnp_64;             \
  static constexpr auto getrs = &x##getrs_64;                       \
  static constexpr auto gemm = &x##gemm_64;                         \
  static constexpr auto gemm_batch = &x##gemm_batch_strided_64;     \
  static constexpr auto gemv = &x##gemv_64;                         \
  static constexpr auto trsm = &x##trsm_64;                         \
  static constexpr auto geqrf = &x##geqrf_64;                       \
  static constexpr auto gesdd = &x##gesdd_64;                       \
  static constexpr auto geev = &x##geev_64;                         \
  static constexpr auto gels = &x##gels_64;                         \
  static constexpr auto gelsy = &x##gelsy_64;                       \
  static constexpr auto gelsd = &x##gelsd_64;                       \
  static constexpr auto gelss = &x##gelss_64;                       \
  static constexpr auto sytrf = &x##sytrf_64;                       \
  static constexpr auto sytrs = &x##sytrs_64

#define XPU_OPS_REAL_ROUTINES(T, x)             \
  template <>                                   \
  struct Routines<T> {                          \
    using Real = T;                             \
    XPU_OPS_COMMON_ROUTINES(x);                 \
    static constexpr auto orgqr = &x##orgqr_64; \
    static constexpr auto ormqr = &x##ormqr_64; \
    static constexpr auto syevd = &x##syevd_64; \
    static constexpr auto hetrf = sytrf;        \
    static constexpr auto hetrs = sytrs;        \
    static constexpr const char* adjoint = "T"; \
  }

#define XPU_OPS_COMPLEX_ROUTINES(R, x)          \
  template <>                                   \
  struct Routines<std::complex<R>> {            \
    using Real = R;                             \
    XPU_OPS_COMMON_ROUTINES(x);                 \
    static constexpr auto orgqr = &x##ungqr_64; \
    static constexpr auto ormqr = &x##unmqr_64; \
    static constexpr auto syevd = &x##heevd_64; \
    static constexpr auto hetrf = &x##hetrf_64; \
    static constexpr auto hetrs = &x##hetrs_64; \
    static constexpr const char* adjoint = "C"; \
  }

XPU_OPS_REAL_ROUTINES(float, s);
XPU_OPS_REAL_ROUTINES(double, d);
XPU_OPS_COMPLEX_ROUTINES(float, c);
XPU_OPS_COMPLEX_ROUTINES(double, z);
#undef XPU_OPS_REAL_ROUTINES
#undef XPU_OPS_COMPLEX_ROUTINES
#undef XPU_OPS_COMMON_ROUTINES

template <class T>
constexpr bool is_complex_v = !std::is_same_v<T, typename Routines<T>::Real>;

template <class T>
T* at(const Matrices& m, int64_t b) {
  return static_cast<T*>(m.data) + b * m.stride;
}

// Calls f(T{}) for the element type.
template <class F>
void with_type(DType type, F&& f) {
  switch (type) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::c64: return f(std::complex<float>{});
    default: return f(std::complex<double>{});
  }
}

}  // namespace xpu_ops::mkl
