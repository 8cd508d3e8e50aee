// Direct convolution for what oneDNN does not compute: f64, integers, and types a device has no primitive for. Every
// item gathers one element of the result, so the sums have one order.
#pragma once
#include <type_traits>

#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/math/math.hpp"
#include "kernels/sycl/products/convolution_args.hpp"
#include "kernels/sycl/products/matmul.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu {

using xpu_ops::ConvActivation;
using xpu_ops::ConvArgs;
using xpu_ops::kLanes;

template <class T> inline void store_lane(T* x, size_t lane, T v) { x[lane] = v; }
inline void store_lane(bf16* x, size_t lane, bf16 v) { reinterpret_cast<uint16_t*>(x)[lane] = v.bits; }

struct ConvItem {
  uint32_t first, second;  // (n, channel), or (co, ci / groups) of a weight
  int32_t at[3];
};

inline ConvItem conv_item(uint32_t i, uint32_t seconds, const int32_t (&size)[3]) {
  ConvItem r;
  for (int a = 2; a >= 0; --a) {
    const uint32_t next = i / static_cast<uint32_t>(size[a]);
    r.at[a] = static_cast<int32_t>(i - next * static_cast<uint32_t>(size[a]));
    i = next;
  }
  r.first = i / seconds;
  r.second = i - r.first * seconds;
  return r;
}

inline int64_t conv_offset(const int64_t (&s)[5], uint32_t a, uint32_t b, int32_t d, int32_t h, int32_t w) {
  return a * s[0] + b * s[1] + d * s[2] + h * s[3] + w * s[4];
}

// The padding is zeros as any others, as in torch's CPU: times an infinite weight they are NaN.
template <class T>
void conv_forward(const ConvArgs& p) {
  using A = typename accumulator<T>::type;
  const uint32_t i = global_id();
  if (i >= p.items) return;
  const ConvItem o = conv_item(i, p.co, p.out);
  const uint32_t channels = p.ci / p.groups, c0 = o.second / (p.co / p.groups) * channels;
  const T *src = static_cast<const T*>(p.src), *weights = static_cast<const T*>(p.weights);
  A sum = A(0);
  for (uint32_t c = 0; c < channels; ++c)
    for (int32_t kd = 0; kd < p.kernel[0]; ++kd) {
      const int32_t d = o.at[0] * p.stride[0] - p.pad[0] + kd * p.dilation[0];
      const bool in_d = d >= 0 && d < p.in[0];
      for (int32_t kh = 0; kh < p.kernel[1]; ++kh) {
        const int32_t h = o.at[1] * p.stride[1] - p.pad[1] + kh * p.dilation[1];
        const bool in_h = in_d && h >= 0 && h < p.in[1];
        for (int32_t kw = 0; kw < p.kernel[2]; ++kw) {
          const int32_t w = o.at[2] * p.stride[2] - p.pad[2] + kw * p.dilation[2];
          A value = A(0);
          if (in_h && w >= 0 && w < p.in[2])
            value = static_cast<A>(src[conv_offset(p.src_strides, o.first, c0 + c, d, h, w)]);
          sum = sum + value * static_cast<A>(weights[conv_offset(p.weight_strides, o.second, c, kd, kh, kw)]);
        }
      }
    }
  if (p.bias) sum = sum + static_cast<A>(static_cast<const T*>(p.bias)[o.second]);
  const_cast<T*>(static_cast<const T*>(
      p.dst))[conv_offset(p.dst_strides, o.first, o.second, o.at[0], o.at[1], o.at[2])] = static_cast<T>(sum);
}

// The output position whose tap k reads input position x along one axis; -1 if there is none.
inline int32_t conv_source(const ConvArgs& p, int a, int32_t x, int32_t k) {
  const int32_t t = x + p.pad[a] - k * p.dilation[a];
  if (t < 0) return -1;
  const int32_t o = t / p.stride[a];
  return o * p.stride[a] == t && o < p.out[a] ? o : -1;
}

