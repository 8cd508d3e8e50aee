// Scaled dot-product attention, what lies between the matrix products of a tile: softmax of its rows, and the gradient
// of the scores recomputed from the saved logarithm of sums (Dao et al. 2022). One sub-group goes through one row.
#pragma once
#include "kernels/sycl/core/columns.hpp"
#include "kernels/sycl/core/philox.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/products/attention_args.hpp"

namespace xpu {

using xpu_ops::AttentionArgs;
using xpu_ops::AttentionDeltaArgs;
using xpu_ops::AttentionOneArgs;
using xpu_ops::one_mix_vectors;

enum class Mask { none, boolean, additive };

// The queries, keys or values of one head.
template <class T> XPU_INLINE const T* matrix_of(const void* x, const int64_t (&stride)[3], uint32_t batch,
                                                 uint32_t head) {
  return static_cast<const T*>(x) + batch * stride[0] + head * stride[1];
}

struct AttentionRow {
  size_t at;       // of the first element in the tile
  uint32_t plane;  // batch * heads + head
  uint32_t query;
  size_t line;  // plane * nq + query
  size_t cols;  // keys this query sees
  const char* mask;
};

XPU_INLINE AttentionRow attention_row(const AttentionArgs& p, uint32_t t, size_t mask_size) {
  const uint32_t z = t / p.rows, r = t - z * p.rows, zb = z / p.tile_heads;
  const uint32_t batch = p.batch0 + zb, head = (p.head0 + z - zb * p.tile_heads) * p.head_step + p.head_offset;
  AttentionRow row;
  row.at = static_cast<size_t>(t) * p.cols;
  row.plane = batch * p.heads + head;
  row.query = p.query0 + r;
  row.line = static_cast<size_t>(row.plane) * p.nq + row.query;
  row.cols = p.causal ? least(p.cols, row.query + 1) : p.cols;
  row.mask = static_cast<const char*>(p.mask) +
             (batch * p.mask_stride[0] + head * p.mask_stride[1] + row.query * p.mask_stride[2]) *
                 static_cast<int64_t>(mask_size);
  return row;
}

// A score as the softmax sees it: scaled, mask added, -inf where the query may not look.
template <Mask kMask> XPU_INLINE float attention_score(const AttentionRow& row, size_t c, size_t lane, float s,
                                                       float scale) {
  if constexpr (kMask == Mask::boolean) {
    const bool* seen = reinterpret_cast<const bool*>(row.mask) + c;
    return seen[lane] ? s * scale : -__builtin_inff();
  } else if constexpr (kMask == Mask::additive) {
    const float* bias = reinterpret_cast<const float*>(row.mask) + c;
    return s * scale + bias[lane];
  } else {
    return s * scale;
  }
}

// for_row whose f also gets what the element is multiplied with: 0 where dropout takes it.
template <bool kDrop, class F> XPU_INLINE void for_kept(const AttentionArgs& p, const AttentionRow& row, size_t lane,
                                                        F f) {
  if constexpr (kDrop) {
    const PhiloxKey key = philox_key(p, 1);
    for (size_t c = 0; c < row.cols; c += 4 * kLanes) {
      const Random4 bits =
          philox(key.seed, key.offset, static_cast<uint32_t>(c / 4 + lane), static_cast<uint32_t>(row.line));
#pragma unroll
      for (size_t j = 0; j < 4; ++j)
        if (c + j * kLanes + lane < row.cols) f(c + j * kLanes, uniform24(bits.v[j]) < p.keep ? p.keep_scale : 0.0f);
    }
  } else {
    for_row(row.cols, lane, [&](size_t c, int) { f(c, 1.0f); });
  }
}

template <class T> inline void clear_rest(T* x, size_t from, size_t to, size_t lane) {
  for (size_t c = from + lane; c < to; c += kLanes) store(x, c, static_cast<T>(0.0f));
}

template <class T, Mask kMask, bool kDrop> void attention_softmax(const AttentionArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  constexpr float none = -__builtin_inff();
  const uint32_t total = p.planes * p.rows;
  const RowRange mine = group_rows(total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const AttentionRow row = attention_row(p, t, kMask == Mask::boolean ? 1 : 4);
    float* x = p.scores + row.at;
    T* y = static_cast<T*>(p.weights) + row.at;
    float m[4] = {none, none, none, none}, s[4] = {0, 0, 0, 0};
    for_row(row.cols, lane, [&](size_t c, int j) {
      const float v = attention_score<kMask>(row, c, lane, (x + c)[lane], p.scale);
      m[j] = larger(m[j], v);
    });
    const float top = lane_max(m);
    const float base = top == none ? 0.0f : top;  // a query that sees no key has weights 0
    for_row(row.cols, lane, [&](size_t c, int j) {
      const float e = fast_exp(attention_score<kMask>(row, c, lane, (x + c)[lane], p.scale) - base);
      (x + c)[lane] = e;
      s[j] += e;
    });
    const float sum = lane_sum(s);
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for_kept<kDrop>(p, row, lane,
                    [&](size_t c, float kept) { store(y + c, lane, static_cast<T>((x + c)[lane] * factor * kept)); });
    clear_rest(y, row.cols, p.cols, lane);
    store_first(p.logsumexp + row.line, sum == 0.0f ? none : top + sycl::log(sum));
  }
}

template <class T, Mask kMask, bool kDrop> void attention_slopes(const AttentionArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const uint32_t total = p.planes * p.rows;
  const RowRange mine = group_rows(total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const AttentionRow row = attention_row(p, t, kMask == Mask::boolean ? 1 : 4);
    const float *x = p.scores + row.at, *g = p.slopes + row.at;
    T *y = static_cast<T*>(p.weights) + row.at, *d = static_cast<T*>(p.slopes_out) + row.at;
    const float lse = p.logsumexp[row.line], delta = p.delta[row.line];
    const float base = lse == -__builtin_inff() ? __builtin_inff() : lse;
    for_kept<kDrop>(p, row, lane, [&](size_t c, float kept) {
      const float e = fast_exp(attention_score<kMask>(row, c, lane, (x + c)[lane], p.scale) - base);
      const float slope = e * ((g + c)[lane] * kept - delta) * p.scale;
      store(y + c, lane, static_cast<T>(e * kept));
      store(d + c, lane, static_cast<T>(slope));
    });
    clear_rest(y, row.cols, p.cols, lane);
    clear_rest(d, row.cols, p.cols, lane);
  }
}

// Which weights dropout keeps, of `rows` lines.
template <class T> void attention_dropout(const AttentionArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const RowRange mine = group_rows(p.rows);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    AttentionRow row{};
    row.line = t, row.cols = p.cols;
    T* y = static_cast<T*>(p.weights) + size_t{t} * p.cols;
    for_kept<true>(p, row, lane, [&](size_t c, float kept) { store(y + c, lane, static_cast<T>(kept)); });
  }
}

