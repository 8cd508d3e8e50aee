// Kernels that rearrange elements beyond what a strided copy can: cat of many inputs, padding, im2col, and the sums
// that are their gradients. Gradients gather, so they need no atomics and are deterministic.
#pragma once
#include "convert.hpp"
#include "shape_args.hpp"

namespace xpu {

using xpu_ops::CatArgs;
using xpu_ops::Im2colArgs;
using xpu_ops::PadArgs;
using xpu_ops::UnfoldBackwardArgs;

// The input of a work-group is selected from all of them: an index into the arguments that is not a constant would copy
// them for every item. 64-bit columns and whole steps apart from the last: see for_columns.
template <class T>
void cat_runs(const CatArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const uint32_t group = it.get_group(0);
  const size_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  CatArgs::Input in = p.in[0];
#pragma unroll
  for (uint32_t k = 1; k < xpu_ops::kCatInputs; ++k) {
    const bool mine = k < p.count && p.in[k].first_group <= group;
    in.src = mine ? p.in[k].src : in.src;
    in.first_group = mine ? p.in[k].first_group : in.first_group;
    in.offset = mine ? p.in[k].offset : in.offset;
    in.width.d = mine ? p.in[k].width.d : in.width.d;
    in.width.magic = mine ? p.in[k].width.magic : in.width.magic;
    in.width.shift = mine ? p.in[k].width.shift : in.width.shift;
  }
  const uint32_t width = in.width.d, n = p.outer * width;
  const T* src = static_cast<const T*>(in.src);
  T* dst = static_cast<T*>(p.dst) + in.offset;
  const uint32_t begin = (group - in.first_group) * xpu_ops::kCatBlock;
  const uint32_t end = begin + xpu_ops::kCatBlock < n ? begin + xpu_ops::kCatBlock : n;
  if (width < 16) {
    for_columns(begin, end, lane, lanes, [&](size_t e) {
      uint32_t row = xpu_ops::div(static_cast<uint32_t>(e), in.width);
      dst[row * p.total + (static_cast<uint32_t>(e) - row * width)] = src[e];
    });
  } else {
    for (uint32_t row = xpu_ops::div(begin, in.width); row * width < end; ++row) {
      const uint32_t first = row * width;
      const T* s = src + first;
      T* d = dst + size_t{row} * p.total;
      for_columns(first < begin ? begin - first : 0, first + width > end ? end - first : width, lane, lanes,
                  [&](size_t c) { d[c] = s[c]; });
    }
  }
}

// Where output position o of one dimension comes from.
template <bool REFLECT>
inline int32_t pad_source(int32_t o, int32_t in, int32_t pad) {
  int32_t i = o - pad;
  if constexpr (REFLECT) {
    i = i < 0 ? -i : i;
    return i >= in ? 2 * (in - 1) - i : i;
  } else {
    i = i < 0 ? 0 : i;
    return i >= in ? in - 1 : i;
  }
}

// Coordinates of a row of the written tensor: y in dimension 1, z in dimension 2, b in the rest.
struct PadRow {
  int32_t y, z;
  uint32_t b;
};
inline PadRow pad_row(const PadArgs& p, uint32_t row) {
  uint32_t q = xpu_ops::div(row, p.write1), b = xpu_ops::div(q, p.write2);
  return {static_cast<int32_t>(row - q * p.write1.d), static_cast<int32_t>(q - b * p.write2.d), b};
}

template <class T, bool REFLECT>
void pad_gather(const PadArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  int32_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  uint32_t row = it.get_group(0) * p.group, end = row + p.group < p.rows ? row + p.group : p.rows;
  for (; row < end; ++row) {
    PadRow r = pad_row(p, row);
    uint32_t y = pad_source<REFLECT>(r.y, p.in[1], p.pad[1]), z = pad_source<REFLECT>(r.z, p.in[2], p.pad[2]);
    const T* src = static_cast<const T*>(p.src) + ((r.b * p.in[2] + z) * p.in[1] + y) * p.in[0];
    T* dst = static_cast<T*>(p.dst) + row * p.out[0];
    for (int32_t x = lane; x < p.out[0]; x += lanes) dst[x] = src[pad_source<REFLECT>(x, p.in[0], p.pad[0])];
  }
}

// The output positions of one dimension that input position i was copied to: up to three runs.
struct PadTargets { int32_t begin[3], end[3]; };
template <bool REFLECT>
inline PadTargets pad_targets(int32_t i, int32_t in, int32_t out, int32_t pad) {
  PadTargets t;
  int32_t o = i + pad;
  if constexpr (REFLECT) {
    int32_t left = pad - i, right = pad + 2 * (in - 1) - i;
    bool here = o >= 0 && o < out, l = left >= 0 && left < pad, r = right >= in + pad && right < out;
    t.begin[0] = here ? o : 0, t.end[0] = here ? o + 1 : 0;
    t.begin[1] = l ? left : 0, t.end[1] = l ? left + 1 : 0;
    t.begin[2] = r ? right : 0, t.end[2] = r ? right + 1 : 0;
  } else {
    int32_t b = i == 0 || o < 0 ? 0 : o, e = i == in - 1 ? out : (o + 1 < out ? o + 1 : out);
    t.begin[0] = b, t.end[0] = e;
    t.begin[1] = t.end[1] = t.begin[2] = t.end[2] = 0;
  }
  return t;
}

template <class T, bool REFLECT>
void pad_gather_backward(const PadArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  using M = opmath_t<T>;
  constexpr int runs = REFLECT ? 3 : 1;
  int32_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  uint32_t row = it.get_group(0) * p.group, end = row + p.group < p.rows ? row + p.group : p.rows;
  for (; row < end; ++row) {
    PadRow r = pad_row(p, row);
    PadTargets ty = pad_targets<REFLECT>(r.y, p.in[1], p.out[1], p.pad[1]);
    PadTargets tz = pad_targets<REFLECT>(r.z, p.in[2], p.out[2], p.pad[2]);
    for (int32_t x = lane; x < p.in[0]; x += lanes) {
      PadTargets tx = pad_targets<REFLECT>(x, p.in[0], p.out[0], p.pad[0]);
      M sum = M(0);
      for (int az = 0; az < runs; ++az)
        for (int32_t z = tz.begin[az]; z < tz.end[az]; ++z)
          for (int ay = 0; ay < runs; ++ay)
            for (int32_t y = ty.begin[ay]; y < ty.end[ay]; ++y) {
              const T* src = static_cast<const T*>(p.src) + ((r.b * p.out[2] + z) * p.out[1] + y) * p.out[0];
              for (int ax = 0; ax < runs; ++ax)
                for (int32_t o = tx.begin[ax]; o < tx.end[ax]; ++o) sum = sum + M(src[o]);
            }
      static_cast<T*>(p.dst)[row * p.in[0] + x] = T(sum);
    }
  }
}

// One work-group a row (batch and channel, kernel position) of out_height * out_width columns.
template <class T>
void im2col(const Im2colArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  uint32_t row = it.get_group(0), lane = it.get_local_id(0), lanes = it.get_local_range(0);
  uint32_t q = xpu_ops::div(row, p.by_kernel_w), kw = row - q * p.by_kernel_w.d;
  uint32_t plane = xpu_ops::div(q, p.by_kernel_h), kh = q - plane * p.by_kernel_h.d, n = p.out_height * p.out_width;
  const T* src = static_cast<const T*>(p.src) + plane * p.height * p.width;
  T* dst = static_cast<T*>(p.dst) + row * n;
  int32_t y0 = static_cast<int32_t>(kh) * p.dilation_h - p.pad_h,
          x0 = static_cast<int32_t>(kw) * p.dilation_w - p.pad_w;
  for (uint32_t i = lane; i < n; i += lanes) {
    uint32_t oy = xpu_ops::div(i, p.by_out_width), ox = i - oy * p.by_out_width.d;
    int32_t y = static_cast<int32_t>(oy) * p.stride_h + y0, x = static_cast<int32_t>(ox) * p.stride_w + x0;
    bool inside = y >= 0 && y < p.height && x >= 0 && x < p.width;
    dst[i] = inside ? src[y * p.width + x] : T{};
  }
}

// One work-group a plane; each item sums the columns that its pixel was copied to.
template <class T>
void col2im(const Im2colArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<2>();
  using M = opmath_t<T>;
  uint32_t plane = it.get_group(0), n = p.height * p.width, columns = p.out_height * p.out_width;
  uint32_t i = it.get_global_id(1);
  if (i >= n) return;
  const T* src = static_cast<const T*>(p.src) + plane * p.kernel_h * p.kernel_w * columns;
  int32_t y = xpu_ops::div(i, p.by_width), x = static_cast<int32_t>(i) - y * p.width;
  M sum = M(0);
  for (int32_t kh = 0; kh < p.kernel_h; ++kh) {
    int32_t ty = y + p.pad_h - kh * p.dilation_h, oy = ty / p.stride_h;
    bool in_y = ty >= 0 && oy * p.stride_h == ty && oy < p.out_height;
    for (int32_t kw = 0; kw < p.kernel_w; ++kw) {
      int32_t tx = x + p.pad_w - kw * p.dilation_w, ox = tx / p.stride_w;
      bool inside = in_y && tx >= 0 && ox * p.stride_w == tx && ox < p.out_width;
      if (inside) sum = sum + M(src[(kh * p.kernel_w + kw) * columns + oy * p.out_width + ox]);
    }
  }
  static_cast<T*>(p.dst)[plane * n + i] = T(sum);
}

template <class T>
void unfold_backward(const UnfoldBackwardArgs& p) {
  using M = opmath_t<T>;
  uint32_t e = global_id();
  if (e >= p.n) return;
  uint32_t q = xpu_ops::div(e, p.inner), inner = e - q * p.inner.d, outer = xpu_ops::div(q, p.length);
  int32_t i = static_cast<int32_t>(q - outer * p.length.d);
  // Windows j with j * step <= i < j * step + size.
  int32_t last = i / p.step, first = i < p.size ? 0 : (i - p.size) / p.step + 1;
  last = last < p.windows - 1 ? last : p.windows - 1;
  const T* src = static_cast<const T*>(p.grad_in);
  M sum = M(0);
  for (int32_t j = first; j <= last; ++j)
    sum = sum + M(src[((outer * p.windows + j) * p.inner.d + inner) * p.size + (i - j * p.step)]);
  static_cast<T*>(p.grad)[e] = T(sum);
}

}  // namespace xpu
