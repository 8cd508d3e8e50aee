// Kernels that rearrange elements beyond what a strided copy can: cat of many inputs, padding, im2col, and the sums
// that are their gradients. Gradients gather, so they need no atomics and are deterministic.
#pragma once
#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/copy_columns.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/elementwise/shape_args.hpp"

namespace xpu {

using xpu_ops::CatArgs;
using xpu_ops::Im2colArgs;
using xpu_ops::PadArgs;
using xpu_ops::UnfoldBackwardArgs;
using xpu_ops::ops::PadMode;

// The input of a work-group is selected from all of them: an index into the arguments that is not a constant would copy
// them for every item. 64-bit columns and whole steps apart from the last: see for_columns.
constexpr uint32_t kCatFlat = 8;  // steps of a work-group up to which rows are not walked one by one
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
  if (p.ahead && width < kCatFlat * lanes) {
    // Several elements of an item are on their way at a time, whatever row they are of.
    constexpr uint32_t kAhead = 4;
    for (uint32_t e = begin + static_cast<uint32_t>(lane); e < end; e += kAhead * static_cast<uint32_t>(lanes)) {
      T value[kAhead];
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a) {
        const uint32_t at = e + a * static_cast<uint32_t>(lanes);
        if (at < end) value[a] = src[at];
      }
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a) {
        const uint32_t at = e + a * static_cast<uint32_t>(lanes), row = xpu_ops::div(at, in.width);
        if (at < end) dst[size_t{row} * p.total + (at - row * width)] = value[a];
      }
    }
  } else if (width < lanes) {
    for_columns(begin, end, lane, lanes, [&](size_t e) {
      uint32_t row = xpu_ops::div(static_cast<uint32_t>(e), in.width);
      dst[row * p.total + (static_cast<uint32_t>(e) - row * width)] = src[e];
    });
  } else {
    for (uint32_t row = xpu_ops::div(begin, in.width); row * width < end; ++row) {
      const uint32_t first = row * width;
      const T* s = src + first;
      T* d = dst + size_t{row} * p.total;
      copy_columns(d, s, first < begin ? begin - first : 0, first + width > end ? end - first : width, lane, lanes);
    }
  }
}

