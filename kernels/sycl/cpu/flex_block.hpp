// flex_attention by blocks of queries, for the CPU device (f32): the tiles of attention_block.hpp, the lists of a
// BlockMask, and functions of the program between the two products. torch.compile writes the kernels
// (xpu_ops/inductor/flex.py).
#pragma once
#include "kernels/sycl/cpu/attention_block.hpp"

namespace xpu {

// Arguments of a generated kernel, in front of those that its functions read: fields of eight bytes, in the order of
// xpu_ops/inductor/flex_launch.py. Strides: batch, head, row.
struct FlexArgs {
  const float *q, *k, *v;
  float *out, *logsumexp, *top, *scratch;
  const float *grad, *delta;
  float *q_grad, *k_grad, *v_grad;
  const int32_t *counts, *lists, *full_counts, *full_lists;  // of blocks of keys, for each block of queries
  int64_t q_stride[3], k_stride[3], v_stride[3], out_stride[3], grad_stride[3], q_grad_stride[3], k_grad_stride[3],
      v_grad_stride[3];
  int64_t count_stride[2], full_count_stride[2];  // of the counts: batch, head; lists have `listed` entries for each
  int64_t listed, full_listed, list_blocks;       // entries of a list, blocks of queries that have one
  int64_t query_block, key_block;                 // queries and keys of a block of the mask
  int64_t heads, head_step, nq, nk, dim, value_dim, blocks, total, splits, slot, k_grad_split, v_grad_split;
  alignas(8) float scale;
};

XPU_INLINE AttentionBlockArgs flex_block_args(const FlexArgs& f) {
  AttentionBlockArgs p;
  p.q = f.q, p.k = f.k, p.v = f.v, p.out = f.out, p.logsumexp = f.logsumexp, p.scratch = f.scratch;
  p.grad = f.grad, p.delta = f.delta, p.q_grad = f.q_grad, p.k_grad = f.k_grad, p.v_grad = f.v_grad;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    p.q_stride[i] = f.q_stride[i], p.k_stride[i] = f.k_stride[i], p.v_stride[i] = f.v_stride[i];
    p.out_stride[i] = f.out_stride[i], p.grad_stride[i] = f.grad_stride[i], p.q_grad_stride[i] = f.q_grad_stride[i];
    p.k_grad_stride[i] = f.k_grad_stride[i], p.v_grad_stride[i] = f.v_grad_stride[i];
  }
  p.k_grad_split = f.k_grad_split, p.v_grad_split = f.v_grad_split, p.slot = static_cast<uint64_t>(f.slot);
  p.heads = static_cast<uint32_t>(f.heads), p.head_step = static_cast<uint32_t>(f.head_step);
  p.nq = static_cast<uint32_t>(f.nq), p.nk = static_cast<uint32_t>(f.nk);
  p.dim = static_cast<uint32_t>(f.dim), p.value_dim = static_cast<uint32_t>(f.value_dim);
  p.blocks = static_cast<uint32_t>(f.blocks), p.total = static_cast<uint32_t>(f.total);
  p.splits = static_cast<uint32_t>(f.splits), p.scale = f.scale;
  return p;
}

// f(first key, number of keys, whether the mask function is asked) for the keys that a block of queries may see, in
// parts of at most kBlockKeys: the listed blocks, then those that are seen whole.
template <class F> XPU_INLINE void flex_keys(const FlexArgs& f, uint32_t batch, uint32_t head, uint32_t query0,
                                             F each) {
  const int64_t found = query0 / f.query_block, row = found < f.list_blocks ? found : f.list_blocks - 1;
  for (int whole = 0; whole < 2; ++whole) {
    const int32_t* counts = whole ? f.full_counts : f.counts;
    if (!counts) continue;
    const int64_t listed = whole ? f.full_listed : f.listed;
    const int64_t line = whole ? batch * f.full_count_stride[0] + head * f.full_count_stride[1]
                               : batch * f.count_stride[0] + head * f.count_stride[1];
    const int64_t wanted = counts[line + row], count = wanted < listed ? wanted : listed;
    const int32_t* list = (whole ? f.full_lists : f.lists) + (line + row) * listed;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = list[i] * f.key_block;
      if (first < 0 || first >= f.nk) continue;
      const int64_t end = first + f.key_block < f.nk ? first + f.key_block : f.nk;
      for (int64_t key0 = first; key0 < end; key0 += kBlockKeys) [[clang::always_inline]]
        each(static_cast<uint32_t>(key0), static_cast<uint32_t>(end - key0 < kBlockKeys ? end - key0 : kBlockKeys),
             whole == 0);
    }
  }
}

// each(place, key, query of this lane) for the scores of a block; lanes past the last query repeat it.
template <class F>
XPU_INLINE void flex_scores(const AttentionBlockArgs& p, uint32_t query0, uint32_t count, size_t lane, F each) {
  for (uint32_t k = 0; k < count; ++k)
#pragma unroll
    for (uint32_t c = 0; c < kBlockVectors; ++c) {
      const uint32_t query = query0 + c * kLanes + static_cast<uint32_t>(lane);
      [[clang::always_inline]] each(k * kBlockQueries + c * kLanes, k,
                                    static_cast<int32_t>(query < p.nq ? query : p.nq - 1));
    }
}

