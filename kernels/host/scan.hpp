// cumsum along contiguous lines as a loop of the host: the sums of kernels/sycl/reduce/scan.hpp in its order.
#pragma once
#include "kernels/host/math.hpp"
#include "kernels/sycl/reduce/scan.hpp"

namespace xpu_ops::host {

// Four lanes: sixteen are four of these, which shift into each other without a trip through memory.
template <class S> struct Quad { typedef S type __attribute__((vector_size(4 * sizeof(S)))); };
template <class S> struct Places { typedef int64_t type __attribute__((vector_size(4 * sizeof(S)))); };
template <> struct Places<float> { typedef int32_t type __attribute__((vector_size(16))); };

// A line is one chunk: what is small is not cut.
template <class T> [[gnu::always_inline]] inline void cumsum_line(const ScanArgs& p, uint32_t lines) {
  using O = xpu::SumScan<T>;
  using V = typename Quad<T>::type;
  using I = typename Places<T>::type;
  static_assert(xpu::kScanLanes == 16 && std::is_same_v<T, typename O::S>);
  // The number that changes none when added, not even -0.
  const V nothing = std::is_integral_v<T> ? V{} : -V{};
  const uint32_t length = static_cast<uint32_t>(p.length);
  for (uint32_t line = 0; line < lines; ++line) {
    const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(line) * length;
    T* out = static_cast<T*>(p.out) + static_cast<int64_t>(line) * length;
    typename O::Carry carry{};
    for (uint32_t i = 0; i < length; i += 16) {
      const uint32_t n = length - i < 16 ? length - i : 16;
      T piece[16] = {};
      const T* from = in + i;
      if (n < 16) {
        for (uint32_t l = 0; l < n; ++l) piece[l] = from[l];
        from = piece;
      }
      V v[4];
      __builtin_memcpy(v, from, sizeof v);
      V w[4];
      w[0] = __builtin_shuffle(nothing, v[0], I{3, 4, 5, 6}) + v[0];
      w[1] = __builtin_shuffle(v[0], v[1], I{3, 4, 5, 6}) + v[1];
      w[2] = __builtin_shuffle(v[1], v[2], I{3, 4, 5, 6}) + v[2];
      w[3] = __builtin_shuffle(v[2], v[3], I{3, 4, 5, 6}) + v[3];
      v[0] = __builtin_shuffle(nothing, w[0], I{2, 3, 4, 5}) + w[0];
      v[1] = __builtin_shuffle(w[0], w[1], I{2, 3, 4, 5}) + w[1];
      v[2] = __builtin_shuffle(w[1], w[2], I{2, 3, 4, 5}) + w[2];
      v[3] = __builtin_shuffle(w[2], w[3], I{2, 3, 4, 5}) + w[3];
      w[1] = v[0] + v[1];
      w[2] = v[1] + v[2];
      w[3] = v[2] + v[3];
      v[1] = w[1];
      v[2] = v[0] + w[2];
      v[3] = w[1] + w[3];
      const T total = v[3][3];
      if (i > 0) {
        for (V& x : v) {
          if constexpr (sizeof(carry) == sizeof(T))
            x = carry + x;
          else
            x = carry.hi + (carry.lo + x);
        }
        carry = O::extend(carry, total);
      } else {
        carry = O::start(total);
      }
      if (n == 16) {
        __builtin_memcpy(out + i, v, sizeof v);
      } else {
        __builtin_memcpy(piece, v, sizeof v);
        for (uint32_t l = 0; l < n; ++l) out[i + l] = piece[l];
      }
    }
  }
}

}  // namespace xpu_ops::host
