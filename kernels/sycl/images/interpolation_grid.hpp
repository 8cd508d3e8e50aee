// Grid sampling and its gradients.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/cpu/single_kernel.hpp"
#include "kernels/sycl/images/interpolation_args.hpp"

namespace xpu {

using xpu_ops::GridArgs;
using xpu_ops::GridPadding;
using xpu_ops::GridSumArgs;

template <class M> struct GridCoordinate {
  M value, slope;  // in input pixels; its derivative by the grid value
};

// Products and sums round apart, as torch's: of a coordinate far away that decides the pixel.
template <class M> inline M reflect(M x, int64_t twice_low, int64_t twice_high, M& slope) {
#pragma clang fp contract(off)
  if (twice_low == twice_high) {
    slope = M(0);
    return M(0);
  }
  const M low = M(twice_low) / M(2), period = M(twice_high - twice_low);
  x -= low;
  const M sign = x < M(0) ? M(-1) : M(1);
  x = sycl::fabs(x);
  const M extra = x - sycl::trunc(x / period) * period, back = period - extra;
  const bool odd = extra > back;
  slope = odd ? -sign : sign;
  return (odd ? back : extra) + low;
}

// torch's CPU puts NaN at the beginning of a plane's axis and at the end of a volume's.
template <class M> inline M clip(M x, int64_t size, bool volume, M& slope) {
  M high = M(size - 1);
  if (!(x > M(0)) && !(volume && x != x)) {
    slope = M(0);
    return M(0);
  }
  if (!(x < high)) {
    slope = M(0);
    return high;
  }
  slope = M(1);
  return x;
}

template <class M> inline GridCoordinate<M> unnormalize(M x, int64_t size, bool align) {
  if (align) return {(x + M(1)) / M(2) * M(size - 1), M(size - 1) / M(2)};
  return {((x + M(1)) * M(size) - M(1)) / M(2), M(size) / M(2)};
}

template <class M>
inline GridCoordinate<M> pad_coordinate(GridCoordinate<M> c, int64_t size, GridPadding padding, bool align,
                                        bool volume) {
  M slope = M(1);
  if (padding == GridPadding::border) {
    c.value = clip(c.value, size, volume, slope);
    c.slope *= slope;
  } else if (padding == GridPadding::reflection) {
    c.value = align ? reflect(c.value, int64_t(0), 2 * (size - 1), slope)
                    : reflect(c.value, int64_t(-1), 2 * size - 1, slope);
    c.slope *= slope;
    c.value = clip(c.value, size, volume, slope);
    c.slope *= slope;
  }
  // Out of the range of an index (and NaN): somewhere outside, so that the cast is defined.
  if (!(c.value > M(-1e8f) && c.value < M(1e8f))) c.value = M(-100);
  return c;
}

template <class M>
inline GridCoordinate<M> source_coordinate(M x, int64_t size, GridPadding padding, bool align, bool volume) {
  return pad_coordinate(unnormalize(x, size, align), size, padding, align, volume);
}

// Cubic convolution (A = -0.75): values and derivatives of the four weights at t in [0, 1).
template <class M> inline void cubic_weights(M t, M (&w)[4]) {
  const M A = M(-0.75f);
  auto near = [&](M x) { return ((A + M(2)) * x - (A + M(3))) * x * x + M(1); };
  auto far = [&](M x) { return ((A * x - M(5) * A) * x + M(8) * A) * x - M(4) * A; };
  w[0] = far(t + M(1));
  w[1] = near(t);
  w[2] = near(M(1) - t);
  w[3] = far(M(2) - t);
}
template <class M> inline void cubic_slopes(M t, M (&w)[4]) {
  const M A = M(-0.75f);
  auto far = [&](M x) { return (M(3) * A * x - M(10) * A) * x + M(8) * A; };
  auto near = [&](M x) { return (M(3) * (A + M(2)) * x - M(2) * (A + M(3))) * x; };
  w[0] = far(t + M(1));
  w[1] = near(t);
  w[2] = -near(M(1) - t);
  w[3] = -far(M(2) - t);
}

// The pixel of a whole number, -100 where that lies outside and is not moved inside.
template <class M> inline int32_t pad_pixel(M v, int64_t size, GridPadding padding, bool align) {
  M slope;
  if (padding == GridPadding::zeros) return v > M(-100) && v < M(size) ? static_cast<int32_t>(v) : -100;
  if (padding == GridPadding::reflection)
    v = align ? reflect(v, int64_t(0), 2 * (size - 1), slope) : reflect(v, int64_t(-1), 2 * size - 1, slope);
  return static_cast<int32_t>(clip(v, size, false, slope));
}

// One output position: K pixels with weights and, for the grid's gradient, weight derivatives per coordinate. All loops
// are unrolled: an array that is indexed at run time, or a struct member so indexed, would live in memory item by item.
template <class M, int kDim, int K>
struct GridTaps {
  int32_t offset[K];  // 0 where outside, so that it can be read
  bool inside[K];
  int32_t pixel[K];  // number of the pixel
  M weight[K];
  M slope[K][kDim];

