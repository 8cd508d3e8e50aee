#include "kernels/ops/attention.hpp"

#include <algorithm>

#include "gen/kernels/attention_amx_kernels.hpp"
#include "gen/kernels/attention_block_kernels.hpp"
#include "gen/kernels/attention_kernels.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/cpu/attention_amx_args.hpp"
#include "kernels/sycl/cpu/attention_block_args.hpp"
#include "kernels/sycl/products/attention_args.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kTileScores = 1 << 18;   // of a tile per compute unit: 1 MiB, about its cache
constexpr int64_t kSplitBytes = 64 << 20;  // of partial gradients of keys and values
constexpr int64_t kTileRows = 256, kCausalRows = 128, kRowStep = 32;
constexpr int64_t kLeastCausalStep = 128, kCausalSteps = 16;
constexpr size_t kLineFilling = 64, kBlockFilling = 16;  // work-groups per compute unit
constexpr int64_t kSplitFilling = 6;
constexpr uint32_t kKeysOfGroup = 256;
constexpr uint32_t kOneFilling = 2;  // work-groups per compute unit that are left where heads are joined

using BlockTables = const runtime::KernelTable* const[2][3];  // of wide and of narrow tiles
using RowTables = const runtime::KernelTable* const[3][2];    // without and with dropout

// One work-group takes lines in turn.
size_t line_groups(runtime::Queue& queue, size_t lines) {
  return std::min(lines, size_t{runtime::policy_of(queue).units} * kLineFilling);
}

void launch_rows(runtime::Queue& queue, const RowTables& tables, AttentionMask mask, bool dropout, DType type,
                 const AttentionProblem& problem) {
  runtime::launch(queue, (*tables[static_cast<int>(mask)][dropout])[type],
                  line_groups(queue, size_t{problem.planes} * problem.rows), kLanes, problem);
}

// Whether blocks of so many queries give every compute unit one, and hardly a block is filled by less than it holds.
bool blocks_fill(const AttentionShape& s, uint32_t queries, const runtime::Policy& policy) {
  const auto blocks = static_cast<int64_t>(ceil_div(s.queries, queries));
  return s.queries >= queries * 3 / 4 && s.batch * s.heads * blocks >= int64_t{policy.units};
}

// Blocks of the queries of a plane.
uint32_t query_blocks(const AttentionBlockProblem& p) { return static_cast<uint32_t>(ceil_div(p.nq, kBlockQueries)); }

AttentionBlockArgs block_args(const AttentionBlockProblem& p, size_t slot) {
  AttentionBlockArgs args{p};
  args.slot = slot;
  args.blocks = query_blocks(p);
  args.total = p.batch * p.heads * args.blocks;
  return args;
}

}  // namespace

AttentionTiles plan_attention_tiles(const AttentionShape& s, const runtime::Policy& policy) {
  AttentionTiles t;
  const int64_t budget = kTileScores * policy.units;
  t.rows = std::min(s.queries, std::clamp<int64_t>(budget / s.keys / kRowStep * kRowStep, kRowStep,
                                                   s.causal ? kCausalRows : kTileRows));
  const int64_t planes = std::max<int64_t>(1, budget / (t.rows * s.keys));
  const int64_t chunks = (s.kv_heads + planes - 1) / planes;
  t.heads = (s.kv_heads + chunks - 1) / chunks;
  t.batches = std::clamp<int64_t>(planes / s.kv_heads, 1, s.batch);
  // Few different lengths of keys, as each costs the creation of its primitives once.
  t.causal_step = std::max<int64_t>(kLeastCausalStep, (s.keys / kCausalSteps + 63) / 64 * 64);
  return t;
}

bool plan_attention_blocks_serve(const AttentionShape& s, bool dropout, const runtime::Policy& policy) {
  if (!policy.single_items || dropout) return false;
  return blocks_fill(s, kBlockQueries, policy) && s.dim >= int64_t{kLanes} && s.value_dim >= int64_t{kLanes} &&
         s.value_dim % 8 == 0;
}

