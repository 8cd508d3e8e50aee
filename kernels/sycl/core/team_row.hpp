// A row that the registers of a team hold, in fours of neighbouring elements, each of which one load or store moves.
// Elements j to j + 3 of an item are a four.
#pragma once
#include "kernels/sycl/core/team.hpp"

namespace xpu {

template <size_t Bytes> struct FourBits;
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

// Whether rows of n elements from here on can be moved by fours; also where there are none.
template <class T> XPU_INLINE bool by_fours(const T* x, size_t n) {
  return n % 4 == 0 && reinterpret_cast<uintptr_t>(x) % (4 * sizeof(T)) == 0;
}

// Where a four is in its row, and whether it is there.
XPU_INLINE uint32_t four_at(const Team& t, uint32_t j) { return j * t.lanes + 4 * t.lane; }
XPU_INLINE bool holds(const Team& t, uint32_t n, uint32_t j) { return four_at(t, j / 4 * 4) < n; }

template <class A, class T> XPU_INLINE void read_four(const T* x, uint32_t at, A* v) {
  const auto bits = *reinterpret_cast<const typename FourBits<sizeof(T)>::Four*>(x + at);
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = static_cast<A>(sycl::bit_cast<T>(bits[k]));
}
template <class A, class T> XPU_INLINE void write_four(T* y, uint32_t at, const A* v) {
  using Bits = FourBits<sizeof(T)>;
  typename Bits::Four bits;
#pragma unroll
  for (int k = 0; k < 4; ++k) bits[k] = sycl::bit_cast<typename Bits::One>(static_cast<T>(v[k]));
  *reinterpret_cast<typename Bits::Four*>(y + at) = bits;
}

}  // namespace xpu