// With a bias (one an input channel) it is a transposed convolution's forward.
template <class T>
void conv_backward_data(const ConvArgs& p) {
  using A = typename accumulator<T>::type;
  const uint32_t i = global_id();
  if (i >= p.items) return;
  const ConvItem x = conv_item(i, p.ci, p.in);
  const uint32_t in_group = p.ci / p.groups, out_group = p.co / p.groups, group = x.second / in_group;
  const T *dst = static_cast<const T*>(p.dst), *weights = static_cast<const T*>(p.weights);
  A sum = A(0);
  for (uint32_t c = group * out_group; c < (group + 1) * out_group; ++c)
    for (int32_t kd = 0; kd < p.kernel[0]; ++kd) {
      const int32_t d = conv_source(p, 0, x.at[0], kd);
      if (d < 0) continue;
      for (int32_t kh = 0; kh < p.kernel[1]; ++kh) {
        const int32_t h = conv_source(p, 1, x.at[1], kh);
        if (h < 0) continue;
        for (int32_t kw = 0; kw < p.kernel[2]; ++kw) {
          const int32_t w = conv_source(p, 2, x.at[2], kw);
          if (w < 0) continue;
          sum = sum +
                static_cast<A>(dst[conv_offset(p.dst_strides, x.first, c, d, h, w)]) *
                    static_cast<A>(weights[conv_offset(p.weight_strides, c, x.second - group * in_group, kd, kh, kw)]);
        }
      }
    }
  if (p.bias) sum = sum + static_cast<A>(static_cast<const T*>(p.bias)[x.second]);
  const_cast<T*>(static_cast<const T*>(
      p.src))[conv_offset(p.src_strides, x.first, x.second, x.at[0], x.at[1], x.at[2])] = static_cast<T>(sum);
}

template <class T>
void conv_backward_weights(const ConvArgs& p) {
  using A = typename accumulator<T>::type;
  const uint32_t i = global_id();
  if (i >= p.items) return;
  const uint32_t channels = p.ci / p.groups;
  const ConvItem k = conv_item(i, channels, p.kernel);
  const uint32_t c = k.first / (p.co / p.groups) * channels + k.second;
  const T *src = static_cast<const T*>(p.src), *dst = static_cast<const T*>(p.dst);
  A sum = A(0);
  for (uint32_t n = 0; n < p.n; ++n)
    for (int32_t od = 0; od < p.out[0]; ++od) {
      const int32_t d = od * p.stride[0] - p.pad[0] + k.at[0] * p.dilation[0];
      if (d < 0 || d >= p.in[0]) continue;
      for (int32_t oh = 0; oh < p.out[1]; ++oh) {
        const int32_t h = oh * p.stride[1] - p.pad[1] + k.at[1] * p.dilation[1];
        if (h < 0 || h >= p.in[1]) continue;
        for (int32_t ow = 0; ow < p.out[2]; ++ow) {
          const int32_t w = ow * p.stride[2] - p.pad[2] + k.at[2] * p.dilation[2];
          if (w < 0 || w >= p.in[2]) continue;
          sum = sum + static_cast<A>(src[conv_offset(p.src_strides, n, c, d, h, w)]) *
                          static_cast<A>(dst[conv_offset(p.dst_strides, n, k.first, od, oh, ow)]);
        }
      }
    }
  const_cast<T*>(static_cast<const T*>(
      p.weights))[conv_offset(p.weight_strides, k.first, k.second, k.at[0], k.at[1], k.at[2])] = static_cast<T>(sum);
}

template <bool kGated, class A> XPU_INLINE A conv_gate(const xpu_ops::ConvGate& g, A v) {
  if constexpr (!kGated) return v;
  A x = g.scale * v + g.shift;
  x = x < g.low ? g.low : x;
  x = x > g.high ? g.high : x;
  return g.times ? v * x : x;
}

// x[i] = f(x[i]) for rows of `width` elements. Every lane comes back to the elements that it has written.
template <class T, class F> XPU_INLINE void conv_each(T* x, int32_t rows, int32_t width, size_t lane, F f) {
  using A = typename accumulator<T>::type;
  const auto one = [&](T* at) { store_lane(at, lane, static_cast<T>(f(static_cast<A>(matmul_load(at, lane))))); };
  for (int32_t row = 0; row < rows; ++row, x += width) {
    int32_t i = 0;
    for (; i + static_cast<int32_t>(kLanes) <= width; i += kLanes) one(x + i);
    if (i + static_cast<int32_t>(lane) < width) one(x + i);
  }
}

// A pass of its own: a branch among the sums would compute every activation for every vector and select one.
template <class T>
XPU_INLINE void conv_activate(T* x, int32_t rows, int32_t width, size_t lane, ConvActivation kind, float a, float b) {
  using A = typename accumulator<T>::type;
  switch (kind) {
    case ConvActivation::relu: return conv_each(x, rows, width, lane, [=](A v) { return v < A(0) ? a * v : v; });
    case ConvActivation::swish:
      return conv_each(x, rows, width, lane, [=](A v) { return v / (A(1) + sycl::exp(-a * v)); });
    case ConvActivation::logistic: return conv_each(x, rows, width, lane, [=](A v) { return sigmoid(v); });
    case ConvActivation::gelu_tanh: return conv_each(x, rows, width, lane, [=](A v) { return gelu_tanh(v); });
    case ConvActivation::gelu_erf: return conv_each(x, rows, width, lane, [=](A v) { return gelu_erf(v); });
    default: return;
  }
}

