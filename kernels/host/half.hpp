// IEEE binary16 for host code, rounding to nearest even. sycl::half cannot serve there: the host side of its header
// drops bits instead of rounding below 2^-13. Selects only, so that loops over it vectorise.
#pragma once
#include <bit>
#include <cstdint>

namespace xpu_ops::host {

struct half {
  uint16_t bits;

  half() = default;
  half(float f) {
    const uint32_t w = std::bit_cast<uint32_t>(f), u = w & 0x7fffffffu;
    const uint32_t normal = (u - (112u << 23) + 0xfffu + ((u >> 13) & 1u)) >> 13;
    // 0.5f has the spacing of half's subnormals, so that the sum rounds as they do.
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(u) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    const uint32_t nan = 0x7e00u | ((u >> 13) & 0x3ffu);
    uint32_t r = u < (113u << 23) ? subnormal : normal;
    r = u >= 0x477ff000u ? 0x7c00u : r;
    r = u > 0x7f800000u ? nan : r;
    bits = static_cast<uint16_t>(r | ((w >> 16) & 0x8000u));
  }
  operator float() const {
    const uint32_t h = bits & 0x7fffu, shifted = h << 13;
    const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(h)) * 0x1p-24f);
    uint32_t r = shifted + (112u << 23);
    r = h < 0x400u ? subnormal : r;
    r = h >= 0x7c00u ? shifted + (224u << 23) : r;
    return std::bit_cast<float>(r | (static_cast<uint32_t>(bits & 0x8000u) << 16));
  }
};

}  // namespace xpu_ops::host
