// Launch arguments of a random kernel: the seed and the offset that the generator reserved for it.
#pragma once
#include <cstdint>

namespace xpu_ops::runtime {

struct PhiloxState {
  uint64_t seed;
  uint64_t offset;  // in units of 4 outputs of one counter, as torch's generator state keeps it
  // Where a graph records: {seed, offset} in memory of the device, which each replay sets; `offset` counts from there.
  const uint64_t* state = nullptr;
};

}  // namespace xpu_ops::runtime