// ---- depthwise, K x K taps, over contiguous images with stride 1 along the width: lanes go along a row of dst, so
// that every tap is one vector. A work-group takes `rows` rows of one image, four at a time where they read the same
// vectors. A sum has the same order in both.
template <class T, int K, bool kActivated> void conv_depthwise(const ConvArgs& p) {
  using A = typename accumulator<T>::type;
  constexpr int32_t kRows = K < 7 ? 4 : 1;  // more taps than registers
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const uint32_t group = static_cast<uint32_t>(item.get_group(0)), image = group / p.blocks;
  const int32_t first = static_cast<int32_t>((group - image * p.blocks) * p.rows);
  const int32_t end = first + static_cast<int32_t>(p.rows), last = end < p.out[1] ? end : p.out[1];
  const int32_t in_h = p.in[1], in_w = p.in[2], out_w = p.out[2], pad = p.pad[2], stride = p.stride[1];
  const uint32_t channel = image - image / p.ci * p.ci;
  const T* src = static_cast<const T*>(p.src) + static_cast<size_t>(image) * static_cast<uint32_t>(in_h * in_w);
  T* const written = const_cast<T*>(static_cast<const T*>(p.dst)) +
                     (static_cast<size_t>(image) * static_cast<uint32_t>(p.out[1]) + static_cast<uint32_t>(first)) *
                         static_cast<uint32_t>(out_w);
  A w[K * K];
#pragma unroll
  for (int k = 0; k < K * K; ++k)
    w[k] = static_cast<A>(matmul_load(static_cast<const T*>(p.weights) + channel * (K * K) + k, 0));
  const A bias = p.bias ? static_cast<A>(matmul_load(static_cast<const T*>(p.bias) + channel, 0)) : A(0);
  T* dst = written;
  for (int32_t y = first, rows; y < last; y += rows, dst += rows * out_w) {
    const int32_t above = y * stride - p.pad[1];
    rows = stride == 1 && above >= 0 && above + kRows + K - 1 <= in_h && y + kRows <= last ? kRows : 1;
    for (int32_t x = 0; x < out_w; x += kLanes) {
      const int32_t left = x - pad;
      const bool inner = left >= 0 && left + static_cast<int32_t>(kLanes) + K - 1 <= in_w;
      if (kRows > 1 && rows == kRows) {
        A sums[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r] = bias;
        // `edge`: some lane's tap lies outside the row.
        auto taps = [&](auto edge) {
#pragma unroll
          for (int line = 0; line < kRows + K - 1; ++line) {
            const T* row = src + (static_cast<int64_t>(above + line) * in_w + left);
#pragma unroll
            for (int kx = 0; kx < K; ++kx) {
              const int32_t at = left + kx + static_cast<int32_t>(lane);
              if (!edge.value || (at >= 0 && at < in_w)) {
                const A v = static_cast<A>(matmul_load(row + kx, lane));
#pragma unroll
                for (int r = 0; r < kRows; ++r)
                  if (line >= r && line < r + K) sums[r] = sums[r] + w[(line - r) * K + kx] * v;
              }
            }
          }
        };
        if (inner) {
          [[clang::always_inline]] taps(std::false_type{});
#pragma unroll
          for (int r = 0; r < kRows; ++r)
            store_lane(dst + r * out_w + x, lane, static_cast<T>(conv_gate<kActivated>(p.gate, sums[r])));
        } else {
          [[clang::always_inline]] taps(std::true_type{});
          if (x + static_cast<int32_t>(lane) < out_w)
#pragma unroll
            for (int r = 0; r < kRows; ++r)
              store_lane(dst + r * out_w + x, lane, static_cast<T>(conv_gate<kActivated>(p.gate, sums[r])));
        }
        continue;
      }
      for (int32_t r = 0; r < rows; ++r) {
        const int32_t top = above + r * stride;
        A sum = bias;
        auto taps = [&](auto edge) {
#pragma unroll
          for (int ky = 0; ky < K; ++ky) {
            if (top + ky < 0 || top + ky >= in_h) continue;
            const T* row = src + (static_cast<int64_t>(top + ky) * in_w + left);
#pragma unroll
            for (int kx = 0; kx < K; ++kx) {
              const int32_t at = left + kx + static_cast<int32_t>(lane);
              if (!edge.value || (at >= 0 && at < in_w))
                sum = sum + w[ky * K + kx] * static_cast<A>(matmul_load(row + kx, lane));
            }
          }
        };
        T* to = dst + r * out_w + x;
        if (inner) {
          [[clang::always_inline]] taps(std::false_type{});
          store_lane(to, lane, static_cast<T>(conv_gate<kActivated>(p.gate, sum)));
        } else {
          [[clang::always_inline]] taps(std::true_type{});
          if (x + static_cast<int32_t>(lane) < out_w)
            store_lane(to, lane, static_cast<T>(conv_gate<kActivated>(p.gate, sum)));
        }
      }
    }
  }
  if constexpr (kActivated) conv_activate(written, last - first, out_w, lane, p.activation, p.alpha, p.beta);
}

