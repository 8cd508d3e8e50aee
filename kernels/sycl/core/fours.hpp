// Four neighbouring elements, which one load or store moves: a GPU's item that moves one of 16 bits at a time leaves
// half of the memory's bandwidth unused.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"

namespace xpu {

template <size_t Bytes> struct FourBits;
template <> struct FourBits<1> {
  using One = uint8_t;
  typedef One Four __attribute__((ext_vector_type(4)));
};
template <> struct FourBits<2> {
  using One = uint16_t;
  typedef One Four __attribute__((ext_vector_type(4)));
};
template <> struct FourBits<4> {
  using One = uint32_t;
  typedef One Four __attribute__((ext_vector_type(4)));
};
template <> struct FourBits<8> {
  using One = uint64_t;
  typedef One Four __attribute__((ext_vector_type(4)));
};
template <class T> using OneOf = typename FourBits<sizeof(T)>::One;
template <class T> using FourOf = typename FourBits<sizeof(T)>::Four;

// Whether a four begins here; also where there is nothing.
template <class T> XPU_INLINE bool at_a_four(const T* x) {
  return reinterpret_cast<uintptr_t>(x) % (4 * sizeof(T)) == 0;
}
// Whether rows of n elements from here on can be moved by fours.
template <class T> XPU_INLINE bool by_fours(const T* x, size_t n) { return n % 4 == 0 && at_a_four(x); }

template <class A, class T> XPU_INLINE void read_four(const T* x, size_t at, A* v) {
  const FourOf<T> bits = *reinterpret_cast<const FourOf<T>*>(x + at);
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = static_cast<A>(sycl::bit_cast<T>(bits[k]));
}
template <class A, class T> XPU_INLINE void write_four(T* y, size_t at, const A* v) {
  FourOf<T> bits;
#pragma unroll
  for (int k = 0; k < 4; ++k) bits[k] = sycl::bit_cast<OneOf<T>>(static_cast<T>(v[k]));
  *reinterpret_cast<FourOf<T>*>(y + at) = bits;
}

}  // namespace xpu
