// Matrix products for what oneDNN does not compute: f64, integers, complex numbers, any strides; and of few rows.
#pragma once
#include "kernels/sycl/core/constant.hpp"
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/products/matmul_args.hpp"

namespace xpu {

using xpu_ops::DotArgs;
using xpu_ops::kMostDotColumns;
constexpr uint32_t kDotStride = kMostDotColumns + kLanes;  // three runs may end past the last column
using xpu_ops::MatmulArgs;
using xpu_ops::Matrix;
using xpu_ops::WholeArgs;

// Small integers are summed as 32-bit ones: the result wraps to the same value.
template <class T> struct accumulator { using type = opmath_t<T>; };
template <> struct accumulator<int8_t> { using type = int32_t; };
template <> struct accumulator<uint8_t> { using type = uint32_t; };
template <> struct accumulator<int16_t> { using type = int32_t; };

template <class A>
inline A from_bits(const uint64_t (&bits)[2]) {
  if constexpr (is_complex_v<A>) {
    const uint64_t re[2] = {bits[0], 0}, im[2] = {bits[1], 0};
    return A(from_bits<decltype(A::re)>(re), from_bits<decltype(A::re)>(im));
  } else if constexpr (sizeof(A) == 8 && is_float_v<A>) {
    return sycl::bit_cast<A>(bits[0]);
  } else if constexpr (is_float_v<A>) {
    return sycl::bit_cast<A>(static_cast<uint32_t>(bits[0]));
  } else {
    return static_cast<A>(static_cast<int64_t>(bits[0]));
  }
}

// x times a factor. A real one has no imaginary part of which an infinity would make NaN.
template <class A> inline A times_factor(A factor, A x) {
  if constexpr (is_complex_v<A>) {
    if (factor.im == 0) return A(factor.re * x.re, factor.re * x.im);
  }
  return factor * x;
}

template <class T> inline T matmul_load(const T* x, size_t lane) { return x[lane]; }
inline bf16 matmul_load(const bf16* x, size_t lane) {
  bf16 v;
  v.bits = reinterpret_cast<const uint16_t*>(x)[lane];
  return v;
}

// One item: column j0 + lane of kRows rows. Neighbours read neighbouring columns of b and share the rows of a. kUnit:
// columns of b lie side by side, which makes the reads vectors and not gathers.
template <class T, int kRows, bool kUnit>
XPU_INLINE void matmul_column(const MatmulArgs& p, size_t j0, size_t lane, uint32_t batch, uint32_t i0) {
  using A = typename accumulator<T>::type;
  const T* a = static_cast<const T*>(p.a) + batch * p.as.batch;
  const T* line = static_cast<const T*>(p.b) + batch * p.bs.batch + j0 * p.bs.col;
  const T* rows[kRows];
  A sum[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t i = i0 + r < p.m ? i0 + r : p.m - 1;  // rows past the end repeat the last one
    rows[r] = a + i * p.as.row;
    sum[r] = A(0);
  }
  for (uint32_t k = 0; k < p.k; ++k, line += p.bs.row) {
    const A x = static_cast<A>(kUnit ? matmul_load(line, lane) : line[lane * p.bs.col]);
    const int64_t at = k * p.as.col;
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = sum[r] + static_cast<A>(rows[r][at]) * x;
  }
  const A alpha = from_bits<A>(p.alpha), beta = from_bits<A>(p.beta);
  T* out = static_cast<T*>(p.out) + batch * p.os.batch + j0 * p.os.col;
  const T* c = static_cast<const T*>(p.c) + (p.c ? batch * p.cs.batch + j0 * p.cs.col : 0);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t i = i0 + r;
    if (i < p.m) {
      A v = times_factor(alpha, sum[r]);
      if (p.c) v = v + times_factor(beta, static_cast<A>(c[i * p.cs.row + lane * p.cs.col]));
      out[i * p.os.row + lane * p.os.col] = static_cast<T>(v);
    }
  }
}

