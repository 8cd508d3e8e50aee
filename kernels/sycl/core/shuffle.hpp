// randperm: every number is thrown into a random bucket and each bucket, small enough for the first cache, is shuffled
// (Rao 1961, Sandelius 1962). All permutations are equally likely, up to the 32 bits of a draw; the result depends on
// neither the number of chunks nor the launch. Included by random.hpp.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

using xpu_ops::ShuffleArgs;

inline uint32_t shuffle_digit(const ShuffleArgs& p, uint32_t i) {
  return static_cast<uint32_t>(p.keys[i] >> 32) >> (32 - p.bits);
}
inline uint32_t shuffle_end(const ShuffleArgs& p) {
  const uint32_t end = (group_id() + 1) * p.chunk;
  return end < p.n ? end : p.n;
}

// One item per chunk.
inline void shuffle_count(const ShuffleArgs& p) {
  uint32_t* count = p.counts + (group_id() << p.bits);
  for (uint32_t d = 0; d < 1u << p.bits; ++d) count[d] = 0;
  const uint32_t end = shuffle_end(p);
  for (uint32_t i = group_id() * p.chunk; i < end; ++i) ++count[shuffle_digit(p, i)];
}

// One item: where each chunk's part of each bucket starts.
inline void shuffle_scan(const ShuffleArgs& p) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < 1u << p.bits; ++d)
    for (uint32_t c = 0; c < p.chunks; ++c) {
      uint32_t& at = p.counts[(c << p.bits) + d];
      const uint32_t n = at;
      at = sum;
      sum += n;
    }
}

// One item per chunk. Leaves in counts where each part ends.
inline void shuffle_scatter(const ShuffleArgs& p) {
  uint32_t* at = p.counts + (group_id() << p.bits);
  const uint32_t end = shuffle_end(p);
  for (uint32_t i = group_id() * p.chunk; i < end; ++i) p.order[at[shuffle_digit(p, i)]++] = i;
}

// One item per bucket: Fisher and Yates.
inline void shuffle_bucket(const ShuffleArgs& p) {
  const uint32_t bucket = group_id();
  const uint32_t* ends = p.counts + ((p.chunks - 1) << p.bits);
  const uint32_t begin = bucket == 0 ? 0 : ends[bucket - 1], end = p.bits == 0 ? p.n : ends[bucket];
  uint32_t* order = p.order + begin;
  const uint64_t* keys = p.keys + begin;
  for (uint32_t i = 0; i < end - begin; ++i) {
    const uint32_t own = p.bits == 0 ? i : order[i];
    const uint32_t j = static_cast<uint32_t>((static_cast<uint64_t>(static_cast<uint32_t>(keys[i])) * (i + 1)) >> 32);
    order[i] = order[j];
    order[j] = own;
  }
  for (uint32_t i = 0; i < end - begin; ++i) p.dst[begin + i] = order[i];
}

}  // namespace xpu
