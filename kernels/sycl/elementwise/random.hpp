// Random numbers: fills from one distribution, and kernels whose parameters vary by element.
#pragma once
#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/philox.hpp"
#include "kernels/sycl/elementwise/random_args.hpp"
#include "kernels/sycl/elementwise/random_grad.hpp"
#include "kernels/sycl/elementwise/random_keys.hpp"

namespace xpu {

using xpu_ops::kRandomStride;
using xpu_ops::MultinomialArgs;
using xpu_ops::RandomArgs;
using xpu_ops::RandomFromArgs;

enum class Dist { uniform, normal, exponential, cauchy, log_normal, geometric, bernoulli, integer };

// A rounded u * (b - a) + a may reach b, which does not belong to the range.
template <class T, class M>
inline T uniform_in(M u, M a, M b) {
  T v = T(u * (b - a) + a);
  return static_cast<M>(v) >= b ? T(a) : v;
}

template <class T, class M>
inline T exponential_of(M u, M lambda) {
  // u in (0, 1]; zero is not a value of the distribution, nor what f16 rounds the smallest float to.
  M tiny = is_same_v<M, double> ? M(0x1p-54) : is_same_v<T, half> ? M(0x1p-24f) : M(0x1p-25f);
  M l = u >= M(1) - tiny ? -tiny : sycl::log(u);
  return T(-l / lambda);
}

template <class M>
inline M cauchy_of(M u, M median, M sigma) {
  // tan(pi (u - 1/2)), away from its poles.
  M x = u - M(0.5f), c = sycl::cospi(x);
  M eps = is_same_v<M, double> ? M(0x1p-53) : M(0x1p-24f);
  return median + sigma * (sycl::sinpi(x) / (c < eps ? eps : c));
}

template <class M>
inline M geometric_of(M u, M log1p_minus_p) {
  M k = sycl::ceil(sycl::log(u) / log1p_minus_p);
  return k < M(1) ? M(1) : k;
}

// The high 64 bits of a 64 x 64 product in 32-bit steps, which vectorise.
inline uint64_t mul_high(uint64_t a, uint64_t b) {
  uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  uint64_t mid = a1 * b0 + ((a0 * b0) >> 32), mid2 = a0 * b1 + (mid & 0xffffffffu);
  return a1 * b1 + (mid >> 32) + (mid2 >> 32);
}

template <class T>
inline T integer_of(int64_t base, uint64_t k) {
  return convert<T>(static_cast<int64_t>(static_cast<uint64_t>(base) + k));
}

// Each item fills elements i, i + 1024, i + 2048, i + 3072 of a block of 4096 from one counter, so that stores are side
// by side across items.
template <class T, Dist D>
void random_fill(const RandomArgs& p) {
  uint32_t g = global_id(), block = g / kRandomStride, first = block * (4 * kRandomStride) + g % kRandomStride;
  if (first >= p.n) return;
  Random4 r = philox_of(p, g);
  float v[4];
  if constexpr (D == Dist::normal || D == Dist::log_normal) {
    NormalPair x = normal_pair(r.v[0], r.v[1]), y = normal_pair(r.v[2], r.v[3]);
    v[0] = x.a, v[1] = x.b, v[2] = y.a, v[3] = y.b;
  }
  T* dst = static_cast<T*>(p.dst);
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    uint32_t i = first + k * kRandomStride;
    T out;
    if constexpr (D == Dist::uniform) out = uniform_in<T>(uniform24(r.v[k]), p.a, p.b);
    if constexpr (D == Dist::normal) out = T(v[k] * p.b + p.a);
    if constexpr (D == Dist::log_normal) out = T(sycl::exp(v[k] * p.b + p.a));
    if constexpr (D == Dist::exponential) out = exponential_of<T>(uniform_open(r.v[k]), p.a);
    if constexpr (D == Dist::cauchy) out = T(cauchy_of(uniform_open(r.v[k]), p.a, p.b));
    if constexpr (D == Dist::geometric) out = convert<T>(geometric_of(uniform_open(r.v[k]), p.a));
    // The host settles p = 0; range is ceil(p * 2^32) - 1.
    if constexpr (D == Dist::bernoulli) out = convert<T>(r.v[k] <= static_cast<uint32_t>(p.range));
    if constexpr (D == Dist::integer) {
      out = integer_of<T>(p.base, (static_cast<uint64_t>(r.v[k]) * static_cast<uint32_t>(p.range)) >> 32);
    }
    if (i < p.n) dst[i] = out;
  }
}