// A 2-D range: (blocks of columns, batch and blocks of rows), so that groups in turn share columns of b.
template <class T, int kRows>
void matmul(const MatmulArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), lane = item.get_local_id(1), j0 = item.get_group(0) * local;
  const uint32_t block = item.get_group(1), batch = block / p.row_blocks, i0 = (block - batch * p.row_blocks) * kRows;
  whole_or_part(j0 + local <= p.n, j0 + lane < p.n, item.get_local_range(0), [&] {
    if (p.bs.col == 1)
      matmul_column<T, kRows, true>(p, j0, lane, batch, i0);
    else
      matmul_column<T, kRows, false>(p, j0, lane, batch, i0);
  });
}

// How matmul_dot multiplies: in float32.
struct Floats {
  static constexpr uint32_t kRows = xpu_ops::kDotRows, kStep = 16;
  template <class T> static XPU_INLINE float16v load(const T* x) { return load16(x); }
  static XPU_INLINE float16v add(float16v sum, float16v x, float16v w) { return sum + x * w; }
  static XPU_INLINE void ahead(const void*) {}
};
// kRows rows of a times kSides columns of b, each contiguous. The results of a row are kDotStride apart from those
// of the next, those of a column `side` from those of the next. Each row is summed in the same order for every kRows.
template <class How, uint32_t kRows, uint32_t kSides, class T>
XPU_INLINE void dot_columns(float* out, uint32_t side, const T* a, int64_t a_row, const T* const (&column)[kSides],
                            uint32_t k) {
  float16v sum[kRows][kSides] = {};
  uint32_t r = 0;
  for (; r + How::kStep <= k; r += How::kStep) {
    decltype(How::load(a)) w[kSides];
#pragma unroll
    for (uint32_t q = 0; q < kSides; ++q) {
      How::ahead(column[q] + r);
      w[q] = How::load(column[q] + r);
    }
#pragma unroll
    for (uint32_t m = 0; m < kRows; ++m) {
      const auto x = How::load(a + m * a_row + r);
#pragma unroll
      for (uint32_t q = 0; q < kSides; ++q) sum[m][q] = How::add(sum[m][q], x, w[q]);
    }
  }
#pragma unroll
  for (uint32_t m = 0; m < kRows; ++m) {
    float4v four;
    if constexpr (kSides == 4)
      four = sum16(sum[m][0], sum[m][1], sum[m][2], sum[m][3]);
    else
      four = sum16(sum[m][0], sum[m][1], sum[m][2], sum[m][0]);
#pragma unroll
    for (uint32_t q = 0; q < kSides; ++q) {
      float result = four[q];
      for (uint32_t j = r; j < k; ++j)
        result += static_cast<float>(a[m * a_row + j]) * static_cast<float>(column[q][j]);
      out[m * kDotStride + q * side] = result;
    }
  }
}

// out = alpha * sum + beta * c for `count` columns of one row from j on.
template <class T>
XPU_INLINE void finish_columns(const MatmulArgs& p, float16v sum, uint32_t batch, uint32_t i, uint32_t j,
                               uint32_t count) {
  const float alpha = from_bits<float>(p.alpha), beta = from_bits<float>(p.beta);
  T* out = static_cast<T*>(p.out) + batch * p.os.batch + i * p.os.row + j * p.os.col;
  const T* c = static_cast<const T*>(p.c) + (p.c ? batch * p.cs.batch + i * p.cs.row + j * p.cs.col : 0);
  float16v v = alpha * sum;
  if (count == kLanes && p.os.col == 1 && (!p.c || p.cs.col == 1)) {
    if (p.c) v += beta * load16(c);
    return store16(out, v);
  }
  float values[kLanes];
  store16(values, v);
  for (uint32_t q = 0; q < count; ++q) {
    if (p.c) values[q] += beta * static_cast<float>(c[q * p.cs.col]);
    out[q * p.os.col] = static_cast<T>(values[q]);
  }
}