// The gradient of its weights: a work-group sums one channel over all images, lanes along the rows of dst. Sums are
// kept lane by lane and added at the end, in one order. 7 x 7 sums are more than the registers: one line of taps a
// pass.
template <class T, int K> void conv_depthwise_weights(const ConvArgs& p) {
  using A = typename accumulator<T>::type;
  constexpr int kLines = K < 7 ? K : 1;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const uint32_t channel = static_cast<uint32_t>(item.get_group(0));
  const int32_t in_h = p.in[1], in_w = p.in[2], out_h = p.out[1], out_w = p.out[2], pad = p.pad[2];
  const size_t in_area = static_cast<uint32_t>(in_h * in_w), out_area = static_cast<uint32_t>(out_h * out_w);
  T* const written = const_cast<T*>(static_cast<const T*>(p.weights)) + channel * (K * K);
  for (int first = 0; first < K; first += kLines) {
    A sums[kLines * K];
#pragma unroll
    for (int k = 0; k < kLines * K; ++k) sums[k] = A(0);
    for (uint32_t n = 0; n < p.n; ++n) {
      const size_t image = n * p.ci + channel;
      const T *src = static_cast<const T*>(p.src) + image * in_area,
              *dst = static_cast<const T*>(p.dst) + image * out_area;
      for (int32_t y = 0; y < out_h; ++y, dst += out_w) {
        const int32_t top = y * p.stride[1] - p.pad[1] + first;
        for (int32_t x = 0; x < out_w; x += kLanes) {
          const int32_t left = x - pad;
          // `edge`: some lane's tap lies outside the row, or some lane outside of dst's.
          auto taps = [&](auto edge) {
            const bool active = !edge.value || x + static_cast<int32_t>(lane) < out_w;
            const A g = active ? static_cast<A>(matmul_load(dst + x, lane)) : A(0);
#pragma unroll
            for (int ky = 0; ky < kLines; ++ky) {
              if (top + ky < 0 || top + ky >= in_h) continue;
              const T* row = src + (static_cast<int64_t>(top + ky) * in_w + left);
#pragma unroll
              for (int kx = 0; kx < K; ++kx) {
                const int32_t at = left + kx + static_cast<int32_t>(lane);
                if (!edge.value || (active && at >= 0 && at < in_w))
                  sums[ky * K + kx] = sums[ky * K + kx] + g * static_cast<A>(matmul_load(row + kx, lane));
              }
            }
          };
          if (left >= 0 && left + static_cast<int32_t>(kLanes) + K - 1 <= in_w &&
              x + static_cast<int32_t>(kLanes) <= out_w) [[clang::always_inline]]
            taps(std::false_type{});
          else [[clang::always_inline]]
            taps(std::true_type{});
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kLines * K; ++k) {
      const A sum = lane_sum(sums[k]);
      store_first(written + first * K + k, sum);
    }
  }
}

// ---- what every output position of channels-last images reads, taps then channels, side by side: (n, out..., taps x
// ci), so that a weight gradient is one product. A work-group makes one row of positions.
template <class T> void conv_columns(const ConvArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const uint32_t row = static_cast<uint32_t>(item.get_group(0)), out_h = static_cast<uint32_t>(p.out[1]);
  const uint32_t image = row / out_h;
  const int32_t top = static_cast<int32_t>(row - image * out_h) * p.stride[1] - p.pad[1];
  const T* src = static_cast<const T*>(p.src) + static_cast<size_t>(image) * p.src_strides[0];
  T* dst = const_cast<T*>(static_cast<const T*>(p.dst)) +
           static_cast<size_t>(row) * static_cast<uint32_t>(p.out[2] * p.kernel[1] * p.kernel[2]) * p.ci;
  for (int32_t x = 0; x < p.out[2]; ++x)
    for (int32_t ky = 0; ky < p.kernel[1]; ++ky)
      for (int32_t kx = 0; kx < p.kernel[2]; ++kx, dst += p.ci) {
        const int32_t h = top + ky * p.dilation[1], w = x * p.stride[2] - p.pad[2] + kx * p.dilation[2];
        const bool inside = h >= 0 && h < p.in[1] && w >= 0 && w < p.in[2];
        const T* from = src + (inside ? h * p.src_strides[3] + w * p.src_strides[4] : 0);
        uint32_t c = 0;
        for (; c + kLanes <= p.ci; c += kLanes) store_lane(dst + c, lane, inside ? matmul_load(from + c, lane) : T(0));
        if (c + lane < p.ci) store_lane(dst + c, lane, inside ? matmul_load(from + c, lane) : T(0));
      }
}

}  // namespace xpu