  // Pixel k is at x, y, (z).
  XPU_INLINE void place(const GridArgs& p, int k, const int32_t (&at)[kDim]) {
    int32_t o = 0, number = 0;
    bool in = true;
#pragma unroll
    for (int d = kDim - 1; d >= 0; --d) {
      const int32_t size = static_cast<int32_t>(p.in_size[4 - d]);
      number = number * size + at[d];
      in = in && static_cast<uint32_t>(at[d]) < static_cast<uint32_t>(size);
      o += at[d] * static_cast<int32_t>(p.in_stride[4 - d]);
    }
    inside[k] = in;
    pixel[k] = number;
    offset[k] = in ? o : 0;
  }
};

template <class M, int kDim, int K>
XPU_INLINE void grid_taps(const GridArgs& p, const M (&g)[kDim], GridTaps<M, kDim, K>& taps) {
  if constexpr (K == 16) {  // bicubic
    M w[2][4], s[2][4];
    M base[2];
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      const GridCoordinate<M> c = unnormalize(g[d], p.in_size[4 - d], p.align);
      base[d] = sycl::floor(c.value);
      cubic_weights(c.value - base[d], w[d]);
      cubic_slopes(c.value - base[d], s[d]);
#pragma unroll
      for (int k = 0; k < 4; ++k) s[d][k] *= c.slope;
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int i = k % 4, j = k / 4;
      const int32_t at[2] = {pad_pixel(base[0] + M(i - 1), p.in_size[4], p.padding, p.align),
                             pad_pixel(base[1] + M(j - 1), p.in_size[3], p.padding, p.align)};
      taps.place(p, k, at);
      taps.weight[k] = w[0][i] * w[1][j];
      taps.slope[k][0] = s[0][i] * w[1][j];
      taps.slope[k][1] = w[0][i] * s[1][j];
    }
  } else {
    GridCoordinate<M> c[kDim];
    int32_t base[kDim];
    M part[kDim];
#pragma unroll
    for (int d = 0; d < kDim; ++d) {
      c[d] = source_coordinate(g[d], p.in_size[4 - d], p.padding, p.align, kDim == 3);
      M whole = K == 1 ? sycl::rint(c[d].value) : sycl::floor(c[d].value);
      base[d] = static_cast<int32_t>(whole);
      part[d] = K == 1 ? M(0) : c[d].value - whole;
      // Outside of a plane, too, a coordinate without a place gives weights without a value, as torch's CPU.
      if (K == 4 && p.padding == GridPadding::zeros) {
        const M raw = unnormalize(g[d], p.in_size[4 - d], p.align).value;
        if (!(raw - raw == M(0))) part[d] = raw - raw;
      }
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
      int32_t at[kDim];
      taps.weight[k] = M(1);
#pragma unroll
      for (int d = 0; d < kDim; ++d) {
        const bool upper = (k >> d) & 1;
        at[d] = base[d] + upper;
        taps.weight[k] *= upper ? part[d] : M(1) - part[d];
        M s = K == 1 ? M(0) : (upper ? M(1) : M(-1)) * c[d].slope;
#pragma unroll
        for (int e = 0; e < kDim; ++e)
          if (e != d) s *= ((k >> e) & 1) ? part[e] : M(1) - part[e];
        taps.slope[k][d] = s;
      }
      taps.place(p, k, at);
    }
  }
}

// Cubic interpolation in a volume: what the four pixels along each axis have, as 64 pixels would not fit in registers.
template <class M>
struct CubicLines {
  M weight[3][4], slope[3][4];
  int32_t offset[3][4];  // 0 where outside, so that it can be read
  int32_t pixel[3][4];   // steps in the number of the pixel
  bool inside[3][4];

