// Attention of a block of queries against all keys in one kernel, for the CPU device (f32). Sixteen queries are the
// lanes of a vector: keys and values are then read element by element as they lie, the sums of a tile stay in
// registers, and the softmax needs nothing from other lanes. Keys come in blocks, sums are rescaled where a later block
// has a larger maximum (Milakov and Gimelshein 2018).
#pragma once
#include "kernels/sycl/cpu/attention_block_args.hpp"
#include "kernels/sycl/products/attention.hpp"

namespace xpu {

using xpu_ops::AttentionBlockArgs;
using xpu_ops::kBlockKeys;
using xpu_ops::kBlockQueries;

constexpr uint32_t kBlockVectors = kBlockQueries / kLanes;

// A tile of sums that stays in registers: 32 vectors of 512 bits hold a Wide one, the sixteen of AVX2, of 256 bits
// each, a Narrow one. Both divide a block and add in one order.
struct WideTile { static constexpr uint32_t kRows = 8, kVectors = 2; };
struct NarrowTile { static constexpr uint32_t kRows = 4, kVectors = 1; };

template <class S, uint32_t kVectors = S::kVectors> using Tile = float[S::kRows][kVectors];

// a[r][c] += row(k, r) * columns[k][c] for k < count.
template <uint32_t kRows, uint32_t kVectors, class Row>
XPU_INLINE void tile_product(float (&a)[kRows][kVectors], const float* columns, int64_t step, uint32_t count,
                             size_t lane, Row row) {
  for (uint32_t k = 0; k < count; ++k, columns += step) {
    float y[kVectors];
#pragma unroll
    for (uint32_t c = 0; c < kVectors; ++c) y[c] = (columns + c * kLanes)[lane];
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r) {
      float x;
      [[clang::always_inline]] x = row(k, r);
#pragma unroll
      for (uint32_t c = 0; c < kVectors; ++c) a[r][c] += x * y[c];
    }
  }
}

template <uint32_t kRows, uint32_t kVectors>
XPU_INLINE void tile_load(float (&a)[kRows][kVectors], const float* from, size_t lane) {
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
    for (uint32_t c = 0; c < kVectors; ++c) a[r][c] = (from + r * kBlockQueries + c * kLanes)[lane];
}

template <uint32_t kRows, uint32_t kVectors>
XPU_INLINE void tile_store(const float (&a)[kRows][kVectors], float* to, size_t lane) {
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
    for (uint32_t c = 0; c < kVectors; ++c) (to + r * kBlockQueries + c * kLanes)[lane] = a[r][c];
}

// a = the rows of x from `key0`, past the end the last one again, times columns.
template <uint32_t kRows, uint32_t kVectors>
XPU_INLINE void tile_of_keys(const AttentionBlockArgs& p, float (&a)[kRows][kVectors], const float* x, int64_t stride,
                             uint32_t key0, const float* columns, uint32_t dim, size_t lane) {
  const float* row[kRows];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    row[r] = x + least(key0 + r, p.nk - 1) * stride;
#pragma unroll
    for (uint32_t c = 0; c < kVectors; ++c) a[r][c] = 0.0f;
  }
  tile_product(a, columns, kBlockQueries, dim, lane, [&](uint32_t d, uint32_t r) { return row[r][d]; });
}

