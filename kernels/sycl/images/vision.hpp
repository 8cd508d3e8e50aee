// Non-maximum suppression and pooling of regions, as torchvision defines them. What decides (overlaps, the places of
// samples and bins) is computed in torchvision's order of operations without fused ones. Every sum has one work-item,
// which adds in the order of a sequential loop.
#pragma once
#include "kernels/sycl/core/constant.hpp"
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/images/vision_args.hpp"
#include "kernels/sycl/images/vision_deform.hpp"

namespace xpu {

using xpu_ops::kNmsBlock;
using xpu_ops::kNmsWords;
using xpu_ops::NmsArgs;
using xpu_ops::RoiArgs;

template <class M> inline M real_value(const xpu_ops::Real& r) {
  if constexpr (sizeof(M) == 8)
    return sycl::bit_cast<double>(r.f64_bits);
  else
    return r.f32;
}

// ---- Non-maximum suppression

template <class M> struct Box { M x1, y1, x2, y2, area; };

template <class T> XPU_INLINE Box<opmath_t<T>> load_box(const NmsArgs& p, size_t i) {
#pragma clang fp contract(off)
  using M = opmath_t<T>;
  const T* at = static_cast<const T*>(p.boxes) + 4 * i;
  const M x1 = M(at[0]), y1 = M(at[1]), x2 = M(at[2]), y2 = M(at[3]);
  return {x1, y1, x2, y2, (x2 - x1) * (y2 - y1)};
}

// Whether the box b, of a lower score, goes. NaN takes part as in std::max and std::min of torchvision's loop.
template <class M> XPU_INLINE bool overlaps(const Box<M>& a, const Box<M>& b, M threshold) {
#pragma clang fp contract(off)
  const M x1 = a.x1 < b.x1 ? b.x1 : a.x1, y1 = a.y1 < b.y1 ? b.y1 : a.y1;
  const M x2 = b.x2 < a.x2 ? b.x2 : a.x2, y2 = b.y2 < a.y2 ? b.y2 : a.y2;
  const M w = x2 - x1, h = y2 - y1;
  const M inter = (M(0) < w ? w : M(0)) * (M(0) < h ? h : M(0));
  return inter / (a.area + b.area - inter) > threshold;
}

// A bit for every pair of the block. Items are the boxes of higher scores, groups along the other dimension words.
template <class T> inline void nms_overlaps(const NmsArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t word = item.get_group(0), row = item.get_global_id(1);
  const uint32_t left = p.n - p.first, rows = left < kNmsBlock ? left : kNmsBlock;
  const uint32_t mine = row < rows ? row : rows - 1, begin = 64 * word, end = begin + 64 < rows ? begin + 64 : rows;
  const M threshold = real_value<M>(p.threshold);
  const Box<M> a = load_box<T>(p, p.first + mine);
  uint64_t bits = 0;
  for (uint32_t j = begin; j < end; ++j) {
    const bool over = overlaps(a, load_box<T>(p, p.first + j), threshold);
    bits |= static_cast<uint64_t>(over && j > mine ? 1 : 0) << (j - begin);
  }
  if (row < rows) p.overlaps[row * kNmsWords + word] = bits;
}

// One item: the sequential part.
inline void nms_select(const NmsArgs& p) {
  const uint32_t left = p.n - p.first, rows = left < kNmsBlock ? left : kNmsBlock, words = (rows + 63) / 64;
  uint64_t gone[kNmsWords];
  for (uint32_t w = 0; w < words; ++w) {
    gone[w] = 0;
    for (uint32_t b = 0; b < 64 && 64 * w + b < rows; ++b)
      gone[w] |= static_cast<uint64_t>(p.gone[p.first + 64 * w + b] != 0 ? 1 : 0) << b;
  }
  uint32_t count = p.counts[0], here = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    if ((gone[i / 64] >> (i % 64)) & 1) continue;
    p.keep[count++] = p.order[p.first + i];
    p.kept[here++] = p.first + i;
    for (uint32_t w = i / 64; w < words; ++w) gone[w] |= p.overlaps[i * kNmsWords + w];
  }
  p.counts[0] = count;
  p.counts[1] = here;
}

