// The matrices of a batch on several threads, each of which calls oneMKL for itself.
#pragma once
#include <algorithm>

#include <mkl_service.h>

#include "kernels/dtype.hpp"
#include "kernels/mkl/lib/workers.hpp"
#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

// A thread calls oneMKL for its part alone: with oneMKL's own division among the threads a batch of small products
// takes up to eighty times as long, a large one twice as long (docs/notes/matmul.md).
struct OneThread {
  const int before = mkl_set_num_threads_local(1);
  ~OneThread() { mkl_set_num_threads_local(before); }
};

// Multiplications of floats in a product, or as much time, that are worth a thread.
constexpr int64_t kThreadSteps = int64_t{1} << 18;
// From this size on oneMKL's threads share a matrix where a batch has fewer matrices than there are threads.
constexpr int64_t kSharedSteps = int64_t{1} << 26;

inline int64_t floats_of(DType type) { return type == DType::c64 || type == DType::c128 ? 4 : 1; }

inline int worth(int64_t steps, int most) {
  return static_cast<int>(std::clamp<int64_t>(steps / kThreadSteps, 1, most));
}

// make() gives a function of the number of a matrix, which takes so many steps, with work arrays of its own.
template <class Make>
void each(const Batch& batch, int64_t steps, const Make& make) {
  const int threads = static_cast<int>(std::min<int64_t>(worth(batch.count * steps, batch.threads), batch.count));
  if (threads == 1 || (batch.count < batch.threads && steps >= kSharedSteps)) {
    auto f = make();
    for (int64_t b = 0; b < batch.count; ++b) f(b);
    return;
  }
  run_ranges(batch.count, threads, [&](int64_t first, int64_t end) {
    const OneThread alone;
    auto f = make();
    for (int64_t b = first; b < end; ++b) f(b);
  });
}

}  // namespace xpu_ops::mkl
