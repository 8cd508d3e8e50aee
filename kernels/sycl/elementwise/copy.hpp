// Copies, casts and fills. Copies of one type move bits and are compiled by element size. A cast is compiled for each
// pair of types (a switch on the source type costs 4x) and only for contiguous data: the plan pairs it with a strided
// copy.
#pragma once
#include <sycl/ext/oneapi/work_group_static.hpp>
#include <sycl/group_barrier.hpp>

#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/copy_columns.hpp"
#include "kernels/sycl/core/fours.hpp"
#include "kernels/sycl/elementwise/copy_args.hpp"

namespace xpu {

using xpu_ops::CopyArgs;
using xpu_ops::FillArgs;
using xpu_ops::kRowColumns;

// Signed, because a flipped dimension has a negative source stride.
struct Offsets { int32_t dst = 0, src = 0; };

// Where the element with linear index i over dimensions FIRST .. LAST-1 lives. A loop to a number of dimensions known
// when it runs is not vectorised; unused dimensions of size 1 cost less.
template <int FIRST, int LAST>
inline Offsets copy_offsets(const CopyArgs& p, uint32_t i) {
  Offsets o;
#pragma unroll
  for (int d = FIRST; d < LAST; ++d) {
    uint32_t q = xpu_ops::div(i, p.size[d]), r = i - q * p.size[d].d;
    o.dst += static_cast<int32_t>(r) * p.dst_stride[d];
    o.src += static_cast<int32_t>(r) * p.src_stride[d];
    i = q;
  }
  return o;
}

template <class T>
void copy_contig(const CopyArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t c0 = it.get_group(0) * size_t{kTileElements}, c1 = c0 + kTileElements < p.n ? c0 + kTileElements : p.n;
  copy_columns(static_cast<T*>(p.dst), static_cast<const T*>(p.src), c0, c1, it.get_local_id(0), it.get_local_range(0));
}

// 2-D. A work-group walks p.group rows, along the first DIMS dimensions of `width` elements, over its part of the
// columns: short rows do not cost a work-group each, and what is the same for a row is computed once. f(dst, src, c0,
// c1, lane, lanes) moves one.
template <class T, int DIMS, class Fn>
inline void for_copied_rows(const CopyArgs& p, size_t width, Fn f) {
  auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = it.get_local_id(1), lanes = it.get_local_range(1), c0 = it.get_group(1) * size_t{kRowColumns},
               c1 = c0 + kRowColumns < width ? c0 + kRowColumns : width;
  uint32_t row = it.get_group(0) * p.group, end = row + p.group < p.n ? row + p.group : p.n;
  for (; row < end; ++row) {
    const Offsets o = copy_offsets<DIMS, xpu_ops::kCopyDims>(p, row);
    f(static_cast<T*>(p.dst) + o.dst, static_cast<const T*>(p.src) + o.src, c0, c1, lane, lanes);
  }
}

// Rows that are contiguous on both sides.
template <class T>
void copy_rows(const CopyArgs& p) {
  for_copied_rows<T, 1>(p, p.size[0].d, [](T* dst, const T* src, size_t c0, size_t c1, size_t lane, size_t lanes) {
    copy_columns(dst, src, c0, c1, lane, lanes);
  });
}

// dst is contiguous over the first DIMS dimensions, src is not: one of them is walked by a step, two by one division.
template <class T, int DIMS>
void copy_lines(const CopyArgs& p) {
  const size_t width = DIMS == 1 ? p.size[0].d : p.size[0].d * p.size[1].d;
  for_copied_rows<T, DIMS>(p, width, [&](T* dst, const T* src, size_t c0, size_t c1, size_t lane, size_t lanes) {
    if constexpr (DIMS == 1) {
      const int64_t step = p.src_stride[0];
      if (step == -1)
        for_columns(c0, c1, lane, lanes, [&](size_t c) { dst[c] = src[-static_cast<int64_t>(c)]; });
      else if (step == 2)  // parts of complex numbers: whole vectors, of which every second element is taken
        for_columns(c0, c1, lane, lanes, [&](size_t c) { dst[c] = src[2 * c]; });
      else
        for_columns(c0, c1, lane, lanes, [&](size_t c) { dst[c] = src[static_cast<int64_t>(c) * step]; });
    } else {
      for_columns(c0, c1, lane, lanes, [&](size_t c) {
        const uint32_t i = static_cast<uint32_t>(c), q = xpu_ops::div(i, p.size[0]), r = i - q * p.size[0].d;
        dst[c] = src[static_cast<int32_t>(r) * p.src_stride[0] + static_cast<int32_t>(q) * p.src_stride[1]];
      });
    }
  });
}

// Rows of any steps on both sides, on a CPU device by one item after the other: single loads and stores are faster
// there than gathers and scatters. In 64 bits: a product of 32 could wrap, which the compiler would have to provide
// for.
template <class T>
void copy_steps(const CopyArgs& p) {
  const int64_t to = p.dst_stride[0], from = p.src_stride[0];
  for_copied_rows<T, 1>(p, p.size[0].d, [&](T* dst, const T* src, size_t c0, size_t c1, size_t lane, size_t lanes) {
    for (size_t c = c0 + lane; c < c1; c += lanes)
      dst[static_cast<int64_t>(c) * to] = src[static_cast<int64_t>(c) * from];
  });
}

// 2-D. Dimension 0 is contiguous in dst, dimension 1 in src, forwards or backwards. Each item moves a column of
// kTransposeColumn elements, so that its loads and the stores of its neighbours stay in the cache lines of one block.
template <class T>
void copy_transpose(const CopyArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<2>();
  constexpr uint32_t kColumn = xpu_ops::kTransposeColumn;
  uint32_t blocks1 = (p.size[1].d + kColumn - 1) / kColumn, y = it.get_group(0), batch = y / blocks1;
  uint32_t i = it.get_global_id(1), j0 = (y - batch * blocks1) * kColumn,
           j1 = j0 + kColumn < p.size[1].d ? j0 + kColumn : p.size[1].d;
  if (i >= p.size[0].d) return;
  Offsets o = copy_offsets<2, xpu_ops::kCopyDims>(p, batch);
  T* dst = static_cast<T*>(p.dst) + o.dst + i;
  const T* src = static_cast<const T*>(p.src) + (o.src + static_cast<int32_t>(i) * p.src_stride[0]);
  for (uint32_t j = j0; j < j1; ++j)
    dst[static_cast<int32_t>(j) * p.dst_stride[1]] = src[static_cast<int32_t>(j) * p.src_stride[1]];
}

// The same through local memory, for devices that want neighbouring items at neighbouring addresses on both sides. A
// work-group turns a square tile; a column more keeps its columns in different banks.
template <class T>
void copy_tiles(const CopyArgs& p) {
  constexpr uint32_t kSide = xpu_ops::turned_side(sizeof(T)), kPitch = kSide + 1;
  auto it = syclex::this_work_item::get_nd_item<2>();
  const uint32_t blocks1 = (p.size[1].d + kSide - 1) / kSide, y = it.get_group(0), batch = y / blocks1;
  const uint32_t i0 = it.get_group(1) * kSide, j0 = (y - batch * blocks1) * kSide;
  const uint32_t item = it.get_local_id(1), x = item % kSide, step = it.get_local_range(1) / kSide;
  const Offsets o = copy_offsets<2, xpu_ops::kCopyDims>(p, batch);
  syclexp::work_group_static<T[kSide * kPitch]> shared;
  T* tile = shared;
  const T* src = static_cast<const T*>(p.src) + o.src;
  for (uint32_t k = item / kSide; k < kSide; k += step)
    if (i0 + k < p.size[0].d && j0 + x < p.size[1].d)
      tile[k * kPitch + x] =
          src[static_cast<int32_t>(i0 + k) * p.src_stride[0] + static_cast<int32_t>(j0 + x) * p.src_stride[1]];
  sycl::group_barrier(it.get_group());
  T* dst = static_cast<T*>(p.dst) + o.dst;
  for (uint32_t k = item / kSide; k < kSide; k += step)
    if (i0 + x < p.size[0].d && j0 + k < p.size[1].d)
      dst[static_cast<int32_t>(i0 + x) + static_cast<int32_t>(j0 + k) * p.dst_stride[1]] = tile[x * kPitch + k];
}

template <class To, class From>
inline To cast_element(From v, uint32_t flags) {
  if constexpr (is_complex_v<From>) {
    using R = real_t<From>;
    if (flags & xpu_ops::kCopyConj) v.im = R(-v.im);
    if (flags & xpu_ops::kCopyNeg) v = From(R(-v.re), R(-v.im));
    return convert<To>(v);
  } else if constexpr (is_same_v<From, bool>) {
    return convert<To>(v);
  } else {
    // Through the compute type: the 16-bit floats of device.hpp have no minus of their own.
    if (flags & xpu_ops::kCopyNeg) return convert<To>(static_cast<From>(-static_cast<opmath_t<From>>(v)));
    return convert<To>(v);
  }
}

template <class To, class From>
void cast_contig(const CopyArgs& p) {
  for_tile(p.n, [&](size_t i) {
    static_cast<To*>(p.dst)[i] = cast_element<To>(static_cast<const From*>(p.src)[i], p.flags);
  });
}

// By fours, for devices whose items have registers of their own.
template <class To, class From>
void cast_fours(const CopyArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t c0 = it.get_group(0) * size_t{kTileElements}, c1 = c0 + kTileElements < p.n ? c0 + kTileElements : p.n;
  for (size_t i = c0 + 4 * it.get_local_id(0); i < c1; i += 4 * it.get_local_range(0)) {
    From v[4];
    To r[4];
    read_four(static_cast<const From*>(p.src), i, v);
#pragma unroll
    for (int k = 0; k < 4; ++k) r[k] = cast_element<To>(v[k], p.flags);
    write_four(static_cast<To*>(p.dst), i, r);
  }
}

template <class T>
void fill_contig(const FillArgs& p) {
  const T value = *reinterpret_cast<const T*>(p.value);
  for_tile(p.n, [&](size_t i) { static_cast<T*>(p.dst)[i] = value; });
}

// Rows of any step, as copy_steps walks them.
template <class T>
void fill_steps(const FillArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = it.get_local_id(1), lanes = it.get_local_range(1), c0 = it.get_group(1) * size_t{kRowColumns},
               c1 = c0 + kRowColumns < p.size[0].d ? c0 + kRowColumns : p.size[0].d;
  const T value = *reinterpret_cast<const T*>(p.value);
  const int64_t step = p.dst_stride[0];
  uint32_t row = it.get_group(0) * p.group, end = row + p.group < p.n ? row + p.group : p.n;
  for (; row < end; ++row) {
    uint32_t o = 0, i = row;
#pragma unroll
    for (int d = 1; d < xpu_ops::kCopyDims; ++d) {
      uint32_t q = xpu_ops::div(i, p.size[d]);
      o += (i - q * p.size[d].d) * p.dst_stride[d];
      i = q;
    }
    T* dst = static_cast<T*>(p.dst) + o;
    if (step == 1)
      for_columns(c0, c1, lane, lanes, [&](size_t c) { dst[c] = value; });
    else
      for (size_t c = c0 + lane; c < c1; c += lanes) dst[static_cast<int64_t>(c) * step] = value;
  }
}

}  // namespace xpu

#ifdef __SYCL_DEVICE_ONLY__  // the host's casts take this header too, by a compiler without clang's vectors
#include "kernels/sycl/elementwise/copy_blocks.hpp"
#endif
