// Attention of one query per sequence over keys and values in pages, in one pass over them (Milakov and Gimelshein
// 2018).
#pragma once
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/lane_row.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/products/varlen_args.hpp"

namespace xpu {

using xpu_ops::kMostPagedDim;
using xpu_ops::PagedArgs;
using xpu_ops::PlaceArgs;

constexpr uint32_t kPagedKeys = 64;  // that are scored before their values are read

// Scores of `count` keys, `step` elements apart; behind them, up to a multiple of 16, is -infinity.
template <class T, uint32_t H>
XPU_INLINE void paged_scores(const float* q, const T* k, int64_t step, uint32_t count, uint32_t dim, float* scores) {
  for (uint32_t c = 0; c < count; c += 4) {
    const T* row[4];
    float16v a[H][4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) row[i] = k + (c + i < count ? c + i : count - 1) * step;
#pragma unroll
    for (uint32_t h = 0; h < H; ++h)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) a[h][i] = 0.0f;
    for (uint32_t d = 0; d < dim; d += 16) {
      float16v x[4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) x[i] = load16(row[i] + d);
#pragma unroll
      for (uint32_t h = 0; h < H; ++h) {
        const float16v v = load16(q + h * kMostPagedDim + d);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) a[h][i] += v * x[i];
      }
    }
#pragma unroll
    for (uint32_t h = 0; h < H; ++h)
      *reinterpret_cast<float4u*>(scores + h * kPagedKeys + c) = sum16(a[h][0], a[h][1], a[h][2], a[h][3]);
  }
  for (uint32_t c = count; c % 16 != 0; ++c)
#pragma unroll
    for (uint32_t h = 0; h < H; ++h) scores[h * kPagedKeys + c] = -__builtin_inff();
}

// Sums of J vectors of values, each row times its weight, added to `sums`.
template <class T, uint32_t H, uint32_t J>
XPU_INLINE void paged_mix(const float* weights, const T* v, int64_t step, uint32_t count, float* sums) {
  float16v a[H][J];
#pragma unroll
  for (uint32_t h = 0; h < H; ++h)
#pragma unroll
    for (uint32_t j = 0; j < J; ++j) a[h][j] = load16(sums + h * kMostPagedDim + j * 16);
  for (uint32_t c = 0; c < count; ++c, v += step) {
    float16v x[J];
#pragma unroll
    for (uint32_t j = 0; j < J; ++j) x[j] = load16(v + j * 16);
#pragma unroll
    for (uint32_t h = 0; h < H; ++h) {
      const float w = weights[h * kPagedKeys + c];
#pragma unroll
      for (uint32_t j = 0; j < J; ++j) a[h][j] += w * x[j];
    }
  }
#pragma unroll
  for (uint32_t h = 0; h < H; ++h)
#pragma unroll
    for (uint32_t j = 0; j < J; ++j) store16(sums + h * kMostPagedDim + j * 16, a[h][j]);
}

// The largest score and the sum of exponentials so far; scores become exponentials. What the sums so far shrink by.
XPU_INLINE float paged_weights(float* scores, uint32_t count, float& top, float& sum) {
  float16v most = -__builtin_inff();
  for (uint32_t c = 0; c < count; c += 16) {
    const float16v s = load16(scores + c);
    most = s > most ? s : most;
  }
  const float m = max16(most, most, most, most)[0], now = m > top ? m : top;
  const float base = now == -__builtin_inff() ? 0.0f : now, shrink = fast_exp(top - base);
  float16v total = 0.0f;
  for (uint32_t c = 0; c < count; c += 16) {
    const float16v e = fast_exp_of<float16v, uint16v>(load16(scores + c) - base);
    store16(scores + c, e);
    total += e;
  }
  top = now;
  sum = sum * shrink + sum16(total);
  return shrink;
}

