// Residual addition with a norm, and rotary embeddings.
#pragma once
#include "fused_args.hpp"
#include "normalization.hpp"

namespace xpu {

// Each item reads back only the elements of the sum that it wrote itself, so no barrier stands between the two; both go
// through group_rows.
template <class T, class W, bool kRms> void add_norm_row(const AddNormArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.norm.cols;
  const RowRange mine = group_rows(p.norm.rows);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    const T *x = static_cast<const T*>(p.x) + row * n, *residual = static_cast<const T*>(p.residual) + row * n;
    T* sum = static_cast<T*>(const_cast<void*>(p.norm.x)) + row * n;
    for_row(n, lane, [&](size_t r, int) {
      store(sum + r, lane,
            static_cast<T>(static_cast<A>(load(x + r, lane)) + static_cast<A>(load(residual + r, lane))));
    });
  }
  layer_norm_row<T, W, kRms>(p.norm);
}

// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin) for the pairs (j, j + half), or (2j, 2j + 1).
template <class T, class C, bool kInterleaved> void rotary_rows(const RotaryArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t id = item.get_local_id(1), j0 = item.get_group(1) * item.get_local_range(1);
  if (j0 + id >= p.half) return;
  const size_t second = kInterleaved ? 1 : p.half, table_second = p.table_second;
  const size_t at = kInterleaved ? 2 * id : id, base = kInterleaved ? 2 * j0 : j0;
  const size_t table_at = kInterleaved ? p.table_step * id : id, table_base = kInterleaved ? p.table_step * j0 : j0;
  const uint32_t begin = item.get_group(0) * p.rows_per_group, end = least(p.rows, begin + p.rows_per_group);
  for (uint32_t row = begin; row < end; ++row) {
    const uint32_t q = row / p.size2, i2 = row - q * p.size2, i0 = q / p.size1, i1 = q - i0 * p.size1;
    const auto offset = [&](const int64_t (&s)[3]) { return i0 * s[0] + i1 * s[1] + i2 * s[2]; };
    const T* x = static_cast<const T*>(p.x) + offset(p.x_strides) + base;
    T* y = static_cast<T*>(p.y) + offset(p.y_strides) + base;
    const C* cos = static_cast<const C*>(p.cos) + offset(p.cos_strides) + table_base;
    const C* sin = static_cast<const C*>(p.sin) + offset(p.sin_strides) + table_base;
    const A x1 = static_cast<A>(load(x, at)), x2 = static_cast<A>(load(x + second, at));
    const A c1 = static_cast<A>(load(cos, table_at)), c2 = static_cast<A>(load(cos + table_second, table_at));
    const A s1 = static_cast<A>(load(sin, table_at)), s2 = static_cast<A>(load(sin + table_second, table_at));
    store(y, at, static_cast<T>(x1 * c1 - x2 * (p.inverse ? -s2 : s1)));
    store(y + second, at, static_cast<T>(x2 * c2 + x1 * (p.inverse ? -s1 : s2)));
  }
}

}  // namespace xpu