  XPU_INLINE CubicLines(const GridArgs& p, const M (&g)[3]) {
    int32_t step = 1;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      const int64_t size = p.in_size[4 - d];
      const GridCoordinate<M> c = unnormalize(g[d], size, p.align);
      const M whole = sycl::floor(c.value);
      cubic_weights(c.value - whole, weight[d]);
      cubic_slopes(c.value - whole, slope[d]);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        slope[d][k] *= c.slope;
        const int32_t at = pad_pixel(whole + M(k - 1), size, p.padding, p.align);
        inside[d][k] = static_cast<uint32_t>(at) < static_cast<uint32_t>(size);
        offset[d][k] = inside[d][k] ? at * static_cast<int32_t>(p.in_stride[4 - d]) : 0;
        pixel[d][k] = at * step;
      }
      step *= static_cast<int32_t>(size);
    }
  }

  // The sum of the pixels with their weights, and its derivatives by x, y, z where they are wanted.
  template <bool kSlopes, class T> XPU_INLINE M sum(const T* in, M (&slopes)[3]) const {
    M value = M(0);
#pragma unroll
    for (int z = 0; z < 4; ++z) {
      M plane = M(0), plane_x = M(0), plane_y = M(0);
#pragma unroll
      for (int y = 0; y < 4; ++y) {
        M line = M(0), line_x = M(0);
        const bool row = inside[2][z] && inside[1][y];
        const T* from = in + (offset[2][z] + offset[1][y]);
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const M v = row && inside[0][x] ? M(from[offset[0][x]]) : M(0);
          line += weight[0][x] * v;
          if constexpr (kSlopes) line_x += slope[0][x] * v;
        }
        plane += weight[1][y] * line;
        if constexpr (kSlopes) {
          plane_x += weight[1][y] * line_x;
          plane_y += slope[1][y] * line;
        }
      }
      value += weight[2][z] * plane;
      if constexpr (kSlopes) {
        slopes[0] += weight[2][z] * plane_x;
        slopes[1] += weight[2][z] * plane_y;
        slopes[2] += slope[2][z] * plane;
      }
    }
    return value;
  }
};

// An item's position. A last work-group that would not be full starts earlier and computes some positions again: a
// branch would mask all that follows. Positions are neighbours in memory, read and written as vectors.
struct GridItem {
  int64_t n;
  size_t first, lane;  // of the work-group; `first` is the same for all items
  GridItem(const GridArgs& p) {
    auto item = syclex::this_work_item::get_nd_item<2>();
    const size_t local = item.get_local_range(1), begin = item.get_group(1) * local;
    n = item.get_group(0), lane = item.get_local_id(1);
    first = begin + local <= p.positions ? begin : p.positions - local;
  }
};

// Both coordinates of a plane are one number where the address allows it: two elements a pair apart would be gathered
// and scattered, and the processor does not read ahead of that.
template <class T, int kDim> constexpr bool kPaired = kDim == 2 && sizeof(T) <= 4;
template <class T> using GridHalf = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
template <class T> using GridPair = std::conditional_t<sizeof(T) == 4, uint64_t, uint32_t>;
template <class T> XPU_INLINE bool has_pairs(const T* grid) {
  return reinterpret_cast<uintptr_t>(grid) % sizeof(GridPair<T>) == 0;
}

template <class T, int kDim>
XPU_INLINE void load_grid(const GridArgs& p, const GridItem& item, opmath_t<T> (&g)[kDim]) {
  using M = opmath_t<T>;
  const T* grid = static_cast<const T*>(p.grid) + (item.n * p.positions + item.first) * kDim;
  if constexpr (kPaired<T, kDim>)
    if (has_pairs(grid)) {
      const GridPair<T> pair = reinterpret_cast<const GridPair<T>*>(grid)[item.lane];
      g[0] = M(__builtin_bit_cast(T, static_cast<GridHalf<T>>(pair)));
      g[1] = M(__builtin_bit_cast(T, static_cast<GridHalf<T>>(pair >> 8 * sizeof(T))));
      return;
    }
#pragma unroll
  for (int d = 0; d < kDim; ++d) g[d] = M(grid[item.lane * kDim + d]);
}

// The gradient of the grid.
template <class T, int kDim>
XPU_INLINE void store_grid(const GridArgs& p, const GridItem& item, const opmath_t<T> (&g)[kDim]) {
  T* grid = static_cast<T*>(p.grad_grid) + (item.n * p.positions + item.first) * kDim;
  if constexpr (kPaired<T, kDim>)
    if (has_pairs(grid)) {
      const GridPair<T> second = __builtin_bit_cast(GridHalf<T>, static_cast<T>(g[1]));
      reinterpret_cast<GridPair<T>*>(grid)[item.lane] =
          __builtin_bit_cast(GridHalf<T>, static_cast<T>(g[0])) | second << 8 * sizeof(T);
      return;
    }
#pragma unroll
  for (int d = 0; d < kDim; ++d) grid[item.lane * kDim + d] = T(g[d]);
}

