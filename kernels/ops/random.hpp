// Random numbers: launches of one counter per item, and permutations.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/ops/problem/random.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"

namespace xpu_ops::ops {

// As many items as draw n elements, `values` each. Those of one item are a fixed distance apart, whatever the
// work-group: see random_fill.
size_t plan_draws(size_t n, size_t values);

template <class Problem>
void draw(runtime::Queue& queue, runtime::KernelSlot& kernel, size_t items, const Problem& problem) {
  const size_t group = runtime::policy_of(queue).elementwise_group;
  runtime::launch(queue, kernel, runtime::ceil_div(items, group), group, problem);
}

// Launches of at most kKeyLaunch items: the whole work is counted in 64 bits.
constexpr uint64_t kKeyLaunch = uint64_t{1} << 30;
template <class Problem>
void draw_keys(runtime::Queue& queue, runtime::KernelSlot& kernel, Problem problem) {
  for (problem.first = 0; problem.first < problem.items; problem.first += kKeyLaunch)
    draw(queue, kernel, std::min(kKeyLaunch, problem.items - problem.first), problem);
}

// Buckets of a permutation of n numbers, and the parts that items count and move.
struct ShufflePlan {
  uint32_t bits = 0;
  uint32_t chunks = 1, chunk = 0;
};
ShufflePlan plan_shuffle(uint32_t n, const runtime::Policy& policy);
// Writes a permutation of n numbers in the order of their keys.
void shuffle(runtime::Queue& queue, const uint64_t* keys, uint32_t n, int64_t* dst);

}  // namespace xpu_ops::ops
