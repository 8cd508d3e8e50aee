// The functors of the pointwise rows in a loop of the host: the same expressions as on the device, compiled by the host
// compiler.
#pragma once
#include "host/table.hpp"
#include "sycl/pointwise.hpp"

namespace xpu_ops::host {

// Every input is a tensor with the outputs' layout: nothing to decide in the loop.
struct DenseAccess : xpu::AccessBase {
  uint32_t i, outs;
  template <int I, class T, class M> M in() const { return xpu::widen<M>(static_cast<const T*>(p.ptr[outs + I])[i]); }
  template <int I, class T, class V> void out(V v) const { static_cast<T*>(p.ptr[I])[i] = xpu::narrow<T>(v); }
};

struct FlatAccess : xpu::AccessBase {
  uint32_t i, outs;
  template <int I, class T, class M> M in() const {
    if constexpr (I < kPointwiseImmediates) {
      if (p.mode[I] == kImmediate) return xpu::value_as<M>(p.imm[I]);
    }
    return xpu::widen<M>(static_cast<const T*>(p.ptr[outs + I])[p.mode[I] == kBroadcast ? 0 : i]);
  }
  template <int I, class T, class V> void out(V v) const { static_cast<T*>(p.ptr[I])[i] = xpu::narrow<T>(v); }
};

// The arguments are copied so that a store through an output cannot be taken for a change of them. ivdep: operands
// overlap entirely or not at all.
template <class F> void contig(const PointwiseArgs& args) {
  const PointwiseArgs p = args;
  bool dense = true;
  for (int k = 0; k < F::kIn; ++k) dense = dense && p.mode[k] == kElement;
  if (dense) {
#pragma GCC ivdep
    for (uint32_t i = 0; i < p.n; ++i) F::run(DenseAccess{{p}, i, F::kOut});
  } else {
#pragma GCC ivdep
    for (uint32_t i = 0; i < p.n; ++i) F::run(FlatAccess{{p}, i, F::kOut});
  }
}

template <class F> void strided(const PointwiseArgs& args) {
  const PointwiseArgs p = args;
  for (uint32_t row = 0; row < p.rows; ++row) {
    xpu::StridedAccess<F::kOut + F::kIn> x{{p}, F::kOut, 0, {}};
    xpu::at_row(p, row, x.one);
    for (x.c = 0; x.c < p.n; ++x.c) F::run(x);
  }
}

}  // namespace xpu_ops::host
