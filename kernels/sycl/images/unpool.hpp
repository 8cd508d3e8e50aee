// Fractional max pooling.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/images/unpool_args.hpp"

namespace xpu {

using xpu_ops::FractionalArgs;

// Start of window `o`: pseudo-random steps that cover the input (Graham, arXiv:1412.6071).
template <class T>
inline uint32_t fractional_start(T sample, uint32_t in, uint32_t out, uint32_t pool, uint32_t o) {
  if (o + 1 == out) return in - pool;
  T alpha = T(in - pool) / T(out - 1);
  const uint32_t start =
      static_cast<uint32_t>(static_cast<int>((T(o) + sample) * alpha) - static_cast<int>(sample * alpha));
  return start < in - pool ? start : in - pool;  // samples outside [0, 1) too stay inside
}

// Rows: plane, depth, height; items: width.
template <class T>
inline void fractional_max_pool(const FractionalArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t x = item.get_global_id(1), row = item.get_group(0);
  if (x >= p.out_size[2]) return;
  uint32_t y = row % p.out_size[1], z = row / p.out_size[1] % p.out_size[0],
           plane = row / p.out_size[1] / p.out_size[0];
  const T* samples = static_cast<const T*>(p.samples) + plane * p.dims;
  uint32_t z0 = p.dims == 3 ? fractional_start(M(samples[0]), p.in_size[0], p.out_size[0], p.pool[0], z) : 0;
  uint32_t y0 = fractional_start(M(samples[1]), p.in_size[1], p.out_size[1], p.pool[1], y);
  uint32_t x0 = fractional_start(M(samples[p.dims == 3 ? 2 : 0]), p.in_size[2], p.out_size[2], p.pool[2], x);
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(plane) * p.in_size[0] * p.in_size[1] * p.in_size[2];
  M best = M(-__builtin_inff());
  uint32_t where = (z0 * p.in_size[1] + y0) * p.in_size[2] + x0;
  for (uint32_t a = z0; a < z0 + p.pool[0]; ++a)
    for (uint32_t b = y0; b < y0 + p.pool[1]; ++b)
      for (uint32_t c = x0; c < x0 + p.pool[2]; ++c) {
        uint32_t at = (a * p.in_size[1] + b) * p.in_size[2] + c;
        M v = M(in[at]);
        if (v > best || v != v) {
          best = v;
          where = at;
        }
      }
  int64_t o = static_cast<int64_t>(row) * p.out_size[2] + x;
  static_cast<T*>(p.out)[o] = T(best);
  p.indices[o] = where;
}

}  // namespace xpu
