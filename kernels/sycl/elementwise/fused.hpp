// Residual addition with a norm, and rotary embeddings.
#pragma once
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/elementwise/fused_args.hpp"
#include "kernels/sycl/reduce/normalization.hpp"

namespace xpu {

using xpu_ops::AddNormArgs;
using xpu_ops::kMostVectorColumns;
using xpu_ops::RotaryArgs;

// The sum of the next row is made in the loop that writes the result of this one: memory is then read and written all
// the time, not in turns. An item reads back only what it wrote itself, so no barrier stands between the two.
template <class T, class W, bool kRms> void add_norm_row(const AddNormArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), n = p.norm.cols;
  const W *w = static_cast<const W*>(p.norm.weight), *b = static_cast<const W*>(p.norm.bias);
  const RowRange mine = group_rows(p.norm.rows);
  const T *x = static_cast<const T*>(p.x) + mine.begin * n,
          *residual = static_cast<const T*>(p.residual) + mine.begin * n;
  T *sum = static_cast<T*>(const_cast<void*>(p.norm.x)) + mine.begin * n,
    *y = static_cast<T*>(p.norm.y) + mine.begin * n;
  // The first element of the row `ahead` elements further on: its mean is that of differences to it.
  const auto first = [&](size_t ahead) {
    return kRms
               ? A(0)
               : static_cast<A>(static_cast<T>(static_cast<A>(load(x, ahead)) + static_cast<A>(load(residual, ahead))));
  };
  A s[4] = {0, 0, 0, 0}, shift = first(0);
  // RMS norm needs the squares alone, the others the mean first.
  const auto count = [&](A& total, A v) { total += kRms ? v * v : v - shift; };
  // Element r of the row `ahead` elements further on.
  const auto add = [&](size_t r, size_t ahead, int j) {
    const T v =
        static_cast<T>(static_cast<A>(load(x + r + ahead, lane)) + static_cast<A>(load(residual + r + ahead, lane)));
    store(sum + r + ahead, lane, v);
    [[clang::always_inline]] count(s[j], static_cast<A>(v));
  };
  for_row(n, lane, [&](size_t r, int j) { [[clang::always_inline]] add(r, 0, j); });
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    A mean = 0, var = lane_sum(s) / static_cast<A>(n);
    if constexpr (!kRms) {
      mean = shift + var;
      A q[4] = {0, 0, 0, 0};
      for_row(n, lane, [&](size_t r, int j) {
        const A v = static_cast<A>(load(sum + r, lane)) - mean;
        q[j] += v * v;
      });
      var = lane_sum(q) / static_cast<A>(n);
    }
    const A rstd = A(1) / sycl::sqrt(var + value<A>(p.norm.eps));
    s[0] = s[1] = s[2] = s[3] = 0;
    const size_t ahead = row + 1 < mine.end ? n : 0;  // the last row once more
    shift = first(ahead);
    const auto norm = [&](size_t r) { return (static_cast<A>(load(sum + r, lane)) - mean) * rstd; };
    if (w && b)
      for_row(n, lane, [&](size_t r, int j) {
        const A v = norm(r) * static_cast<A>(load(w + r, lane)) + static_cast<A>(load(b + r, lane));
        store(y + r, lane, static_cast<T>(v));
        [[clang::always_inline]] add(r, ahead, j);
      });
    else if (w)
      for_row(n, lane, [&](size_t r, int j) {
        store(y + r, lane, static_cast<T>(norm(r) * static_cast<A>(load(w + r, lane))));
        [[clang::always_inline]] add(r, ahead, j);
      });
    else
      for_row(n, lane, [&](size_t r, int j) {
        store(y + r, lane, static_cast<T>(b ? norm(r) + static_cast<A>(load(b + r, lane)) : norm(r)));
        [[clang::always_inline]] add(r, ahead, j);
      });
    if constexpr (!kRms) store_first(static_cast<A*>(p.norm.mean) + row, mean);
    store_first(static_cast<A*>(p.norm.rstd) + row, rstd);
    x += n, residual += n, sum += n, y += n;
  }
}

