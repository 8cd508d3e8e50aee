// Deformable convolution: columns of bilinear samples, and their gradients by input, offset and mask. Channels lie side
// by side, so that the items of a group share the places of their samples. Included by vision.hpp.
#pragma once
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/images/vision_args.hpp"

namespace xpu {

using xpu_ops::DeformArgs;

// Rounding to integers within 2^30, without the built-in functions: what those return differs between items.
template <class M> XPU_INLINE int32_t rounded_up(M v) {
  const int32_t t = static_cast<int32_t>(v);
  return M(t) < v ? t + 1 : t;
}
template <class M> XPU_INLINE int32_t rounded_down(M v) {
  const int32_t t = static_cast<int32_t>(v);
  return M(t) > v ? t - 1 : t;
}
template <class M> XPU_INLINE int32_t nearest(M v) {  // halves away from zero
  const int32_t t = static_cast<int32_t>(v);
  const M part = v - M(t);
  return part >= M(0.5) ? t + 1 : part <= M(-0.5) ? t - 1 : t;
}

// Channels that one group and one offset group have in common.
struct Segment {
  uint32_t begin, offset_group;
  size_t column;  // of its first channel and first tap in a row of columns
  size_t step;    // from tap to tap
};
XPU_INLINE Segment segment_of(const DeformArgs& p, uint32_t number) {
  const uint32_t begin = number * p.segment, each = p.channels / p.groups, group = begin / each,
                 taps = p.kernel_height * p.kernel_width;
  return {begin, begin / (p.channels / p.offset_groups),
          static_cast<size_t>(group) * each * taps + (begin - group * each), each};
}

// One sample: the four pixels around it, which of them are in the image, and the weights.
template <class M> struct Sample {
  int32_t y, x;                  // the upper left pixel
  M down, right, mask;           // parts of a pixel that it lies below and right of it
  bool inside;                   // the sample has a value: strictly within one pixel around the image
  bool top, bottom, left, side;  // lines and columns of pixels that are there; `side`: the right one
  XPU_INLINE M weight(bool lower, bool other) const {
    return (lower ? down : M(1) - down) * (other ? right : M(1) - right);
  }
};

template <class T>
XPU_INLINE Sample<opmath_t<T>> sample_of(const DeformArgs& p, uint32_t image, uint32_t offset_group, uint32_t tap,
                                         uint32_t position) {
  using M = opmath_t<T>;
  const size_t positions = static_cast<size_t>(p.out_height) * p.out_width;
  const uint32_t taps = p.kernel_height * p.kernel_width, oy = divide(position, p.by_width),
                 ox = position - oy * p.out_width, ky = tap / p.kernel_width, kx = tap - ky * p.kernel_width;
  const size_t at = (static_cast<size_t>(image) * p.offset_groups + offset_group) * taps + tap;
  const T* offset = static_cast<const T*>(p.offset) + 2 * at * positions + position;
  const int32_t y0 = static_cast<int32_t>(oy) * p.stride[0] - p.padding[0] + static_cast<int32_t>(ky) * p.dilation[0];
  const int32_t x0 = static_cast<int32_t>(ox) * p.stride[1] - p.padding[1] + static_cast<int32_t>(kx) * p.dilation[1];
  const M y = M(y0) + M(offset[0]), x = M(x0) + M(offset[positions]);
  const int32_t height = static_cast<int32_t>(p.height), width = static_cast<int32_t>(p.width);
  // At -1 a sample has no value, but a slope.
  const bool near = y >= M(-1) && y < M(height) && x >= M(-1) && x < M(width);
  Sample<M> s;
  s.y = rounded_down(near ? y : M(-2)), s.x = rounded_down(near ? x : M(-2));
  s.down = near ? y - M(s.y) : M(0), s.right = near ? x - M(s.x) : M(0);
  s.mask = p.mask ? M(static_cast<const T*>(p.mask)[at * positions + position]) : M(1);
  s.inside = near && y > M(-1) && x > M(-1);
  s.top = near && s.y >= 0, s.bottom = near && s.y + 1 < height;
  s.left = s.x >= 0, s.side = s.x + 1 < width;
  return s;
}

struct Positions { uint32_t image, begin, end; };
XPU_INLINE Positions positions_of_group(const DeformArgs& p) {
  const uint32_t all = p.out_height * p.out_width, blocks = (all + p.block - 1) / p.block,
                 g = syclex::this_work_item::get_nd_item<2>().get_group(0), image = g / blocks,
                 begin = (g - image * blocks) * p.block;
  return {image, begin, begin + p.block < all ? begin + p.block : all};
}

// A group has a block of positions of one image and one segment of channels.
template <class T> inline void deform_columns(const DeformArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1), lanes = item.get_local_range(1);
  const Segment segment = segment_of(p, item.get_group(1));
  const Positions mine = positions_of_group(p);
  const uint32_t taps = p.kernel_height * p.kernel_width;
  const size_t row = static_cast<size_t>(p.channels) * taps, all = static_cast<size_t>(p.out_height) * p.out_width;
  const int64_t line = static_cast<int64_t>(p.width) * p.channels, pixel = p.channels;
  const T* image = static_cast<const T*>(p.input) + static_cast<size_t>(mine.image) * p.height * line + segment.begin;
  for (uint32_t position = mine.begin; position < mine.end; ++position) {
    T* out = static_cast<T*>(p.columns) + (mine.image * all + position) * row + segment.column;
    for (uint32_t tap = 0; tap < taps; ++tap, out += segment.step) {
      const auto s = sample_of<T>(p, mine.image, segment.offset_group, tap, position);
      const T *a = image + s.y * line + s.x * pixel, *b = a + pixel, *c = a + line, *d = c + pixel;
      const M wa = s.weight(false, false), wb = s.weight(false, true), wc = s.weight(true, false),
              wd = s.weight(true, true);
      if (s.inside && s.top && s.bottom && s.left && s.side) {
        for_columns(0, p.segment, lane, lanes, [&](size_t i) {
          out[i] = T(s.mask * (wa * M(a[i]) + wb * M(b[i]) + wc * M(c[i]) + wd * M(d[i])));
        });
        continue;
      }
      const bool ta = s.inside && s.top && s.left, tb = s.inside && s.top && s.side,
                 tc = s.inside && s.bottom && s.left, td = s.inside && s.bottom && s.side;
      for_columns(0, p.segment, lane, lanes, [&](size_t i) {
        M sum = M(0);
        if (ta) sum += wa * M(a[i]);
        if (tb) sum += wb * M(b[i]);
        if (tc) sum += wc * M(c[i]);
        if (td) sum += wd * M(d[i]);
        out[i] = T(s.mask * sum);
      });
    }
  }
}