// The mask that is added to the scores of a block of keys, key by key: -inf where a query may not look.
template <Mask kMask>
XPU_INLINE void block_mask(const AttentionBlockArgs& p, uint32_t batch, uint32_t head, uint32_t query0, uint32_t key0,
                           uint32_t end, size_t lane, float* to) {
  if constexpr (kMask == Mask::none) return;
  constexpr float none = -__builtin_inff();
  const char* mask = static_cast<const char*>(p.mask) +
                     (batch * p.mask_stride[0] + head * p.mask_stride[1]) * (kMask == Mask::boolean ? 1 : 4);
  for (uint32_t c = 0; c < kBlockVectors; ++c)
    for (uint32_t k = key0; k < end; k += kLanes) {
      float x[kLanes];
      const bool whole = k + kLanes <= p.nk;
#pragma unroll
      for (uint32_t i = 0; i < kLanes; ++i) {
        const int64_t at = least(query0 + c * kLanes + i, p.nq - 1) * p.mask_stride[2] + k;
        x[i] = none;
        if constexpr (kMask == Mask::boolean) {
          const bool* seen = reinterpret_cast<const bool*>(mask) + at;
          if (whole)
            x[i] = seen[lane] ? 0.0f : none;
          else if (k + lane < p.nk)
            x[i] = seen[lane] ? 0.0f : none;
        } else {
          const float* bias = reinterpret_cast<const float*>(mask) + at;
          if (whole)
            x[i] = bias[lane];
          else if (k + lane < p.nk)
            x[i] = bias[lane];
        }
      }
      transpose_lanes(x, lane);
#pragma unroll
      for (uint32_t i = 0; i < kLanes; ++i) (to + (k - key0 + i) * kBlockQueries + c * kLanes)[lane] = x[i];
    }
}

// Rows query0, query0 + 1, ... of a matrix become columns, multiplied by `factor`; past the end the last one again.
XPU_INLINE void block_columns(const float* x, int64_t stride, uint32_t query0, uint32_t nq, uint32_t dim, float factor,
                              size_t lane, float* to) {
  for (uint32_t c = 0; c < kBlockVectors; ++c)
    for (uint32_t d = 0; d < dim; d += kLanes) {
      const uint32_t d0 = least(d, dim - kLanes);
      float v[kLanes];
#pragma unroll
      for (uint32_t i = 0; i < kLanes; ++i)
        v[i] = (x + least(query0 + c * kLanes + i, nq - 1) * stride + d0)[lane] * factor;
      transpose_lanes(v, lane);
#pragma unroll
      for (uint32_t i = 0; i < kLanes; ++i) (to + (d0 + i) * kBlockQueries + c * kLanes)[lane] = v[i];
    }
}

// And back: the c-th vector of the columns, each multiplied by its lane's factor.
XPU_INLINE void block_rows(const float* x, uint32_t c, uint32_t dim, uint32_t query0, uint32_t nq, float factor,
                           size_t lane, float* to, int64_t stride) {
  for (uint32_t d = 0; d < dim; d += kLanes) {
    const uint32_t d0 = least(d, dim - kLanes);
    float v[kLanes];
#pragma unroll
    for (uint32_t i = 0; i < kLanes; ++i) v[i] = (x + (d0 + i) * kBlockQueries + c * kLanes)[lane] * factor;
    transpose_lanes(v, lane);
#pragma unroll
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t query = query0 + c * kLanes + i;
      if (query < nq) (to + query * stride + d0)[lane] = v[i];
    }
  }
}

// Products of a tile, queries from `query0` and keys from `key0`, become scores: mask added, -inf where a query may not
// look.
template <Mask kMask, uint32_t kRows, uint32_t kVectors>
XPU_INLINE void block_scores(const AttentionBlockArgs& p, float (&a)[kRows][kVectors], const float* bias,
                             uint32_t query0, uint32_t key0, size_t lane) {
  if constexpr (kMask != Mask::none) {
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
      for (uint32_t c = 0; c < kVectors; ++c) a[r][c] += (bias + r * kBlockQueries + c * kLanes)[lane];
  }
  if (key0 + kRows > p.nk || (p.causal && key0 + kRows > query0 + 1)) {
#pragma unroll
    for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
      for (uint32_t c = 0; c < kVectors; ++c) {
        const uint32_t key = key0 + r, seen = p.causal ? query0 + c * kLanes + static_cast<uint32_t>(lane) : key;
        a[r][c] = key < p.nk && key <= seen ? a[r][c] : -__builtin_inff();
      }
  }
}

// A block of queries, and what it has gathered of the keys so far: the largest score and the sum of exponentials of
// each query, the sums of values.
struct QueryBlock {
  float *queries, *sums, *scores;  // [dim][Q] and scaled, [value_dim][Q], [kBlockKeys][Q] and then their exponentials
  float top[kBlockVectors], total[kBlockVectors];
};

