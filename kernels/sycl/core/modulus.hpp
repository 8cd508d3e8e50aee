// |z|^2, as sums of squares take it.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

// Infinite where a part is, also if the other is NaN, as hypot is.
template <class T> inline T squared_modulus(T re, T im) {
  constexpr T inf = static_cast<T>(__builtin_inff());
  const T square = re * re + im * im;
  return square == square || !(re == inf || re == -inf || im == inf || im == -inf) ? square : inf;
}

}  // namespace xpu
