// Depthwise convolution of channels-last images by items that compute in vectors of their own. What is read may be
// bounded, so that a clamp between two layers is no pass over memory: comparisons keep NaN, which post-ops of oneDNN do
// not.
#pragma once
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/products/convolution.hpp"

namespace xpu {

XPU_INLINE float16v bounded16(float16v v, float low, float high) {
  v = v < float16v(low) ? float16v(low) : v;
  return v > float16v(high) ? float16v(high) : v;
}
XPU_INLINE float16v gated16(const xpu_ops::ConvGate& g, float16v v) {
  const float16v x = bounded16(g.scale * v + g.shift, g.low, g.high);
  return g.times ? v * x : x;
}

// Sixteen channels of `rows` rows of an image. Weights are floats, by tap and then channel, the bias behind them. Both
// strides are S; a sum has the same order everywhere.
template <class T, int K, int S, bool kBounded>
XPU_INLINE void depthwise_rows(const ConvArgs& p, uint32_t image, uint32_t channel, int32_t first, int32_t last) {
  constexpr int kAcross = 4, kTogether = S == 1 ? 2 : 1;  // rows that read the same vectors
  const int32_t in_h = p.in[1], in_w = p.in[2], out_w = p.out[2], pad = p.pad[2], wide = static_cast<int32_t>(p.ci);
  const T* src = static_cast<const T*>(p.src) + static_cast<size_t>(image) * p.src_strides[0] + channel;
  T* dst = const_cast<T*>(static_cast<const T*>(p.dst)) + static_cast<size_t>(image) * p.dst_strides[0] + channel;
  const float* weights = static_cast<const float*>(p.weights) + channel;
  const float16v bias = load16(weights + K * K * p.ci);
  float16v w[K * K];
#pragma unroll
  for (int k = 0; k < K * K; ++k) w[k] = load16(weights + static_cast<uint32_t>(k) * p.ci);
  // kR rows from y and kN columns from x. `edge`: some tap lies outside of its row.
  const auto block = [&](auto rows, auto across, auto edge, int32_t y, int32_t x) __attribute__((always_inline)) {
    constexpr int kR = decltype(rows)::value, kN = decltype(across)::value;
    const int32_t top = y * S - p.pad[1], left = x * S - pad;
    float16v sums[kR][kN];
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int j = 0; j < kN; ++j) sums[r][j] = bias;
#pragma unroll
    for (int n = 0; n < (kR - 1) * S + K; ++n) {
      if (top + n < 0 || top + n >= in_h) continue;
      const T* line = src + (static_cast<int64_t>(top + n) * in_w + left) * wide;
#pragma unroll
      for (int i = 0; i < (kN - 1) * S + K; ++i) {
        if (decltype(edge)::value && (left + i < 0 || left + i >= in_w)) continue;
        float16v v = load16(line + i * wide);
        if constexpr (kBounded) v = bounded16(v, p.in_low, p.in_high);
#pragma unroll
        for (int r = 0; r < kR; ++r)
#pragma unroll
          for (int j = 0; j < kN; ++j)
            if (n >= r * S && n < r * S + K && i >= j * S && i < j * S + K)
              sums[r][j] = sums[r][j] + w[(n - r * S) * K + i - j * S] * v;
      }
    }
#pragma unroll
    for (int r = 0; r < kR; ++r)
#pragma unroll
      for (int j = 0; j < kN; ++j)
        store16(dst + (static_cast<int64_t>(y + r) * out_w + x + j) * wide, gated16(p.gate, sums[r][j]));
  };
  const auto inner = [&](int32_t x, int32_t n)
                         __attribute__((always_inline)) { return x * S >= pad && (x + n - 1) * S - pad + K <= in_w; };
  // The last block of a row begins where it fits, and computes some elements once more.
  const auto lines = [&](auto rows, int32_t y) __attribute__((always_inline)) {
    constexpr std::integral_constant<int, kAcross> across{};
    int32_t x = 0;
    for (; x + 1 < out_w && out_w >= kAcross; x += kAcross) {
      const int32_t at = x + kAcross <= out_w ? x : out_w - kAcross;
      if (inner(at, kAcross))
        block(rows, across, std::false_type{}, y, at);
      else
        block(rows, across, std::true_type{}, y, at);
    }
    for (; x < out_w; ++x) block(rows, std::integral_constant<int, 1>{}, std::true_type{}, y, x);
  };
  int32_t y = first;
  for (; y + kTogether <= last; y += kTogether) lines(std::integral_constant<int, kTogether>{}, y);
  if (kTogether > 1 && y < last) lines(std::integral_constant<int, 1>{}, y);
}

template <class T, int K, int S, bool kBounded> void conv_depthwise_last(const ConvArgs& p) {
  const RowRange mine = group_rows(p.items);
  const uint32_t vectors = (p.ci + 15) / 16;
  for (uint32_t i = mine.begin; i < mine.end; ++i) {
    const uint32_t part = i / vectors, at = (i - part * vectors) * 16, image = part / p.blocks;
    const int32_t first = static_cast<int32_t>((part - image * p.blocks) * p.rows);
    const int32_t end = first + static_cast<int32_t>(p.rows);
    // The last vector ends where the channels do.
    depthwise_rows<T, K, S, kBounded>(p, image, at + 16 > p.ci ? p.ci - 16 : at, first,
                                      end < p.out[1] ? end : p.out[1]);
  }
}

}  // namespace xpu
