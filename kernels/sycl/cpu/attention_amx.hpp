// Attention of a block of queries of bf16 against all keys in one kernel, by tiles of AMX. Scores are keys by queries:
// keys are then read as they lie, the softmax needs nothing from other lanes, and its exponentials are stored as the
// tiles that the product with the values wants. Keys come in blocks, sums are rescaled where a later block has a larger
// maximum (Milakov and Gimelshein 2018).
#pragma once
#include "kernels/sycl/cpu/amx.hpp"
#include "kernels/sycl/cpu/attention_amx_args.hpp"
#include "kernels/sycl/products/attention.hpp"

namespace xpu {

using xpu_ops::AttentionAmxArgs;
using xpu_ops::kAmxKeys;
using xpu_ops::kAmxQueries;
using xpu_ops::kAmxTile;

constexpr uint32_t kAmxVectors = kAmxQueries / 16;
constexpr float kLog2E = 1.44269504f;
constexpr size_t kColumnBytes = kAmxQueries * sizeof(float);  // a row of scores, of sums or of pairs of weights

// Values of 32 keys of a head of keys become tiles, one for each 16 elements: rows are elements, columns pairs of keys.
// Past the last key they are zero.
template <class T> XPU_INLINE void attention_amx_values(const AttentionAmxArgs& p) {
  const uint32_t group = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0));
  const uint32_t plane = group / p.key_tiles, key0 = (group - plane * p.key_tiles) * kAmxTile;
  const uint32_t kv_heads = p.heads / p.head_step, batch = plane / kv_heads;
  const uint16_t* values = matrix_of<uint16_t>(p.v, p.v_stride, batch, plane - batch * kv_heads);
  uint32_t* to = p.values + size_t{group} * (p.value_dim / 16) * kTileWords;
  for (uint32_t d = 0; d < p.value_dim; d += 16, to += kTileWords) {
    uint16v x[16];
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t key = key0 + 2 * i;
      const uint16_t* row = values + least(key, p.nk - 1) * p.v_stride[2] + d;
      const uint16_t* next = values + least(key + 1, p.nk - 1) * p.v_stride[2] + d;
      const uint16v low = __builtin_convertvector(*reinterpret_cast<const ushort16u*>(row), uint16v);
      const uint16v high = __builtin_convertvector(*reinterpret_cast<const ushort16u*>(next), uint16v);
      x[i] = (key < p.nk ? low : uint16v(0u)) | (key + 1 < p.nk ? high << 16 : uint16v(0u));
    }
    transpose16(x);
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) store_words(to + 16 * i, x[i]);
  }
}

// A block of queries, and what it has gathered of the keys so far: the largest score (of base 2) and the sum of
// exponentials of each query, the sums of values.
struct AmxBlock {
  uint32_t* queries;     // [dim / 32][kAmxVectors] tiles: columns are queries, rows pairs of their elements
  float *sums, *scores;  // [value_dim][Q], [kAmxKeys][Q]
  uint32_t* weights;     // [kAmxKeys / 2][Q] pairs of exponentials
  uint16_t* last_keys;   // [kAmxTile][dim]: those of a tile that goes past the end
  float16v top[kAmxVectors], total[kAmxVectors];
};

XPU_INLINE AmxBlock amx_block(const AttentionAmxArgs& p, size_t group) {
  AmxBlock b;
  unsigned char* at = p.scratch + group * p.slot;
  b.scores = reinterpret_cast<float*>(at);
  b.weights = reinterpret_cast<uint32_t*>(at + kAmxKeys * kColumnBytes);
  b.sums = reinterpret_cast<float*>(at + (kAmxKeys + kAmxKeys / 2) * kColumnBytes);
  b.queries = reinterpret_cast<uint32_t*>(b.sums + size_t{p.value_dim} * kAmxQueries);
  b.last_keys = reinterpret_cast<uint16_t*>(b.queries + size_t{p.dim} / 2 * kAmxQueries);
  return b;
}