XPU_INLINE void block_start(const AttentionBlockArgs& p, QueryBlock& b, const float* q, uint32_t query0, size_t lane) {
  block_columns(q, p.q_stride[2], query0, p.nq, p.dim, p.scale, lane, b.queries);
  for (uint32_t d = 0; d < p.value_dim; ++d)
#pragma unroll
    for (uint32_t c = 0; c < kBlockVectors; ++c) (b.sums + d * kBlockQueries + c * kLanes)[lane] = 0.0f;
#pragma unroll
  for (uint32_t c = 0; c < kBlockVectors; ++c) b.top[c] = -__builtin_inff(), b.total[c] = 0.0f;
}

// Adds the values of a block of keys, whose scores stand in b.scores and have the maxima m.
template <class S>
XPU_INLINE void block_add_values(const AttentionBlockArgs& p, QueryBlock& b, const float* v, uint32_t count,
                                 const float (&m)[kBlockVectors], size_t lane) {
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  float shrink[C], base[C], part[C];
#pragma unroll
  for (uint32_t c = 0; c < C; ++c) {
    base[c] = m[c] == -__builtin_inff() ? 0.0f : m[c];
    shrink[c] = fast_exp(b.top[c] - base[c]);
    b.top[c] = m[c];
    part[c] = 0.0f;
  }
  for (uint32_t k = 0; k < count; ++k)
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) {
      float* at = b.scores + k * Q + c * kLanes;
      const float e = fast_exp(at[lane] - base[c]);
      at[lane] = e;
      part[c] += e;
    }
#pragma unroll
  for (uint32_t c = 0; c < C; ++c) b.total[c] = b.total[c] * shrink[c] + part[c];
  for (uint32_t d = 0; d < p.value_dim; d += S::kRows) {
    const float* x = v + d;
#pragma unroll
    for (uint32_t c0 = 0; c0 < C; c0 += S::kVectors) {
      Tile<S> a;
      float* to = b.sums + d * Q + c0 * kLanes;
      tile_load(a, to, lane);
#pragma unroll
      for (uint32_t r = 0; r < S::kRows; ++r)
#pragma unroll
        for (uint32_t c = 0; c < S::kVectors; ++c) a[r][c] *= shrink[c0 + c];
      tile_product(a, b.scores + c0 * kLanes, Q, count, lane,
                   [&](uint32_t k, uint32_t r) { return (x + k * p.v_stride[2])[r]; });
      tile_store(a, to, lane);
    }
  }
}

// Results of the block, and the logarithm of each query's sum.
XPU_INLINE void block_finish(const AttentionBlockArgs& p, const QueryBlock& b, uint32_t batch, uint32_t head,
                             uint32_t query0, size_t lane) {
  float* out = static_cast<float*>(p.out) + batch * p.out_stride[0] + head * p.out_stride[1];
#pragma unroll
  for (uint32_t c = 0; c < kBlockVectors; ++c) {
    const float factor = b.total[c] == 0.0f ? 0.0f : 1.0f / b.total[c];
    block_rows(b.sums, c, p.value_dim, query0, p.nq, factor, lane, out, p.out_stride[2]);
    const size_t line = (size_t{batch} * p.heads + head) * p.nq + query0 + c * kLanes;
    if (query0 + c * kLanes + lane < p.nq)
      (p.logsumexp + line)[lane] = b.total[c] == 0.0f ? -__builtin_inff() : b.top[c] + sycl::log(b.total[c]);
  }
}