template <class T> void attention_delta(const AttentionDeltaArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const RowRange mine = group_rows(p.total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const uint32_t plane = t / p.nq, i = t - plane * p.nq, b = plane / p.heads, h = plane - b * p.heads;
    const T* g = static_cast<const T*>(p.grad) + b * p.grad_stride[0] + h * p.grad_stride[1] + i * p.grad_stride[2];
    const T* o = static_cast<const T*>(p.out) + b * p.out_stride[0] + h * p.out_stride[1] + i * p.out_stride[2];
    float s[4] = {0, 0, 0, 0};
    for_row(p.cols, lane, [&](size_t c, int j) {
      s[j] += static_cast<float>(load(g + c, lane)) * static_cast<float>(load(o + c, lane));
    });
    const float sum = lane_sum(s);
    store_first(p.delta + t, sum);
  }
}

// ---- one query, as in generating text: products that are too small for what their submission to oneDNN costs
// Where a group works: `share` heads from `head` on, which have the same keys and values and load them once.
struct OneHeads { uint32_t batch, head, plane, kv_head, part; };
XPU_INLINE OneHeads one_heads(const AttentionOneArgs& p, uint32_t group) {
  const uint32_t unit = group / p.blocks, units = p.tile_heads / p.share, batch = unit / units;
  const uint32_t head = (unit - batch * units) * p.share;
  return {batch, head, batch * p.tile_heads + head, (p.head0 + head) / p.group, group - unit * p.blocks};
}
template <class F> XPU_INLINE void by_share(uint32_t share, F f) {
  if (share == 4)
    f(Count<4>{});
  else if (share == 2)
    f(Count<2>{});
  else
    f(Count<1>{});
}