// A group has one image and a few channels of a segment: it goes through all positions.
template <class T> inline void deform_input_grad(const DeformArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1), lanes = item.get_local_range(1);
  const uint32_t image = item.get_group(0), blocks = (p.segment + p.block - 1) / p.block, g = item.get_group(1),
                 number = g / blocks, first = (g - number * blocks) * p.block,
                 end = first + p.block < p.segment ? first + p.block : p.segment;
  const Segment segment = segment_of(p, number);
  const uint32_t taps = p.kernel_height * p.kernel_width, all = p.out_height * p.out_width;
  const size_t row = static_cast<size_t>(p.channels) * taps;
  const int64_t line = static_cast<int64_t>(p.width) * p.channels, pixel = p.channels;
  M* plane = static_cast<M*>(p.grad_input) + static_cast<size_t>(image) * p.height * line + segment.begin;
  for (uint32_t position = 0; position < all; ++position) {
    const T* grad =
        static_cast<const T*>(p.columns) + (static_cast<size_t>(image) * all + position) * row + segment.column;
    for (uint32_t tap = 0; tap < taps; ++tap, grad += segment.step) {
      const auto s = sample_of<T>(p, image, segment.offset_group, tap, position);
      if (!s.inside) continue;
      M *a = plane + s.y * line + s.x * pixel, *c = a + line;
      auto add = [&](M* to, M weight) {
        for_columns(first, end, lane, lanes, [&](size_t i) { to[i] += weight * M(grad[i]); });
      };
      if (s.top && s.left) add(a, s.mask * s.weight(false, false));
      if (s.top && s.side) add(a + pixel, s.mask * s.weight(false, true));
      if (s.bottom && s.left) add(c, s.mask * s.weight(true, false));
      if (s.bottom && s.side) add(c + pixel, s.mask * s.weight(true, true));
    }
  }
}

// A sub-group has a block of positions of one image, one offset group and one tap, and sums over the channels.
template <class T> inline void deform_offset_grad(const DeformArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1), lanes = item.get_local_range(1);
  const uint32_t taps = p.kernel_height * p.kernel_width, g = item.get_group(1), offset_group = g / taps,
                 tap = g - offset_group * taps, channels = p.channels / p.offset_groups;
  const Positions mine = positions_of_group(p);
  const size_t row = static_cast<size_t>(p.channels) * taps, all = static_cast<size_t>(p.out_height) * p.out_width;
  const int64_t line = static_cast<int64_t>(p.width) * p.channels, pixel = p.channels;
  const size_t at = (static_cast<size_t>(mine.image) * p.offset_groups + offset_group) * taps + tap;
  T *grad_y = static_cast<T*>(p.grad_offset) + 2 * at * all, *grad_x = grad_y + all,
    *grad_mask = static_cast<T*>(p.grad_mask) + at * all;
  for (uint32_t position = mine.begin; position < mine.end; ++position) {
    const auto s = sample_of<T>(p, mine.image, offset_group, tap, position);
    const bool ta = s.top && s.left, tb = s.top && s.side, tc = s.bottom && s.left, td = s.bottom && s.side;
    M by_y = M(0), by_x = M(0), value = M(0);
    for (uint32_t done = 0; done < channels; done += p.segment) {
      const Segment segment = segment_of(p, (offset_group * channels + done) / p.segment);
      const T* grad =
          static_cast<const T*>(p.columns) + (mine.image * all + position) * row + segment.column + tap * segment.step;
      const T* a = static_cast<const T*>(p.input) + static_cast<size_t>(mine.image) * p.height * line + segment.begin +
                   s.y * line + s.x * pixel;
      for_columns(0, p.segment, lane, lanes, [&](size_t i) {
        const M va = ta ? M(a[i]) : M(0), vb = tb ? M((a + pixel)[i]) : M(0), vc = tc ? M((a + line)[i]) : M(0),
                vd = td ? M((a + line + pixel)[i]) : M(0);
        const M go = M(grad[i]);
        by_y += go * (s.right * (vd - vb) + (M(1) - s.right) * (vc - va));
        by_x += go * (s.down * (vd - vc) + (M(1) - s.down) * (vb - va));
        value += go * (s.weight(false, false) * va + s.weight(false, true) * vb + s.weight(true, false) * vc +
                       s.weight(true, true) * vd);
      });
    }
    by_y = lane_sum(by_y), by_x = lane_sum(by_x), value = lane_sum(value);
    store_first(grad_y + position, s.mask * by_y);
    store_first(grad_x + position, s.mask * by_x);
    if (p.mask) store_first(grad_mask + position, s.inside ? value : M(0));
  }
}

}  // namespace xpu