// One item for each box of later blocks.
template <class T> inline void nms_suppress(const NmsArgs& p) {
  using M = opmath_t<T>;
  const uint32_t at = p.first + kNmsBlock + global_id();
  const uint32_t mine = at < p.n ? at : p.n - 1, kept = p.counts[1];
  const M threshold = real_value<M>(p.threshold);
  const Box<M> b = load_box<T>(p, mine);
  bool over = false;
  for (uint32_t k = 0; k < kept; ++k) over |= overlaps(load_box<T>(p, p.kept[k]), b, threshold);
  if (at < p.n && over) p.gone[at] = 1;
}

// ---- Regions

constexpr uint32_t kRoiLanes = 16, kRoiVectors = 4;  // items of a group, vectors of channels that one bin sums at once

// One axis of a region, in pixels: `start` of its first bin, size of a bin, samples in one.
template <class M> struct RoiAxis {
  M start, bin;
  int32_t samples;
};
template <class M> struct RoiBox {
  RoiAxis<M> y, x;
  int32_t image;  // -1: out of range
};

template <class M>
XPU_INLINE RoiAxis<M> align_axis(const RoiArgs& p, M low, M high, bool half, bool grow, uint32_t pooled) {
#pragma clang fp contract(off)
  const M scale = real_value<M>(p.scale), shift = half ? M(0.5) : M(0);
  const M start = low * scale - shift, end = high * scale - shift;
  M size = end - start;
  if (grow) size = size < M(1) ? M(1) : size;
  const M bin = size / M(pooled);
  // No samples for what is infinite, NaN or too large for an integer. Bounds of one size would become fabs, a built-in
  // function.
  const bool counted = bin > M(-536870912.f) && bin < M(1073741824.f);
  const int32_t wanted = rounded_up(counted ? bin : M(0));
  return {start, bin, p.sampling > 0 ? p.sampling : wanted};
}

// -1 where there is no such image.
template <class T> XPU_INLINE int32_t roi_image(const RoiArgs& p, uint32_t roi) {
  using M = opmath_t<T>;
  const M number = M(static_cast<const T*>(p.rois)[5 * static_cast<size_t>(roi)]);
  const bool inside = number > M(-1) && number < M(static_cast<int32_t>(p.images));
  return inside ? static_cast<int32_t>(number) : -1;
}

// Reports regions [begin, end) of no image. At the end of a kernel: values that meet behind its branch count as
// different in every item.
template <class T> XPU_INLINE void check_images(const RoiArgs& p, uint32_t begin, uint32_t end) {
  using M = opmath_t<T>;
  for (uint32_t roi = begin; roi < end; ++roi) {
    const M number = M(static_cast<const T*>(p.rois)[5 * static_cast<size_t>(roi)]);
    if (number > M(-1) && number < M(static_cast<int32_t>(p.images))) continue;
    const bool small = number > M(-1e9f) && number < M(1e9f);
    report_error(p.error, xpu_ops::DeviceErrorCode::index, 0, small ? static_cast<int32_t>(number) : -1, p.images);
  }
}

// `kPs`: as ps_roi_align, where pixel centers are always at halves and small regions stay small.
template <class T, bool kPs> XPU_INLINE RoiBox<opmath_t<T>> align_box(const RoiArgs& p, uint32_t roi) {
  using M = opmath_t<T>;
  const T* at = static_cast<const T*>(p.rois) + 5 * static_cast<size_t>(roi);
  const bool half = kPs || p.aligned, grow = !kPs && !p.aligned;
  return {align_axis<M>(p, M(at[2]), M(at[4]), half, grow, p.pooled[0]),
          align_axis<M>(p, M(at[1]), M(at[3]), half, grow, p.pooled[1]), roi_image<T>(p, roi)};
}

template <class M> XPU_INLINE M sample_at(const RoiAxis<M>& a, uint32_t bin, int32_t i) {
#pragma clang fp contract(off)
  return a.start + M(bin) * a.bin + (M(i) + M(0.5)) * a.bin / M(a.samples);
}

