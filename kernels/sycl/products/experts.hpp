// Layers of experts: the best experts of a token, their tokens in order, rows moved there, and weighted sums of rows.
#pragma once
#include "kernels/sycl/core/lane_row.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/math/activation.hpp"
#include "kernels/sycl/products/experts_args.hpp"

namespace xpu {

using xpu_ops::AlignArgs;
using xpu_ops::ChooseArgs;
using xpu_ops::kMostChosen;
using xpu_ops::kMostExperts;
using xpu_ops::PairArgs;
using xpu_ops::SpreadArgs;
using xpu_ops::SumArgs;
using xpu_ops::ops::Numbers;
using xpu_ops::ops::Scoring;

XPU_INLINE int64_t number(const Numbers& n, size_t i) {
  return n.bytes == 8 ? static_cast<const int64_t*>(n.data)[i] : static_cast<const int32_t*>(n.data)[i];
}
XPU_INLINE void put_number(const Numbers& n, size_t i, int64_t v) {
  if (n.bytes == 8)
    static_cast<int64_t*>(n.data)[i] = v;
  else
    static_cast<int32_t*>(n.data)[i] = static_cast<int32_t>(v);
}
// The place of an expert here; below 0: none.
XPU_INLINE int64_t mapped(const int32_t* map, uint32_t size, int64_t id) {
  if (!map || id < 0) return id;
  return size == 0 ? -1 : map[id < size ? id : size - 1];
}

// ---- the best experts

template <class T> XPU_INLINE float16v rounded16(float16v v) {
  if constexpr (__is_same(T, half))
    return __builtin_convertvector(__builtin_convertvector(v, half16v), float16v);
  else
    return stored16<T>(v);
}
// Numbers in the order of floats, above 0. NaN is the largest; both zeros are one.
XPU_INLINE uint16v order16(float16v v) {
  const uint16v u = __builtin_bit_cast(uint16v, v == 0.0f ? float16v(0.0f) : v);
  const uint16v turned = (u >> 31) != 0u ? ~u : u | 0x80000000u;
  return v != v ? uint16v(0xffffffffu) : turned;
}
XPU_INLINE uint32_t order_of(float v) {
  const uint32_t u = sycl::bit_cast<uint32_t>(v == 0.0f ? 0.0f : v);
  return v != v ? 0xffffffffu : u >> 31 ? ~u : u | 0x80000000u;
}
XPU_INLINE float16v sigmoid16(float16v v) {
  const float16v e = fast_exp_of<float16v, uint16v>(v < -88.0f ? float16v(88.0f) : -v);
  return v < -88.0f ? float16v(0.0f) : 1.0f / (1.0f + e);
}
XPU_INLINE uint16v load_uint16(const uint32_t* x) { return load_row<uint16v>(x); }
XPU_INLINE uint32_t max_of(uint16v v) {
  const auto step = [](uint16v a, uint16v b) __attribute__((always_inline)) { return b > a ? b : a; };
  v = step(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = step(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = step(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  v = step(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return v[0];
}

// A token's experts as its item knows them, up to whole vectors; behind the last one keys are 0.
struct TokenScores {
  float score[kMostExperts], biased[kMostExperts];
  uint32_t key[kMostExperts], group[kMostExperts];  // group: keys of groups
};

// The first place of the largest key, whose key becomes 0.
XPU_INLINE uint32_t take_best(uint32_t* key, uint32_t vectors) {
  uint16v best = load_uint16(key), at = kCount16;
  for (uint32_t i = 1; i < vectors; ++i) {
    const uint16v k = load_uint16(key + 16 * i);
    at = k > best ? kCount16 + 16 * i : at;
    best = k > best ? k : best;
  }
  const uint32_t top = max_of(best);
  // The least place of those that hold it: the largest of the places turned round.
  const uint32_t place = ~max_of(best == top ? ~at : uint16v(0u));
  key[place] = 0;
  return place;
}

template <class T> XPU_INLINE void score_token(const ChooseArgs& p, const T* x, TokenScores& s) {
  const uint32_t n = p.experts, vectors = (n + 15) / 16;
  const float lowest = -__builtin_inff();
  float16v top = lowest;
  for (uint32_t i = 0; i < vectors; ++i) {
    float16v v = lowest;
    if (16 * i + 16 <= n)
      v = load16(x + 16 * i);
    else
      for (uint32_t j = 16 * i; j < n; ++j) v[j - 16 * i] = static_cast<float>(x[j]);
    top = larger(top, v);
    store16(s.score + 16 * i, v);
  }
  if (p.scoring == Scoring::softmax) {
    top = larger(top, other_lanes<8>(top));
    top = larger(top, other_lanes<4>(top));
    top = larger(top, other_lanes<2>(top));
    top = larger(top, other_lanes<1>(top));
    float16v sum = 0.0f;
    for (uint32_t i = 0; i < vectors; ++i) {
      float16v e = fast_exp_of<float16v, uint16v>(load16(s.score + 16 * i) - top);
      e = kCount16 + 16 * i < n ? e : float16v(0.0f);
      sum += e;
      store16(s.score + 16 * i, e);
    }
    const float scale = 1.0f / sum16(sum);
    for (uint32_t i = 0; i < vectors; ++i) store16(s.score + 16 * i, load16(s.score + 16 * i) * scale);
  } else if (p.scoring == Scoring::sigmoid) {
    for (uint32_t i = 0; i < vectors; ++i) store16(s.score + 16 * i, rounded16<T>(sigmoid16(load16(s.score + 16 * i))));
  } else if (p.scoring == Scoring::softplus_sqrt) {
    for (uint32_t i = 0; i < n; ++i) s.score[i] = sycl::sqrt(softplus(s.score[i], 1.0f, 20.0f));
  }
  for (uint32_t i = 0; i < vectors; ++i) {
    float16v v = load16(s.score + 16 * i);
    if (p.bias) {
      float16v b = 0.0f;
      if (16 * i + 16 <= n)
        b = load16(p.bias + 16 * i);
      else
        for (uint32_t j = 16 * i; j < n; ++j) b[j - 16 * i] = p.bias[j];
      v = p.grouped ? rounded16<T>(v + rounded16<T>(b)) : v + b;
    }
    store16(s.biased + 16 * i, v);
    const uint16v key = order16(v);
    store_row(s.key + 16 * i, kCount16 + 16 * i < n ? key : uint16v(0u));
  }
}

// Only the best groups keep their experts. Returns whether that many have any.
template <class T> XPU_INLINE bool keep_groups(const ChooseArgs& p, TokenScores& s) {
  const uint32_t size = p.experts / p.groups, vectors = (p.groups + 15) / 16;
  for (uint32_t g = 0; g < 16 * vectors; ++g) {
    uint32_t first = 0, second = 0;  // the two largest keys
    float top = 0.0f, next = 0.0f;
    for (uint32_t i = g * size; g < p.groups && i < (g + 1) * size; ++i) {
      const uint32_t k = s.key[i];
      const bool above = k > first, between = !above && k > second;
      second = above ? first : between ? k : second;
      next = above ? top : between ? s.biased[i] : next;
      first = above ? k : first;
      top = above ? s.biased[i] : top;
    }
    const float sum = size > 1 ? top + next : top;
    s.group[g] = g < p.groups ? order_of(static_cast<float>(static_cast<T>(sum))) : 0u;
  }
  bool there = true;
  for (uint32_t k = 0; k < p.kept; ++k) {
    uint32_t best = 0, at = 0;
    for (uint32_t g = 0; g < p.groups; ++g) {
      const bool above = s.group[g] > best;
      best = above ? s.group[g] : best;
      at = above ? g : at;
    }
    there = best != 0x007fffffu;  // -infinity
    s.group[at] = 0;
  }
  for (uint32_t g = 0; g < p.groups; ++g)
    for (uint32_t i = g * size; s.group[g] && i < (g + 1) * size; ++i) s.key[i] = 0x007fffffu;
  return there;
}

// Items take tokens.
template <class T> void choose_experts(const ChooseArgs& p) {
  TokenScores s;
  const uint32_t first = group_id() * p.each, end = least(p.tokens, first + p.each);
  for (uint32_t t = first; t < end; ++t) {
    const size_t at = size_t{t} * p.count;
    score_token<T>(p, static_cast<const T*>(p.scores) + t * p.score_row, s);
    const bool there = !p.grouped || keep_groups<T>(p, s), padding = p.padding && p.padding[t];
    float sum = 0.0f;
    for (uint32_t k = 0; k < p.count; ++k) {
      const uint32_t expert = there ? take_best(s.key, (p.experts + 15) / 16) : k;
      const float w = s.score[expert];
      sum += w;
      p.weights[at + k] = w;
      put_number(p.ids, at + k, padding ? -1 : static_cast<int64_t>(expert));
      if (p.sources.data) put_number(p.sources, at + k, int64_t{k} * p.tokens + t);
    }
    const float total = p.grouped ? sum + 1e-20f : sum > 0.0f || sum != sum ? sum : 1.0f;
    const float scale = p.renormalize ? p.factor / total : p.factor;
    for (uint32_t k = 0; k < p.count; ++k) {
      const float w = there ? p.weights[at + k] * scale : 1.0f / static_cast<float>(p.count);
      p.weights[at + k] = padding ? 0.0f : w;
    }
  }
}

// ---- how tokens lie

XPU_INLINE void fill(int32_t* x, uint32_t n, int32_t v) {
  using V = lane_row<int32_t, 16>;
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) store_row(x + i, V(v));
  for (; i < n; ++i) x[i] = v;
}

// One item: choices by expert, each expert's padded to whole blocks.
inline void align_experts(const AlignArgs& p) {
  uint32_t next[kMostExperts];
  fill(reinterpret_cast<int32_t*>(next), p.experts, 0);
  const auto expert_of = [&](uint32_t i) __attribute__((always_inline)) {
    const int64_t id = number(p.ids, i);
    return id >= 0 && id < p.experts && mapped(p.map, p.mapped, id) >= 0 ? id : int64_t{-1};
  };
  for (uint32_t i = 0; i < p.choices; ++i) {
    const int64_t e = expert_of(i);
    if (e >= 0) ++next[e];
  }
  uint32_t begin = 0;
  for (uint32_t e = 0; e < p.experts; ++e) {
    const uint32_t blocks = (next[e] + p.block - 1) / p.block, name = begin / p.block;
    next[e] = begin;
    const int32_t own = p.map ? static_cast<int32_t>(mapped(p.map, p.mapped, e)) : static_cast<int32_t>(e);
    for (uint32_t b = name; b < name + blocks && b < p.blocks; ++b) p.expert_ids[b] = own;
    begin += blocks * p.block;
  }
  for (uint32_t b = begin / p.block; b < p.blocks; ++b) p.expert_ids[b] = p.empty;
  *p.total = static_cast<int32_t>(begin);
  fill(p.sorted, p.places, static_cast<int32_t>(p.choices));
  for (uint32_t i = 0; i < p.choices; ++i) {
    const int64_t e = expert_of(i);
    if (e < 0) continue;
    const uint32_t place = next[e]++;
    if (place < p.places) p.sorted[place] = static_cast<int32_t>(i);
  }
}

template <class T> XPU_INLINE void copy_span(T* dst, const T* src, uint32_t size) {
  constexpr uint32_t N = 16;
  using V = lane_row<T, N>;
  uint32_t c = 0;
  for (; c + N <= size; c += N) store_row(dst + c, load_row<V>(src + c));
  for (; c < size; ++c) dst[c] = src[c];
}
template <class T>
XPU_INLINE void move_part(const xpu_ops::ops::SpreadPart& part, size_t token, size_t place, bool alone, size_t lane,
                          size_t lanes) {
  const T* src = static_cast<const T*>(part.src) + static_cast<int64_t>(token) * part.src_row;
  T* dst = static_cast<T*>(part.dst) + static_cast<int64_t>(place) * part.dst_row;
  if (alone)
    copy_span(dst, src, part.size);
  else
    for_columns(0, part.size, lane, lanes, [&](size_t c) { dst[c] = src[c]; });
}
XPU_INLINE void move_row(const xpu_ops::ops::SpreadPart& part, size_t token, size_t place, bool alone, size_t lane = 0,
                         size_t lanes = 1) {
  if (part.bytes == 1)
    move_part<uint8_t>(part, token, place, alone, lane, lanes);
  else if (part.bytes == 2)
    move_part<uint16_t>(part, token, place, alone, lane, lanes);
  else if (part.bytes == 4)
    move_part<uint32_t>(part, token, place, alone, lane, lanes);
  else
    move_part<uint64_t>(part, token, place, alone, lane, lanes);
}

// One item: the place of each choice by expert, and how many an expert has.
inline void rank_experts(const SpreadArgs& p) {
  uint32_t next[kMostExperts];
  fill(reinterpret_cast<int32_t*>(next), p.experts, 0);
  const uint32_t choices = p.tokens * p.count;
  const auto expert_of = [&](uint32_t i) __attribute__((always_inline)) {
    const int64_t e = mapped(p.map, p.mapped, number(p.ids, i));
    return e < p.experts ? e : int64_t{-1};
  };
  for (uint32_t i = 0; i < choices; ++i) {
    const int64_t e = expert_of(i);
    if (e >= 0) ++next[e];
  }
  uint32_t begin = 0;
  for (uint32_t e = 0; e < p.experts; ++e) {
    const uint32_t count = next[e];
    p.counts[e] = static_cast<int32_t>(count);
    next[e] = begin;
    begin += count;
  }
  uint32_t i = 0;
  for (uint32_t t = 0; t < p.tokens; ++t)
    for (uint32_t k = 0; k < p.count; ++k, ++i) {
      const int64_t e = expert_of(i);
      const int32_t place = e < 0 ? -1 : static_cast<int32_t>(next[e]++);
      p.places[i] = place;
      if (!p.at_once || place < 0) continue;
      move_row(p.part[0], t, place, true);
      move_row(p.part[1], t, place, true);
    }
}

// 2-D: a work-group moves one part of one choice.
template <bool kAlone> XPU_INLINE void spread_part(const SpreadArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const uint32_t choice = static_cast<uint32_t>(it.get_group(0));
  const int32_t place = p.places[choice];
  if (place < 0) return;
  if (it.get_group(1) == 0)
    move_row(p.part[0], choice / p.count, place, kAlone, it.get_local_id(1), it.get_local_range(1));
  else
    move_row(p.part[1], choice / p.count, place, kAlone, it.get_local_id(1), it.get_local_range(1));
}
inline void spread_rows(const SpreadArgs& p) { spread_part<false>(p); }
inline void spread_spans(const SpreadArgs& p) { spread_part<true>(p); }

// ---- the sum

// The row of a choice, or below 0.
XPU_INLINE int64_t summand(const SumArgs& p, size_t choice) {
  if (p.ids.data && mapped(p.map, p.mapped, number(p.ids, choice)) < 0) return -1;
  return p.places ? p.places[choice] : static_cast<int64_t>(choice);
}

// 2-D: items side by side take the columns of one token.
template <class T> void sum_rows(const SumArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t first = it.get_group(0) * size_t{p.count};
  const size_t c0 = it.get_group(1) * size_t{p.chunk}, c1 = c0 + p.chunk < p.columns ? c0 + p.chunk : p.columns;
  T* out = static_cast<T*>(p.out) + static_cast<int64_t>(it.get_group(0)) * p.dst_row;
  for_columns(c0, c1, it.get_local_id(1), it.get_local_range(1), [&](size_t c) {
    float sum = 0.0f;
    for (uint32_t k = 0; k < p.count; ++k) {
      const int64_t row = summand(p, first + k);
      if (row < 0) continue;
      const float v = static_cast<float>((static_cast<const T*>(p.rows) + row * p.src_row)[c]);
      sum += p.weights ? v * p.weights[first + k] : v;
    }
    out[c] = static_cast<T>(sum);
  });
}

// For a CPU device: work-groups of one item.
template <class T> void sum_spans(const SumArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t first = it.get_group(0) * size_t{p.count};
  const size_t c0 = it.get_group(1) * size_t{p.chunk}, c1 = c0 + p.chunk < p.columns ? c0 + p.chunk : p.columns;
  T* out = static_cast<T*>(p.out) + static_cast<int64_t>(it.get_group(0)) * p.dst_row;
  const T* rows[kMostChosen];
  float weights[kMostChosen];
  uint32_t count = 0;
  for (uint32_t k = 0; k < p.count; ++k) {
    const int64_t row = summand(p, first + k);
    if (row < 0) continue;
    rows[count] = static_cast<const T*>(p.rows) + row * p.src_row;
    weights[count++] = p.weights ? p.weights[first + k] : 1.0f;
  }
  size_t c = c0;
  for (; c + 64 <= c1; c += 64) {
    float16v sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (uint32_t k = 0; k < count; ++k)
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) sum[j] += load16(rows[k] + c + 16 * j) * weights[k];
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) store16(out + c + 16 * j, sum[j]);
  }
  for (; c + 16 <= c1; c += 16) {
    float16v sum = 0.0f;
    for (uint32_t k = 0; k < count; ++k) sum += load16(rows[k] + c) * weights[k];
    store16(out + c, sum);
  }
  for (; c < c1; ++c) {
    float sum = 0.0f;
    for (uint32_t k = 0; k < count; ++k) sum += static_cast<float>(rows[k][c]) * weights[k];
    out[c] = static_cast<T>(sum);
  }
}

// ---- gates beside what they multiply

template <class T> XPU_INLINE void load_pairs(const T* x, float16v& even, float16v& odd) {
  if constexpr (__is_same(T, float)) {
    const float16v a = load16(x), b = load16(x + 16);
    even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  } else {
    const uint16v u = load_uint16(reinterpret_cast<const uint32_t*>(x));
    if constexpr (__is_same(T, bf16)) {
      even = __builtin_bit_cast(float16v, u << 16);
      odd = __builtin_bit_cast(float16v, u & 0xffff0000u);
    } else {
      const ushort16v low = __builtin_convertvector(u & 0xffffu, ushort16v),
                      high = __builtin_convertvector(u >> 16, ushort16v);
      even = __builtin_convertvector(__builtin_bit_cast(half16v, low), float16v);
      odd = __builtin_convertvector(__builtin_bit_cast(half16v, high), float16v);
    }
  }
}
XPU_INLINE float swiglu(float gate, float up, float alpha, float limit) {
  gate = gate > limit ? limit : gate;
  up = up > limit ? limit : up < -limit ? -limit : up;
  return sigmoid(gate * alpha) * gate * (up + 1.0f);
}

// 2-D: items side by side take the columns of a row.
template <class T> void pair_items(const PairArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t c0 = it.get_group(1) * size_t{p.chunk}, c1 = c0 + p.chunk < p.columns ? c0 + p.chunk : p.columns;
  const T* x = static_cast<const T*>(p.x) + static_cast<int64_t>(it.get_group(0)) * p.x_row;
  T* out = static_cast<T*>(p.out) + static_cast<int64_t>(it.get_group(0)) * p.out_row;
  for_columns(c0, c1, it.get_local_id(1), it.get_local_range(1), [&](size_t c) {
    out[c] = static_cast<T>(swiglu(static_cast<float>(x[2 * c]), static_cast<float>(x[2 * c + 1]), p.alpha, p.limit));
  });
}
// For a CPU device: work-groups of one item.
template <class T> void pair_spans(const PairArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t c0 = it.get_group(1) * size_t{p.chunk}, c1 = c0 + p.chunk < p.columns ? c0 + p.chunk : p.columns;
  const T* x = static_cast<const T*>(p.x) + static_cast<int64_t>(it.get_group(0)) * p.x_row;
  T* out = static_cast<T*>(p.out) + static_cast<int64_t>(it.get_group(0)) * p.out_row;
  size_t c = c0;
  for (; c + 16 <= c1; c += 16) {
    float16v gate, up;
    load_pairs(x + 2 * c, gate, up);
    gate = gate > p.limit ? float16v(p.limit) : gate;
    up = up > p.limit ? float16v(p.limit) : up < -p.limit ? float16v(-p.limit) : up;
    store16(out + c, sigmoid16(gate * p.alpha) * gate * (up + 1.0f));
  }
  for (; c < c1; ++c)
    out[c] = static_cast<T>(swiglu(static_cast<float>(x[2 * c]), static_cast<float>(x[2 * c + 1]), p.alpha, p.limit));
}

}  // namespace xpu