template <class T, uint32_t H> XPU_INLINE void paged_heads(const PagedArgs& p, uint32_t sequence, uint32_t head) {
  const int32_t query = p.begins[sequence], queries = p.begins[sequence + 1] - query;
  const int64_t keys = p.lengths[sequence];
  if (queries == 0) return;
  if (query < 0 || queries != 1 || static_cast<uint32_t>(query) >= p.queries || keys < 0 ||
      keys > int64_t{p.columns} * p.page) {
    report_error(p.error, DeviceErrorCode::assertion, 0, p.message, 0);
    return;
  }
  const int32_t* table = p.table + sequence * p.table_stride;
  const int64_t kv_head = head / p.group;
  const T* q = static_cast<const T*>(p.q) + (query * p.q_stride[0] + head * p.q_stride[1]);
  const T* k = static_cast<const T*>(p.k) + kv_head * p.k_stride[2];
  const T* v = static_cast<const T*>(p.v) + kv_head * p.v_stride[2];
  T* out = static_cast<T*>(p.out) + (query * p.out_stride[0] + head * p.out_stride[1]);
  float scaled[H * kMostPagedDim], sums[H * kMostPagedDim], scores[H * kPagedKeys], top[H], sum[H];
#pragma unroll
  for (uint32_t h = 0; h < H; ++h) {
    for (uint32_t d = 0; d < p.dim; d += 16) {
      store16(scaled + h * kMostPagedDim + d, load16(q + h * p.q_stride[1] + d) * p.scale);
      store16(sums + h * kMostPagedDim + d, float16v(0.0f));
    }
    top[h] = -__builtin_inff();
    sum[h] = 0;
  }
  int64_t at = p.left < 0 || keys - 1 - p.left < 0 ? 0 : keys - 1 - p.left;
  while (at < keys) {
    const int64_t column = at / p.page;
    const uint32_t slot = static_cast<uint32_t>(at - column * p.page);
    const int64_t id = table[column], left = keys - at;
    uint32_t count = p.page - slot < kPagedKeys ? p.page - slot : kPagedKeys;
    count = left < count ? static_cast<uint32_t>(left) : count;
    if (id < 0 || id >= p.pages) {
      report_error(p.error, DeviceErrorCode::index, 0, id, p.pages);
      return;
    }
    paged_scores<T, H>(scaled, k + (id * p.k_stride[0] + slot * p.k_stride[1]), p.k_stride[1], count, p.dim, scores);
#pragma unroll
    for (uint32_t h = 0; h < H; ++h) {
      const float shrink = paged_weights(scores + h * kPagedKeys, count, top[h], sum[h]);
      if (shrink != 1.0f)
        for (uint32_t d = h * kMostPagedDim; d < h * kMostPagedDim + p.dim; d += 16)
          store16(sums + d, load16(sums + d) * shrink);
    }
    const T* values = v + (id * p.v_stride[0] + slot * p.v_stride[1]);
    uint32_t d = 0;
    for (; d + 32 <= p.dim; d += 32) paged_mix<T, H, 2>(scores, values + d, p.v_stride[1], count, sums + d);
    if (d < p.dim) paged_mix<T, H, 1>(scores, values + d, p.v_stride[1], count, sums + d);
    at += count;
  }
#pragma unroll
  for (uint32_t h = 0; h < H; ++h) {
    const float by = keys ? 1.0f / sum[h] : 0.0f;
    for (uint32_t d = 0; d < p.dim; d += 16)
      store16(out + h * p.out_stride[1] + d, load16(sums + h * kMostPagedDim + d) * by);
    p.sums[size_t{head + h} * p.queries + query] = keys ? top[h] + sycl::log(sum[h]) : __builtin_inff();
  }
}

template <class T> void paged_attention(const PagedArgs& p) {
  const uint32_t group = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0));
  const uint32_t units = p.heads / p.share, sequence = group / units, head = (group - sequence * units) * p.share;
  if (p.share == 4)
    paged_heads<T, 4>(p, sequence, head);
  else if (p.share == 2)
    paged_heads<T, 2>(p, sequence, head);
  else
    paged_heads<T, 1>(p, sequence, head);
}

// Rows side by side, by one item in vectors; the last one overlaps the one before it.
template <class T> XPU_INLINE void place_span(T* dst, const T* src, uint32_t size) {
  constexpr uint32_t N = 16;
  using V = lane_row<T, N>;
  if (size < N) {
    for (uint32_t c = 0; c < size; ++c) dst[c] = src[c];
  } else {
    for (uint32_t c = 0; c + N <= size; c += N) store_row(dst + c, load_row<V>(src + c));
    store_row(dst + size - N, load_row<V>(src + size - N));
  }
}

// 2-D: a work-group puts the key or the value of one token into its slot.
template <class T, bool Alone> XPU_INLINE void place_token(const PlaceArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = it.get_local_id(1), lanes = it.get_local_range(1), token = it.get_group(0);
  const auto& part = p.part[it.get_group(1)];
  const int64_t slot = p.slots[token];
  if (slot < 0) return;
  const int64_t page = slot / p.page;
  if (page >= p.pages) {
    if (lane == 0) report_error(p.error, DeviceErrorCode::index, 0, slot, p.pages * p.page);
    return;
  }
  const T* src = static_cast<const T*>(part.src) + static_cast<int64_t>(token) * part.src_stride[0];
  T* dst = static_cast<T*>(part.dst) + (page * part.dst_stride[0] + (slot - page * p.page) * part.dst_stride[1]);
  const int64_t from = part.src_stride[3], to = part.dst_stride[4];
  for (uint32_t i = 0; i < part.size[0]; ++i)
    for (uint32_t j = 0; j < part.size[1]; ++j) {
      const T* s = src + (i * part.src_stride[1] + j * part.src_stride[2]);
      T* d = dst + (i * part.dst_stride[2] + j * part.dst_stride[3]);
      if (Alone && from == 1 && to == 1)
        place_span(d, s, part.size[2]);
      else
        for (size_t c = lane; c < part.size[2]; c += lanes)
          d[static_cast<int64_t>(c) * to] = s[static_cast<int64_t>(c) * from];
    }
}

template <class T> void place_rows(const PlaceArgs& p) { place_token<T, false>(p); }
// For a CPU device: work-groups of one item.
template <class T> void place_spans(const PlaceArgs& p) { place_token<T, true>(p); }

}  // namespace xpu
