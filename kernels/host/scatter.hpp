// Writes by index as a loop of the host: the columns of kernels/sycl/index/scatter.hpp one after the other, in the same
// order.
#pragma once
#include "kernels/host/math.hpp"
#include "kernels/sycl/index/scatter.hpp"

namespace xpu_ops::host {

// Of walks whose rows have at most one dim, with one item for all: no parts, `inner` along the indices.
template <class T, class Op> [[gnu::always_inline]] inline void columns(const ColumnArgs& p) {
  const xpu::ColumnPart part{0, p.index.size, p.index.wrap ? p.index.size : 0, p.skip};
  for (uint32_t row = 0; row < p.walk.rows; ++row) {
    int64_t o[3] = {0, 0, 0};
    xpu::add_row(p.walk, row, o);
    T* data = static_cast<T*>(p.data) + o[0];
    const T* src = static_cast<const T*>(p.src) + o[1];
    if (p.index.is32)
      xpu::column_nest<T, Op>(p, part, p.walk.inner, data, src, static_cast<const int32_t*>(p.index.ptr) + o[2]);
    else
      xpu::column_nest<T, Op>(p, part, p.walk.inner, data, src, static_cast<const int64_t*>(p.index.ptr) + o[2]);
  }
}

template <class T> [[gnu::always_inline]] inline void column_assign(const ColumnArgs& p, uint32_t) {
  columns<T, xpu::OpAssign>(p);
}
template <class T> [[gnu::always_inline]] inline void column_add(const ColumnArgs& p, uint32_t) {
  columns<T, xpu::OpAdd>(p);
}
template <class T> [[gnu::always_inline]] inline void column_mul(const ColumnArgs& p, uint32_t) {
  columns<T, xpu::OpMul>(p);
}
template <class T> [[gnu::always_inline]] inline void column_max(const ColumnArgs& p, uint32_t) {
  columns<T, xpu::OpMax>(p);
}
template <class T> [[gnu::always_inline]] inline void column_min(const ColumnArgs& p, uint32_t) {
  columns<T, xpu::OpMin>(p);
}

}  // namespace xpu_ops::host
