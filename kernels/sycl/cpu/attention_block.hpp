// Attention of a block of queries against all keys in one kernel, for the CPU device (f32). Sixteen queries are the
// lanes of a vector: keys and values are then read element by element as they lie, the sums of a tile stay in
// registers, and the softmax needs nothing from other lanes. Keys come in blocks, sums are rescaled where a later block
// has a larger maximum (Milakov and Gimelshein 2018).
#pragma once
#include "kernels/sycl/attention.hpp"
#include "kernels/sycl/cpu/attention_block_args.hpp"

namespace xpu {

using xpu_ops::AttentionBlockArgs;
using xpu_ops::kBlockKeys;
using xpu_ops::kBlockQueries;

constexpr uint32_t kBlockVectors = kBlockQueries / kLanes, kTileRows = 8;

// a[r][c] += row(k, r) * columns[k][c] for k < count.
template <uint32_t kVectors, class Row>
XPU_INLINE void tile_product(float (&a)[kTileRows][kVectors], const float* columns, int64_t step, uint32_t count,
                             size_t lane, Row row) {
  for (uint32_t k = 0; k < count; ++k, columns += step) {
    float y[kVectors];
#pragma unroll
    for (uint32_t c = 0; c < kVectors; ++c) y[c] = (columns + c * kLanes)[lane];
#pragma unroll
    for (uint32_t r = 0; r < kTileRows; ++r) {
      float x;
      [[clang::always_inline]] x = row(k, r);
#pragma unroll
      for (uint32_t c = 0; c < kVectors; ++c) a[r][c] += x * y[c];
    }
  }
}

using Tile = float[kTileRows][kBlockVectors];

XPU_INLINE void tile_store(const Tile& a, float* to, size_t lane) {
#pragma unroll
  for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
    for (uint32_t c = 0; c < kBlockVectors; ++c) (to + r * kBlockQueries + c * kLanes)[lane] = a[r][c];
}

// a = the rows of x from `key0`, past the end the last one again, times columns.
XPU_INLINE void tile_of_keys(const AttentionBlockArgs& p, Tile& a, const float* x, int64_t stride, uint32_t key0,
                             const float* columns, uint32_t dim, size_t lane) {
  const float* row[kTileRows];
#pragma unroll
  for (uint32_t r = 0; r < kTileRows; ++r) {
    row[r] = x + least(key0 + r, p.nk - 1) * stride;
#pragma unroll
    for (uint32_t c = 0; c < kBlockVectors; ++c) a[r][c] = 0.0f;
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

// Products of a tile, keys from `key0`, become scores: mask added, -inf where a query may not look.
template <Mask kMask>
XPU_INLINE void block_scores(const AttentionBlockArgs& p, float (&a)[kTileRows][kBlockVectors], const float* bias,
                             uint32_t query0, uint32_t key0, size_t lane) {
  if constexpr (kMask != Mask::none) {
#pragma unroll
    for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
      for (uint32_t c = 0; c < kBlockVectors; ++c) a[r][c] += (bias + r * kBlockQueries + c * kLanes)[lane];
  }
  if (key0 + kTileRows > p.nk || (p.causal && key0 + kTileRows > query0 + 1)) {
#pragma unroll
    for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
      for (uint32_t c = 0; c < kBlockVectors; ++c) {
        const uint32_t key = key0 + r, seen = p.causal ? query0 + c * kLanes + static_cast<uint32_t>(lane) : key;
        a[r][c] = key < p.nk && key <= seen ? a[r][c] : -__builtin_inff();
      }
  }
}

template <class T, Mask kMask> XPU_INLINE void attention_block(const AttentionBlockArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  constexpr float none = -__builtin_inff();
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  float* queries = p.scratch + item.get_group(0) * p.slot;  // [dim][Q], scaled
  float* sums = queries + size_t{p.dim} * Q;                // [value_dim][Q]
  float* scores = sums + size_t{p.value_dim} * Q;           // [kBlockKeys][Q], then their exponentials
  float* bias = scores + size_t{kBlockKeys} * Q;            // [kBlockKeys][Q] where there is a mask
  const RowRange mine = group_rows(p.total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const uint32_t plane = t / p.blocks, query0 = (t - plane * p.blocks) * Q;
    const uint32_t batch = plane / p.heads, head = plane - batch * p.heads, kv_head = head / p.head_step;
    const float* q = p.q + batch * p.q_stride[0] + head * p.q_stride[1];
    const float* keys = p.k + batch * p.k_stride[0] + kv_head * p.k_stride[1];
    const float* values = p.v + batch * p.v_stride[0] + kv_head * p.v_stride[1];
    block_columns(q, p.q_stride[2], query0, p.nq, p.dim, p.scale, lane, queries);
    for (uint32_t d = 0; d < p.value_dim; ++d)
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) (sums + d * Q + c * kLanes)[lane] = 0.0f;
    float top[C], total[C];
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) top[c] = none, total[c] = 0.0f;
    const uint32_t last = p.causal ? least(p.nk, query0 + Q) : p.nk;
    for (uint32_t key0 = 0; key0 < last; key0 += kBlockKeys) {
      const uint32_t count = least(last - key0, kBlockKeys);
      block_mask<kMask>(p, batch, head, query0, key0, key0 + count, lane, bias);
      float m[C];
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) m[c] = top[c];
      for (uint32_t k = 0; k < count; k += kTileRows) {
        Tile a;
        tile_of_keys(p, a, keys, p.k_stride[2], key0 + k, queries, p.dim, lane);
        block_scores<kMask>(p, a, bias + k * Q, query0, key0 + k, lane);
        float* to = scores + k * Q;
#pragma unroll
        for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
          for (uint32_t c = 0; c < C; ++c) {
            (to + r * Q + c * kLanes)[lane] = a[r][c];
            m[c] = a[r][c] > m[c] ? a[r][c] : m[c];
          }
      }
      float shrink[C], base[C], part[C];
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) {
        base[c] = m[c] == none ? 0.0f : m[c];
        shrink[c] = fast_exp(top[c] - base[c]);
        top[c] = m[c];
        part[c] = 0.0f;
      }
      for (uint32_t k = 0; k < count; ++k)
#pragma unroll
        for (uint32_t c = 0; c < C; ++c) {
          float* at = scores + k * Q + c * kLanes;
          const float e = fast_exp(at[lane] - base[c]);
          at[lane] = e;
          part[c] += e;
        }
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) total[c] = total[c] * shrink[c] + part[c];
      const float* v = values + key0 * p.v_stride[2];
      for (uint32_t d = 0; d < p.value_dim; d += kTileRows) {
        Tile a;
        float* to = sums + d * Q;
#pragma unroll
        for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
          for (uint32_t c = 0; c < C; ++c) a[r][c] = (to + r * Q + c * kLanes)[lane] * shrink[c];
        const float* x = v + d;
        tile_product(a, scores, Q, count, lane, [&](uint32_t k, uint32_t r) { return (x + k * p.v_stride[2])[r]; });
        tile_store(a, to, lane);
      }
    }
    float* out = p.out + batch * p.out_stride[0] + head * p.out_stride[1];
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) {
      const float factor = total[c] == 0.0f ? 0.0f : 1.0f / total[c];
      block_rows(sums, c, p.value_dim, query0, p.nq, factor, lane, out, p.out_stride[2]);
      const size_t line = size_t{plane} * p.nq + query0 + c * kLanes;
      if (query0 + c * kLanes + lane < p.nq)
        (p.logsumexp + line)[lane] = total[c] == 0.0f ? none : top[c] + sycl::log(total[c]);
    }
  }
}

