// Numbers of a key, a pair of seed and offset: counter `offset + i` gives the i-th four words. As torch's stateless
// Philox (ATen/cuda/StatelessPhilox4x32.cuh), whose counter has no element: every device draws the same.
#pragma once
#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/philox.hpp"
#include "kernels/sycl/elementwise/random_args.hpp"

namespace xpu {

using xpu_ops::KeyDeriveArgs;
using xpu_ops::KeyDrawArgs;

// The low bits of a word as a fraction of what they can hold, as at::transformation::uniform_real.
template <class T> inline constexpr uint32_t kFractionBits = is_same_v<T, half> ? 11 : is_same_v<T, bf16> ? 8 : 24;
template <class T> inline float low_fraction(uint32_t x) {
  constexpr uint32_t values = 1u << kFractionBits<T>;
  return static_cast<float>(static_cast<int32_t>(x & (values - 1))) * (1.0f / static_cast<float>(values));
}
inline double low_fraction64(uint32_t hi, uint32_t lo) {
  return static_cast<double>(hi & 0x1fffffu) * 0x1p-21 + static_cast<double>(lo) * 0x1p-53;
}
inline double fraction64(uint32_t hi, uint32_t lo) {
  return static_cast<double>(hi) * 0x1p-32 + (static_cast<double>(lo) * 0x1p-64 + 0x1p-65);
}

// An item draws the values of one counter: two doubles, or four of another type. Not contracted: a + u * b rounds twice
// on torch's CPU.
template <class T, bool kNormal> void draw_of_key(const KeyDrawArgs& p) {
#pragma clang fp contract(off)
  constexpr uint32_t kValues = is_same_v<T, double> ? 2 : 4;
  const uint64_t item = p.first + global_id();
  if (item >= p.items) return;
  const uint64_t key = p.chunks == p.items ? 0 : item / p.chunks, chunk = item - key * p.chunks;
  const Random4 r = philox(p.keys[2 * key], p.keys[2 * key + 1] + chunk, 0, 0);
  T v[kValues];
  if constexpr (is_same_v<T, double>) {
    const double a = sycl::bit_cast<double>(p.a64), b = sycl::bit_cast<double>(p.b64);
    double x[2];
    if constexpr (kNormal) {
      const double radius = sycl::sqrt(-2.0 * sycl::log(fraction64(r.v[0], r.v[1])));
      const double angle = 6.2831853071795864 * fraction64(r.v[2], r.v[3]);
      x[0] = radius * sycl::cos(angle), x[1] = radius * sycl::sin(angle);
    } else {
      x[0] = low_fraction64(r.v[0], r.v[1]), x[1] = low_fraction64(r.v[2], r.v[3]);
    }
    for (uint32_t k = 0; k < 2; ++k) v[k] = x[k] * b + a;
  } else {
    float x[4];
    if constexpr (kNormal) {
#pragma unroll
      for (uint32_t k = 0; k < 4; k += 2) {
        const float radius = sycl::sqrt(-2.0f * sycl::log(uniform_open(r.v[k])));
        const float angle = 6.2831853071795864f * uniform_open(r.v[k + 1]);
        x[k] = radius * sycl::cos(angle), x[k + 1] = radius * sycl::sin(angle);
      }
    } else {
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) x[k] = low_fraction<T>(r.v[k]);
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) v[k] = T(x[k] * p.b + p.a);
  }
  const uint64_t at = chunk * kValues, left = p.per_key - at;
  T* dst = static_cast<T*>(p.dst) + key * p.per_key + at;
#pragma unroll
  for (uint32_t k = 0; k < kValues; ++k)
    if (k < left) dst[k] = v[k];
}

// Key `item % keys` moved on by `data`, or by the number of the split.
inline void derive_key(const KeyDeriveArgs& p) {
  const uint64_t item = p.first + global_id();
  if (item >= p.items) return;
  const uint64_t split = item / p.keys, key = item - split * p.keys;
  const uint64_t step = p.from ? *p.from : p.data;
  const Random4 r = philox(p.in[2 * key], p.in[2 * key + 1] + step + split, 0, 0);
  p.out[2 * item] = r.v[0] | static_cast<uint64_t>(r.v[1]) << 32;
  p.out[2 * item + 1] = r.v[2] | static_cast<uint64_t>(r.v[3]) << 32;
}

}  // namespace xpu