// The scores of a block of keys: products into `raw`, then `score` and, where the block is listed in part, `mask`.
template <class Score, class Mask>
XPU_INLINE void flex_products(const AttentionBlockArgs& p, const float* keys, const float* queries, uint32_t batch,
                              uint32_t head, uint32_t query0, uint32_t key0, uint32_t count, bool asked, size_t lane,
                              float* raw, float* scores, Score score, Mask mask) {
  constexpr uint32_t Q = kBlockQueries;
  for (uint32_t k = 0; k < count; k += WideTile::kRows) {
    Tile<WideTile> a;
    tile_of_keys(p, a, keys, p.k_stride[2], key0 + k, queries, p.dim, lane);
    tile_store(a, raw + k * Q, lane);
  }
  const auto b = static_cast<int32_t>(batch), h = static_cast<int32_t>(head), n = static_cast<int32_t>(key0);
  if (asked)
    flex_scores(p, query0, count, lane, [&](uint32_t at, uint32_t k, int32_t m) {
      const float y = score((raw + at)[lane], b, h, m, n + static_cast<int32_t>(k));
      (scores + at)[lane] = mask(b, h, m, n + static_cast<int32_t>(k)) ? y : -__builtin_inff();
    });
  else
    flex_scores(p, query0, count, lane, [&](uint32_t at, uint32_t k, int32_t m) {
      (scores + at)[lane] = score((raw + at)[lane], b, h, m, n + static_cast<int32_t>(k));
    });
}

template <class Score, class Mask> XPU_INLINE void flex_forward(const FlexArgs& f, Score score, Mask mask) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  const AttentionBlockArgs p = flex_block_args(f);
  QueryBlock s;
  s.queries = p.scratch + item.get_group(0) * p.slot;
  s.sums = s.queries + size_t{p.dim} * Q;
  s.scores = s.sums + size_t{p.value_dim} * Q;
  const RowRange mine = group_rows(p.total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const uint32_t plane = t / p.blocks, query0 = (t - plane * p.blocks) * Q;
    const uint32_t batch = plane / p.heads, head = plane - batch * p.heads, kv_head = head / p.head_step;
    const float *keys = matrix_of<float>(p.k, p.k_stride, batch, kv_head),
                *values = matrix_of<float>(p.v, p.v_stride, batch, kv_head);
    block_start(p, s, matrix_of<float>(p.q, p.q_stride, batch, head), query0, lane);
    flex_keys(f, batch, head, query0, [&](uint32_t key0, uint32_t count, bool asked) {
      flex_products(p, keys, s.queries, batch, head, query0, key0, count, asked, lane, s.scores, s.scores, score, mask);
      float m[C];
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) m[c] = s.top[c];
      for (uint32_t k = 0; k < count; ++k)
#pragma unroll
        for (uint32_t c = 0; c < C; ++c) {
          const float x = (s.scores + k * Q + c * kLanes)[lane];
          m[c] = x > m[c] ? x : m[c];
        }
      block_add_values<WideTile>(p, s, values + key0 * p.v_stride[2], count, m, lane);
    });
    block_finish(p, s, batch, head, query0, lane);
    const size_t line = (size_t{batch} * p.heads + head) * p.nq + query0;
#pragma unroll
    for (uint32_t c = 0; c < C; ++c)
      if (query0 + c * kLanes + lane < p.nq) (f.top + line + c * kLanes)[lane] = s.top[c];
  }
}

// `slope`(score, its gradient after the function, ...) is the gradient before the function.
template <class Score, class Mask, class Slope>
XPU_INLINE void flex_backward(const FlexArgs& f, Score score, Mask mask, Slope slope) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const AttentionBlockArgs p = flex_block_args(f);
  const uint32_t group = static_cast<uint32_t>(item.get_group(0)), plane = group / p.splits;
  const uint32_t split = group - plane * p.splits;
  GradientBlock g;
  gradient_start(p, g, plane, split, p.scratch + group * p.slot);
  float* raw = g.scores + size_t{kBlockKeys} * kBlockQueries;  // [kBlockKeys][Q]: scores before the function
  for (uint32_t t = split; t < p.blocks * p.head_step; t += p.splits) {
    gradient_queries(p, g, t, lane);
    flex_keys(f, g.batch, g.head, g.query0, [&](uint32_t key0, uint32_t count, bool asked) {
      flex_products(p, g.keys, g.queries, g.batch, g.head, g.query0, key0, count, asked, lane, raw, g.weights, score,
                    mask);
      gradient_scores<WideTile>(p, g, key0, count, 1.0f, lane);
      const auto b = static_cast<int32_t>(g.batch), h = static_cast<int32_t>(g.head), n = static_cast<int32_t>(key0);
      flex_scores(p, g.query0, count, lane, [&](uint32_t at, uint32_t k, int32_t m) {
        const float x = slope((raw + at)[lane], b, h, m, n + static_cast<int32_t>(k), (g.scores + at)[lane]) * p.scale;
        (g.scores + at)[lane] = (g.weights + at)[lane] == 0.0f ? 0.0f : x;
      });
      gradient_add<WideTile>(p, g, key0, count, lane);
    });
    gradient_finish(p, g, lane);
  }
}

}  // namespace xpu