bool plan_attention_blocks_backward_serve(const AttentionShape& s) {
  return s.dim % kLanes == 0 && s.value_dim % kLanes == 0;
}

size_t plan_attention_blocks(const AttentionBlockProblem& p, const runtime::Policy& policy) {
  return std::min<size_t>(size_t{p.batch} * p.heads * query_blocks(p), size_t{policy.units} * kBlockFilling);
}

int64_t plan_attention_splits(const AttentionBlockProblem& p, int64_t planes, const runtime::Policy& policy) {
  const int64_t blocks = int64_t{query_blocks(p)} * p.head_step, units = policy.units;
  const auto each = [&](int64_t groups) { return (groups + planes - 1) / planes; };
  const int64_t one_split = planes * p.nk * (p.dim + p.value_dim) * int64_t{sizeof(float)};
  const int64_t most = std::max(blocks / 4, std::min(blocks, each(units)));
  return std::max<int64_t>(1, std::min({each(kSplitFilling * units), most, kSplitBytes / one_split}));
}

bool plan_attention_amx_serves(const AttentionShape& s, bool dropout, const runtime::Policy& policy) {
  return policy.amx && !dropout && blocks_fill(s, kAmxQueries, policy) && s.dim % kAmxTile == 0 &&
         s.value_dim % kAmxTile == 0;
}

bool plan_attention_one_serves(int64_t rows, const runtime::Policy& policy) { return rows == 1 && policy.single_items; }

void attention_blocks(runtime::Queue& queue, AttentionMask mask, const AttentionBlockProblem& p) {
  static const BlockTables tables = {
      {&kernels::attention_block_none, &kernels::attention_block_boolean, &kernels::attention_block_additive},
      {&kernels::attention_block_none_narrow, &kernels::attention_block_boolean_narrow,
       &kernels::attention_block_additive_narrow}};
  AttentionBlockArgs args = block_args(p, size_t{p.dim + p.value_dim + 2 * kBlockKeys} * kBlockQueries);
  const auto& policy = runtime::policy_of(queue);
  const size_t groups = plan_attention_blocks(p, policy);
  const runtime::Scratch scratch(groups * args.slot * sizeof(float));
  args.scratch = scratch.get<float>();
  runtime::launch(queue, (*tables[policy.narrow][static_cast<int>(mask)])[DType::f32], groups, kLanes, args);
}

void attention_amx(runtime::Queue& queue, AttentionMask mask, const AttentionBlockProblem& p) {
  static const runtime::KernelTable* const tables[] = {&kernels::attention_amx_none, &kernels::attention_amx_boolean,
                                                       &kernels::attention_amx_additive};
  constexpr size_t kTile = 16 * 64, kColumn = kAmxQueries * sizeof(float);  // bytes of a tile, of a line of the block
  AttentionAmxArgs args{p};
  args.blocks = static_cast<uint32_t>(ceil_div(p.nq, kAmxQueries));
  args.total = p.batch * p.heads * args.blocks;
  args.key_tiles = static_cast<uint32_t>(ceil_div(p.nk, kAmxTile));
  args.slot = (kAmxKeys + kAmxKeys / 2 + p.value_dim + p.dim / 2) * kColumn + kAmxTile * p.dim * sizeof(uint16_t);
  const size_t tiles = size_t{p.batch} * (p.heads / p.head_step) * args.key_tiles,
               groups = std::min<size_t>(args.total, size_t{runtime::policy_of(queue).units} * kBlockFilling);
  const runtime::Scratch values(tiles * (p.value_dim / 16) * kTile), scratch(groups * args.slot);
  args.values = values.get<uint32_t>();
  args.scratch = scratch.get<unsigned char>();
  runtime::launch(queue, kernels::attention_amx_values[DType::bf16], tiles, 1, args);
  runtime::launch(queue, (*tables[static_cast<int>(mask)])[DType::bf16], groups, 1, args);
}