// Rows: n; items: positions; each item loops over the channels.
template <class T, int kDim, int K>
XPU_INLINE void grid_sample(const GridArgs& p) {
  using M = opmath_t<T>;
  const GridItem item(p);
  M g[kDim];
  load_grid<T, kDim>(p, item, g);
  const T* in = static_cast<const T*>(p.input) + item.n * p.in_stride[0];
  T* out = static_cast<T*>(p.out) + item.n * p.out_stride[0] + item.first;
  if constexpr (K == 64) {
    const CubicLines<M> lines(p, g);
    M none[3];
    for (int64_t c = 0; c < p.in_size[1]; ++c, in += p.in_stride[1], out += p.out_stride[1])
      out[item.lane] = T(lines.template sum<false>(in, none));
  } else {
    GridTaps<M, kDim, K> taps;
    grid_taps<M, kDim, K>(p, g, taps);
    for (int64_t c = 0; c < p.in_size[1]; ++c, in += p.in_stride[1], out += p.out_stride[1]) {
      M sum = M(0);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const M v = M(in[taps.offset[k]]);
        sum += taps.weight[k] * (taps.inside[k] ? v : M(0));
      }
      out[item.lane] = T(sum);
    }
  }
}

// The same bilinearly in two dimensions, for a CPU device and many channels: a group of one item takes a block of
// positions, whose pixels and weights it notes, and goes through the channels one by one. So what it reads stays in the
// first cache, and what it writes lies side by side. Rows: n; groups: blocks.
template <class T>
inline void grid_sample_block(const GridArgs& p) {
  using M = opmath_t<T>;
  constexpr int kDim = 2, K = 4;
  constexpr uint32_t kBlock = xpu_ops::kGridBlock;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t n = item.get_group(0), first = item.get_group(1) * kBlock;
  const size_t left = p.positions - first;
  const uint32_t count = left < kBlock ? static_cast<uint32_t>(left) : kBlock;
  struct Position {
    int32_t offset[K];
    M weight[K];
  } at[kBlock];
  uint32_t inside[kBlock], all = ~0u;  // a bit for each pixel
  const T* grid = static_cast<const T*>(p.grid) + (n * p.positions + first) * kDim;
  for (uint32_t i = 0; i < count; ++i) {
    M g[kDim];
#pragma unroll
    for (int d = 0; d < kDim; ++d) g[d] = M(grid[i * kDim + d]);
    GridTaps<M, kDim, K> taps;
    grid_taps<M, kDim, K>(p, g, taps);
    inside[i] = ~0u;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      at[i].offset[k] = taps.offset[k];
      at[i].weight[k] = taps.inside[k] ? taps.weight[k] : taps.weight[k] * M(0);  // NaN stays
      if (!taps.inside[k]) inside[i] &= ~(1u << k);
    }
    all &= inside[i];
  }
  const T* in = static_cast<const T*>(p.input) + n * p.in_stride[0];
  T* out = static_cast<T*>(p.out) + n * p.out_stride[0] + first;
  for (int64_t c = 0; c < p.in_size[1]; ++c, in += p.in_stride[1], out += p.out_stride[1]) {
    // A pixel outside is the first one times 0, unless that is no number.
    if (all == ~0u || M(in[0]) * M(0) == M(0)) {
      for (uint32_t i = 0; i < count; ++i) {
        M sum = M(0);
#pragma unroll
        for (int k = 0; k < K; ++k) sum += at[i].weight[k] * M(in[at[i].offset[k]]);
        out[i] = T(sum);
      }
    } else {
      for (uint32_t i = 0; i < count; ++i) {
        M sum = M(0);
#pragma unroll
        for (int k = 0; k < K; ++k) sum += at[i].weight[k] * ((inside[i] >> k & 1) ? M(in[at[i].offset[k]]) : M(0));
        out[i] = T(sum);
      }
    }
  }
}