XPU_INLINE void amx_start(const AttentionAmxArgs& p, AmxBlock& b, const uint16_t* q, uint32_t query0) {
  uint32_t* to = b.queries;
  for (uint32_t d = 0; d < p.dim; d += kTilePairs)
    for (uint32_t c = 0; c < kAmxVectors; ++c, to += kTileWords) {
      uint16v x[16];
#pragma unroll
      for (uint32_t i = 0; i < 16; ++i) x[i] = load_words(q + least(query0 + c * 16 + i, p.nq - 1) * p.q_stride[2] + d);
      transpose16(x);
#pragma unroll
      for (uint32_t i = 0; i < 16; ++i) store_words(to + 16 * i, x[i]);
    }
#pragma unroll
  for (uint32_t c = 0; c < kAmxVectors; ++c) b.top[c] = -__builtin_inff(), b.total[c] = 0.0f;
}

// Products of the block's queries with `count` keys, a multiple of 32; those past the last key repeat it.
template <class Tiles>
XPU_INLINE void amx_scores(const AttentionAmxArgs& p, AmxBlock& b, Tiles& tiles, const uint16_t* keys, uint32_t key0,
                           uint32_t count) {
  for (uint32_t k = 0; k < count; k += kAmxTile) {
    const uint16_t* rows = keys + (key0 + k) * p.k_stride[2];
    size_t step = static_cast<size_t>(p.k_stride[2]) * 2;
    if (key0 + k + kAmxTile > p.nk) {
      for (uint32_t i = 0; i < kAmxTile; ++i) {
        const uint16_t* row = keys + least(key0 + k + i, p.nk - 1) * p.k_stride[2];
        for (uint32_t d = 0; d < p.dim; d += kTilePairs) store_words(b.last_keys + i * p.dim + d, load_words(row + d));
      }
      rows = b.last_keys;
      step = size_t{p.dim} * 2;
    }
    tiles.clear();
    const uint32_t* columns = b.queries;
    for (uint32_t d = 0; d < p.dim; d += kTilePairs, columns += kAmxVectors * kTileWords) {
      tiles.multiply(rows + d, step, columns, kTileBytes, kTileRows * kTileBytes);
    }
    tiles.store(b.scores + k * kAmxQueries, kColumnBytes);
  }
}

// Masks of 16 keys for 16 queries, key by key: what is added to the scores. Past the last key they are anything.
template <Mask kMask>
XPU_INLINE void amx_mask(const AttentionAmxArgs& p, uint32_t batch, uint32_t head, uint32_t query0, uint32_t key,
                         float16v (&x)[16]) {
  constexpr float none = -__builtin_inff();
  const char* mask = static_cast<const char*>(p.mask) +
                     (batch * p.mask_stride[0] + head * p.mask_stride[1]) * (kMask == Mask::boolean ? 1 : 4);
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i) {
    const int64_t at = least(query0 + i, p.nq - 1) * p.mask_stride[2] + key;
    if constexpr (kMask == Mask::boolean) {
      const uint8_t* seen = reinterpret_cast<const uint8_t*>(mask) + at;
      uint16v bits = 0u;
      if (key + 16 <= p.nk) {
        using Bytes __attribute__((ext_vector_type(16), aligned(1))) = uint8_t;
        bits = __builtin_convertvector(*reinterpret_cast<const Bytes*>(seen), uint16v);
      } else {
        for (uint32_t j = 0; key + j < p.nk; ++j) bits[j] = seen[j];
      }
      x[i] = bits != 0u ? float16v(0.0f) : float16v(none);
    } else {
      const float* bias = reinterpret_cast<const float*>(mask) + at;
      x[i] = 0.0f;
      if (key + 16 <= p.nk)
        x[i] = load16(bias);
      else
        for (uint32_t j = 0; key + j < p.nk; ++j) x[i][j] = bias[j];
    }
  }
  transpose16(x);
}

