// Pointwise rows by fours, for devices whose items have registers of their own: one load per operand and one store per
// result move four neighbouring elements. Rows begin and end with a four: the plan sees to it.
#pragma once
#include "kernels/sycl/core/fours.hpp"
#include "kernels/sycl/elementwise/pointwise.hpp"

namespace xpu {

// Between loads and stores a functor reads and writes the bits of elements, of any type:
//   read<I, T>()       loads a four of input I
//   write<I, T>()      stores a four of output I
template <class F> struct FourAccess : RowAccess<F::kOut + F::kIn> {
  uint64_t (&held)[F::kOut + F::kIn][4];
  int at = 0;  // of the element at hand, in its four
  template <class T> FourOf<T>* four(int k) const {
    return reinterpret_cast<FourOf<T>*>(const_cast<char*>(this->vec[k]) + this->c * sizeof(T));
  }
  template <int I, class T> void read() const {
    const FourOf<T> bits = *four<T>(F::kOut + I);
#pragma unroll
    for (int k = 0; k < 4; ++k) held[F::kOut + I][k] = bits[k];
  }
  template <int I, class T, class M> M in() const {
    return this->same.template chosen<I>(widen<M>(sycl::bit_cast<T>(static_cast<OneOf<T>>(held[F::kOut + I][at]))));
  }
  template <int I, class T, class V> void out(V v) const { held[I][at] = sycl::bit_cast<OneOf<T>>(narrow<T>(v)); }
  template <int I, class T> void write() const {
    FourOf<T> bits;
#pragma unroll
    for (int k = 0; k < 4; ++k) bits[k] = static_cast<OneOf<T>>(held[I][k]);
    *four<T>(I) = bits;
  }
};

template <class F> inline void pointwise_fours(const PointwiseArgs& p) {
  constexpr int operands = F::kOut + F::kIn;
  for_rows<operands>(p, [&](const char* const(&one)[operands], size_t c0, size_t c1, size_t lane, size_t lanes)
                            __attribute__((always_inline)) {
                              uint64_t held[operands][4];
                              FourAccess<F> x{row_access<F>(p, one), held};
                              for (size_t c = c0 + 4 * lane; c < c1; c += 4 * lanes) {
                                x.c = c;
                                F::read(x);
#pragma unroll
                                for (int k = 0; k < 4; ++k) {
                                  x.at = k;
                                  F::run(x);
                                }
                                F::write(x);
                              }
                            });
}

}  // namespace xpu
