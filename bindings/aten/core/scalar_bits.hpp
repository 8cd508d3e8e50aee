// Scalars as the bits of a compute type, the form in which kernels that need no double take them.
#pragma once
#include <bit>

#include <ATen/core/Tensor.h>

namespace xpu_ops::aten {

template <class T>
inline void put_scalar(uint64_t (&bits)[2], const at::Scalar& s) {
  bits[1] = 0;
  if constexpr (c10::is_complex<T>::value) {
    const T v = s.to<T>();
    if constexpr (sizeof(T) == 16) {
      bits[0] = std::bit_cast<uint64_t>(v.real());
      bits[1] = std::bit_cast<uint64_t>(v.imag());
    } else {
      bits[0] = std::bit_cast<uint32_t>(v.real());
      bits[1] = std::bit_cast<uint32_t>(v.imag());
    }
  } else if constexpr (std::is_same_v<T, double>) {
    bits[0] = std::bit_cast<uint64_t>(s.to<double>());
  } else if constexpr (std::is_same_v<T, float>) {
    bits[0] = std::bit_cast<uint32_t>(s.to<float>());
  } else {
    bits[0] = static_cast<uint64_t>(s.to<int64_t>());
  }
}

// By the element type; 16-bit floats are computed in float.
inline void put_scalar(uint64_t (&bits)[2], const at::Scalar& s, at::ScalarType type) {
  switch (type) {
    case at::kComplexDouble: return put_scalar<c10::complex<double>>(bits, s);
    case at::kComplexFloat:
    case at::kComplexHalf: return put_scalar<c10::complex<float>>(bits, s);
    case at::kDouble: return put_scalar<double>(bits, s);
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16: return put_scalar<float>(bits, s);
    default: return put_scalar<int64_t>(bits, s);
  }
}

inline uint64_t double_bits(double v) { return std::bit_cast<uint64_t>(v); }

inline bool is_zero(const at::Scalar& s) {
  return s.isComplex() ? s.toComplexDouble() == c10::complex<double>(0) : s.toDouble() == 0.0;
}

}  // namespace xpu_ops::aten
