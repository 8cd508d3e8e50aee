// Products of few rows of bytes, exact in 32 bits, for processors whose instructions for bytes saturate or that have
// none. Sums of products of 16-bit numbers that are added up at the end become vpmaddwd, which adds those of
// neighbours.
#pragma once
#include "kernels/sycl/core/constant.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/products/matmul_args.hpp"

namespace xpu {

using xpu_ops::MatmulArgs;
using char16u __attribute__((ext_vector_type(16), aligned(1))) = int8_t;
using short16v = int16_t __attribute__((ext_vector_type(16)));
using int16v = int32_t __attribute__((ext_vector_type(16)));

XPU_INLINE short16v load_bytes(const int8_t* x) {
  return __builtin_convertvector(*reinterpret_cast<const char16u*>(x), short16v);
}
XPU_INLINE int16v add_products(int16v sum, short16v x, short16v w) {
  return sum + __builtin_convertvector(x, int16v) * __builtin_convertvector(w, int16v);
}
XPU_INLINE int32_t all16(int16v v) {
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  v += __builtin_shufflevector(v, v, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  v += __builtin_shufflevector(v, v, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  return v[0];
}

// kRows rows of a times kColumns columns of b, each contiguous.
template <uint32_t kRows, uint32_t kColumns>
XPU_INLINE void byte_columns(const MatmulArgs& p, const int8_t* a, const int8_t* b, int32_t* out) {
  const int64_t a_row = p.as.row, b_col = p.bs.col;
  int16v sum[kRows][kColumns] = {};
  uint32_t k = 0;
  for (; k + 16 <= p.k; k += 16) {
    short16v w[kColumns];
#pragma unroll
    for (uint32_t q = 0; q < kColumns; ++q) w[q] = load_bytes(b + q * b_col + k);
#pragma unroll
    for (uint32_t m = 0; m < kRows; ++m) {
      const short16v x = load_bytes(a + m * a_row + k);
#pragma unroll
      for (uint32_t q = 0; q < kColumns; ++q) sum[m][q] = add_products(sum[m][q], x, w[q]);
    }
  }
#pragma unroll
  for (uint32_t m = 0; m < kRows; ++m)
#pragma unroll
    for (uint32_t q = 0; q < kColumns; ++q) {
      int32_t total = all16(sum[m][q]);
#pragma clang loop vectorize(disable)
      for (uint32_t j = k; j < p.k; ++j) total += int32_t{a[m * a_row + j]} * b[q * b_col + j];
      out[m * p.os.row + q * p.os.col] = total;
    }
}

// Eight sums and what is loaded for them stay in sixteen registers.
template <uint32_t kRows>
XPU_INLINE void byte_rows(const MatmulArgs& p, const int8_t* a, const int8_t* b, int32_t* out, uint32_t columns) {
  constexpr uint32_t kColumns = kRows > 2 ? 2 : 4;
  uint32_t j = 0;
  for (; j + kColumns <= columns; j += kColumns)
    byte_columns<kRows, kColumns>(p, a, b + j * p.bs.col, out + j * p.os.col);
  for (; j < columns; ++j) byte_columns<kRows, 1>(p, a, b + j * p.bs.col, out + j * p.os.col);
}

// As matmul_dot: rows of a and columns of b are contiguous, a work-group is one item, for dot_columns columns.
template <class T> void matmul_bytes(const MatmulArgs& p) {
  const uint32_t group = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0));
  const uint32_t across = group / p.blocks, block = group - across * p.blocks, batch = block / p.row_blocks;
  const uint32_t j0 = across * p.dot_columns, left = p.n - j0, columns = left < p.dot_columns ? left : p.dot_columns;
  const uint32_t i0 = (block - batch * p.row_blocks) * xpu_ops::kDotRows, rows = p.m - i0;
  const T* a = static_cast<const T*>(p.a) + batch * p.as.batch + i0 * p.as.row;
  const T* b = static_cast<const T*>(p.b) + batch * p.bs.batch + j0 * p.bs.col;
  int32_t* out = static_cast<int32_t*>(p.out) + batch * p.os.batch + i0 * p.os.row + j0 * p.os.col;
  switch (rows) {
    case 1: return byte_rows<1>(p, a, b, out, columns);
    case 2: return byte_rows<2>(p, a, b, out, columns);
    case 3: return byte_rows<3>(p, a, b, out, columns);
    default: return byte_rows<4>(p, a, b, out, columns);
  }
}

}  // namespace xpu