// Gradient of the grid, rows and items as the forward, and where the gradient of the input has to go.
template <class T, int kDim, int K>
XPU_INLINE void grid_sample_grid_grad(const GridArgs& p) {
  using M = opmath_t<T>;
  const GridItem item(p);
  M g[kDim];
  load_grid<T, kDim>(p, item, g);
  M sum[kDim];
#pragma unroll
  for (int d = 0; d < kDim; ++d) sum[d] = M(0);
  const T* in = static_cast<const T*>(p.input) + item.n * p.in_stride[0];
  const T* grad = static_cast<const T*>(p.grad_out) + item.n * p.out_stride[0] + item.first;
  if constexpr (K == 64) {
    const CubicLines<M> lines(p, g);
    if (p.pixel) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int x = k % 4, y = k / 4 % 4, z = k / 16;
        const size_t row = (item.n * K + k) * p.pitch + item.first;
        const bool inside = lines.inside[0][x] && lines.inside[1][y] && lines.inside[2][z];
        (p.pixel + row)[item.lane] = inside ? lines.pixel[0][x] + lines.pixel[1][y] + lines.pixel[2][z] : -1;
        (static_cast<M*>(p.weight) + row)[item.lane] = lines.weight[0][x] * lines.weight[1][y] * lines.weight[2][z];
      }
    }
    for (int64_t c = 0; c < p.in_size[1]; ++c, in += p.in_stride[1], grad += p.out_stride[1]) {
      const M go = M(grad[item.lane]);
      M slopes[3] = {M(0), M(0), M(0)};
      lines.template sum<true>(in, slopes);
#pragma unroll
      for (int d = 0; d < 3; ++d) sum[d] += go * slopes[d];
    }
  } else {
    GridTaps<M, kDim, K> taps;
    grid_taps<M, kDim, K>(p, g, taps);
    if (p.pixel) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const size_t row = (item.n * K + k) * p.pitch + item.first;
        (p.pixel + row)[item.lane] = taps.inside[k] ? taps.pixel[k] : -1;
        (static_cast<M*>(p.weight) + row)[item.lane] = taps.weight[k];
      }
    }
    // The nearest pixel does not change with the grid.
    for (int64_t c = 0; K > 1 && c < p.in_size[1]; ++c, in += p.in_stride[1], grad += p.out_stride[1]) {
      const M go = M(grad[item.lane]);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const M v = go * M(in[taps.offset[k]]);
#pragma unroll
        for (int d = 0; d < kDim; ++d) sum[d] += taps.inside[k] ? taps.slope[k][d] * v : M(0);
      }
    }
  }
  store_grid<T, kDim>(p, item, sum);
}

// Gradient of the input, channels innermost in both tensors. Groups: n, blocks of channels. An item owns a channel and
// adds in the order of the output, without atomics. Where to is the same for all items and read from memory: the result
// of a built-in function would count as different in each, and make a gather and a scatter of every sum.
template <class T>
inline void grid_sample_input_grad(const GridSumArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t n = item.get_group(0), c0 = item.get_group(1) * item.get_local_range(1), lane = item.get_local_id(1);
  M* out = static_cast<M*>(p.out) + n * p.pixels * p.channels + c0;
  const T* grad = static_cast<const T*>(p.grad_out) + n * p.positions * p.channels + c0;
  const int32_t* pixel = p.pixel + n * p.taps * p.pitch;
  const M* weight = static_cast<const M*>(p.weight) + n * p.taps * p.pitch;
  const bool full = c0 + item.get_local_range(1) <= p.channels;
  whole_or_part(full, c0 + lane < p.channels, item.get_local_range(0), [&]() __attribute__((always_inline)) {
    for (size_t i = 0; i < p.positions; ++i) {
      const M go = M((grad + i * p.channels)[lane]);
      for (size_t k = 0; k < p.taps; ++k) {
        const int32_t to = pixel[k * p.pitch + i];
        if (to < 0) continue;
        M* at = out + static_cast<size_t>(to) * p.channels;
        at[lane] += weight[k * p.pitch + i] * go;
      }
    }
  });
}

// The same for few channels, or planes that stay in the caches: an item owns a plane of the gradient, which it clears.
// The taps are unrolled: a processor predicts by the place of a load in the code which store it has to wait for.
template <class T, int K>
inline void grid_sample_plane_grad(const GridSumArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t n = item.get_group(0), c = item.get_group(1);
  M* out = static_cast<M*>(p.out) + (n * p.channels + c) * p.pixels;
  const T* grad = static_cast<const T*>(p.grad_out) + (n * p.channels + c) * p.positions;
  const int32_t* pixel = p.pixel + n * K * p.pitch;
  const M* weight = static_cast<const M*>(p.weight) + n * K * p.pitch;
  for (size_t i = 0; i < p.pixels; ++i) out[i] = M(0);
  for (size_t i = 0; i < p.positions; ++i) {
    const M go = M(grad[i]);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int32_t to = pixel[k * p.pitch + i];
      if (to >= 0) out[to] += weight[k * p.pitch + i] * go;
    }
  }
}

}  // namespace xpu
