// Kernels in which an item takes several neighbouring columns of a matrix, a sub-group apart: one visit of a row then
// reads a long piece of memory.
#pragma once
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu {

template <int n> struct Count { static constexpr int value = n; };

// Calls f(Count<vectors>, first column) for the block of columns that begins at c0, where this item's columns are
// first + j * kLanes + lane: all vectors at once where the block is full. `once`: see whole_or_part.
template <int kVectors, class F>
XPU_INLINE void column_block(size_t c0, size_t cols, size_t lane, size_t once, F f) {
  constexpr size_t kLanes = xpu_ops::kLanes;
  if (c0 + kVectors * kLanes <= cols) {
    [[clang::always_inline]] f(Count<kVectors>{}, c0);
  } else {
    for (size_t first = c0; first < cols && first < c0 + kVectors * kLanes; first += kLanes)
      whole_or_part(first + kLanes <= cols, first + lane < cols, once,
                    [&] { [[clang::always_inline]] f(Count<1>{}, first); });
  }
}

}  // namespace xpu