// Samples of a bin that may lie in the map: all, where they are not very many. Without fused operations, which are
// built-in functions.
struct Samples { int32_t begin, end; };
template <class M>
XPU_INLINE Samples samples_inside(const RoiArgs& p, const RoiAxis<M>& a, uint32_t bin, uint32_t size) {
#pragma clang fp contract(off)
  if (a.samples <= 4096 || p.sampling > 0) return {0, a.samples};
  const M step = a.bin / M(a.samples), at = a.start + M(bin) * a.bin, most = M(a.samples);
  const M low = (M(-1) - at) / step - M(2), high = (M(size) - at) / step + M(2);
  return {low > M(0) ? static_cast<int32_t>(low < most ? low : most) : 0,
          high > M(0) ? static_cast<int32_t>(high < most ? high : most) : 0};
}

// The two pixels around a place on one axis.
template <class M> struct Tap {
  uint32_t low, high;
  M to_low, to_high;  // weights
  bool inside;
};
template <class M> XPU_INLINE Tap<M> tap_at(M x, uint32_t size) {
  const bool inside = x >= M(-1) && x <= M(size);
  x = inside && x > M(0) ? x : M(0);
  uint32_t low = static_cast<uint32_t>(static_cast<int32_t>(x)), high = low + 1;
  if (high >= size) {
    low = high = size - 1;
    x = M(low);
  }
  const M part = x - M(low);
  return {low, high, M(1) - part, part, inside};
}

// The samples of one bin: f(w, low line and low column, ..) with the four weights over `count`.
template <class M, class F>
XPU_INLINE void for_samples(const RoiArgs& p, const RoiBox<M>& box, uint32_t row, uint32_t column, F f) {
  const Samples ys = samples_inside(p, box.y, row, p.height), xs = samples_inside(p, box.x, column, p.width);
  for (int32_t iy = ys.begin; iy < ys.end; ++iy) {
    const Tap<M> y = tap_at(sample_at(box.y, row, iy), p.height);
    if (!y.inside) continue;
    for (int32_t ix = xs.begin; ix < xs.end; ++ix) {
      const Tap<M> x = tap_at(sample_at(box.x, column, ix), p.width);
      if (!x.inside) continue;
      [[clang::always_inline]] f(y, x);
    }
  }
}

template <class M> XPU_INLINE M sample_count(const RoiBox<M>& box) { return M(box.y.samples) * M(box.x.samples); }

// The bins of one row of one region, for kVectors vectors of channels. kLast: channels lie side by side.
template <class T, bool kLast, uint32_t kVectors>
XPU_INLINE void align_bins(const RoiArgs& p, const RoiBox<opmath_t<T>>& box, size_t roi, uint32_t row, size_t channel,
                           size_t lane) {
  using M = opmath_t<T>;
  const int64_t step = kLast ? 1 : p.stride[1];
  const T* plane =
      static_cast<const T*>(p.map) + int64_t{box.image} * p.stride[0] + static_cast<int64_t>(channel) * step;
  const M samples = sample_count(box), count = samples > M(1) ? samples : M(1);
  const size_t bins = static_cast<size_t>(p.pooled[0]) * p.pooled[1];
  T* out = static_cast<T*>(p.out) + (roi * p.channels + channel) * bins + row * p.pooled[1];
  for (uint32_t column = 0; column < p.pooled[1]; ++column) {
    M sum[kVectors];
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) sum[v] = M(0);
    for_samples(p, box, row, column, [&](const Tap<M>& y, const Tap<M>& x) {
      const T *low = plane + y.low * p.stride[2], *high = plane + y.high * p.stride[2];
      const T *a = low + x.low * p.stride[3], *b = low + x.high * p.stride[3], *c = high + x.low * p.stride[3],
              *d = high + x.high * p.stride[3];
      const M wa = y.to_low * x.to_low, wb = y.to_low * x.to_high, wc = y.to_high * x.to_low,
              wd = y.to_high * x.to_high;
#pragma unroll
      for (uint32_t v = 0; v < kVectors; ++v) {
        const int64_t from = static_cast<int64_t>(v * kRoiLanes) * step, e = static_cast<int64_t>(lane) * step;
        sum[v] += wa * M((a + from)[e]) + wb * M((b + from)[e]) + wc * M((c + from)[e]) + wd * M((d + from)[e]);
      }
    });
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) out[(v * kRoiLanes + lane) * bins + column] = T(sum[v] / count);
  }
}

