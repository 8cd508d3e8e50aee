// Stable sorting of rows: rank counting for short rows, least-significant-digit radix for the others; top-k by
// threshold. NaN is the largest value, -0 equals 0, equal elements keep their order in both directions.
#pragma once
#include <limits>
#include <sycl/functional.hpp>
#include <sycl/group_algorithm.hpp>
#include <sycl/group_barrier.hpp>

#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/lanes.hpp"
#include "kernels/sycl/core/nan.hpp"
#include "kernels/sycl/cpu/scalar_loop.hpp"
#include "kernels/sycl/index/sort_args.hpp"

namespace xpu {

using xpu_ops::kScanDigits;
using xpu_ops::kTopkScan;
using xpu_ops::PickArgs;
using xpu_ops::RunArgs;
using xpu_ops::SortArgs;
using xpu_ops::TopkArgs;

// Unsigned keys in the order of the values.
template <class T> struct sort_key { using type = uint32_t; };
template <> struct sort_key<double> { using type = uint64_t; };
template <> struct sort_key<int64_t> { using type = uint64_t; };
template <> struct sort_key<uint64_t> { using type = uint64_t; };
template <class T> using sort_key_t = typename sort_key<T>::type;

template <class T> inline constexpr uint32_t kKeyBits = sizeof(T) * 8;
// Bits of one radix digit for long rows. Two-byte types and short rows take 8.
template <class T> inline constexpr uint32_t kDigitBits = sizeof(T) <= 2 ? 8 : 11;
template <class T> inline constexpr uint32_t kDigits = 1u << kDigitBits<T>;

template <class U> inline U float_key(U bits, U sign, U inf) {
  U size = bits & ~sign;
  if (size > inf) return sign | (sign - 1);  // NaN: above everything
  if (size == 0) bits = 0;                   // -0 as 0
  return bits & sign ? static_cast<U>(~bits & (sign | (sign - 1))) : static_cast<U>(bits | sign);
}

template <class T> inline constexpr uint32_t kInfinity16 = 0x7f80;
template <> inline constexpr uint32_t kInfinity16<half> = 0x7c00;

template <class T> inline sort_key_t<T> key_of(T v) {
  if constexpr (sizeof(T) == 8 && is_float_v<T>) {
    return float_key<uint64_t>(sycl::bit_cast<uint64_t>(v), uint64_t{1} << 63, uint64_t{0x7ff} << 52);
  } else if constexpr (sizeof(T) == 4 && is_float_v<T>) {
    return float_key<uint32_t>(sycl::bit_cast<uint32_t>(v), 1u << 31, 0x7f800000u);
  } else if constexpr (is_float_v<T>) {
    return float_key<uint32_t>(sycl::bit_cast<uint16_t>(v), 0x8000u, kInfinity16<T>);
  } else if constexpr (std::numeric_limits<T>::is_signed) {
    // Flip the sign bit of the type's own width.
    return static_cast<sort_key_t<T>>(v) + (sort_key_t<T>(1) << (kKeyBits<T> - 1)) &
           (std::numeric_limits<sort_key_t<T>>::max() >> (sizeof(sort_key_t<T>) * 8 - kKeyBits<T>));
  } else {
    return static_cast<sort_key_t<T>>(v);
  }
}

template <class T> inline sort_key_t<T> sort_key_at(const SortArgs& p, const T* row, uint32_t i) {
  sort_key_t<T> key = key_of(row[i]);
  return p.descending ? static_cast<sort_key_t<T>>(
                            ~key & (std::numeric_limits<sort_key_t<T>>::max() >> (sizeof(key) * 8 - kKeyBits<T>)))
                      : key;
}

// --- short rows: the place of an element is the number of elements before it ---

template <class T> inline void sort_rank_one(const SortArgs& p, uint32_t row, uint32_t i) {
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
  sort_key_t<T> own = sort_key_at(p, in, i);
  uint32_t place = 0;
  for (uint32_t j = 0; j < p.length; ++j) {
    sort_key_t<T> key = sort_key_at(p, in, j);
    place += key < own || (key == own && j < i) ? 1u : 0u;
  }
  if (place >= p.take) return;
  int64_t at = static_cast<int64_t>(row) * p.take + place;
  if (p.values) static_cast<T*>(p.values)[at] = in[i];
  if (p.indices) p.indices[at] = i;
}

// Group row, items of it.
template <class T> void sort_rank(const SortArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t i = static_cast<uint32_t>(item.get_global_id(1));
  if (i < p.length) sort_rank_one<T>(p, static_cast<uint32_t>(item.get_group(0)), i);
}

// Rows too short to fill a work-group.
template <class T> void sort_rank_flat(const SortArgs& p) {
  uint32_t g = global_id();
  if (g >= p.rows * p.length) return;
  uint32_t row = div(g, p.by_length);
  sort_rank_one<T>(p, row, g - row * p.length);
}

// --- radix ---

template <class K> struct SortEntry {
  K key;
  uint32_t at;
};

template <class T, uint32_t kBits = kDigitBits<T>> inline uint32_t sort_digit(sort_key_t<T> key, uint32_t pass) {
  return static_cast<uint32_t>(key >> (pass * kBits)) & ((1u << kBits) - 1);
}

// `lowest` is what was subtracted from the keys. An integer is read off its key, which is nearer than where it came
// from.
template <class T>
inline void sort_emit_one(const SortArgs& p, uint32_t row, uint32_t i, SortEntry<sort_key_t<T>> e,
                          sort_key_t<T> lowest) {
  int64_t at = static_cast<int64_t>(row) * p.take + i;
  if (p.values) {
    T value;
    if constexpr (is_float_v<T> || __is_same(T, bool)) {
      value = static_cast<const T*>(p.in)[static_cast<int64_t>(row) * p.length + e.at];
    } else {
      const sort_key_t<T> given = e.key + lowest, key = p.descending ? static_cast<sort_key_t<T>>(~given) : given;
      value = static_cast<T>(std::numeric_limits<T>::is_signed ? key - (sort_key_t<T>(1) << (kKeyBits<T> - 1)) : key);
    }
    static_cast<T*>(p.values)[at] = value;
  }
  if (p.indices) p.indices[at] = e.at;
}

// One item sorts one row: counts of all digits in one read, then a stable scatter for each digit that varies. Integers
// are counted from the smallest of the row, which leaves the high digits of small numbers without variation.
template <class T, uint32_t kBits> void sort_row(const SortArgs& p) {
  using K = sort_key_t<T>;
  constexpr uint32_t kValues = 1u << kBits, kRounds = (kKeyBits<T> + kBits - 1) / kBits;
  uint32_t row = global_id();
  if (row >= p.rows) return;
  int64_t base = static_cast<int64_t>(row) * p.length;
  const T* in = static_cast<const T*>(p.in) + base;
  auto* from = static_cast<SortEntry<K>*>(p.entries[0]) + base;
  auto* to = static_cast<SortEntry<K>*>(p.entries[1]) + base;
  uint32_t* counts = p.counts + static_cast<int64_t>(row) * kRounds * kValues;
  for (uint32_t d = 0; d < kRounds * kValues; ++d) counts[d] = 0;
  K lowest = 0;
  if constexpr (!is_float_v<T> && sizeof(T) > 2) {
    lowest = std::numeric_limits<K>::max();
    for (uint32_t i = 0; i < p.length; ++i) {
      K key = sort_key_at(p, in, i);
      lowest = key < lowest ? key : lowest;
    }
  }
  for (uint32_t i = 0; i < p.length; ++i) {
    K key = sort_key_at(p, in, i) - lowest;
    from[i] = {key, i};
#pragma unroll
    for (uint32_t pass = 0; pass < kRounds; ++pass) ++counts[pass * kValues + sort_digit<T, kBits>(key, pass)];
  }
  for (uint32_t pass = 0; pass < kRounds; ++pass) {
    uint32_t* count = counts + pass * kValues;
    if (count[sort_digit<T, kBits>(from[0].key, pass)] == p.length) continue;
    uint32_t sum = 0;
    for (uint32_t d = 0; d < kValues; ++d) {
      uint32_t c = count[d];
      count[d] = sum;
      sum += c;
    }
    for (uint32_t i = 0; i < p.length; ++i) {
      SortEntry<K> e = from[i];
      to[count[sort_digit<T, kBits>(e.key, pass)]++] = e;
    }
    auto* other = from;
    from = to;
    to = other;
  }
  uint32_t take = p.take < p.length ? p.take : p.length;
  for (uint32_t i = 0; i < take; ++i) sort_emit_one<T>(p, row, i, from[i], lowest);
}

// One long row by several items: each counts the digits of its chunk, one scan places them, each scatters its chunk.
// counts is [chunk, digit], so that no two items write to one cache line. Keys are counted from the smallest, and
// digits that the largest does not reach are left out.
template <class T> XPU_INLINE sort_key_t<T>* sort_range(const SortArgs& p) {
  return static_cast<sort_key_t<T>*>(p.range);
}
template <class T> XPU_INLINE uint32_t sort_passes(const SortArgs& p) {
  const sort_key_t<T> width = sort_range<T>(p)[1];
  uint32_t n = 0;
  for (uint32_t at = 0; at < kKeyBits<T>; at += kDigitBits<T>) n += (width >> at) != 0 ? 1 : 0;
  return n;
}

template <class T> void radix_range(const SortArgs& p) {
  using K = sort_key_t<T>;
  const uint32_t c = global_id();
  if (c >= p.chunks) return;
  K low = std::numeric_limits<K>::max(), high = 0;
  const uint32_t end = (c + 1) * p.chunk < p.length ? (c + 1) * p.chunk : p.length;
  for (uint32_t i = c * p.chunk; i < end; ++i) {
    const K key = sort_key_at(p, static_cast<const T*>(p.in), i);
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  sort_range<T>(p)[2 + 2 * c] = low;
  sort_range<T>(p)[3 + 2 * c] = high;
}

// The smallest key, and how much larger the largest is.
template <class T> void radix_width(const SortArgs& p) {
  if (global_id() != 0) return;
  auto* range = sort_range<T>(p);
  auto low = range[2], high = range[3];
  for (uint32_t c = 1; c < p.chunks; ++c) {
    low = range[2 + 2 * c] < low ? range[2 + 2 * c] : low;
    high = range[3 + 2 * c] > high ? range[3 + 2 * c] : high;
  }
  range[0] = low;
  range[1] = high - low;
}

template <class T> void radix_load(const SortArgs& p) {
  using K = sort_key_t<T>;
  uint32_t i = global_id();
  if (i >= p.length) return;
  static_cast<SortEntry<K>*>(p.entries[0])[i] = {
      static_cast<K>(sort_key_at(p, static_cast<const T*>(p.in), i) - sort_range<T>(p)[0]), i};
}

template <class T> void radix_count(const SortArgs& p) {
  using K = sort_key_t<T>;
  uint32_t c = global_id();
  if (c >= p.chunks || p.pass >= sort_passes<T>(p)) return;
  const auto* from = static_cast<const SortEntry<K>*>(p.entries[p.pass & 1]);
  uint32_t* count = p.counts + c * kDigits<T>;
  for (uint32_t d = 0; d < kDigits<T>; ++d) count[d] = 0;
  uint32_t end = (c + 1) * p.chunk < p.length ? (c + 1) * p.chunk : p.length;
  for (uint32_t i = c * p.chunk; i < end; ++i) ++count[sort_digit<T>(from[i].key, p.pass)];
}

// An item per range of digits: what earlier chunks have of each, then what all have.
template <class T> void radix_scan(const SortArgs& p) {
  const uint32_t first = group_id() * kScanDigits;
  if (first >= kDigits<T> || p.pass >= sort_passes<T>(p)) return;
  uint32_t* const total = p.counts + size_t{p.chunks} * kDigits<T> + first;
  uint32_t sum[kScanDigits];
  for (uint32_t d = 0; d < kScanDigits; ++d) sum[d] = 0;
  for (uint32_t c = 0; c < p.chunks; ++c) {
    uint32_t* const count = p.counts + size_t{c} * kDigits<T> + first;
#pragma clang loop vectorize(assume_safety)
    for (uint32_t d = 0; d < kScanDigits; ++d) {
      const uint32_t n = count[d], before = sum[d];
      count[d] = before;
      sum[d] = before + n;
    }
  }
  for (uint32_t d = 0; d < kScanDigits; ++d) total[d] = sum[d];
}

template <class T> void radix_scatter(const SortArgs& p) {
  using K = sort_key_t<T>;
  uint32_t c = global_id();
  if (c >= p.chunks || p.pass >= sort_passes<T>(p)) return;
  const auto* from = static_cast<const SortEntry<K>*>(p.entries[p.pass & 1]);
  auto* to = static_cast<SortEntry<K>*>(p.entries[1 - (p.pass & 1)]);
  uint32_t* count = p.counts + c * kDigits<T>;
  const uint32_t* total = p.counts + size_t{p.chunks} * kDigits<T>;
  for (uint32_t d = 0, begin = 0; d < kDigits<T>; begin += total[d++]) count[d] += begin;
  uint32_t end = (c + 1) * p.chunk < p.length ? (c + 1) * p.chunk : p.length;
  for (uint32_t i = c * p.chunk; i < end; ++i) {
    SortEntry<K> e = from[i];
    to[count[sort_digit<T>(e.key, p.pass)]++] = e;
  }
}

template <class T> void radix_emit(const SortArgs& p) {
  using K = sort_key_t<T>;
  uint32_t i = global_id();
  if (i >= p.take) return;
  const auto* from = static_cast<const SortEntry<K>*>(p.entries[sort_passes<T>(p) & 1]);
  sort_emit_one<T>(p, 0, i, from[i], sort_range<T>(p)[0]);
}

// --- top-k: one sub-group per row ---

inline constexpr uint32_t kTopkLanes = 16;
template <class T> XPU_INLINE T topk_load(const T* x, size_t lane) { return x[lane]; }
XPU_INLINE bf16 topk_load(const bf16* x, size_t lane) {
  bf16 v;
  v.bits = reinterpret_cast<const uint16_t*>(x)[lane];
  return v;
}

template <class T> struct TopkRow {
  using K = sort_key_t<T>;
  static constexpr K kHighest = std::numeric_limits<K>::max() >> (sizeof(K) * 8 - kKeyBits<T>);
  const T* in;
  uint32_t length;
  size_t lane;
  bool largest;
  // Larger is better, whatever is asked for. Element i + lane; i is uniform, so that neighbours read one vector.
  K key(size_t i) const {
    K k = key_of(topk_load(in + i, lane));
    return largest ? k : static_cast<K>(kHighest - k);
  }
  uint32_t add(uint32_t v) const {
    return sycl::reduce_over_group(syclex::this_work_item::get_sub_group(), v, sycl::plus<uint32_t>());
  }
  uint32_t before(uint32_t v) const {
    return sycl::exclusive_scan_over_group(syclex::this_work_item::get_sub_group(), v, sycl::plus<uint32_t>());
  }
  uint32_t count(K bound) const {
    uint32_t n = 0;
    size_t i = 0;
    for (; i + kTopkLanes <= length; i += kTopkLanes) n += key(i) >= bound ? 1u : 0u;
    if (i + lane < length) n += key(i) >= bound ? 1u : 0u;
    return add(n);
  }
};

// Collects the elements at or above `bound` in the order of the row; of those equal to it only the first `ties`. Stops
// once there are more than `capacity`.
template <class T>
inline uint32_t topk_collect(const TopkRow<T>& r, SortEntry<sort_key_t<T>>* out, sort_key_t<T> bound, uint32_t ties,
                             uint32_t capacity) {
  using K = sort_key_t<T>;
  auto group = syclex::this_work_item::get_sub_group();
  uint32_t filled = 0, equal = 0;
  auto take = [&](uint32_t i, K k, bool hit) {
    if (ties != ~0u) {
      uint32_t tie = hit && k == bound ? 1u : 0u;
      const uint32_t ahead = r.before(tie);
      if (tie && equal + ahead >= ties) hit = false;
      equal += r.add(tie);
    }
    uint32_t one = hit ? 1u : 0u, before = r.before(one), slot = filled + before;
    if (hit && slot < capacity) out[slot] = {k, i};
    filled += sycl::group_broadcast(group, before + one, kTopkLanes - 1);
  };
  constexpr uint32_t kStep = 4 * kTopkLanes;
  uint32_t i0 = 0;
  for (; i0 + kStep <= r.length && filled <= capacity; i0 += kStep) {
    const uint32_t i = i0 + static_cast<uint32_t>(r.lane);
    const size_t at = i0;
    K a = r.key(at), b = r.key(at + kTopkLanes), c = r.key(at + 2 * kTopkLanes), d = r.key(at + 3 * kTopkLanes);
    K ab = a > b ? a : b, cd = c > d ? c : d;
    if (!sycl::any_of_group(group, (ab > cd ? ab : cd) >= bound)) continue;
    take(i, a, a >= bound);
    take(i + kTopkLanes, b, b >= bound);
    take(i + 2 * kTopkLanes, c, c >= bound);
    take(i + 3 * kTopkLanes, d, d >= bound);
  }
  for (; i0 < r.length && filled <= capacity; i0 += kTopkLanes) {
    const uint32_t i = i0 + static_cast<uint32_t>(sub_group_lane());
    bool inside = i < r.length;
    K k = inside ? r.key(i0) : 0;
    take(i, k, inside && k >= bound);
  }
  return filled;
}

// Top-k of a short row by insertion: after the first k elements few are inserted.
template <class T>
XPU_SCALAR_LOOP void topk_scan_row(const T* in, uint32_t n, uint32_t k, sort_key_t<T> flip, T* values, int64_t* indices,
                                   const int64_t* from) {
  using K = sort_key_t<T>;
  K best[kTopkScan];
  uint32_t at[kTopkScan];
  auto insert = [&](K key, uint32_t i, uint32_t place) {
    for (; place > 0 && best[place - 1] < key; --place) best[place] = best[place - 1], at[place] = at[place - 1];
    best[place] = key, at[place] = i;
  };
  for (uint32_t i = 0; i < k; ++i) insert(static_cast<K>(key_of(in[i]) ^ flip), i, i);
  K least = best[k - 1];
  for (uint32_t i = k; i < n; ++i) {
    const K key = static_cast<K>(key_of(in[i]) ^ flip);
    if (key <= least) continue;
    insert(key, i, k - 1);
    least = best[k - 1];
  }
  for (uint32_t j = 0; j < k; ++j) values[j] = in[at[j]], indices[j] = from ? from[at[j]] : at[j];
}

template <class T> void topk_scan(const TopkArgs& p) {
  const uint32_t first = group_id() * p.rows_per_item,
                 end = first + p.rows_per_item < p.rows ? first + p.rows_per_item : p.rows;
  const auto flip = static_cast<sort_key_t<T>>(p.largest ? 0 : ~sort_key_t<T>(0));
  for (uint32_t row = first; row < end; ++row)
    topk_scan_row(static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length, p.length, p.k, flip,
                  static_cast<T*>(p.values) + static_cast<int64_t>(row) * p.k,
                  p.indices + static_cast<int64_t>(row) * p.k,
                  p.from ? p.from + static_cast<int64_t>(row) * p.length : nullptr);
}

// A bound that at least k elements reach is the k-th largest of kParts lane maxima, about kParts ln(kParts / (kParts -
// k)) elements in any order but the worst. They are collected and ranked; where ties or an unlucky order give too many,
// the bound is raised to the k-th value itself by bisecting on the key.
template <class T, uint32_t kGroups> void topk_row(const TopkArgs& p) {
  using K = sort_key_t<T>;
  constexpr uint32_t kUnroll = kGroups < 16 ? kGroups : 16;
  constexpr uint32_t kParts = kTopkLanes * kGroups;
  const uint32_t part = group_id(), row = part / p.chunks, c = part - row * p.chunks;
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  auto group = syclex::this_work_item::get_sub_group();
  const int64_t base = static_cast<int64_t>(row) * p.length;
  const auto begin = static_cast<uint32_t>(uint64_t{c} * p.length / p.chunks),
             end = static_cast<uint32_t>(uint64_t{c + 1} * p.length / p.chunks), length = end - begin;
  TopkRow<T> r{static_cast<const T*>(p.in) + base + begin, length, lane, p.largest != 0};
  auto* candidate = static_cast<SortEntry<K>*>(p.candidates) + static_cast<int64_t>(part) * p.capacity;
  for (uint32_t g0 = 0; g0 < kGroups; g0 += kUnroll) {
    K best[kUnroll];
#pragma unroll
    for (uint32_t g = 0; g < kUnroll; ++g) best[g] = 0;
    size_t i = g0 * kTopkLanes;
    for (; i + kUnroll * kTopkLanes <= length; i += kParts) {
#pragma unroll
      for (uint32_t g = 0; g < kUnroll; ++g) {
        K k = r.key(i + g * kTopkLanes);
        best[g] = k > best[g] ? k : best[g];
      }
    }
#pragma unroll
    for (uint32_t g = 0; g < kUnroll; ++g) {
      if (i + g * kTopkLanes + lane < length) {
        K k = r.key(i + g * kTopkLanes);
        best[g] = k > best[g] ? k : best[g];
      }
      candidate[(g0 + g) * kTopkLanes + lane] = {best[g], 0};
    }
  }
  sycl::group_barrier(group);
  // The k-th largest of the maxima: the smallest one that fewer than k others exceed.
  K bound = std::numeric_limits<K>::max();
  for (uint32_t g = 0; g < kGroups; ++g) {
    K own = candidate[g * kTopkLanes + lane].key;
    uint32_t more = 0;
    for (uint32_t j = 0; j < kParts; ++j) more += candidate[j].key > own ? 1u : 0u;
    if (more < p.k && own < bound) bound = own;
  }
  bound = sycl::reduce_over_group(group, bound, sycl::minimum<K>());
  sycl::group_barrier(group);
  uint32_t filled = topk_collect<T>(r, candidate, bound, ~0u, p.capacity);
  if (filled > p.capacity) {
    K low = bound, high = TopkRow<T>::kHighest;
    if (low < high && r.count(low + 1) < p.k) high = low;  // many ties at the bound: the usual case
    while (low < high) {
      K mid = low + (high - low) / 2 + 1;
      if (r.count(mid) >= p.k)
        low = mid;
      else
        high = mid - 1;
    }
    uint32_t over = low < TopkRow<T>::kHighest ? r.count(low + 1) : 0;
    filled = topk_collect<T>(r, candidate, low, p.k - over, p.capacity);
  }
  sycl::group_barrier(group);
  // Of equal keys the first is better: before the block of 16 all are, after it none.
  for (uint32_t c0 = 0; c0 < filled; c0 += kTopkLanes) {
    const uint32_t c1 = c0 + static_cast<uint32_t>(sub_group_lane()),
                   block = c0 + kTopkLanes < filled ? c0 + kTopkLanes : filled;
    const SortEntry<K> own = c1 < filled ? candidate[c1] : SortEntry<K>{};
    uint32_t place = 0, j = 0;
    for (; j < c0; ++j) place += candidate[j].key >= own.key ? 1u : 0u;
    for (; j < block; ++j) {
      const K k = candidate[j].key;
      place += k > own.key || (k == own.key && j < c1) ? 1u : 0u;
    }
    for (; j < filled; ++j) place += candidate[j].key > own.key ? 1u : 0u;
    if (c1 >= filled || place >= p.k) continue;
    int64_t at = static_cast<int64_t>(part) * p.k + place;
    static_cast<T*>(p.values)[at] = r.in[own.at];
    p.indices[at] = p.from ? p.from[base + own.at] : begin + own.at;
  }
}

// --- what is read off sorted rows ---

// kthvalue, median (the first NaN if there is one), nanmedian (the median of the others): one item per row.
template <class T> void sort_pick(const PickArgs& p) {
  uint32_t row = global_id();
  if (row >= p.rows) return;
  int64_t base = static_cast<int64_t>(row) * p.length;
  const T* s = static_cast<const T*>(p.sorted) + base;
  uint32_t low = 0, high = p.length;  // the first NaN
  if (p.mode != 0) {
    while (low < high) {
      uint32_t mid = (low + high) / 2;
      if (is_nan(opmath_t<T>(s[mid])))
        high = mid;
      else
        low = mid + 1;
    }
  }
  uint32_t k = p.k;
  if (p.mode == 1) k = low < p.length ? low : (p.length - 1) / 2;
  if (p.mode == 2) k = low == 0 ? 0 : (low - 1) / 2;
  static_cast<T*>(p.values)[row] = s[k];
  if (p.indices) p.indices[row] = p.order[base + k];
}

// The most frequent value of a sorted row, the smallest of several; its last place.
template <class T> void sort_mode(const RunArgs& p) {
  uint32_t row = global_id();
  if (row >= p.rows) return;
  int64_t base = static_cast<int64_t>(row) * p.length;
  const T* s = static_cast<const T*>(p.sorted) + base;
  uint32_t best = 0, where = 0, run = 0;
  for (uint32_t i = 0; i < p.length; ++i) {
    ++run;
    if (i + 1 == p.length || s[i + 1] != s[i]) {
      if (run > best) {
        best = run;
        where = i;
      }
      run = 0;
    }
  }
  static_cast<T*>(p.values)[row] = s[where];
  p.indices[row] = p.order[base + where];
}

}  // namespace xpu

#include "kernels/sycl/index/select.hpp"
#include "kernels/sycl/index/select_team.hpp"
#include "kernels/sycl/index/sort_team.hpp"
#include "kernels/sycl/index/unique.hpp"
#include "kernels/sycl/index/unique_team.hpp"
