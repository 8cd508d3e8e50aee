// A real number that is passed to kernels of every precision; shared by host and device.
#pragma once
#include <cstdint>

namespace xpu_ops {

// In both widths; the double as bits, since its mere type would make a module need fp64.
struct Real {
  float f32 = 0;
  uint64_t f64_bits = 0;
  Real() = default;
  Real(double v) : f32(static_cast<float>(v)), f64_bits(__builtin_bit_cast(uint64_t, v)) {}
};

}  // namespace xpu_ops