// Calls f(first channel, Vectors) for kRoiVectors vectors of channels, or one vector after the other where not all of
// them are there; the last may be a part of one.
template <class F> XPU_INLINE void for_channels(uint32_t channels, uint32_t block, size_t lane, size_t once, F f) {
  const uint32_t begin = block * kRoiLanes * kRoiVectors, all = begin + kRoiLanes * kRoiVectors;
  if (all <= channels) {
    [[clang::always_inline]] f(begin, Constant<kRoiVectors>());
    return;
  }
  for (uint32_t c = begin; c < channels; c += kRoiLanes)
    whole_or_part(c + kRoiLanes <= channels, c + lane < channels, once,
                  [&] { [[clang::always_inline]] f(c, Constant<1>()); });
}

// A group has one row of bins of one region and a block of channels.
template <class T, bool kLast> inline void roi_align(const RoiArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1);
  const uint32_t g = item.get_group(0), roi = g / p.pooled[0], row = g - roi * p.pooled[0];
  auto box = align_box<T, false>(p, roi);
  const bool known = box.image >= 0;
  box.y.samples = known ? box.y.samples : 0;
  box.image = known ? box.image : 0;
  for_channels(p.channels, item.get_group(1), lane, item.get_local_range(0), [&](uint32_t c, auto vectors) {
    align_bins<T, kLast, decltype(vectors)::value>(p, box, roi, row, c, lane);
  });
  if (row == 0 && item.get_group(1) == 0) check_images<T>(p, roi, roi + 1);
}

// A group has a band of lines of one image and a block of channels, and goes through all regions. `out`: [images,
// height, width, channels], compute type.
template <class T> inline void roi_align_grad(const RoiArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1);
  const uint32_t g = item.get_group(0), image = g / p.bands, first = (g - image * p.bands) * p.lines,
                 end = first + p.lines < p.height ? first + p.lines : p.height;
  for_channels(p.channels, item.get_group(1), lane, item.get_local_range(0), [&](uint32_t channel, auto vectors) {
    constexpr uint32_t kVectors = decltype(vectors)::value;
    M* plane = static_cast<M*>(p.out) + static_cast<size_t>(image) * p.height * p.width * p.channels + channel;
    const int64_t line = static_cast<int64_t>(p.width) * p.channels, pixel = p.channels;
    for (uint32_t roi = 0; roi < p.roi_count; ++roi) {
      const RoiBox<M> box = align_box<T, false>(p, roi);
      if (box.image != static_cast<int32_t>(image)) continue;
      const M count = sample_count(box);
      const T* pooled = static_cast<const T*>(p.map) + roi * p.stride[0] + channel * p.stride[1];
      for (uint32_t row = 0; row < p.pooled[0]; ++row)
        for (uint32_t column = 0; column < p.pooled[1]; ++column) {
          M grad[kVectors];
          const T* at = pooled + row * p.stride[2] + column * p.stride[3];
#pragma unroll
          for (uint32_t v = 0; v < kVectors; ++v)
            grad[v] =
                M((at + static_cast<int64_t>(v * kRoiLanes) * p.stride[1])[static_cast<int64_t>(lane) * p.stride[1]]);
          for_samples(p, box, row, column, [&](const Tap<M>& y, const Tap<M>& x) {
            const M left = x.to_low / count, right = x.to_high / count;
            M *low = plane + y.low * line, *high = plane + y.high * line;
            const int64_t l = x.low * pixel, r = x.high * pixel;
            if (y.low >= first && y.low < end)
#pragma unroll
              for (uint32_t v = 0; v < kVectors; ++v) {
                M* to = low + v * kRoiLanes;
                (to + l)[lane] += grad[v] * (y.to_low * left);
                (to + r)[lane] += grad[v] * (y.to_low * right);
              }
            if (y.high >= first && y.high < end)
#pragma unroll
              for (uint32_t v = 0; v < kVectors; ++v) {
                M* to = high + v * kRoiLanes;
                (to + l)[lane] += grad[v] * (y.to_high * left);
                (to + r)[lane] += grad[v] * (y.to_high * right);
              }
          });
        }
    }
  });
  if (g == 0 && item.get_group(1) == 0) check_images<T>(p, 0, p.roi_count);
}

