// Attention of a block of queries against all keys in one kernel, for the CPU device (f32). Sixteen queries are the lanes
// of a vector: keys and values are then read element by element as they lie, the sums of a tile stay in registers, and
// the softmax needs nothing from other lanes. Keys come in blocks, sums are rescaled where a later block has a larger
// maximum (Milakov and Gimelshein 2018).
#pragma once
#include "attention.hpp"
#include "attention_block_args.hpp"

namespace xpu {

using xpu_ops::AttentionBlockArgs;
using xpu_ops::kBlockKeys;
using xpu_ops::kBlockQueries;

constexpr uint32_t kBlockVectors = kBlockQueries / kLanes, kTileRows = 8;

// The 16 x 16 matrix whose rows are x is transposed.
XPU_INLINE void transpose_lanes(float (&x)[kLanes], size_t lane) {
  auto sg = syclex::this_work_item::get_sub_group();
#pragma unroll
  for (uint32_t s = 0; s < 4; ++s) {
    const uint32_t m = 8u >> s;
    const bool upper = lane & m;
#pragma unroll
    for (uint32_t i = 0; i < kLanes; ++i) {
      if (i & m) continue;
      const float a = x[i], b = x[i | m];
      const float got = exchange(sg, upper ? a : b, m);
      x[i] = upper ? got : a;
      x[i | m] = upper ? b : got;
    }
  }
}

// a[r][c] += rows[r][k * step] * columns[k][c] for k < count.
template <class Row>
XPU_INLINE void tile_product(float (&a)[kTileRows][kBlockVectors], const float* columns, uint32_t count, size_t lane,
                             Row row) {
  for (uint32_t k = 0; k < count; ++k, columns += kBlockQueries) {
    float y[kBlockVectors];
#pragma unroll
    for (uint32_t c = 0; c < kBlockVectors; ++c) y[c] = (columns + c * kLanes)[lane];
#pragma unroll
    for (uint32_t r = 0; r < kTileRows; ++r) {
      const float x = row(k, r);
#pragma unroll
      for (uint32_t c = 0; c < kBlockVectors; ++c) a[r][c] += x * y[c];
    }
  }
}

// What is added to the scores of a block of keys, key by key: -inf where a query may not look.
template <Mask kMask>
XPU_INLINE void block_mask(const AttentionBlockArgs& p, const char* mask, uint32_t query0, uint32_t key0, uint32_t end,
                           size_t lane, float* to) {
  constexpr float none = -__builtin_inff();
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

template <class T, Mask kMask> void attention_block(const AttentionBlockArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  constexpr float none = -__builtin_inff();
  constexpr uint32_t C = kBlockVectors, Q = kBlockQueries;
  float* queries = p.scratch + item.get_group(0) * p.slot;  // [dim][Q], scaled
  float* sums = queries + size_t{p.dim} * Q;                 // [value_dim][Q]
  float* scores = sums + size_t{p.value_dim} * Q;            // [kBlockKeys][Q], then their exponentials
  float* bias = scores + size_t{kBlockKeys} * Q;             // [kBlockKeys][Q] where there is a mask
  const RowRange mine = group_rows(p.total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const uint32_t plane = t / p.blocks, query0 = (t - plane * p.blocks) * Q;
    const uint32_t batch = plane / p.heads, head = plane - batch * p.heads, kv_head = head / p.head_step;
    const float* q = p.q + batch * p.q_stride[0] + head * p.q_stride[1];
    const float* keys = p.k + batch * p.k_stride[0] + kv_head * p.k_stride[1];
    const float* values = p.v + batch * p.v_stride[0] + kv_head * p.v_stride[1];
    for (uint32_t c = 0; c < C; ++c)
      for (uint32_t d = 0; d < p.dim; d += kLanes) {
        const uint32_t d0 = least(d, p.dim - kLanes);
        float x[kLanes];
#pragma unroll
        for (uint32_t i = 0; i < kLanes; ++i)
          x[i] = (q + least(query0 + c * kLanes + i, p.nq - 1) * p.q_stride[2] + d0)[lane] * p.scale;
        transpose_lanes(x, lane);
#pragma unroll
        for (uint32_t i = 0; i < kLanes; ++i) (queries + (d0 + i) * Q + c * kLanes)[lane] = x[i];
      }
    for (uint32_t d = 0; d < p.value_dim; ++d)
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) (sums + d * Q + c * kLanes)[lane] = 0.0f;
    float top[C], total[C];
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) top[c] = none, total[c] = 0.0f;
    const uint32_t last = p.causal ? least(p.nk, query0 + Q) : p.nk;
    for (uint32_t key0 = 0; key0 < last; key0 += kBlockKeys) {
      const uint32_t count = least(last - key0, kBlockKeys);
      if constexpr (kMask != Mask::none) {
        const char* mask = static_cast<const char*>(p.mask) + (batch * p.mask_stride[0] + head * p.mask_stride[1]) *
                                                                  (kMask == Mask::boolean ? 1 : 4);
        block_mask<kMask>(p, mask, query0, key0, key0 + count, lane, bias);
      }
      float m[C];
#pragma unroll
      for (uint32_t c = 0; c < C; ++c) m[c] = top[c];
      for (uint32_t k = 0; k < count; k += kTileRows) {
        float a[kTileRows][C];
        const float* row[kTileRows];
#pragma unroll
        for (uint32_t r = 0; r < kTileRows; ++r) {
          row[r] = keys + least(key0 + k + r, p.nk - 1) * p.k_stride[2];
#pragma unroll
          for (uint32_t c = 0; c < C; ++c) a[r][c] = 0.0f;
        }
        tile_product(a, queries, p.dim, lane, [&](uint32_t d, uint32_t r) { return row[r][d]; });
        float* to = scores + k * Q;
        if constexpr (kMask != Mask::none) {
#pragma unroll
          for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
            for (uint32_t c = 0; c < C; ++c) a[r][c] += (bias + (k + r) * Q + c * kLanes)[lane];
        }
        if (key0 + k + kTileRows > p.nk || (p.causal && key0 + k + kTileRows > query0 + 1)) {
#pragma unroll
          for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
            for (uint32_t c = 0; c < C; ++c) {
              const uint32_t key = key0 + k + r, seen = p.causal ? query0 + c * kLanes + static_cast<uint32_t>(lane) : key;
              a[r][c] = key < p.nk && key <= seen ? a[r][c] : none;
            }
        }
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
        float a[kTileRows][C];
        float* to = sums + d * Q;
#pragma unroll
        for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
          for (uint32_t c = 0; c < C; ++c) a[r][c] = (to + r * Q + c * kLanes)[lane] * shrink[c];
        const float* x = v + d;
        tile_product(a, scores, count, lane, [&](uint32_t k, uint32_t r) { return (x + k * p.v_stride[2])[r]; });
#pragma unroll
        for (uint32_t r = 0; r < kTileRows; ++r)
#pragma unroll
          for (uint32_t c = 0; c < C; ++c) (to + r * Q + c * kLanes)[lane] = a[r][c];
      }
    }
    float* out = p.out + batch * p.out_stride[0] + head * p.out_stride[1];
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) {
      const float factor = total[c] == 0.0f ? 0.0f : 1.0f / total[c];
      for (uint32_t d = 0; d < p.value_dim; d += kLanes) {
        const uint32_t d0 = least(d, p.value_dim - kLanes);
        float x[kLanes];
#pragma unroll
        for (uint32_t i = 0; i < kLanes; ++i) x[i] = (sums + (d0 + i) * Q + c * kLanes)[lane] * factor;
        transpose_lanes(x, lane);
#pragma unroll
        for (uint32_t i = 0; i < kLanes; ++i) {
          const uint32_t query = query0 + c * kLanes + i;
          if (query < p.nq) (out + query * p.out_stride[2] + d0)[lane] = x[i];
        }
      }
      const size_t line = size_t{plane} * p.nq + query0 + c * kLanes;
      if (query0 + c * kLanes + lane < p.nq)
        (p.logsumexp + line)[lane] = total[c] == 0.0f ? none : top[c] + sycl::log(total[c]);
    }
  }
}

}  // namespace xpu
