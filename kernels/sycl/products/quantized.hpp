// Values to points of a grid of integers and back: x / scale and zero, rounded to even and held in the range of the
// type.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/products/quantized_args.hpp"

namespace xpu {

using xpu_ops::QuantizedArgs;

// NaN becomes the lowest point.
template <class T> XPU_INLINE T grid_point(float v) {
  if constexpr (sizeof(T) == 4) {  // 2^31 - 1 is no float
    return v >= 2147483648.f ? 2147483647 : v > -2147483648.f ? static_cast<int32_t>(v) : -2147483647 - 1;
  } else {
    constexpr float low = T(-1) < T(0) ? -128.f : 0.f;
    return static_cast<T>(static_cast<int32_t>(sycl::fmin(sycl::fmax(v, low), low + 255.f)));
  }
}

// The zero point is added before or after rounding, which differs at ties beside an odd one.
template <class T> XPU_INLINE T quantize(float x, float inverse, float zero, bool after) {
  const float first = after ? 0.f : zero, last = after ? zero : 0.f;
  return grid_point<T>(sycl::rint(x * inverse + first) + last);
}
template <class T> XPU_INLINE float dequantize(T q, float scale, int32_t zero) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(q) - static_cast<uint32_t>(zero))) * scale;
}
template <class T> XPU_INLINE float dequantize(T q, float scale, float zero) {
  return (static_cast<float>(q) - zero) * scale;
}

XPU_INLINE uint32_t channel_of(const QuantizedArgs& p, uint32_t i) {
  const uint32_t line = div(i, p.inner);
  return line - div(line, p.channels) * p.channels.d;
}

template <class T> void quantize_tensor(const QuantizedArgs& p) {
  const float inverse = 1.f / p.scale, zero = static_cast<float>(p.zero);
  for_tile(p.n, [&](size_t i) {
    static_cast<T*>(p.out)[i] = quantize<T>(static_cast<const float*>(p.in)[i], inverse, zero, p.after);
  });
}

template <class T> void dequantize_tensor(const QuantizedArgs& p) {
  for_tile(p.n, [&](size_t i) {
    static_cast<float*>(p.out)[i] = dequantize(static_cast<const T*>(p.in)[i], p.scale, p.zero);
  });
}

template <class T, class Zero> void quantize_channels(const QuantizedArgs& p) {
  for_tile(p.n, [&](size_t i) {
    const uint32_t c = channel_of(p, static_cast<uint32_t>(i));
    static_cast<T*>(p.out)[i] = quantize<T>(static_cast<const float*>(p.in)[i], 1.f / p.scales[c],
                                            static_cast<float>(static_cast<const Zero*>(p.zeros)[c]), p.after);
  });
}

template <class T, class Zero> void dequantize_channels(const QuantizedArgs& p) {
  for_tile(p.n, [&](size_t i) {
    const uint32_t c = channel_of(p, static_cast<uint32_t>(i));
    static_cast<float*>(p.out)[i] =
        dequantize(static_cast<const T*>(p.in)[i], p.scales[c], static_cast<const Zero*>(p.zeros)[c]);
  });
}

}  // namespace xpu