template <class T, Mask kMask, class S> XPU_INLINE void attention_block(const AttentionBlockArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  QueryBlock b;
  b.queries = p.scratch + item.get_group(0) * p.slot;
  b.sums = b.queries + size_t{p.dim} * Q;
  b.scores = b.sums + size_t{p.value_dim} * Q;
  float* bias = b.scores + size_t{kBlockKeys} * Q;  // [kBlockKeys][Q] where there is a mask
  const RowRange mine = group_rows(p.total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const uint32_t plane = t / p.blocks, query0 = (t - plane * p.blocks) * Q;
    const uint32_t batch = plane / p.heads, head = plane - batch * p.heads, kv_head = head / p.head_step;
    const float* q = matrix_of<float>(p.q, p.q_stride, batch, head);
    const float* keys = matrix_of<float>(p.k, p.k_stride, batch, kv_head);
    const float* values = matrix_of<float>(p.v, p.v_stride, batch, kv_head);
    block_start(p, b, q, query0, lane);
    const uint32_t last = p.causal ? least(p.nk, query0 + Q) : p.nk;
    for (uint32_t key0 = 0; key0 < last; key0 += kBlockKeys) {
      const uint32_t count = least(last - key0, kBlockKeys);
      block_mask<kMask>(p, batch, head, query0, key0, key0 + count, lane, bias);
      float m[C];
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) m[c] = b.top[c];
      for (uint32_t k = 0; k < count; k += S::kRows)
#pragma unroll
        for (uint32_t c0 = 0; c0 < C; c0 += S::kVectors) {
          const uint32_t at = c0 * kLanes;
          Tile<S> a;
          tile_of_keys(p, a, keys, p.k_stride[2], key0 + k, b.queries + at, p.dim, lane);
          block_scores<kMask>(p, a, bias + k * Q + at, query0 + at, key0 + k, lane);
          tile_store(a, b.scores + k * Q + at, lane);
#pragma unroll
          for (uint32_t r = 0; r < S::kRows; ++r)
#pragma unroll
            for (uint32_t c = 0; c < S::kVectors; ++c) m[c0 + c] = a[r][c] > m[c0 + c] ? a[r][c] : m[c0 + c];
        }
      block_add_values<S>(p, b, values + key0 * p.v_stride[2], count, m, lane);
    }
    block_finish(p, b, batch, head, query0, lane);
  }
}

// A tile of gradients of keys or values: to[key][d] += sum over the block's queries of weights[key][query] *
// x[query][d].
template <class S, uint32_t kVectors>
XPU_INLINE void block_add(const AttentionBlockArgs& p, const float* weights, const float* x, int64_t x_stride,
                          uint32_t queries, uint32_t key0, size_t lane, float* to, int64_t stride) {
  Tile<S, kVectors> a;
#pragma unroll
  for (uint32_t r = 0; r < S::kRows; ++r)
#pragma unroll
    for (uint32_t c = 0; c < kVectors; ++c) a[r][c] = (to + least(key0 + r, p.nk - 1) * stride + c * kLanes)[lane];
  tile_product(a, x, x_stride, queries, lane, [&](uint32_t k, uint32_t r) { return (weights + k)[r * kBlockQueries]; });
#pragma unroll
  for (uint32_t r = 0; r < S::kRows; ++r)
    if (key0 + r < p.nk) {
#pragma unroll
      for (uint32_t c = 0; c < kVectors; ++c) (to + (key0 + r) * stride + c * kLanes)[lane] = a[r][c];
    }
}

template <class S>
XPU_INLINE void block_add_rows(const AttentionBlockArgs& p, const float* weights, const float* x, int64_t x_stride,
                               uint32_t queries, uint32_t key0, uint32_t count, uint32_t dim, size_t lane, float* to,
                               int64_t stride) {
  for (uint32_t k = 0; k < count; k += S::kRows) {
    constexpr uint32_t kStep = S::kVectors * kLanes;
    uint32_t d = 0;
    for (; d + kStep <= dim; d += kStep)
      block_add<S, S::kVectors>(p, weights + k * kBlockQueries, x + d, x_stride, queries, key0 + k, lane, to + d,
                                stride);
    if (d < dim)
      block_add<S, 1>(p, weights + k * kBlockQueries, x + d, x_stride, queries, key0 + k, lane, to + d, stride);
  }
}

// One work-group of the backward pass: its head of keys, a block of queries, and its share of the scratch.
struct GradientBlock {
  const float *keys, *values, *q, *grad;
  float *k_grad, *v_grad;                           // of the head; the kernel adds to them
  float *queries, *slopes, *grads;                  // [dim][Q] and scaled; their gradient; [value_dim][Q]
  float *weights, *scores;                          // [kBlockKeys][Q]; gradient of the scores
  float base[kBlockVectors], delta[kBlockVectors];  // logsumexp, inf where nothing is seen; sums of grad * out
  uint32_t batch, kv_head, head, query0;
};

