// Exact functions that a loop of the host has in a form of its own: those of the device's headers are calls here. The
// same bits.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/host/math.hpp"
#include "kernels/sycl/math/math.hpp"

namespace xpu_ops::host {

template <class T> [[gnu::always_inline]] inline bool isinf(T a) {
  return fabs(a) == std::numeric_limits<T>::infinity();
}
template <class T> [[gnu::always_inline]] inline bool isfinite(T a) {
  return fabs(a) < std::numeric_limits<T>::infinity();
}

// Of floats by a quotient in double. A quotient of floats below 2^28 lies at least 2^-24 from an integer or is one, so
// that it is truncated as it should be, and the rest fits into a float. The C library goes bit by bit.
[[gnu::always_inline]] inline float rest(float a, float b) {
  const double q = trunc(double(a) / double(b));
  if (fabs(q) < 0x1p28) [[likely]] {
    const float r = q == 0 ? a : float(fma(-q, double(b), double(a)));
    return copysign(r, a);
  }
  return std::fmod(a, b);
}
template <class T> [[gnu::always_inline]] inline T fmod(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return rest(a, b);
  else
    return xpu::fmod(a, b);
}
template <class T> [[gnu::always_inline]] inline T remainder(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    const T r = rest(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
  } else {
    return xpu::remainder(a, b);
  }
}
template <class T> [[gnu::always_inline]] inline T div_floor(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    if (b == T(0)) return a / b;
    const T r = rest(a, b);
    T d = (a - r) / b;
    if (r != T(0) && (r < T(0)) != (b < T(0))) d -= T(1);
    if (d == T(0)) return copysign(T(0), a / b);
    const T f = floor(d);
    return d - f > T(0.5) ? f + T(1) : f;
  } else {
    return xpu::div_floor(a, b);
  }
}

}  // namespace xpu_ops::host