// The columns come in runs that are read side by side: the processor reads ahead in each. Of more than four rows parts
// follow one another while the columns are in the first cache.
template <class T, class How, uint32_t kSides>
XPU_INLINE void dot_rows(const MatmulArgs& p, uint32_t batch, uint32_t i, uint32_t rows, uint32_t j0,
                         uint32_t columns) {
  const T* a = static_cast<const T*>(p.a) + batch * p.as.batch + i * p.as.row;
  const T* b = static_cast<const T*>(p.b) + batch * p.bs.batch;
  const int64_t a_row = p.as.row;
  float sums[How::kRows * kDotStride];
  const uint32_t side = (columns + kSides - 1) / kSides;
  for (uint32_t t = 0; t < side; ++t) {
    const T* column[kSides];
#pragma unroll
    for (uint32_t q = 0; q < kSides; ++q)  // columns past the end repeat the last one
      column[q] = b + least(j0 + q * side + t, p.n - 1) * p.bs.col;
    uint32_t m = 0;
    const auto part = [&](auto count) __attribute__((always_inline)) {
      constexpr uint32_t kRows = decltype(count)::value;
      dot_columns<How, kRows, kSides>(sums + m * kDotStride + t, side, a + m * a_row, a_row, column, p.k);
      m += kRows;
    };
    if constexpr (kSides == 3)
      while (m + 8 <= rows) part(Constant<8>{});
    if (m + 4 <= rows) part(Constant<4>{});
    switch (rows - m) {
      case 3: part(Constant<3>{}); break;
      case 2: part(Constant<2>{}); break;
      case 1: part(Constant<1>{}); break;
      default: break;
    }
  }
  for (uint32_t j = 0; j < columns; j += kLanes)
    for (uint32_t m = 0; m < rows; ++m)
      finish_columns<T>(p, load16(sums + m * kDotStride + j), batch, i + m, j0 + j, least(columns - j, kLanes));
}

// For rows of a and columns of b that are contiguous, as where b is a transposed weight, which is read once for
// How::kRows rows. A work-group is one item, for dot_columns columns; blocks of rows before blocks of columns.
template <class T, class How = Floats> void matmul_dot(const MatmulArgs& p) {
  const uint32_t group = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0));
  const uint32_t across = group / p.blocks, block = group - across * p.blocks, batch = block / p.row_blocks;
  const uint32_t j0 = across * p.dot_columns, columns = least(p.n - j0, p.dot_columns);
  const uint32_t i0 = (block - batch * p.row_blocks) * How::kRows, rows = least(p.m - i0, How::kRows);
  if constexpr (How::kRows > 4)
    if (rows > 4) return dot_rows<T, How, 3>(p, batch, i0, rows, j0, columns);
  dot_rows<T, How, 4>(p, batch, i0, rows, j0, columns);
}

// kRows rows of a times 16 * kVectors columns of b, whose rows are contiguous.
template <class T, uint32_t kRows, uint32_t kVectors>
XPU_INLINE void across_vectors(const MatmulArgs& p, uint32_t batch, uint32_t i, uint32_t j) {
  const T* a = static_cast<const T*>(p.a) + batch * p.as.batch + i * p.as.row;
  const T* line = static_cast<const T*>(p.b) + batch * p.bs.batch + j;
  float16v sum[kRows][kVectors] = {};
  for (uint32_t k = 0; k < p.k; ++k, line += p.bs.row) {
    float x[kRows];
#pragma unroll
    for (uint32_t m = 0; m < kRows; ++m) x[m] = static_cast<float>(a[m * p.as.row + k * p.as.col]);
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) {
      const float16v w = load16(line + 16 * v);
#pragma unroll
      for (uint32_t m = 0; m < kRows; ++m) sum[m][v] += x[m] * w;
    }
  }
#pragma unroll
  for (uint32_t m = 0; m < kRows; ++m)
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) finish_columns<T>(p, sum[m][v], batch, i + m, j + 16 * v, kLanes);
}

