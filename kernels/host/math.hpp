// Functions that round correctly, as the host compiler's own: those of the SYCL headers are calls on the host.
#pragma once
#include <type_traits>

// For loops over elements; runtime::inline_enabled() asks for the processor. Nothing is contracted: -ffp-contract=off.
#define XPU_OPS_VECTOR [[gnu::target("avx2,fma")]]
// For loops with much to compute; wide_vectors() asks for the processor. The same bits.
#define XPU_OPS_WIDE_VECTOR [[gnu::target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,prefer-vector-width=512")]]

namespace xpu_ops::host {

#define XPU_OPS_MATH(NAME)                                                             \
  [[gnu::always_inline]] inline float NAME(float a) { return __builtin_##NAME##f(a); } \
  [[gnu::always_inline]] inline double NAME(double a) { return __builtin_##NAME(a); }
XPU_OPS_MATH(fabs)
XPU_OPS_MATH(floor)
XPU_OPS_MATH(ceil)
XPU_OPS_MATH(trunc)
XPU_OPS_MATH(rint)
XPU_OPS_MATH(sqrt)
#undef XPU_OPS_MATH
[[gnu::always_inline]] inline float copysign(float a, float b) { return __builtin_copysignf(a, b); }
[[gnu::always_inline]] inline double copysign(double a, double b) { return __builtin_copysign(a, b); }

[[gnu::always_inline]] inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
[[gnu::always_inline]] inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

}  // namespace xpu_ops::host
