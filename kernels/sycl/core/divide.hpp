// Unsigned division by a number known on the host: a multiply and a shift (Granlund and Montgomery 1994), which the CPU
// device vectorises; a real division it does not.
#pragma once
#include <cstdint>

namespace xpu_ops {

struct Divider { uint32_t d, magic, shift; };

// For dividends below 2^31.
inline uint32_t div(uint32_t n, Divider v) {
  return (static_cast<uint32_t>((static_cast<uint64_t>(n) * v.magic) >> 32) + n) >> v.shift;
}

// For every dividend, by a wider sum that costs more.
inline uint32_t divide(uint32_t n, Divider v) {
  const uint64_t high = (static_cast<uint64_t>(n) * v.magic) >> 32;
  return static_cast<uint32_t>((high + n) >> v.shift);
}

inline Divider make_divider(uint32_t d) {
  uint32_t shift = 0;
  while (shift < 32 && (uint64_t{1} << shift) < d) ++shift;
  const uint64_t magic = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1;
  return {d, static_cast<uint32_t>(magic), shift};
}

}  // namespace xpu_ops

namespace xpu {
using xpu_ops::div;
using xpu_ops::divide;
using xpu_ops::Divider;
using xpu_ops::make_divider;
}  // namespace xpu