XPU_INLINE void gradient_start(const AttentionBlockArgs& p, GradientBlock& b, uint32_t plane, uint32_t split,
                               float* scratch) {
  const uint32_t kv_heads = p.heads / p.head_step;
  b.batch = plane / kv_heads, b.kv_head = plane - b.batch * kv_heads;
  b.keys = matrix_of<float>(p.k, p.k_stride, b.batch, b.kv_head);
  b.values = matrix_of<float>(p.v, p.v_stride, b.batch, b.kv_head);
  b.k_grad = p.k_grad + split * p.k_grad_split + b.batch * p.k_grad_stride[0] + b.kv_head * p.k_grad_stride[1];
  b.v_grad = p.v_grad + split * p.v_grad_split + b.batch * p.v_grad_stride[0] + b.kv_head * p.v_grad_stride[1];
  b.queries = scratch;
  b.slopes = b.queries + size_t{p.dim} * kBlockQueries;
  b.grads = b.slopes + size_t{p.dim} * kBlockQueries;
  b.weights = b.grads + size_t{p.value_dim} * kBlockQueries;
  b.scores = b.weights + size_t{kBlockKeys} * kBlockQueries;
}

// The t-th block of queries of the heads that share the keys.
XPU_INLINE void gradient_queries(const AttentionBlockArgs& p, GradientBlock& b, uint32_t t, size_t lane) {
  const uint32_t inner = t / p.blocks;
  b.query0 = (t - inner * p.blocks) * kBlockQueries, b.head = b.kv_head * p.head_step + inner;
  b.q = matrix_of<float>(p.q, p.q_stride, b.batch, b.head);
  b.grad = p.grad + b.batch * p.grad_stride[0] + b.head * p.grad_stride[1];
  block_columns(b.q, p.q_stride[2], b.query0, p.nq, p.dim, p.scale, lane, b.queries);
  block_columns(b.grad, p.grad_stride[2], b.query0, p.nq, p.value_dim, 1.0f, lane, b.grads);
  for (uint32_t d = 0; d < p.dim; ++d)
#pragma unroll
    for (uint32_t c = 0; c < kBlockVectors; ++c) (b.slopes + d * kBlockQueries + c * kLanes)[lane] = 0.0f;
#pragma unroll
  for (uint32_t c = 0; c < kBlockVectors; ++c) {
    const uint32_t query = b.query0 + c * kLanes + static_cast<uint32_t>(lane);
    const size_t line = (size_t{b.batch} * p.heads + b.head) * p.nq + (query < p.nq ? query : p.nq - 1);
    const float lse = p.logsumexp[line];
    b.base[c] = lse == -__builtin_inff() ? __builtin_inff() : lse;
    b.delta[c] = p.delta[line];
  }
}

// Scores in b.weights become weights; b.scores the gradient of the scores, multiplied by `factor`.
template <class S>
XPU_INLINE void gradient_scores(const AttentionBlockArgs& p, const GradientBlock& b, uint32_t key0, uint32_t count,
                                float factor, size_t lane) {
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  for (uint32_t k = 0; k < count; ++k)
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) {
      float* at = b.weights + k * Q + c * kLanes;
      at[lane] = fast_exp(at[lane] - b.base[c]);
    }
  for (uint32_t k = 0; k < count; k += S::kRows)
#pragma unroll
    for (uint32_t c0 = 0; c0 < C; c0 += S::kVectors) {
      Tile<S> a, w;
      tile_of_keys(p, a, b.values, p.v_stride[2], key0 + k, b.grads + c0 * kLanes, p.value_dim, lane);
      tile_load(w, b.weights + k * Q + c0 * kLanes, lane);
#pragma unroll
      for (uint32_t r = 0; r < S::kRows; ++r)
#pragma unroll
        for (uint32_t c = 0; c < S::kVectors; ++c) a[r][c] = w[r][c] * (a[r][c] - b.delta[c0 + c]) * factor;
      tile_store(a, b.scores + k * Q + c0 * kLanes, lane);
    }
}