void attention_blocks_backward(runtime::Queue& queue, AttentionMask mask, int64_t planes,
                               const AttentionBlockProblem& p) {
  static const BlockTables tables = {
      {&kernels::attention_block_backward_none, &kernels::attention_block_backward_boolean,
       &kernels::attention_block_backward_additive},
      {&kernels::attention_block_backward_none_narrow, &kernels::attention_block_backward_boolean_narrow,
       &kernels::attention_block_backward_additive_narrow}};
  AttentionBlockArgs args = block_args(p, size_t{2 * p.dim + p.value_dim + 3 * kBlockKeys} * kBlockQueries);
  const size_t groups = static_cast<size_t>(planes) * args.splits;
  const runtime::Scratch scratch(groups * args.slot * sizeof(float));
  args.scratch = scratch.get<float>();
  const bool narrow = runtime::policy_of(queue).narrow;
  runtime::launch(queue, (*tables[narrow][static_cast<int>(mask)])[DType::f32], groups, kLanes, args);
}

void attention_softmax(runtime::Queue& queue, AttentionMask mask, bool dropout, DType type,
                       const AttentionProblem& problem) {
  static const RowTables tables = {{&kernels::attention_softmax_none, &kernels::attention_softmax_none_drop},
                                   {&kernels::attention_softmax_boolean, &kernels::attention_softmax_boolean_drop},
                                   {&kernels::attention_softmax_additive, &kernels::attention_softmax_additive_drop}};
  launch_rows(queue, tables, mask, dropout, type, problem);
}

void attention_slopes(runtime::Queue& queue, AttentionMask mask, bool dropout, DType type,
                      const AttentionProblem& problem) {
  static const RowTables tables = {{&kernels::attention_slopes_none, &kernels::attention_slopes_none_drop},
                                   {&kernels::attention_slopes_boolean, &kernels::attention_slopes_boolean_drop},
                                   {&kernels::attention_slopes_additive, &kernels::attention_slopes_additive_drop}};
  launch_rows(queue, tables, mask, dropout, type, problem);
}

void attention_delta(runtime::Queue& queue, DType type, const AttentionDeltaProblem& problem) {
  runtime::launch(queue, kernels::attention_delta[type], line_groups(queue, problem.total), kLanes, problem);
}

void attention_dropout(runtime::Queue& queue, const AttentionProblem& problem) {
  AttentionArgs args = problem;
  args.keep_scale = 1;
  runtime::launch(queue, kernels::attention_dropout[DType::f32], line_groups(queue, args.rows), kLanes, args);
}

uint32_t plan_attention_one_share(const AttentionOneProblem& p, uint32_t planes, size_t blocks,
                                  const runtime::Policy& policy) {
  for (uint32_t share : {4u, 2u})
    if (p.group % share == 0 && p.tile_heads % share == 0 && p.head0 % share == 0 &&
        planes / share * blocks >= size_t{kOneFilling} * policy.units)
      return share;
  return 1;
}

void attention_scores_one(runtime::Queue& queue, DType type, uint32_t planes, const AttentionOneProblem& p) {
  AttentionOneArgs args{p};
  args.block = kKeysOfGroup;
  args.blocks = static_cast<uint32_t>(ceil_div(p.cols, args.block));
  args.share = plan_attention_one_share(p, planes, args.blocks, runtime::policy_of(queue));
  runtime::launch(queue, kernels::attention_one_scores[type], size_t{planes} / args.share * args.blocks, kLanes, args);
}

void attention_mix_one(runtime::Queue& queue, DType type, uint32_t planes, const AttentionOneProblem& p) {
  AttentionOneArgs args{p};
  args.share = plan_attention_one_share(p, planes, 1, runtime::policy_of(queue));
  args.blocks = static_cast<uint32_t>(ceil_div(p.dim, size_t{kLanes} * one_mix_vectors(static_cast<int>(args.share))));
  runtime::launch(queue, kernels::attention_one_mix[type], size_t{planes} / args.share * args.blocks, kLanes, args);
}

}  // namespace xpu_ops::ops
