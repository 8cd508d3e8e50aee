// Launch arguments of attention by AMX; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/attention.hpp"

namespace xpu_ops {

// Sizes of a block, keys of a tile.
constexpr uint32_t kAmxQueries = 32, kAmxKeys = 128, kAmxTile = 32;
struct AttentionAmxArgs : ops::AttentionBlockProblem {
  uint32_t* values = nullptr;        // [batch][kv_heads][key_tiles][value_dim / 16] tiles: of values, transposed
  unsigned char* scratch = nullptr;  // `slot` bytes for each work-group
  uint64_t slot = 0;
  uint32_t blocks = 0, total = 0;  // of queries: of a plane, of all planes
  uint32_t key_tiles = 0;
};

}  // namespace xpu_ops
