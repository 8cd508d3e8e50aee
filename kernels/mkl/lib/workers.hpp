// The threads of oneTBB, which the OpenCL runtime shares: oneMKL leaves transforms of up to some hundred thousand
// points to one thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

namespace xpu_ops::mkl {

// Calls f(0) ... f(parts - 1), on the calling thread and others where `threads` is more than one, and returns when all
// have returned. What f throws, it throws.
void run_parts(int64_t parts, int threads, const std::function<void(int64_t)>& f);

// Parts per thread, so that a thread that wakes late leaves its share to others.
constexpr int64_t kPartsPerThread = 2;
inline int64_t shares_of(int threads) { return threads == 1 ? 1 : kPartsPerThread * threads; }

// f(first, end) for ranges of neighbours: threads that write neighbouring lines take them from each other.
template <class F>
void run_ranges(int64_t count, int threads, const F& f) {
  const int64_t shares = std::min(count, shares_of(threads));
  run_parts(shares, threads, [&](int64_t share) { f(count * share / shares, count * (share + 1) / shares); });
}

// f(i), neighbouring blocks on one thread.
template <class F>
void run_blocks(int64_t blocks, int threads, const F& f) {
  run_ranges(blocks, threads, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) f(i);
  });
}

}  // namespace xpu_ops::mkl
