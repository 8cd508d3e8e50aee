// Attention: how scores are cut into tiles, which kernels take a call (pure host code), and the launches between and
// instead of oneDNN's products.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/attention.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

enum class AttentionMask { none, boolean, additive };

struct AttentionShape {
  int64_t batch, heads, kv_heads, queries, keys, dim, value_dim;
  bool causal;
};

// A tile: rows of queries of some heads of keys of some batches. Of causal scores it has keys up to a multiple of
// causal_step only.
struct AttentionTiles {
  int64_t batches = 1, heads = 1, rows = 1, causal_step = 1;
  int64_t elements(int64_t keys) const { return batches * heads * rows * keys; }
};
AttentionTiles plan_attention_tiles(const AttentionShape& shape, const runtime::Policy& policy);

// Whether the kernels of whole blocks of queries take a call in float32: one launch, and nothing but a block's scores
// in memory.
bool plan_attention_blocks_serve(const AttentionShape& shape, bool dropout, const runtime::Policy& policy);
// The same for its gradients.
bool plan_attention_blocks_backward_serve(const AttentionShape& shape);
// Work-groups of the forward; each has `slot` elements of scratch memory.
size_t plan_attention_blocks(const AttentionBlockProblem& problem, const runtime::Policy& policy);
// Heads of keys that are too few for the device are split by queries; each split has sums of its own, added at the end.
int64_t plan_attention_splits(const AttentionBlockProblem& problem, int64_t planes, const runtime::Policy& policy);
// Whether one kernel by AMX takes a call in bf16; the gradients are oneDNN's products.
bool plan_attention_amx_serves(const AttentionShape& shape, bool dropout, const runtime::Policy& policy);
// Whether one query per plane goes through attention_scores_one and attention_mix_one: two kernels instead of two
// submissions to oneDNN, which cost more than the work.
bool plan_attention_one_serves(int64_t rows, const runtime::Policy& policy);
// Heads with the same keys that a work-group takes. `blocks`: work-groups of a plane.
uint32_t plan_attention_one_share(const AttentionOneProblem& problem, uint32_t planes, size_t blocks,
                                  const runtime::Policy& policy);

void attention_blocks(runtime::Queue& queue, AttentionMask mask, const AttentionBlockProblem& problem);
// In bf16, by AMX.
void attention_amx(runtime::Queue& queue, AttentionMask mask, const AttentionBlockProblem& problem);
// `planes`: batches times heads of keys. problem.splits is planned.
void attention_blocks_backward(runtime::Queue& queue, AttentionMask mask, int64_t planes,
                               const AttentionBlockProblem& problem);

// Between the products of a tile.
void attention_softmax(runtime::Queue& queue, AttentionMask mask, bool dropout, DType type,
                       const AttentionProblem& problem);
void attention_slopes(runtime::Queue& queue, AttentionMask mask, bool dropout, DType type,
                      const AttentionProblem& problem);
void attention_delta(runtime::Queue& queue, DType type, const AttentionDeltaProblem& problem);

// 1 where dropout keeps a weight, else 0: [rows][cols] floats into problem.weights.
void attention_dropout(runtime::Queue& queue, const AttentionProblem& problem);

void attention_scores_one(runtime::Queue& queue, DType type, uint32_t planes, const AttentionOneProblem& problem);
void attention_mix_one(runtime::Queue& queue, DType type, uint32_t planes, const AttentionOneProblem& problem);

}  // namespace xpu_ops::ops