// Adds what a block of keys gives to the three gradients.
template <class S>
XPU_INLINE void gradient_add(const AttentionBlockArgs& p, const GradientBlock& b, uint32_t key0, uint32_t count,
                             size_t lane) {
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  const uint32_t valid = least(Q, p.nq - b.query0);
  if (p.q_grad) {
    const float* first = b.keys + key0 * p.k_stride[2];
    for (uint32_t d = 0; d < p.dim; d += S::kRows) {
      const float* x = first + d;
#pragma unroll
      for (uint32_t c0 = 0; c0 < C; c0 += S::kVectors) {
        Tile<S> a;
        float* to = b.slopes + d * Q + c0 * kLanes;
        tile_load(a, to, lane);
        tile_product(a, b.scores + c0 * kLanes, Q, count, lane,
                     [&](uint32_t k, uint32_t r) { return (x + k * p.k_stride[2])[r]; });
        tile_store(a, to, lane);
      }
    }
  }
  if (p.k_grad)
    block_add_rows<S>(p, b.scores, b.q + b.query0 * p.q_stride[2], p.q_stride[2], valid, key0, count, p.dim, lane,
                      b.k_grad, p.k_grad_stride[2]);
  if (p.v_grad)
    block_add_rows<S>(p, b.weights, b.grad + b.query0 * p.grad_stride[2], p.grad_stride[2], valid, key0, count,
                      p.value_dim, lane, b.v_grad, p.v_grad_stride[2]);
}

XPU_INLINE void gradient_finish(const AttentionBlockArgs& p, const GradientBlock& b, size_t lane) {
  if (!p.q_grad) return;
  float* out = p.q_grad + b.batch * p.q_grad_stride[0] + b.head * p.q_grad_stride[1];
#pragma unroll
  for (uint32_t c = 0; c < kBlockVectors; ++c)
    block_rows(b.slopes, c, p.dim, b.query0, p.nq, 1.0f, lane, out, p.q_grad_stride[2]);
}

// Gradients of the queries, keys and values of one head of keys, for every `splits`-th block of queries of its heads.
template <class T, Mask kMask, class S> XPU_INLINE void attention_block_backward(const AttentionBlockArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  constexpr uint32_t Q = kBlockQueries;
  const uint32_t group = static_cast<uint32_t>(item.get_group(0)), plane = group / p.splits;
  const uint32_t split = group - plane * p.splits;
  GradientBlock b;
  gradient_start(p, b, plane, split, p.scratch + group * p.slot);
  float* bias = b.scores + size_t{kBlockKeys} * Q;  // [kBlockKeys][Q] where there is a mask
  for (uint32_t t = split; t < p.blocks * p.head_step; t += p.splits) {
    gradient_queries(p, b, t, lane);
    const uint32_t last = p.causal ? least(p.nk, b.query0 + Q) : p.nk;
    for (uint32_t key0 = 0; key0 < last; key0 += kBlockKeys) {
      const uint32_t count = least(last - key0, kBlockKeys);
      block_mask<kMask>(p, b.batch, b.head, b.query0, key0, key0 + count, lane, bias);
      for (uint32_t k = 0; k < count; k += S::kRows)
#pragma unroll
        for (uint32_t c0 = 0; c0 < kBlockVectors; c0 += S::kVectors) {
          const uint32_t at = c0 * kLanes;
          Tile<S> a;
          tile_of_keys(p, a, b.keys, p.k_stride[2], key0 + k, b.queries + at, p.dim, lane);
          block_scores<kMask>(p, a, bias + k * Q + at, b.query0 + at, key0 + k, lane);
          tile_store(a, b.weights + k * Q + at, lane);
        }
      gradient_scores<S>(p, b, key0, count, p.scale, lane);
      gradient_add<S>(p, b, key0, count, lane);
    }
    gradient_finish(p, b, lane);
  }
}

}  // namespace xpu
