// Items that go through memory side by side, each with several accumulators.
#pragma once
#include "kernels/sycl/core/groups.hpp"

namespace xpu {

// The accumulator to use, as a type and as a number.
template <int J> struct Slot {
  static constexpr int value = J;
  constexpr operator int() const { return J; }
};

// f(at, slot) for at, at + step ... < end: four accumulators by turns, the first one for the rest.
template <class I, class F> XPU_INLINE void strided_by4(I at, I end, I step, F f) {
  for (; at + 3 * step < end; at += 4 * step) {
    [[clang::always_inline]] f(at, Slot<0>{});
    [[clang::always_inline]] f(at + step, Slot<1>{});
    [[clang::always_inline]] f(at + 2 * step, Slot<2>{});
    [[clang::always_inline]] f(at + 3 * step, Slot<3>{});
  }
  for (; at < end; at += step) [[clang::always_inline]]
    f(at, Slot<0>{});
}

}  // namespace xpu