// A bin of whole pixels.
struct Pixels {
  uint32_t top, bottom, left, right;  // without the last
  bool empty() const { return bottom <= top || right <= left; }
};
// A region in whole pixels: first pixel and bin size of each axis.
template <class M> struct PixelBox {
  int32_t y, x;
  M height, width;
  int32_t image;
};

template <class M> XPU_INLINE M bounded(M v) {  // NaN becomes the bound
  const M most = M(268435456.f);
  v = v < most ? v : most;
  return v > -most ? v : -most;
}

// `extra`: 1 where the last pixel belongs to the region (roi_pool).
template <class T> XPU_INLINE PixelBox<opmath_t<T>> pixel_box(const RoiArgs& p, uint32_t roi, int32_t extra) {
  using M = opmath_t<T>;
  const T* at = static_cast<const T*>(p.rois) + 5 * static_cast<size_t>(roi);
  const M scale = real_value<M>(p.scale);
  const int32_t x1 = nearest(bounded(M(at[1]) * scale)), y1 = nearest(bounded(M(at[2]) * scale));
  const int32_t w = nearest(bounded(M(at[3]) * scale)) - x1 + extra,
                h = nearest(bounded(M(at[4]) * scale)) - y1 + extra;
  return {y1, x1, M(h > 1 ? h : 1) / M(p.pooled[0]), M(w > 1 ? w : 1) / M(p.pooled[1]), roi_image<T>(p, roi)};
}

XPU_INLINE uint32_t clipped(int32_t v, uint32_t most) {
  return v < 0 ? 0 : static_cast<uint32_t>(v) < most ? static_cast<uint32_t>(v) : most;
}

template <class M>
XPU_INLINE Pixels pixels_of(const PixelBox<M>& b, uint32_t row, uint32_t column, uint32_t height, uint32_t width) {
#pragma clang fp contract(off)
  return {clipped(rounded_down(bounded(M(row) * b.height)) + b.y, height),
          clipped(rounded_up(bounded(M(row + 1) * b.height)) + b.y, height),
          clipped(rounded_down(bounded(M(column) * b.width)) + b.x, width),
          clipped(rounded_up(bounded(M(column + 1) * b.width)) + b.x, width)};
}

// A group has one row of bins of one region and a block of channels. NaN is no maximum.
template <class T, bool kLast> inline void roi_pool(const RoiArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1);
  const uint32_t g = item.get_group(0), roi = g / p.pooled[0], row = g - roi * p.pooled[0];
  const PixelBox<M> box = pixel_box<T>(p, roi, 1);
  const size_t bins = static_cast<size_t>(p.pooled[0]) * p.pooled[1];
  const int64_t step = kLast ? 1 : p.stride[1];
  for_channels(p.channels, item.get_group(1), lane, item.get_local_range(0), [&](uint32_t channel, auto vectors) {
    for (uint32_t v = 0; v < decltype(vectors)::value; ++v) {
      const size_t first = channel + v * kRoiLanes;
      const T* plane =
          static_cast<const T*>(p.map) + int64_t{box.image} * p.stride[0] + static_cast<int64_t>(first) * step;
      const size_t at = ((roi * static_cast<size_t>(p.channels)) + first + lane) * bins + row * p.pooled[1];
      for (uint32_t column = 0; column < p.pooled[1]; ++column) {
        Pixels bin = pixels_of(box, row, column, p.height, p.width);
        bin.bottom = box.image < 0 ? bin.top : bin.bottom;
        M best = bin.empty() ? M(0) : M(-3.402823466e+38f);
        int32_t pixel = -1;
        for (uint32_t y = bin.top; y < bin.bottom; ++y)
          for (uint32_t x = bin.left; x < bin.right; ++x) {
            const T* from = plane + y * p.stride[2] + x * p.stride[3];
            const M value = M(from[static_cast<int64_t>(lane) * step]);
            const bool better = value > best;
            best = better ? value : best;
            pixel = better ? static_cast<int32_t>(y * p.width + x) : pixel;
          }
        static_cast<T*>(p.out)[at + column] = T(best);
        p.index[at + column] = pixel;
      }
    }
  });
  if (row == 0 && item.get_group(1) == 0) check_images<T>(p, roi, roi + 1);
}

