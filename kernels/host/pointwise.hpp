// The functors of the pointwise rows in a loop of the host: the same expressions as on the device, compiled by the host
// compiler. One loop each, over memory side by side; kernels/host/pointwise.cpp brings everything else into that form.
#pragma once
#include "kernels/host/exact.hpp"
#include "kernels/host/math.hpp"
#include "kernels/host/table.hpp"
#include "kernels/sycl/elementwise/pointwise.hpp"

namespace xpu_ops::host {

struct DenseAccess {
  char* const* ptr;
  const Value* s;
  uint32_t i, outs;
  template <int I, class M> M scalar() const { return xpu::value_as<M>(s[I]); }
  template <int I, class T, class M> M in() const {
    if constexpr (std::is_same_v<M, bool>)  // as a byte: a loop over bools does not vectorise
      return reinterpret_cast<const uint8_t*>(ptr[outs + I])[i] != 0;
    else
      return reinterpret_cast<const M*>(ptr[outs + I])[i];
  }
  template <int I, class T, class V> void out(V v) const {
    using Stored = xpu::opmath_t<T>;
    reinterpret_cast<Stored*>(ptr[I])[i] = xpu::narrow<Stored>(v);
  }
};

// The arguments are copied so that a store through an output cannot be taken for a change of them. ivdep: operands
// overlap entirely or not at all. Only this function may use the instructions: what others could share with it may not.
template <class F> [[gnu::always_inline]] inline void block_loop(char* const* operands, uint32_t n,
                                                                 const Value* scalars) {
  char* ptr[F::kOut + F::kIn];
  for (int k = 0; k < F::kOut + F::kIn; ++k) ptr[k] = operands[k];
  const Value s[kPointwiseScalars] = {scalars[0], scalars[1], scalars[2], scalars[3]};
#pragma GCC ivdep
  for (uint32_t i = 0; i < n; ++i) F::run(DenseAccess{ptr, s, i, F::kOut});
}

template <class F> XPU_OPS_VECTOR void block(char* const* operands, uint32_t n, const Value* scalars) {
  block_loop<F>(operands, n, scalars);
}
template <class F> XPU_OPS_WIDE_VECTOR void wide_block(char* const* operands, uint32_t n, const Value* scalars) {
  block_loop<F>(operands, n, scalars);
}
// Of functions of kernels/sycl/math/single.hpp.
template <class F> void either_block(char* const* operands, uint32_t n, const Value* scalars) {
  return wide_vectors() ? wide_block<F>(operands, n, scalars) : block<F>(operands, n, scalars);
}

}  // namespace xpu_ops::host
