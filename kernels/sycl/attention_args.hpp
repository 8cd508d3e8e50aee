// Launch arguments of the attention kernels; shared by host and device.
#pragma once
#include <cstdint>

namespace xpu_ops {

// One tile of scores: a block of queries of some heads of some batches against the keys [0, cols). Plane z of the tile
// is batch `batch0 + z / tile_heads` and head `(head0 + z % tile_heads) * head_step + head_offset`.
struct AttentionArgs {
  float* scores = nullptr;       // [planes][rows][cols] products of queries and keys; overwritten
  float* slopes = nullptr;       // backward: products of the output's gradient and the values; overwritten
  void* weights = nullptr;       // written in the element type: what multiplies the values; may be `scores`
  void* slopes_out = nullptr;    // backward: written in the element type: gradient of the scores; may be `slopes`
  float* logsumexp = nullptr;    // [batch][heads][nq]: written forward, read backward
  const float* delta = nullptr;  // backward: [batch][heads][nq] row sums of gradient * output
  const void* mask = nullptr;    // bool, or f32 to be added; the last stride is 1
  int64_t mask_stride[3] = {};   // batch, head, query
  uint64_t seed = 0, offset = 0;
  const uint64_t* state = nullptr;  // of a graph: see philox_key
  uint32_t planes = 0, rows = 0, cols = 0;
  uint32_t batch0 = 0, head0 = 0, tile_heads = 1, head_step = 1, head_offset = 0;
  uint32_t query0 = 0, heads = 0, nq = 0;
  uint32_t causal = 0;
  float scale = 1;
  float keep = 1, keep_scale = 1;  // dropout: probability to keep a weight, and what kept ones are multiplied with
};

// delta[row] = sum over cols of grad * out, both [batch][heads][nq][cols] with the strides given, the last one 1.
struct AttentionDeltaArgs {
  const void* grad = nullptr;
  const void* out = nullptr;
  int64_t grad_stride[3] = {}, out_stride[3] = {};
  float* delta = nullptr;
  uint32_t heads = 0, nq = 0, cols = 0, total = 0;  // total: batch * heads * nq
};

// Vectors of columns that a work-group of attention_one_mix takes for so many heads.
constexpr int one_mix_vectors(int share) { return share == 4 ? 2 : 4; }

// One query of each plane of a tile against its keys, or their weights times its values. Strides: batch, head, row.
struct AttentionOneArgs {
  const void* q = nullptr;        // scores: queries
  const void* kv = nullptr;       // keys, or values
  float* scores = nullptr;        // scores: written, [planes][cols]
  const void* weights = nullptr;  // mix: [planes][cols]
  void* out = nullptr;            // mix
  int64_t q_stride[2] = {}, kv_stride[3] = {}, out_stride[2] = {};
  uint32_t tile_heads = 1, cols = 0, dim = 0;
  uint32_t head0 = 0, group = 1;   // the first head of the tile; heads that share those of keys and values
  uint32_t share = 1;              // of these, as many as a work-group takes: 1, 2 or 4
  uint32_t blocks = 1, block = 1;  // work-groups of a plane; scores: keys of each
  uint32_t once = 1;               // see whole_or_part
};

}  // namespace xpu_ops
