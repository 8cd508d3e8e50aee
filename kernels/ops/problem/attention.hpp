// Problems of attention between and instead of products; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// One tile of scores: a block of queries of some heads of some batches against the keys [0, cols). Plane z of the tile
// is batch `batch0 + z / tile_heads` and head `(head0 + z % tile_heads) * head_step + head_offset`.
struct AttentionProblem {
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
struct AttentionDeltaProblem {
  const void* grad = nullptr;
  const void* out = nullptr;
  int64_t grad_stride[3] = {}, out_stride[3] = {};
  float* delta = nullptr;
  uint32_t heads = 0, nq = 0, cols = 0, total = 0;  // total: batch * heads * nq
};

// One query of each plane of a tile against its keys, or their weights times its values. Strides: batch, head, row.
struct AttentionOneProblem {
  const void* q = nullptr;        // scores: queries
  const void* kv = nullptr;       // keys, or values
  float* scores = nullptr;        // scores: written, [planes][cols]
  const void* weights = nullptr;  // mix: [planes][cols]
  void* out = nullptr;            // mix
  int64_t q_stride[2] = {}, kv_stride[3] = {}, out_stride[2] = {};
  uint32_t tile_heads = 1, cols = 0, dim = 0;
  uint32_t head0 = 0, group = 1;  // the first head of the tile; heads that share those of keys and values
};

// All keys against blocks of queries on the CPU device, f32, or bf16 by AMX (forward only). Strides: batch, head, row;
// the last one is 1.
struct AttentionBlockProblem {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  float* logsumexp = nullptr;                     // [batch][heads][nq]
  const float *grad = nullptr, *delta = nullptr;  // backward: of the output; row sums of grad * out
  float *q_grad = nullptr, *k_grad = nullptr,
        *v_grad = nullptr;                     // backward, null where unwanted; the last two are added to
  int64_t k_grad_split = 0, v_grad_split = 0;  // distance of the gradients of two splits
  int64_t grad_stride[3] = {}, q_grad_stride[3] = {}, k_grad_stride[3] = {}, v_grad_stride[3] = {};
  const void* mask = nullptr;  // bool, or f32 to be added; the last stride is 1
  int64_t q_stride[3] = {}, k_stride[3] = {}, v_stride[3] = {}, out_stride[3] = {}, mask_stride[3] = {};
  uint32_t batch = 0, heads = 0, head_step = 1, nq = 0, nk = 0;
  uint32_t dim = 0, value_dim = 0;  // both 16 or more; the second a multiple of 8
  uint32_t splits = 1;              // backward: work-groups of one head of keys, as plan_attention_splits() says
  uint32_t causal = 0;
  float scale = 1;
};

}  // namespace xpu_ops::ops