// For rows of b that are contiguous, which are read once for four rows of a, kAcrossColumns of each at a time.
template <class T> void matmul_across(const MatmulArgs& p) {
  const uint32_t group = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0));
  const uint32_t across = group / p.blocks, block = group - across * p.blocks, batch = block / p.row_blocks;
  const uint32_t i0 = (block - batch * p.row_blocks) * xpu_ops::kDotRows, rows = least(p.m - i0, xpu_ops::kDotRows);
  constexpr uint32_t kVectors = 4;
  const uint32_t end = least(p.n, (across + 1) * xpu_ops::kAcrossColumns);
  uint32_t j = across * xpu_ops::kAcrossColumns;
  for (; rows == 1 && j + 2 * kVectors * kLanes <= end; j += 2 * kVectors * kLanes)
    across_vectors<T, 1, 2 * kVectors>(p, batch, i0, j);
  for (; j + kVectors * kLanes <= end; j += kVectors * kLanes) switch (rows) {
      case 1: across_vectors<T, 1, kVectors>(p, batch, i0, j); break;
      case 2: across_vectors<T, 2, kVectors>(p, batch, i0, j); break;
      case 3: across_vectors<T, 3, kVectors>(p, batch, i0, j); break;
      default: across_vectors<T, 4, kVectors>(p, batch, i0, j);
    }
  const T* b = static_cast<const T*>(p.b) + batch * p.bs.batch;
  for (; j < end; j += kLanes)
    for (uint32_t i = i0; i < i0 + rows; ++i) {
      const T* a = static_cast<const T*>(p.a) + batch * p.as.batch + i * p.as.row;
      const uint32_t count = least(end - j, kLanes);
      float sums[kLanes] = {};
      for (uint32_t k = 0; k < p.k; ++k)
        for (uint32_t q = 0; q < count; ++q)
          sums[q] += static_cast<float>(a[k * p.as.col]) * static_cast<float>(b[k * p.bs.row + j + q]);
      finish_columns<T>(p, load16(sums), batch, i, j, count);
    }
}

template <class T>
void whole_sum(const WholeArgs& p) {
  const uint32_t i = global_id();
  if (i >= p.n) return;
  const T x = static_cast<T>(p.parts[i]);
  p.out[i] = p.first ? x : p.out[i] + x;
}

// A work-group of sixteen items walks one chunk side by side, each with four sums. dot_final adds them in order, so the
// result does not depend on timing.
template <class T, bool kUnit>
XPU_INLINE void dot_chunk(const DotArgs& p) {
  using A = typename accumulator<T>::type;
  const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
  const uint32_t group = group_id();
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  const auto product = [&](size_t i) {
    A x = static_cast<A>(kUnit ? matmul_load(a + i, lane) : a[static_cast<int64_t>(i + lane) * p.a_stride]);
    if constexpr (is_complex_v<A>) {
      if (p.conj) x.im = -x.im;
    }
    return x * static_cast<A>(kUnit ? matmul_load(b + i, lane) : b[static_cast<int64_t>(i + lane) * p.b_stride]);
  };
  const uint32_t begin = group * p.chunk, end = begin + p.chunk < p.n ? begin + p.chunk : p.n;
  A sum0 = A(0), sum1 = A(0), sum2 = A(0), sum3 = A(0);
  size_t i = begin;
  for (; i + 64 <= end; i += 64) {
    sum0 = sum0 + product(i);
    sum1 = sum1 + product(i + 16);
    sum2 = sum2 + product(i + 32);
    sum3 = sum3 + product(i + 48);
  }
  for (; i + 16 <= end; i += 16) sum0 = sum0 + product(i);
  if (i + lane < end) sum1 = sum1 + product(i);
  (static_cast<A*>(p.partial) + group * 16)[lane] = (sum0 + sum1) + (sum2 + sum3);
}

template <class T>
void dot_partial(const DotArgs& p) {
  if (p.a_stride == 1 && p.b_stride == 1)
    dot_chunk<T, true>(p);
  else
    dot_chunk<T, false>(p);
}

template <class T>
void dot_final(const DotArgs& p) {
  using A = typename accumulator<T>::type;
  if (global_id()) return;
  A sum = A(0);
  for (uint32_t i = 0; i < p.items; ++i) sum = sum + static_cast<const A*>(p.partial)[i];
  *static_cast<T*>(p.out) = static_cast<T>(sum);
}

}  // namespace xpu