// Products become scores where a query may not look everywhere: scaled, mask added, -inf where it may not.
template <Mask kMask>
XPU_INLINE void amx_hide(const AttentionAmxArgs& p, AmxBlock& b, uint32_t batch, uint32_t head, uint32_t query0,
                         uint32_t key0, uint32_t count) {
  for (uint32_t c = 0; c < kAmxVectors; ++c)
    for (uint32_t k = 0; k < count; k += 16) {
      float16v bias[16];
      if constexpr (kMask != Mask::none) amx_mask<kMask>(p, batch, head, query0 + c * 16, key0 + k, bias);
      const uint16v query = kCount16 + (query0 + c * 16);
#pragma unroll
      for (uint32_t i = 0; i < 16; ++i) {
        float* at = b.scores + (k + i) * kAmxQueries + c * 16;
        const uint32_t key = key0 + k + i;
        float16v s = load16(at) * p.scale;
        if constexpr (kMask != Mask::none) s += bias[i];
        if (p.causal) s = query < key ? float16v(-__builtin_inff()) : s;
        store16(at, key < p.nk ? s : float16v(-__builtin_inff()));
      }
    }
}

// Scores become pairs of weights: powers of two of them times `scale`. Returns whether a maximum has grown, and by
// which factor earlier sums shrink then.
template <class Tiles>
XPU_INLINE bool amx_weights(AmxBlock& b, uint32_t count, float scale, float16v (&shrink)[kAmxVectors]) {
  constexpr uint32_t C = kAmxVectors;
  float16v even[C], odd[C], base[C], part[C];
#pragma unroll
  for (uint32_t c = 0; c < C; ++c) even[c] = b.top[c], odd[c] = b.top[c], part[c] = 0.0f;
  for (uint32_t k = 0; k < count; k += 2)
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) {
      const float* at = b.scores + k * kAmxQueries + c * 16;
      const float16v s = load16(at) * scale, t = load16(at + kAmxQueries) * scale;
      even[c] = s > even[c] ? s : even[c];
      odd[c] = t > odd[c] ? t : odd[c];
    }
#pragma unroll
  for (uint32_t c = 0; c < C; ++c) {
    const float16v m = even[c] > odd[c] ? even[c] : odd[c];
    base[c] = m == -__builtin_inff() ? float16v(0.0f) : m;
    shrink[c] = Tiles::exp2(b.top[c] - base[c]);
    b.top[c] = m;
  }
  for (uint32_t k = 0; k < count; k += 2)
#pragma unroll
    for (uint32_t c = 0; c < C; ++c) {
      const float* at = b.scores + k * kAmxQueries + c * 16;
      const float16v e = Tiles::exp2(load16(at) * scale - base[c]);
      const float16v f = Tiles::exp2(load16(at + kAmxQueries) * scale - base[c]);
      part[c] += e + f;
      store_words(b.weights + k / 2 * kAmxQueries + c * 16, Tiles::pairs(e, f));
    }
  float16v kept = 1.0f;
#pragma unroll
  for (uint32_t c = 0; c < C; ++c) {
    b.total[c] = b.total[c] * shrink[c] + part[c];
    kept = shrink[c] < kept ? shrink[c] : kept;
  }
  return sum16(kept) < 16.0f;
}

// Adds the values of a block of keys, or begins with them.
template <class Tiles>
XPU_INLINE void amx_add_values(const AttentionAmxArgs& p, AmxBlock& b, Tiles& tiles, const uint32_t* values,
                               uint32_t count, bool first) {
  const uint32_t columns = p.value_dim / 16;
  for (uint32_t d = 0; d < columns; d += 2) {
    float* sums = b.sums + size_t{d} * 16 * kAmxQueries;
    if (first)
      tiles.clear();
    else
      tiles.load(sums, kColumnBytes);
    for (uint32_t k = 0; k < count; k += kAmxTile) {
      const uint32_t* rows = values + (size_t{k} / kAmxTile * columns + d) * kTileWords;
      tiles.multiply(rows, kTileBytes, b.weights + k / 2 * kAmxQueries, kColumnBytes, kTileBytes);
    }
    tiles.store(sums, kColumnBytes);
  }
}

