// Pointwise kernels over operands that step through memory, for a CPU device: a work-group is one item, which goes from
// element to element. Loads and stores one by one are faster there than gathers and scatters of a vector.
#pragma once
#include "kernels/sycl/cpu/single_kernel.hpp"
#include "kernels/sycl/elementwise/pointwise.hpp"

namespace xpu {

template <int Operands> struct StepAccess : AccessBase {
  uint32_t outs;
  int64_t c;
  const char* at[Operands];  // the operand at the start of the row
  int64_t step[Operands];
  template <int I, class T, class M> M in() const {
    if constexpr (I < xpu_ops::kPointwiseImmediates)
      if (p.mode[I] == xpu_ops::kImmediate) return value_as<M>(p.imm[I]);
    return widen<M>(reinterpret_cast<const T*>(at[outs + I])[c * step[outs + I]]);
  }
  template <int I, class T, class V> void out(V v) const {
    reinterpret_cast<T*>(const_cast<char*>(at[I]))[c * step[I]] = narrow<T>(v);
  }
};

template <class F> inline void pointwise_steps(const PointwiseArgs& p) {
  constexpr int operands = F::kOut + F::kIn;
  for_rows<operands>(p, [&](const char* const(&one)[operands], size_t c0, size_t c1, size_t lane, size_t lanes) {
    StepAccess<operands> x{{p}, F::kOut, 0, {}, {}};
#pragma unroll
    for (int k = 0; k < operands; ++k) x.at[k] = one[k], x.step[k] = p.step[k];
#pragma clang loop vectorize(disable)
    for (size_t c = c0 + lane; c < c1; c += lanes) {
      x.c = static_cast<int64_t>(c);
      F::run(x);
    }
  });
}

}  // namespace xpu