template <class T> void attention_one_scores(const AttentionOneArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const OneHeads heads = one_heads(p, static_cast<uint32_t>(item.get_group(0)));
  const uint32_t begin = heads.part * p.block, end = least(p.cols, begin + p.block);
  const T* q = static_cast<const T*>(p.q) + (heads.batch * p.q_stride[0] + heads.head * p.q_stride[1]);
  const T* k = static_cast<const T*>(p.kv) + (heads.batch * p.kv_stride[0] + heads.kv_head * p.kv_stride[1]);
  float* scores = p.scores + static_cast<size_t>(heads.plane) * p.cols;
  const uint32_t turn = static_cast<uint32_t>(sub_group_lane() & 3);
  by_share(p.share, [&](auto count) {
    constexpr uint32_t H = count.value;
    for (uint32_t c = begin; c < end; c += kLanes) {
      float sum[H];
#pragma unroll
      for (uint32_t h = 0; h < H; ++h) sum[h] = 0;
      // Turn t takes keys c + t, c + t + 4, c + t + 8 and c + t + 12.
      for (uint32_t t = 0; t < 4; ++t) {
        const T* row[4];
        float a[H][4];
#pragma unroll
        for (uint32_t h = 0; h < H; ++h)
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) a[h][i] = 0;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) row[i] = k + least(c + 4 * i + t, end - 1) * p.kv_stride[2];
        for_row(p.dim, lane, [&](size_t r, int) {
          float x[4];
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) x[i] = static_cast<float>(load(row[i] + r, lane));
#pragma unroll
          for (uint32_t h = 0; h < H; ++h) {
            const float v = static_cast<float>(load(q + (h * p.q_stride[1] + r), lane));
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) a[h][i] += v * x[i];
          }
        });
#pragma unroll
        for (uint32_t h = 0; h < H; ++h) {
          const float mine = lane_sum(a[h][0], a[h][1], a[h][2], a[h][3], lane);
          sum[h] = turn == t ? mine : sum[h];
        }
      }
#pragma unroll
      for (uint32_t h = 0; h < H; ++h)
        if (c + sub_group_lane() < end) (scores + (size_t{h} * p.cols + c))[lane] = sum[h];
    }
  });
}

// A group takes some vectors of its heads' values; sums of 256 keys keep the rounding error short.
template <class T> void attention_one_mix(const AttentionOneArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0);
  const OneHeads heads = one_heads(p, static_cast<uint32_t>(item.get_group(0)));
  const T* weights = static_cast<const T*>(p.weights) + static_cast<size_t>(heads.plane) * p.cols;
  const T* values = static_cast<const T*>(p.kv) + (heads.batch * p.kv_stride[0] + heads.kv_head * p.kv_stride[1]);
  T* out = static_cast<T*>(p.out) + (heads.batch * p.out_stride[0] + heads.head * p.out_stride[1]);
  by_share(p.share, [&](auto count) {
    constexpr uint32_t H = count.value;
    constexpr int kVectors = one_mix_vectors(count.value);
    column_block<kVectors>(
        size_t{heads.part} * (kVectors * kLanes), p.dim, lane, p.once, [&](auto vectors, size_t first) {
          constexpr int J = vectors.value;
          float total[H][J];
#pragma unroll
          for (uint32_t h = 0; h < H; ++h)
#pragma unroll
            for (int j = 0; j < J; ++j) total[h][j] = 0;
          const T* v = values + first;
          for (uint32_t c0 = 0; c0 < p.cols; c0 += 256) {
            float sum[H][J];
#pragma unroll
            for (uint32_t h = 0; h < H; ++h)
#pragma unroll
              for (int j = 0; j < J; ++j) sum[h][j] = 0;
            const uint32_t end = least(p.cols, c0 + 256);
            for (uint32_t c = c0; c < end; ++c, v += p.kv_stride[2]) {
              float x[J];
#pragma unroll
              for (int j = 0; j < J; ++j) x[j] = static_cast<float>(load(v + j * kLanes, lane));
#pragma unroll
              for (uint32_t h = 0; h < H; ++h) {
                const float w = static_cast<float>(load(weights + size_t{h} * p.cols, c));
#pragma unroll
                for (int j = 0; j < J; ++j) sum[h][j] += w * x[j];
              }
            }
#pragma unroll
            for (uint32_t h = 0; h < H; ++h)
#pragma unroll
              for (int j = 0; j < J; ++j) total[h][j] += sum[h][j];
          }
#pragma unroll
          for (uint32_t h = 0; h < H; ++h)
#pragma unroll
            for (int j = 0; j < J; ++j)
              store(out + (h * p.out_stride[1] + first + j * kLanes), lane, static_cast<T>(total[h][j]));
        });
  });
}

}  // namespace xpu