// A tile of gradients of keys or values: to[key][d] += sum over the block's queries of weights[key][query] *
// x[query][d].
template <uint32_t kVectors>
XPU_INLINE void block_add(const AttentionBlockArgs& p, const float* weights, const float* x, int64_t x_stride,
                          uint32_t queries, uint32_t key0, size_t lane, float* to, int64_t stride) {
  float a[kTileRows][kVectors];
#pragma unroll
  for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
    for (uint32_t c = 0; c < kVectors; ++c) a[r][c] = (to + least(key0 + r, p.nk - 1) * stride + c * kLanes)[lane];
  tile_product(a, x, x_stride, queries, lane, [&](uint32_t k, uint32_t r) { return (weights + k)[r * kBlockQueries]; });
#pragma unroll
  for (uint32_t r = 0; r < kTileRows; ++r)
    if (key0 + r < p.nk) {
#pragma unroll
      for (uint32_t c = 0; c < kVectors; ++c) (to + (key0 + r) * stride + c * kLanes)[lane] = a[r][c];
    }
}

XPU_INLINE void block_add_rows(const AttentionBlockArgs& p, const float* weights, const float* x, int64_t x_stride,
                               uint32_t queries, uint32_t key0, uint32_t count, uint32_t dim, size_t lane, float* to,
                               int64_t stride) {
  for (uint32_t k = 0; k < count; k += kTileRows) {
    uint32_t d = 0;
    for (; d + 2 * kLanes <= dim; d += 2 * kLanes)
      block_add<2>(p, weights + k * kBlockQueries, x + d, x_stride, queries, key0 + k, lane, to + d, stride);
    if (d < dim) block_add<1>(p, weights + k * kBlockQueries, x + d, x_stride, queries, key0 + k, lane, to + d, stride);
  }
}

