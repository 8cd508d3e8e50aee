// The five 8-bit float types, stored as one byte and computed as float. Rounding is to nearest even; what a type cannot
// hold becomes infinity in e5m2, the largest value in e4m3fn and NaN in the fnuz types, as c10 has it.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

// E exponent bits, M mantissa bits, exponent bias B. FNUZ types have no infinity, no -0, and 0x80 is their only NaN.
template <int E, int M, int B, bool FNUZ, bool INF>
struct float8 {
  uint8_t bits;
  float8() = default;
  float8(float f) {
    uint32_t u = sycl::bit_cast<uint32_t>(f), sign = (u >> 24) & 0x80u;
    u &= 0x7fffffffu;
    constexpr uint32_t nan = FNUZ ? 0x80u : 0x7fu;
    // First value whose exponent is out of range; e4m3fn keeps the topmost mantissa for its NaN.
    constexpr uint32_t top = static_cast<uint32_t>((1 << E) - (INF ? 1 : 0) - B + 127) << 23;
    constexpr uint32_t limit = !FNUZ && !INF ? top - (1u << (23 - M)) : top;
    uint32_t r;
    if (u > 0x7f800000u) {
      r = nan;
    } else if (u >= limit) {
      r = INF ? 0x7cu : FNUZ ? nan : 0x7eu;
    } else if (u < static_cast<uint32_t>(128 - B) << 23) {
      // Below the smallest normal: adding 2^k puts the last bit that stays at bit 0, and the sum rounds to even.
      constexpr uint32_t magic = static_cast<uint32_t>(127 + 1 - B - M + 23) << 23;
      r = sycl::bit_cast<uint32_t>(sycl::bit_cast<float>(u) + sycl::bit_cast<float>(magic)) - magic;
    } else {
      uint32_t odd = (u >> (23 - M)) & 1u;
      r = (u - (static_cast<uint32_t>(127 - B) << 23) + ((1u << (22 - M)) - 1u) + odd) >> (23 - M);
      if constexpr (!FNUZ && !INF) r = r == nan ? 0x7eu : r;
    }
    if constexpr (FNUZ) {
      bits = static_cast<uint8_t>(r == 0 || r == nan ? r : r | sign);
    } else {
      bits = static_cast<uint8_t>(r | sign);
    }
  }
  operator float() const {
    uint32_t b = bits & 0x7fu, sign = static_cast<uint32_t>(bits & 0x80u) << 24;
    if constexpr (FNUZ) {
      if (bits == 0x80u) return sycl::bit_cast<float>(0x7fc00000u);
    } else if constexpr (INF) {
      if (b >= 0x7cu) return sycl::bit_cast<float>(sign | 0x7f800000u | ((b & 3u) << 21));
    } else {
      if (b == 0x7fu) return sycl::bit_cast<float>(sign | 0x7fc00000u);
    }
    // Subnormals are exact small integers times 2^(1 - B - M).
    constexpr float unit = 1.0f / static_cast<float>(1u << (B + M - 1));
    float v = b < (1u << M) ? static_cast<float>(b) * unit
                            : sycl::bit_cast<float>((b << (23 - M)) + (static_cast<uint32_t>(127 - B) << 23));
    return sycl::bit_cast<float>(sycl::bit_cast<uint32_t>(v) | sign);
  }
};

using f8e5m2 = float8<5, 2, 15, false, true>;
using f8e4m3fn = float8<4, 3, 7, false, false>;
using f8e5m2fnuz = float8<5, 2, 16, true, false>;
using f8e4m3fnuz = float8<4, 3, 8, true, false>;

// A power of two: the exponent byte of a float.
struct f8e8m0fnu {
  uint8_t bits;
  f8e8m0fnu() = default;
  f8e8m0fnu(float f) {
    uint32_t u = sycl::bit_cast<uint32_t>(f) & 0x7fffffffu, e = u >> 23, m = u & 0x7fffffu;
    // Ties go up, except from the smallest exponent, which is where c10 rounds to even.
    bool up = m > 0x400000u || (m == 0x400000u && e > 0);
    bits = static_cast<uint8_t>(e == 0xffu ? 0xffu : e + (up ? 1u : 0u));
  }
  operator float() const {
    uint32_t b = bits;
    return sycl::bit_cast<float>(b == 0 ? 0x00400000u : b == 0xffu ? 0x7f800001u : b << 23);
  }
};

template <> struct opmath<f8e5m2> { using type = float; };
template <> struct opmath<f8e4m3fn> { using type = float; };
template <> struct opmath<f8e5m2fnuz> { using type = float; };
template <> struct opmath<f8e4m3fnuz> { using type = float; };
template <> struct opmath<f8e8m0fnu> { using type = float; };

}  // namespace xpu