// The same with 64 random bits an element: two of them 1024 apart.
template <class T, Dist D>
void random_fill64(const RandomArgs& p) {
  uint32_t g = global_id(), block = g / kRandomStride, first = block * (2 * kRandomStride) + g % kRandomStride;
  if (first >= p.n) return;
  Random4 r = philox_of(p, g);
  T* dst = static_cast<T*>(p.dst);
#pragma unroll
  for (uint32_t k = 0; k < 2; ++k) {
    uint32_t i = first + k * kRandomStride;
    T out;
    if constexpr (D == Dist::integer) {
      uint64_t x = static_cast<uint64_t>(r.v[2 * k]) << 32 | r.v[2 * k + 1];
      out = integer_of<T>(p.base, p.range == 0 ? x : mul_high(x, p.range));
    } else {
      double a = sycl::bit_cast<double>(p.a64), b = sycl::bit_cast<double>(p.b64);
      double u = uniform53(r.v[2 * k], r.v[2 * k + 1]), open = uniform53_open(r.v[2 * k], r.v[2 * k + 1]);
      if constexpr (D == Dist::uniform) out = uniform_in<T>(u, a, b);
      if constexpr (D == Dist::normal || D == Dist::log_normal) {
        double radius = sycl::sqrt(-2.0 * sycl::log(uniform53_open(r.v[0], r.v[1])));
        double angle = 2.0 * uniform53(r.v[2], r.v[3]);
        double z = radius * (k == 0 ? sycl::cospi(angle) : sycl::sinpi(angle));
        out = T(D == Dist::normal ? z * b + a : sycl::exp(z * b + a));
      }
      if constexpr (D == Dist::exponential) out = exponential_of<T>(open, a);
      if constexpr (D == Dist::cauchy) out = T(cauchy_of(open, a, b));
      if constexpr (D == Dist::geometric) out = convert<T>(geometric_of(open, a));
    }
    if (i < p.n) dst[i] = out;
  }
}

// Which kernels exist for which types: see random.yaml.
template <class T, Dist D> void random_discrete(const RandomArgs& p) { random_fill<T, D>(p); }
template <class T> void random_geometric(const RandomArgs& p) { random_fill<T, Dist::geometric>(p); }
template <class T> void random_integer64(const RandomArgs& p) { random_fill64<T, Dist::integer>(p); }

// dst = uniform < x: bernoulli_ with a tensor of probabilities.
template <class T, class P>
void bernoulli_from(const RandomFromArgs& p) {
  uint32_t g = global_id(), block = g / kRandomStride, first = block * (4 * kRandomStride) + g % kRandomStride;
  if (first >= p.n) return;
  Random4 r = philox_of(p, g);
  bool all_valid = true;  // one branch for all: a report in the loop makes its vectors single elements
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    uint32_t i = first + k * kRandomStride;
    if (i < p.n) {
      opmath_t<P> prob = static_cast<opmath_t<P>>(static_cast<const P*>(p.x)[i]);
      all_valid &= prob >= opmath_t<P>(0) && prob <= opmath_t<P>(1);
      static_cast<T*>(p.dst)[i] = convert<T>(static_cast<opmath_t<P>>(uniform24(r.v[k])) < prob);
    }
  }
  if (!all_valid) report_error(p.error, DeviceErrorCode::assertion, 0, p.message, 0);
}

// dst = x * mask * b, dst2 = mask = uniform < a. MASK is bool or uint8_t.
template <class T, class MASK>
void dropout(const RandomFromArgs& p) {
  uint32_t g = global_id(), block = g / kRandomStride, first = block * (4 * kRandomStride) + g % kRandomStride;
  if (first >= p.n) return;
  Random4 r = philox_of(p, g);
  using M = opmath_t<T>;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    uint32_t i = first + k * kRandomStride;
    if (i < p.n) {
      bool keep = uniform24(r.v[k]) < p.a;
      M x = static_cast<M>(static_cast<const T*>(p.x)[i]);
      // A product, not a select: NaN and infinity pass through a dropped element as they do on CPU.
      static_cast<T*>(p.dst)[i] = T(x * (keep ? M(p.b) : M(0.0f)));
      static_cast<MASK*>(p.dst2)[i] = static_cast<MASK>(keep);
    }
  }
}

template <class T, class MASK>
void masked_scale(const RandomFromArgs& p) {
  using M = opmath_t<T>;
  uint32_t i = global_id();
  if (i >= p.n) return;
  M mask = M(static_cast<float>(static_cast<const MASK*>(p.y)[i]));
  static_cast<T*>(p.dst)[i] = T(static_cast<M>(static_cast<const T*>(p.x)[i]) * mask * M(p.a));
}