// Results of the block, and the logarithm of each query's sum.
XPU_INLINE void amx_finish(const AttentionAmxArgs& p, const AmxBlock& b, uint32_t batch, uint32_t head,
                           uint32_t query0) {
  bf16* out = static_cast<bf16*>(p.out) + batch * p.out_stride[0] + head * p.out_stride[1];
  float* lines = p.logsumexp + (size_t{batch} * p.heads + head) * p.nq;
  for (uint32_t c = 0; c < kAmxVectors; ++c) {
    const float16v total = b.total[c];
    const float16v factor = total == 0.0f ? float16v(0.0f) : 1.0f / total;
    const uint32_t first = query0 + c * 16, count = first < p.nq ? least(p.nq - first, 16) : 0;
    for (uint32_t d = 0; d < p.value_dim; d += 16) {
      float16v x[16];
#pragma unroll
      for (uint32_t i = 0; i < 16; ++i) x[i] = load16(b.sums + (d + i) * kAmxQueries + c * 16) * factor;
      transpose16(x);
#pragma unroll
      for (uint32_t i = 0; i < 16; ++i)
        if (i < count) store16(out + (first + i) * p.out_stride[2] + d, x[i]);
    }
    for (uint32_t i = 0; i < count; ++i)
      lines[first + i] = total[i] == 0.0f ? -__builtin_inff() : b.top[c][i] / kLog2E + sycl::log(total[i]);
  }
}

template <class T, Mask kMask, class Tiles> XPU_INLINE void attention_amx(const AttentionAmxArgs& p) {
  Tiles tiles;
  AmxBlock b = amx_block(p, syclex::this_work_item::get_nd_item<1>().get_group(0));
  const RowRange mine = group_rows(p.total);
  for (uint32_t t = mine.begin; t < mine.end; ++t) {
    const uint32_t plane = t / p.blocks, query0 = (t - plane * p.blocks) * kAmxQueries;
    const uint32_t batch = plane / p.heads, head = plane - batch * p.heads, kv_head = head / p.head_step;
    const uint16_t* keys = matrix_of<uint16_t>(p.k, p.k_stride, batch, kv_head);
    const uint32_t* values =
        p.values + (size_t{batch} * (p.heads / p.head_step) + kv_head) * p.key_tiles * (p.value_dim / 16) * kTileWords;
    amx_start(p, b, matrix_of<uint16_t>(p.q, p.q_stride, batch, head), query0);
    const uint32_t last = p.causal ? least(p.nk, query0 + kAmxQueries) : p.nk;
    for (uint32_t key0 = 0; key0 < last; key0 += kAmxKeys) {
      const uint32_t count = (least(last - key0, kAmxKeys) + kAmxTile - 1) / kAmxTile * kAmxTile;
      amx_scores(p, b, tiles, keys, key0, count);
      const bool hide = kMask != Mask::none || key0 + count > p.nk || (p.causal && key0 + count > query0 + 1);
      if (hide) amx_hide<kMask>(p, b, batch, head, query0, key0, count);
      float16v shrink[kAmxVectors];
      if (amx_weights<Tiles>(b, count, hide ? kLog2E : p.scale * kLog2E, shrink) && key0 > 0)
        for (uint32_t d = 0; d < p.value_dim; ++d)
#pragma unroll
          for (uint32_t c = 0; c < kAmxVectors; ++c) {
            float* at = b.sums + d * kAmxQueries + c * 16;
            store16(at, load16(at) * shrink[c]);
          }
      amx_add_values(p, b, tiles, values + size_t{key0} / kAmxTile * (p.value_dim / 16) * kTileWords, count, key0 == 0);
    }
    amx_finish(p, b, batch, head, query0);
  }
}

}  // namespace xpu