// The same by vectors of one item, for a CPU device. kPast: results are too large for the caches and are stored past
// them, so that no line is read only to be overwritten. Columns are a multiple of 64, up to kMostVectorColumns.
template <class T, class W, bool kRms, bool kPast> void add_norm_vectors(const AddNormArgs& p) {
  const size_t n = p.norm.cols;
  const W *w = static_cast<const W*>(p.norm.weight), *b = static_cast<const W*>(p.norm.bias);
  const RowRange mine = group_rows(p.norm.rows);
  const T *x = static_cast<const T*>(p.x) + mine.begin * n,
          *residual = static_cast<const T*>(p.residual) + mine.begin * n;
  T *sum = static_cast<T*>(const_cast<void*>(p.norm.x)) + mine.begin * n,
    *y = static_cast<T*>(p.norm.y) + mine.begin * n;
  // Sixteen elements of x + residual from i on. Those of a row are kept as floats: made once for the three passes.
  const auto made = [&](size_t i)
                        __attribute__((always_inline)) { return stored16<T>(load16(x + i) + load16(residual + i)); };
  float kept[kMostVectorColumns];
  const auto at = [&](size_t r) __attribute__((always_inline)) { return load16(kept + r); };
  const auto first = [&](size_t ahead) __attribute__((always_inline)) { return kRms ? 0.0f : made(ahead)[0]; };
  const auto share = [&](const float16v(&v)[4]) __attribute__((always_inline)) {
    return sum16((v[0] + v[1]) + (v[2] + v[3])) / static_cast<float>(n);
  };
  const auto put = [&](T* to, float16v u, float16v v) __attribute__((always_inline)) {
    if constexpr (kPast)
      stream32(to, u, v);
    else
      store16(to, u), store16(to + 16, v);
  };
  // Accumulator j takes the j-th piece of sixteen elements, as in for_row.
  float16v s[4] = {0, 0, 0, 0};
  float shift = first(0);
  // The 64 elements at r of the row `ahead` elements further on.
  const auto add = [&](size_t r, size_t ahead) __attribute__((always_inline)) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const size_t i = r + j * 16;
      const float16v v = made(i + ahead);
      store16(kept + i, v);
      s[j] += kRms ? v * v : v - shift;
    }
  };
  for (size_t r = 0; r < n; r += 64) add(r, 0);
  for (uint32_t row = mine.begin; row < mine.end; ++row) {
    float mean = 0, var = share(s);
    if constexpr (!kRms) {
      mean = shift + var;
      float16v q[4] = {0, 0, 0, 0};
      for (size_t r = 0; r < n; r += 64)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float16v v = at(r + j * 16) - mean;
          q[j] += v * v;
        }
      var = share(q);
    }
    const float rstd = 1.0f / sycl::sqrt(var + value<float>(p.norm.eps));
    s[0] = s[1] = s[2] = s[3] = 0;
    const size_t ahead = row + 1 < mine.end ? n : 0;
    shift = first(ahead);
    const auto norm = [&](float16v v, size_t r) __attribute__((always_inline)) {
      v = (v - mean) * rstd;
      if (w) v = b ? v * load16(w + r) + load16(b + r) : v * load16(w + r);
      return w || !b ? v : v + load16(b + r);
    };
    for (size_t r = 0; r < n; r += 64) {
#pragma unroll
      for (int j = 0; j < 64; j += 32) {
        const float16v u = at(r + j), v = at(r + j + 16);
        put(sum + r + j, u, v);
        put(y + r + j, norm(u, r + j), norm(v, r + j + 16));
      }
      add(r, ahead);
    }
    if constexpr (!kRms) static_cast<float*>(p.norm.mean)[row] = mean;
    static_cast<float*>(p.norm.rstd)[row] = rstd;
    x += n, residual += n, sum += n, y += n;
  }
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