// Calls f(plane, image, channel) for the planes of this group: one item has a whole plane.
template <class F> XPU_INLINE void for_planes(const RoiArgs& p, F f) {
  const size_t plane = global_id();
  if (plane >= static_cast<size_t>(p.images) * p.channels) return;
  const uint32_t image = plane / p.channels;
  f(plane * p.height * p.width, image, static_cast<uint32_t>(plane - static_cast<size_t>(image) * p.channels));
}

template <class T> inline void roi_pool_grad(const RoiArgs& p) {
  using M = opmath_t<T>;
  const uint32_t pixels = p.height * p.width;
  for_planes(p, [&](size_t plane, uint32_t image, uint32_t channel) {
    M* out = static_cast<M*>(p.out) + plane;
    for (uint32_t roi = 0; roi < p.roi_count; ++roi) {
      if (roi_image<T>(p, roi) != static_cast<int32_t>(image)) continue;
      const T* grad = static_cast<const T*>(p.map) + roi * p.stride[0] + channel * p.stride[1];
      const int32_t* index = p.index + (static_cast<size_t>(roi) * p.channels + channel) * p.pooled[0] * p.pooled[1];
      for (uint32_t row = 0; row < p.pooled[0]; ++row)
        for (uint32_t column = 0; column < p.pooled[1]; ++column) {
          const uint32_t to = static_cast<uint32_t>(*index++);
          if (to < pixels) out[to] += M(grad[row * p.stride[2] + column * p.stride[3]]);
        }
    }
  });
  if (global_id() == 0) check_images<T>(p, 0, p.roi_count);
}

// ---- Position-sensitive pooling: bin (row, column) of output channel c reads channel (c * rows + row) * columns +
// column, so that the flat index of a result in its region is the channel that it reads.

// Calls f(place in the results, channel, row, column) for the results of this group.
template <class F> XPU_INLINE void for_results(const RoiArgs& p, F f) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t begin = item.get_group(1) * p.items, lanes = item.get_local_range(1);
  const uint32_t end = begin + p.items < p.channels ? begin + p.items : p.channels;
  for (uint32_t c = begin + item.get_local_id(1); c < end; c += lanes) {
    const uint32_t column = c % p.pooled[1], row = c / p.pooled[1] % p.pooled[0];
    f(item.get_group(0) * p.channels + c, c, row, column);
  }
}

template <class T> inline void ps_roi_align(const RoiArgs& p) {
  using M = opmath_t<T>;
  const auto box = align_box<T, true>(p, syclex::this_work_item::get_nd_item<2>().get_group(0));
  for_results(p, [&](size_t at, uint32_t channel, uint32_t row, uint32_t column) {
    M sum = M(0);
    if (box.image >= 0) {
      const T* plane = static_cast<const T*>(p.map) + int64_t{box.image} * p.stride[0] + channel * p.stride[1];
      for_samples(p, box, row, column, [&](const Tap<M>& y, const Tap<M>& x) {
        const T *low = plane + y.low * p.stride[2], *high = plane + y.high * p.stride[2];
        const int64_t l = x.low * p.stride[3], r = x.high * p.stride[3];
        sum += y.to_low * x.to_low * M(low[l]) + y.to_low * x.to_high * M(low[r]) + y.to_high * x.to_low * M(high[l]) +
               y.to_high * x.to_high * M(high[r]);
      });
      sum = sum / sample_count(box);
    }
    static_cast<T*>(p.out)[at] = T(sum);
    p.index[at] = static_cast<int32_t>(channel);
  });
  auto item = syclex::this_work_item::get_nd_item<2>();
  if (item.get_group(1) == 0) check_images<T>(p, item.get_group(0), item.get_group(0) + 1);
}