// Gradients of the queries, keys and values of one head of keys, for every `splits`-th block of queries of its heads.
template <class T, Mask kMask> XPU_INLINE void attention_block_backward(const AttentionBlockArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  float* queries = p.scratch + item.get_group(0) * p.slot;  // [dim][Q], scaled
  float* slopes = queries + size_t{p.dim} * Q;              // [dim][Q]: gradient of the queries
  float* grads = slopes + size_t{p.dim} * Q;                // [value_dim][Q]: gradient of the output
  float* weights = grads + size_t{p.value_dim} * Q;         // [kBlockKeys][Q]
  float* scores = weights + size_t{kBlockKeys} * Q;         // [kBlockKeys][Q]: gradient of the scores
  float* bias = scores + size_t{kBlockKeys} * Q;            // [kBlockKeys][Q] where there is a mask
  const uint32_t group = static_cast<uint32_t>(item.get_group(0)), plane = group / p.splits;
  const uint32_t split = group - plane * p.splits, kv_heads = p.heads / p.head_step;
  const uint32_t batch = plane / kv_heads, kv_head = plane - batch * kv_heads;
  const float* keys = p.k + batch * p.k_stride[0] + kv_head * p.k_stride[1];
  const float* values = p.v + batch * p.v_stride[0] + kv_head * p.v_stride[1];
  float* key_grad = p.k_grad + split * p.k_grad_split + batch * p.k_grad_stride[0] + kv_head * p.k_grad_stride[1];
  float* value_grad = p.v_grad + split * p.v_grad_split + batch * p.v_grad_stride[0] + kv_head * p.v_grad_stride[1];
  for (uint32_t t = split; t < p.blocks * p.head_step; t += p.splits) {
    const uint32_t inner = t / p.blocks, query0 = (t - inner * p.blocks) * Q, head = kv_head * p.head_step + inner;
    const uint32_t valid = least(Q, p.nq - query0);
    const float* q = p.q + batch * p.q_stride[0] + head * p.q_stride[1];
    const float* g = p.grad + batch * p.grad_stride[0] + head * p.grad_stride[1];
    block_columns(q, p.q_stride[2], query0, p.nq, p.dim, p.scale, lane, queries);
    block_columns(g, p.grad_stride[2], query0, p.nq, p.value_dim, 1.0f, lane, grads);
    for (uint32_t d = 0; d < p.dim; ++d)
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) (slopes + d * Q + c * kLanes)[lane] = 0.0f;
    float base[C], delta[C];
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) {
      const uint32_t query = query0 + c * kLanes + static_cast<uint32_t>(lane);
      const size_t line = (size_t{batch} * p.heads + head) * p.nq + (query < p.nq ? query : p.nq - 1);
      const float lse = p.logsumexp[line];
      base[c] = lse == -__builtin_inff() ? __builtin_inff() : lse;
      delta[c] = p.delta[line];
    }
    const uint32_t last = p.causal ? least(p.nk, query0 + Q) : p.nk;
    for (uint32_t key0 = 0; key0 < last; key0 += kBlockKeys) {
      const uint32_t count = least(last - key0, kBlockKeys);
      block_mask<kMask>(p, batch, head, query0, key0, key0 + count, lane, bias);
      for (uint32_t k = 0; k < count; k += kTileRows) {
        Tile a;
        tile_of_keys(p, a, keys, p.k_stride[2], key0 + k, queries, p.dim, lane);
        block_scores<kMask>(p, a, bias + k * Q, query0, key0 + k, lane);
        tile_store(a, weights + k * Q, lane);
      }
      for (uint32_t k = 0; k < count; ++k)
#pragma unroll
        for (uint32_t c = 0; c < C; ++c) {
          float* at = weights + k * Q + c * kLanes;
          at[lane] = fast_exp(at[lane] - base[c]);
        }
      for (uint32_t k = 0; k < count; k += kTileRows) {
        Tile a;
        tile_of_keys(p, a, values, p.v_stride[2], key0 + k, grads, p.value_dim, lane);
        const float* w = weights + k * Q;
        float* to = scores + k * Q;
#pragma unroll
        for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
          for (uint32_t c = 0; c < C; ++c)
            (to + r * Q + c * kLanes)[lane] = (w + r * Q + c * kLanes)[lane] * (a[r][c] - delta[c]) * p.scale;
      }
      if (p.q_grad) {
        const float* first = keys + key0 * p.k_stride[2];
        for (uint32_t d = 0; d < p.dim; d += kTileRows) {
          Tile a;
          float* to = slopes + d * Q;
#pragma unroll
          for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
            for (uint32_t c = 0; c < C; ++c) a[r][c] = (to + r * Q + c * kLanes)[lane];
          const float* x = first + d;
          tile_product(a, scores, Q, count, lane, [&](uint32_t k, uint32_t r) { return (x + k * p.k_stride[2])[r]; });
          tile_store(a, to, lane);
        }
      }
      if (p.k_grad)
        block_add_rows(p, scores, q + query0 * p.q_stride[2], p.q_stride[2], valid, key0, count, p.dim, lane, key_grad,
                       p.k_grad_stride[2]);
      if (p.v_grad)
        block_add_rows(p, weights, g + query0 * p.grad_stride[2], p.grad_stride[2], valid, key0, count, p.value_dim,
                       lane, value_grad, p.v_grad_stride[2]);
    }
    if (p.q_grad) {
      float* out = p.q_grad + batch * p.q_grad_stride[0] + head * p.q_grad_stride[1];
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) block_rows(slopes, c, p.dim, query0, p.nq, 1.0f, lane, out, p.q_grad_stride[2]);
    }
  }
}

}  // namespace xpu
