// Values of 8 and 4 bits times the scales of their blocks.
#pragma once
#include "kernels/sycl/core/float8.hpp"
#include "kernels/sycl/products/blockscale_args.hpp"

namespace xpu {

using xpu_ops::BlockScaleArgs;

// Two values of e2m1 in a byte: sign, two exponent bits with bias 1, one mantissa bit.
struct f4e2m1x2 { uint8_t bits; };

inline float e2m1(uint32_t nibble) {
  // With the exponent of 1 in front, x is twice the value, but for the subnormals 0 and 1/2, which are x - 1.
  const float x = sycl::bit_cast<float>(((nibble & 7u) << 22) + 0x3f800000u), half = 0.5f * x, less = x - 1.0f;
  const float v = half < less ? half : less;
  return sycl::bit_cast<float>(sycl::bit_cast<uint32_t>(v) | (nibble & 8u) << 28);
}

inline size_t scale_place(const BlockScaleArgs& p, uint32_t row, uint32_t block) {
  if (!p.tiles) return (row / p.scale_rows) * p.scale_row + block * p.scale_block;
  return (static_cast<size_t>(row / 128) * p.tiles + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}

// 2-D: sub-groups take rows, their items the values of a block side by side.
template <class T, class V, class S> inline void blockscale_dequantize(const BlockScaleArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = it.get_local_id(1), lanes = it.get_local_range(1);
  const uint32_t first =
      static_cast<uint32_t>(it.get_group(0) * it.get_local_range(0) + it.get_local_id(0)) * p.row_each;
  const uint32_t c0 = static_cast<uint32_t>(it.get_group(1)) * p.column_each;
  const uint32_t c1 = c0 + p.column_each < p.k ? c0 + p.column_each : p.k;
  for (uint32_t row = first; row < first + p.row_each && row < p.rows; ++row) {
    const uint8_t* in = static_cast<const uint8_t*>(p.in) + row * p.in_row;
    T* out = static_cast<T*>(p.out) + static_cast<size_t>(row) * p.k;
    for (uint32_t c = c0; c < c1; c += p.block) {
      const float scale = static_cast<float>(static_cast<const S*>(p.scale)[scale_place(p, row, c / p.block)]);
      const uint32_t end = c + p.block < c1 ? c + p.block : c1;
      for_columns(c, end, lane, lanes, [&](size_t i) {
        float v;
        if constexpr (__is_same(V, f4e2m1x2)) {
          v = e2m1(in[i / 2] >> (i % 2 * 4));
        } else {
          v = static_cast<float>(reinterpret_cast<const V*>(in)[i]);
        }
        out[i] = static_cast<T>(v * scale);
      });
    }
  }
}

}  // namespace xpu