// dst = x > 0 ? x : x * r with r uniform in [a, b), dst2 = 1 or r.
template <class T>
void rrelu(const RandomFromArgs& p) {
  uint32_t g = global_id(), block = g / kRandomStride, first = block * (4 * kRandomStride) + g % kRandomStride;
  if (first >= p.n) return;
  Random4 r = philox_of(p, g);
  using M = opmath_t<T>;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    uint32_t i = first + k * kRandomStride;
    if (i < p.n) {
      M x = static_cast<M>(static_cast<const T*>(p.x)[i]), slope = M(uniform24(r.v[k]) * (p.b - p.a) + p.a);
      bool negative = x <= M(0.0f);
      static_cast<T*>(p.dst2)[i] = negative ? T(slope) : T(1.0f);
      static_cast<T*>(p.dst)[i] = negative ? T(x * slope) : T(x);
    }
  }
}

// ---- rejection methods: one item per element, a stream of its own
// Every loop is bounded, so that NaN or infinity among the parameters cannot hang the device.
constexpr int kTries = 1000;

inline float poisson_one(RandomStream& s, float lambda) {
  if (!(lambda > 0.0f)) return 0.0f;
  if (lambda < 10.0f) {  // product of uniforms (Knuth)
    float limit = sycl::exp(-lambda), product = 1.0f;
    for (int k = 0; k < kTries; ++k) {
      product *= s.uniform();
      if (product <= limit) return static_cast<float>(k);
    }
    return 0.0f;
  }
  // Transformed rejection with squeeze, Hoermann 1993 (PTRS).
  float root = sycl::sqrt(lambda), b = 0.931f + 2.53f * root, a = -0.059f + 0.02483f * b;
  float inv_alpha = 1.1239f + 1.1328f / (b - 3.4f), vr = 0.9277f - 3.6224f / (b - 2.0f);
  for (int t = 0; t < kTries; ++t) {
    float u = s.uniform() - 0.5f, v = s.uniform(), us = 0.5f - sycl::fabs(u);
    float k = sycl::floor((2.0f * a / us + b) * u + lambda + 0.43f);
    if (us >= 0.07f && v <= vr) return k;
    if (k < 0.0f || (us < 0.013f && v > us)) continue;
    // k log(lambda) - lambda - lgamma(k + 1), by Stirling's series from k = 9 on: the difference of the large terms
    // would lose a float's precision.
    float log_p;
    if (k < 9.0f) {
      float f = 0.0f;
      for (float j = 2.0f; j <= k; j += 1.0f) f += sycl::log(j);
      log_p = k * sycl::log(lambda) - lambda - f;
    } else {
      log_p = k * sycl::log(lambda / k) - (lambda - k) - 0.5f * sycl::log(6.2831853f * k) - 1.0f / (12.0f * k);
    }
    if (sycl::log(v * inv_alpha / (a / (us * us) + b)) <= log_p) return k;
  }
  return lambda;
}

// log k! minus the leading terms of Stirling's formula.
inline float stirling_tail(float k) {
  float k1 = k + 1.0f, k2 = k1 * k1;
  return (1.0f / 12.0f - (1.0f / 360.0f - 1.0f / 1260.0f / k2) / k2) / k1;
}

// p <= 1/2.
inline float binomial_half(RandomStream& s, float n, float p) {
  if (n * p < 10.0f) {  // sums of geometric gaps
    float log_q = sycl::log1p(-p), sum = 0.0f;
    for (int k = 0; k < kTries; ++k) {
      sum += sycl::ceil(sycl::log(s.uniform()) / log_q);
      if (sum > n) return static_cast<float>(k);
    }
    return n;
  }
  // Transformed rejection, Hoermann 1993 (BTRS).
  float q = 1.0f - p, spread = sycl::sqrt(n * p * q), b = 1.15f + 2.53f * spread,
        a = -0.0873f + 0.0248f * b + 0.01f * p;
  float c = n * p + 0.5f, vr = 0.92f - 4.2f / b, ratio = p / q, alpha = (2.83f + 5.1f / b) * spread;
  float m = sycl::floor((n + 1.0f) * p);
  for (int t = 0; t < kTries; ++t) {
    float u = s.uniform() - 0.5f, v = s.uniform(), us = 0.5f - sycl::fabs(u);
    float k = sycl::floor((2.0f * a / us + b) * u + c);
    if (us >= 0.07f && v <= vr) return k;
    if (k < 0.0f || k > n) continue;
    float left = sycl::log(v * alpha / (a / (us * us) + b));
    float right = (m + 0.5f) * sycl::log((m + 1.0f) / (ratio * (n - m + 1.0f))) +
                  (n + 1.0f) * sycl::log((n - m + 1.0f) / (n - k + 1.0f)) +
                  (k + 0.5f) * sycl::log(ratio * (n - k + 1.0f) / (k + 1.0f)) + stirling_tail(m) +
                  stirling_tail(n - m) - stirling_tail(k) - stirling_tail(n - k);
    if (left <= right) return k;
  }
  return c;
}

