// Linear algebra: routines on batches of small matrices, and pivots, one work-item per matrix.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/products/linalg_args.hpp"
#include "kernels/sycl/small/factor.hpp"
#include "kernels/sycl/small/jacobi.hpp"

namespace xpu {

using xpu_ops::PermutationArgs;
using xpu_ops::SmallArgs;

template <class T, class Routine> inline void small_packs(const SmallArgs& p) { small::run_packs<T, Routine>(p); }
template <class T, class Routine> inline void small_items(const SmallArgs& p) { small::run_items<T, Routine>(p); }

inline void lu_permutation(const PermutationArgs& p) {
  const int64_t b = static_cast<int64_t>(global_id());
  if (b >= p.batch) return;
  const int32_t* pivots = p.pivots + b * p.swaps;
  int64_t* permutation = p.permutation + b * p.rows;
  for (int64_t i = 0; i < p.rows; ++i) permutation[i] = i;
  for (int64_t i = 0; i < p.swaps; ++i) {
    const int64_t j = pivots[i] - 1, held = permutation[i];
    if (j < 0 || j >= p.rows) continue;  // pivots may come from anyone
    permutation[i] = permutation[j];
    permutation[j] = held;
  }
}

}  // namespace xpu