template <class T> inline void ps_roi_align_grad(const RoiArgs& p) {
  using M = opmath_t<T>;
  for_planes(p, [&](size_t plane, uint32_t image, uint32_t channel) {
    M* out = static_cast<M*>(p.out) + plane;
    const uint32_t column = channel % p.pooled[1], row = channel / p.pooled[1] % p.pooled[0];
    for (uint32_t roi = 0; roi < p.roi_count; ++roi) {
      const auto box = align_box<T, true>(p, roi);
      if (box.image != static_cast<int32_t>(image)) continue;
      const M grad = M(static_cast<const T*>(p.map)[static_cast<size_t>(roi) * p.channels + channel]);
      const M count = sample_count(box);
      for_samples(p, box, row, column, [&](const Tap<M>& y, const Tap<M>& x) {
        const M low = y.to_low / count, high = y.to_high / count;
        out[y.low * p.width + x.low] += grad * (low * x.to_low);
        out[y.low * p.width + x.high] += grad * (low * x.to_high);
        out[y.high * p.width + x.low] += grad * (high * x.to_low);
        out[y.high * p.width + x.high] += grad * (high * x.to_high);
      });
    }
  });
  if (global_id() == 0) check_images<T>(p, 0, p.roi_count);
}

// As torchvision's, the forward leaves the last line and column out, and the gradient does not.
template <class T> inline void ps_roi_pool(const RoiArgs& p) {
  using M = opmath_t<T>;
  const auto box = pixel_box<T>(p, syclex::this_work_item::get_nd_item<2>().get_group(0), 0);
  for_results(p, [&](size_t at, uint32_t channel, uint32_t row, uint32_t column) {
    const Pixels bin = pixels_of(box, row, column, p.height - 1, p.width - 1);
    M sum = M(0);
    if (box.image >= 0 && !bin.empty()) {
      const T* plane = static_cast<const T*>(p.map) + int64_t{box.image} * p.stride[0] + channel * p.stride[1];
      for (uint32_t y = bin.top; y < bin.bottom; ++y)
        for (uint32_t x = bin.left; x < bin.right; ++x) sum += M(plane[y * p.stride[2] + x * p.stride[3]]);
      sum = sum / M((bin.bottom - bin.top) * (bin.right - bin.left));
    }
    static_cast<T*>(p.out)[at] = T(sum);
    p.index[at] = static_cast<int32_t>(channel);
  });
  auto item = syclex::this_work_item::get_nd_item<2>();
  if (item.get_group(1) == 0) check_images<T>(p, item.get_group(0), item.get_group(0) + 1);
}

template <class T> inline void ps_roi_pool_grad(const RoiArgs& p) {
  using M = opmath_t<T>;
  for_planes(p, [&](size_t plane, uint32_t image, uint32_t channel) {
    M* out = static_cast<M*>(p.out) + plane;
    const uint32_t column = channel % p.pooled[1], row = channel / p.pooled[1] % p.pooled[0];
    for (uint32_t roi = 0; roi < p.roi_count; ++roi) {
      const auto box = pixel_box<T>(p, roi, 0);
      if (box.image != static_cast<int32_t>(image)) continue;
      const Pixels bin = pixels_of(box, row, column, p.height, p.width);
      if (bin.empty()) continue;
      const M grad = M(static_cast<const T*>(p.map)[static_cast<size_t>(roi) * p.channels + channel]) /
                     M((bin.bottom - bin.top) * (bin.right - bin.left));
      for (uint32_t y = bin.top; y < bin.bottom; ++y)
        for (uint32_t x = bin.left; x < bin.right; ++x) out[y * p.width + x] += grad;
    }
  });
  if (global_id() == 0) check_images<T>(p, 0, p.roi_count);
}

}  // namespace xpu