inline float binomial_one(RandomStream& s, float n, float p) {
  if (!(n > 0.0f) || !(p > 0.0f)) return 0.0f;
  if (p >= 1.0f) return n;
  return p <= 0.5f ? binomial_half(s, n, p) : n - binomial_half(s, n, 1.0f - p);
}

// Marsaglia and Tsang 2000.
inline float gamma_one(RandomStream& s, float alpha) {
  float scale = 1.0f;
  if (alpha < 1.0f) {
    scale = alpha > 0.0f ? sycl::pow(s.uniform(), 1.0f / alpha) : 0.0f;
    alpha += 1.0f;
  }
  float d = alpha - 1.0f / 3.0f, c = 1.0f / sycl::sqrt(9.0f * d);
  for (int t = 0; t < kTries; ++t) {
    float x = s.normal(), y = 1.0f + c * x;
    if (y <= 0.0f) continue;
    float v = y * y * y, u = 1.0f - s.uniform() + 0x1p-33f, x2 = x * x;
    if (u < 1.0f - 0.0331f * x2 * x2 || sycl::log(u) < 0.5f * x2 + d * (1.0f - v + sycl::log(v))) return scale * d * v;
  }
  return scale * d;
}

template <class T>
void poisson(const RandomFromArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  const PhiloxKey key = philox_key(p, 4);
  RandomStream s(key.seed, key.offset, i);
  const float rate = convert<float>(static_cast<const T*>(p.x)[i]);
  if (!(rate >= 0.0f)) report_error(p.error, DeviceErrorCode::assertion, 0, p.message, 0);
  static_cast<T*>(p.dst)[i] = convert<T>(poisson_one(s, rate));
}

template <class T>
void binomial(const RandomFromArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  const PhiloxKey key = philox_key(p, 4);
  RandomStream s(key.seed, key.offset, i);
  float n = convert<float>(static_cast<const T*>(p.x)[i]), prob = convert<float>(static_cast<const T*>(p.y)[i]);
  static_cast<T*>(p.dst)[i] = convert<T>(binomial_one(s, n, prob));
}

template <class T>
void standard_gamma(const RandomFromArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  const PhiloxKey key = philox_key(p, 4);
  RandomStream s(key.seed, key.offset, i);
  float v = gamma_one(s, convert<float>(static_cast<const T*>(p.x)[i]));
  // Never zero: what divides by a sample, or takes its logarithm, needs that.
  float smallest = is_same_v<T, half> ? 0x1p-14f : 0x1p-126f;
  static_cast<T*>(p.dst)[i] = convert<T>(v < smallest ? smallest : v);
}

// The category whose running sum first exceeds u * total.
template <class T>
void multinomial_draw(const MultinomialArgs& p) {
  uint32_t g = global_id();
  if (g >= p.n) return;
  uint32_t row = g / p.samples;
  const T* sums = static_cast<const T*>(p.cumulative) + static_cast<uint64_t>(row) * p.categories;
  using M = opmath_t<T>;
  Random4 r = philox_of(p, g);
  M total = static_cast<M>(sums[p.categories - 1]), target;
  if constexpr (is_same_v<T, double>)
    target = uniform53(r.v[0], r.v[1]) * total;
  else
    target = uniform24(r.v[0]) * total;
  uint32_t low = 0, size = p.categories;
  while (size > 0) {
    uint32_t half_size = size / 2;
    bool right = static_cast<M>(sums[low + half_size]) <= target;
    low = right ? low + half_size + 1 : low;
    size = right ? size - half_size - 1 : half_size;
  }
  // Rounding may carry the target to the total: step back to a category that has a probability.
  if (low >= p.categories) low = p.categories - 1;
  while (low > 0 && static_cast<M>(sums[low]) == static_cast<M>(sums[low - 1])) --low;
  static_cast<int64_t*>(p.dst)[g] = low;
}

}  // namespace xpu

#include "kernels/sycl/core/shuffle.hpp"