// Where output position o of one dimension comes from; beside the input where a constant stands. What the compiler
// knows to be an absolute value it computes by a built-in, whose result counts as different in every item: `mirror` is
// the padding once more. All by value, and one value an arm: of a choice between two arguments it makes one between
// their addresses, and copies them for every item.
template <PadMode MODE>
XPU_INLINE int32_t pad_source(int32_t o, int32_t in, int32_t pad, int32_t mirror) {
  const int32_t i = o - pad;
  if constexpr (MODE == PadMode::constant) {
    return i;
  } else if constexpr (MODE == PadMode::reflection) {
    const int32_t low = mirror - o, high = low + 2 * (in - 1);
    return i < 0 ? low : i >= in ? high : i;
  } else {
    return i < 0 ? 0 : i >= in ? in - 1 : i;
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

// Copies columns begin .. end - 1. A last step that is not whole starts earlier and copies some again: masks cost more.
template <class T>
XPU_INLINE void copy_line(T* dst, const T* src, size_t begin, size_t end, size_t lane, size_t lanes) {
  size_t k = begin;
  for (; k + lanes <= end; k += lanes) (dst + k)[lane] = (src + k)[lane];
  if (k == end) return;
  if (begin + lanes <= end)
    (dst + (end - lanes))[lane] = (src + (end - lanes))[lane];
  else if (k + lane < end)
    (dst + k)[lane] = (src + k)[lane];
}

// The same for one value.
template <class T>
XPU_INLINE void fill_line(T* dst, T value, size_t begin, size_t end, size_t lane, size_t lanes) {
  size_t k = begin;
  for (; k + lanes <= end; k += lanes) (dst + k)[lane] = value;
  if (k + lane < end) (dst + k)[lane] = value;
}

// Row y of plane z of batch b, in elements.
XPU_INLINE uint32_t pad_line(const PadArgs& p, uint32_t b, int32_t z, int32_t y) {
  return ((b * p.in[2] + z) * p.in[1] + y) * p.in[0];
}
XPU_INLINE bool pad_inside(const PadArgs& p, int32_t z, int32_t y) {
  return static_cast<uint32_t>(z) < static_cast<uint32_t>(p.in[2]) &&
         static_cast<uint32_t>(y) < static_cast<uint32_t>(p.in[1]);
}

// Rows, or part of one. The columns between the paddings are a plain copy: 64-bit columns of uniform pointers, as
// everywhere below. Others that are no constant are few, and the same for all items of the group, which write the same.
template <class T, PadMode MODE>
void pad_gather(const PadArgs& p) {
  constexpr bool reflect = MODE == PadMode::reflection;
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  const uint32_t group = it.get_group(0), block = xpu_ops::div(group, p.parts);
  const int64_t out = p.out[0], from = int64_t{group - block * p.parts.d} * p.columns,
                to = from + p.columns < out ? from + p.columns : out, begin = p.begin > from ? p.begin : from,
                end = p.end < to ? p.end : to, before = p.begin < to ? p.begin : to,
                behind = p.end > from ? p.end : from;
  [[maybe_unused]] const T value = *reinterpret_cast<const T*>(p.value);
  uint32_t row = block * p.group, last = row + p.group < p.rows ? row + p.group : p.rows;
  for (; row < last; ++row) {
    const PadRow r = pad_row(p, row);
    const int32_t y = pad_source<MODE>(r.y, p.in[1], p.pad[1], p.mirror[1]),
                  z = pad_source<MODE>(r.z, p.in[2], p.pad[2], p.mirror[2]);
    T* dst = static_cast<T*>(p.dst) + row * p.out[0];
    if constexpr (MODE == PadMode::constant)
      if (!pad_inside(p, z, y)) {
        fill_line(dst, value, from, to, lane, lanes);
        continue;
      }
    const T* src = static_cast<const T*>(p.src) + pad_line(p, r.b, z, y);
    copy_line(dst, src - p.pad[0], begin, end, lane, lanes);
    if constexpr (MODE == PadMode::constant) {
      fill_line(dst, value, from, before, lane, lanes);
      fill_line(dst, value, behind, to, lane, lanes);
    } else {
      const T *left = src + p.left, *right = src + p.right;
      for (int64_t x = from; x < before; ++x) dst[x] = reflect ? left[-x] : *left;
      for (int64_t x = behind; x < to; ++x) dst[x] = reflect ? right[p.end - x] : *right;
    }
  }
}

// An item has several elements, a work-group apart, whatever rows they are of: all are on their way at a time.
template <class T, PadMode MODE>
void pad_items(const PadArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const uint32_t lanes = it.get_local_range(0),
                 first = it.get_group(0) * lanes * xpu_ops::kPadAhead + static_cast<uint32_t>(it.get_local_id(0));
  T value[xpu_ops::kPadAhead];
#pragma unroll
  for (uint32_t a = 0; a < xpu_ops::kPadAhead; ++a) {
    const uint32_t e = first + a * lanes;
    if (e >= p.n) continue;
    const uint32_t row = xpu_ops::div(e, p.write0);
    const PadRow r = pad_row(p, row);
    const int32_t o = static_cast<int32_t>(e - row * p.write0.d),
                  x = pad_source<MODE>(o, p.in[0], p.pad[0], p.mirror[0]),
                  y = pad_source<MODE>(r.y, p.in[1], p.pad[1], p.mirror[1]),
                  z = pad_source<MODE>(r.z, p.in[2], p.pad[2], p.mirror[2]);
    bool inside = true;
    if constexpr (MODE == PadMode::constant)
      inside = pad_inside(p, z, y) && static_cast<uint32_t>(x) < static_cast<uint32_t>(p.in[0]);
    if (inside)
      value[a] = static_cast<const T*>(p.src)[pad_line(p, r.b, z, y) + x];
    else
      value[a] = *reinterpret_cast<const T*>(p.value);
  }
#pragma unroll
  for (uint32_t a = 0; a < xpu_ops::kPadAhead; ++a)
    if (first + a * lanes < p.n) static_cast<T*>(p.dst)[first + a * lanes] = value[a];
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

// Adds to a column what the rows hold that position (y, z) was copied to; f(row) sums inside one.
template <int runs, class F>
XPU_INLINE void for_pad_rows(const PadTargets& ty, const PadTargets& tz, F f) {
#pragma unroll
  for (int az = 0; az < runs; ++az)
    for (int32_t z = tz.begin[az]; z < tz.end[az]; ++z)
#pragma unroll
      for (int ay = 0; ay < runs; ++ay)
        for (int32_t y = ty.begin[ay]; y < ty.end[ay]; ++y) { [[clang::always_inline]] f(y, z); }
}

template <class T, bool REFLECT>
void pad_gather_backward(const PadArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  using M = opmath_t<T>;
  constexpr int runs = REFLECT ? 3 : 1;
  const size_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  // Columns that were copied to one place.
  const int32_t in = p.in[0], out = p.out[0], pad = p.pad[0], behind = out - pad - in,
                before = REFLECT ? (pad > 0 ? pad + 1 : 0) : 1, after = REFLECT ? (behind > 0 ? behind + 1 : 0) : 1;
  const int32_t first = before > -pad ? before : -pad, begin = first < in ? first : in,
                stop = in - after < out - pad ? in - after : out - pad, end = stop > begin ? stop : begin;
  uint32_t row = it.get_group(0) * p.group, last = row + p.group < p.rows ? row + p.group : p.rows;
  for (; row < last; ++row) {
    const PadRow r = pad_row(p, row);
    const PadTargets ty = pad_targets<REFLECT>(r.y, p.in[1], p.out[1], p.pad[1]);
    const PadTargets tz = pad_targets<REFLECT>(r.z, p.in[2], p.out[2], p.pad[2]);
    const T* planes = static_cast<const T*>(p.src) + r.b * p.out[2] * p.out[1] * p.out[0];
    T* dst = static_cast<T*>(p.dst) + row * p.in[0];
    for_columns(begin, end, lane, lanes, [&](size_t x) {
      M sum = M(0);
      for_pad_rows<runs>(
          ty, tz, [&](int32_t y, int32_t z) { sum = sum + M((planes + (z * p.out[1] + y) * p.out[0] + pad)[x]); });
      dst[x] = T(sum);
    });
    for (int32_t e = lane; e < in - (end - begin); e += lanes) {
      const int32_t x = e < begin ? e : e + (end - begin);
      const PadTargets tx = pad_targets<REFLECT>(x, in, out, pad);
      M sum = M(0);
      for_pad_rows<runs>(ty, tz, [&](int32_t y, int32_t z) {
        const T* src = planes + (z * p.out[1] + y) * p.out[0];
#pragma unroll
        for (int ax = 0; ax < runs; ++ax)
          for (int32_t o = tx.begin[ax]; o < tx.end[ax]; ++o) sum = sum + M(src[o]);
      });
      dst[x] = T(sum);
    }
  }
}

// One work-group per row (batch and channel, kernel position) of out_height lines of out_width columns.
template <class T>
void im2col(const Im2colArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  const uint32_t row = it.get_group(0), n = p.out_height * p.out_width;
  uint32_t q = xpu_ops::div(row, p.by_kernel_w), kw = row - q * p.by_kernel_w.d;
  uint32_t plane = xpu_ops::div(q, p.by_kernel_h), kh = q - plane * p.by_kernel_h.d;
  const T* src = static_cast<const T*>(p.src) + plane * p.height * p.width;
  T* dst = static_cast<T*>(p.dst) + row * n;
  int32_t y0 = static_cast<int32_t>(kh) * p.dilation_h - p.pad_h,
          x0 = static_cast<int32_t>(kw) * p.dilation_w - p.pad_w;
  if (p.stride_w == 1 && p.out_width >= 16) {
    const int32_t first = x0 < 0 ? -x0 : 0, begin = first < p.out_width ? first : p.out_width,
                  stop = p.width - x0 < p.out_width ? p.width - x0 : p.out_width, end = stop > begin ? stop : begin;
    for (int32_t oy = 0; oy < p.out_height; ++oy, dst += p.out_width) {
      const int32_t y = oy * p.stride_h + y0;
      if (y < 0 || y >= p.height) {
        for_columns(0, p.out_width, lane, lanes, [&](size_t x) { dst[x] = T{}; });
      } else {
        const T* line = src + y * p.width + x0;
        for_columns(begin, end, lane, lanes, [&](size_t x) { dst[x] = line[x]; });
        for_columns(0, begin, lane, lanes, [&](size_t x) { dst[x] = T{}; });
        for_columns(end, p.out_width, lane, lanes, [&](size_t x) { dst[x] = T{}; });
      }
    }
    return;
  }
  for_columns(0, n, lane, lanes, [&](size_t at) {
    const uint32_t i = static_cast<uint32_t>(at), oy = xpu_ops::div(i, p.by_out_width), ox = i - oy * p.by_out_width.d;
    int32_t y = static_cast<int32_t>(oy) * p.stride_h + y0, x = static_cast<int32_t>(ox) * p.stride_w + x0;
    bool inside = y >= 0 && y < p.height && x >= 0 && x < p.width;
    dst[at] = inside ? src[y * p.width + x] : T{};
  });
}

// A work-group takes p.group lines of planes, a sub-group per line; each item sums the columns that its pixel was
// copied to.
template <class T>
void col2im(const Im2colArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  using M = opmath_t<T>;
  const size_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  const uint32_t columns = p.out_height * p.out_width;
  uint32_t row = it.get_group(0) * p.group, last = row + p.group < p.rows ? row + p.group : p.rows;
  for (; row < last; ++row) {
    const uint32_t plane = xpu_ops::div(row, p.by_height);
    const int32_t y = row - plane * p.by_height.d;
    const T* src = static_cast<const T*>(p.src) + plane * p.kernel_h * p.kernel_w * columns;
    T* dst = static_cast<T*>(p.dst) + size_t{row} * p.width;
    for_columns(0, p.width, lane, lanes, [&](size_t x) {
      M sum = M(0);
      for (int32_t kh = 0; kh < p.kernel_h; ++kh) {
        const int32_t ty = y + p.pad_h - kh * p.dilation_h;
        if (ty < 0) continue;
        const int32_t oy = xpu_ops::div(ty, p.by_stride_h);
        if (oy * p.stride_h != ty || oy >= p.out_height) continue;
        for (int32_t kw = 0; kw < p.kernel_w; ++kw) {
          const T* line = src + (kh * p.kernel_w + kw) * columns + oy * p.out_width;
          const int64_t shift = p.pad_w - kw * p.dilation_w, tx = static_cast<int64_t>(x) + shift;
          if (p.stride_w == 1) {
            if (tx >= 0 && tx < p.out_width) sum = sum + M((line + shift)[x]);
          } else {
            const int32_t ox = xpu_ops::div(static_cast<uint32_t>(tx < 0 ? 0 : tx), p.by_stride_w);
            if (tx >= 0 && ox * p.stride_w == tx && ox < p.out_width) sum = sum + M(line[ox]);
          }
        }
      }
      dst[x] = T(sum);
    });
  }
}

template <class T>
void unfold_backward(const UnfoldBackwardArgs& p) {
  using M = opmath_t<T>;
  uint32_t e = global_id();
  if (e >= p.n) return;
  uint32_t q = xpu_ops::div(e, p.by_inner), inner = e - q * p.inner, outer = xpu_ops::div(q, p.by_length);
  int32_t i = static_cast<int32_t>(q - outer * p.length);
  // Windows j with j * step <= i < j * step + size.
  int32_t last = xpu_ops::div(i, p.by_step), first = i < p.size ? 0 : xpu_ops::div(i - p.size, p.by_step) + 1;
  last = last < p.windows - 1 ? last : p.windows - 1;
  const T* src = static_cast<const T*>(p.grad_in);
  M sum = M(0);
  for (int32_t j = first; j <= last; ++j)
    sum = sum + M(src[((outer * p.windows + j) * p.inner + inner) * p.size + (i - j * p.step)]);
  static_cast<T*>(p.grad)[e] = T(sum);
}

}  // namespace xpu
