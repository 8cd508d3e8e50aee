// One element of every row by its number in sorted order, without sorting. Of long rows the digits of its key from the
// highest, each from a count of the elements that share the digits before it. Included by sort.hpp.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/nan.hpp"

namespace xpu {

using xpu_ops::kSelectBits;
using xpu_ops::kSelectLanes;
using xpu_ops::kSelectShort;
using xpu_ops::kSelectSlots;
using xpu_ops::SelectArgs;

// Lowest bit and width of the digit of a pass.
template <class T> inline uint32_t select_shift(uint32_t pass) {
  const uint32_t used = (pass + 1) * kSelectBits;
  return used < kKeyBits<T> ? kKeyBits<T> - used : 0;
}
template <class T> inline uint32_t select_width(uint32_t pass) {
  return kKeyBits<T> - pass * kSelectBits - select_shift<T>(pass);
}

// Elements at a time: what a vector tells of them is asked first.
inline constexpr uint32_t kSelectBlock = 64;

// One item per chunk; slot 2^kSelectBits has the number of NaN.
template <class T> void select_count(const SelectArgs& p) {
  using K = sort_key_t<T>;
  const uint32_t g = group_id(), row = g / p.chunks, c = g - row * p.chunks;
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
  uint32_t* count = p.counts + static_cast<int64_t>(g) * kSelectSlots;
  for (uint32_t d = 0; d < kSelectSlots; ++d) count[d] = 0;
  const uint32_t begin = c * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  const uint32_t shift = select_shift<T>(p.pass), width = select_width<T>(p.pass), mask = (1u << width) - 1;
  if (p.pass == 0) {
    uint32_t nans = 0;
    for (uint32_t i = begin; i < end; ++i) nans += is_nan(opmath_t<T>(in[i])) ? 1u : 0u;
    count[1u << kSelectBits] = nans;
    // Neighbours often share a digit, and a count waits for the one before it: they count in tables of their own.
    uint32_t others[3][1u << kSelectBits];
    for (auto& table : others)
      for (uint32_t& n : table) n = 0;
    uint16_t digits[kSelectBlock];
    uint32_t block = begin;
    for (; block + kSelectBlock <= end; block += kSelectBlock) {
      for (uint32_t i = 0; i < kSelectBlock; ++i) digits[i] = static_cast<uint16_t>(key_of(in[block + i]) >> shift);
      for (uint32_t i = 0; i < kSelectBlock; i += 4) {
        ++count[digits[i]];
        ++others[0][digits[i + 1]];
        ++others[1][digits[i + 2]];
        ++others[2][digits[i + 3]];
      }
    }
    for (; block < end; ++block) ++count[static_cast<uint32_t>(key_of(in[block]) >> shift)];
    for (uint32_t d = 0; d < 1u << kSelectBits; ++d) count[d] += others[0][d] + others[1][d] + others[2][d];
  } else {
    const K prefix = static_cast<K>(p.state[row].prefix);
    for (uint32_t block = begin; block < end; block += kSelectBlock) {
      const uint32_t n = end - block < kSelectBlock ? end - block : kSelectBlock;
      uint32_t any = 0;
      for (uint32_t i = 0; i < n; ++i) any |= key_of(in[block + i]) >> (shift + width) == prefix ? 1u : 0u;
      if (any == 0) continue;
      for (uint32_t i = block; i < block + n; ++i) {
        const K key = key_of(in[i]);
        if (key >> (shift + width) == prefix) ++count[static_cast<uint32_t>(key >> shift) & mask];
      }
    }
  }
}

// Which element of a row is asked for: median is the first NaN if there is one, nanmedian the median of the others.
inline uint32_t select_number(const SelectArgs& p, uint32_t nans) {
  const uint32_t numbers = p.length - nans;
  if (p.mode == 1) return nans > 0 ? numbers : (p.length - 1) / 2;
  if (p.mode == 2) return numbers == 0 ? 0 : (numbers - 1) / 2;
  return p.k;
}

// One item per row: the digit in which the counts pass the number looked for. The first pass finds that number as well.
template <class T> void select_digit(const SelectArgs& p) {
  const uint32_t row = group_id();
  const uint32_t* count = p.counts + static_cast<int64_t>(row) * p.chunks * kSelectSlots;
  xpu_ops::SelectState s = p.state[row];
  if (p.pass == 0) {
    uint32_t nans = 0;
    for (uint32_t c = 0; c < p.chunks; ++c) nans += count[c * kSelectSlots + (1u << kSelectBits)];
    s.prefix = 0;
    s.k = select_number(p, nans);
  }
  const uint32_t width = select_width<T>(p.pass);
  uint32_t d = 0;
  for (; d + 1 < 1u << width; ++d) {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < p.chunks; ++c) sum += count[c * kSelectSlots + d];
    if (s.k < sum) break;
    s.k -= sum;
  }
  s.prefix = s.prefix << width | d;
  p.state[row] = s;
}

// The first element of a chunk with the key that was found, by lane.
template <class T> void select_find(const SelectArgs& p) {
  using K = sort_key_t<T>;
  const uint32_t g = group_id(), row = g / p.chunks, c = g - row * p.chunks;
  const size_t lane = syclex::this_work_item::get_nd_item<1>().get_local_id(0);
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
  const K want = static_cast<K>(p.state[row].prefix);
  const size_t begin = size_t{c} * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  uint32_t at = ~0u;
  size_t i = begin;
  for (; i + kSelectLanes <= end; i += kSelectLanes) {
    const uint32_t here = static_cast<uint32_t>(i + lane);
    at = key_of(topk_load(in + i, lane)) == want && here < at ? here : at;
  }
  if (i + lane < end && key_of(topk_load(in + i, lane)) == want) {
    const uint32_t here = static_cast<uint32_t>(i + lane);
    at = here < at ? here : at;
  }
  p.counts[static_cast<int64_t>(g) * kSelectSlots + lane] = at;
}

template <class T> void select_emit(const SelectArgs& p) {
  const uint32_t row = group_id();
  const uint32_t* found = p.counts + static_cast<int64_t>(row) * p.chunks * kSelectSlots;
  uint32_t at = ~0u;
  for (uint32_t c = 0; c < p.chunks; ++c)
    for (uint32_t l = 0; l < kSelectLanes; ++l) {
      const uint32_t v = found[c * kSelectSlots + l];
      at = v < at ? v : at;
    }
  static_cast<T*>(p.values)[row] = static_cast<const T*>(p.in)[static_cast<int64_t>(row) * p.length + at];
  if (p.indices) p.indices[row] = at;
}

// --- the best of a row, of which the last is known ---

// One item per chunk: how many elements are better than the last, and how many equal it.
template <class T> void select_better(const SelectArgs& p) {
  using K = sort_key_t<T>;
  const uint32_t g = group_id(), row = g / p.chunks, c = g - row * p.chunks;
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
  const uint32_t begin = c * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  const K last = static_cast<K>(p.state[row].prefix);
  uint32_t greater = 0, equal = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const K key = key_of(in[i]);
    greater += key > last ? 1u : 0u;
    equal += key == last ? 1u : 0u;
  }
  uint32_t* count = p.counts + static_cast<int64_t>(g) * kSelectSlots;
  count[0] = p.largest ? greater : end - begin - greater - equal;
  count[1] = equal;
}

// Those of a chunk, the better ones of a row before the first that equal the last.
template <class T> XPU_SCALAR_LOOP void select_take(const SelectArgs& p) {
  using K = sort_key_t<T>;
  const uint32_t g = group_id(), row = g / p.chunks, c = g - row * p.chunks;
  const uint32_t* count = p.counts + static_cast<int64_t>(row) * p.chunks * kSelectSlots;
  uint32_t better = 0, tie = 0, all = 0;
  for (uint32_t k = 0; k < p.chunks; ++k, count += kSelectSlots) {
    better += k < c ? count[0] : 0;
    tie += k < c ? count[1] : 0;
    all += count[0];
  }
  tie += all;
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
  T* values = static_cast<T*>(p.values) + static_cast<int64_t>(row) * p.take;
  int64_t* indices = p.indices + static_cast<int64_t>(row) * p.take;
  const K flip = p.largest ? 0 : static_cast<K>(~K(0)), last = static_cast<K>(p.state[row].prefix) ^ flip;
  const uint32_t begin = c * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  for (uint32_t block = begin; block < end; block += kSelectBlock) {
    const uint32_t n = end - block < kSelectBlock ? end - block : kSelectBlock;
    uint32_t any = 0;
    for (uint32_t i = 0; i < n; ++i) any |= static_cast<K>(key_of(in[block + i]) ^ flip) >= last ? 1u : 0u;
    if (any == 0) continue;
    for (uint32_t i = block; i < block + n; ++i) {
      const K key = static_cast<K>(key_of(in[i]) ^ flip);
      if (key < last) continue;
      uint32_t& place = key > last ? better : tie;
      if (place < p.take) values[place] = in[i], indices[place] = i;
      ++place;
    }
  }
}

// One item per element: the index of what was sorted.
inline void select_from(const SelectArgs& p) {
  const uint32_t i = global_id();
  if (i >= p.rows * p.take) return;
  p.indices[i] = p.from[static_cast<int64_t>(i / p.take) * p.length + p.indices[i]];
}

// --- short rows ---

// Number k of n keys, of which the loop keeps those that it may be, in their order: equal buckets between the smallest
// and the largest leave few in one or two rounds. Of keys that are equal to it, k counts those before it afterwards.
template <class K> XPU_SCALAR_LOOP K select_key(K* keys, uint32_t n, uint32_t& k) {
  constexpr uint32_t kBits = 8, kRanked = 32;
  uint32_t count[1u << kBits];
  for (;;) {
    K low = keys[0], high = keys[0];
    for (uint32_t i = 1; i < n; ++i) {
      low = keys[i] < low ? keys[i] : low;
      high = keys[i] > high ? keys[i] : high;
    }
    if (low == high) return low;
    if (n <= kRanked) break;
    const uint32_t bits = sizeof(K) * 8 - static_cast<uint32_t>(sycl::clz(static_cast<K>(high - low)));
    const uint32_t shift = bits > kBits ? bits - kBits : 0;
    for (uint32_t& c : count) c = 0;
    for (uint32_t i = 0; i < n; ++i) ++count[static_cast<uint32_t>((keys[i] - low) >> shift)];
    uint32_t bucket = 0;
    for (; k >= count[bucket]; ++bucket) k -= count[bucket];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const K key = keys[i];
      keys[kept] = key;
      kept += static_cast<uint32_t>((key - low) >> shift) == bucket ? 1u : 0u;
    }
    n = kept;
  }
  for (uint32_t i = 0;; ++i) {
    const K own = keys[i];
    uint32_t less = 0, equal = 0;
    for (uint32_t j = 0; j < n; ++j) {
      less += keys[j] < own ? 1u : 0u;
      equal += keys[j] == own ? 1u : 0u;
    }
    if (k < less || k >= less + equal) continue;
    k -= less;
    return own;
  }
}

// One item per row. Of equal elements the one that a stable sort would put there.
template <class T> void select_short(const SelectArgs& p) {
  using K = sort_key_t<T>;
  K keys[kSelectShort];
  const uint32_t first = group_id() * p.chunk, end = first + p.chunk < p.rows ? first + p.chunk : p.rows;
  for (uint32_t row = first; row < end; ++row) {
    const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
    uint32_t nans = 0;
    for (uint32_t i = 0; i < p.length; ++i) {
      keys[i] = key_of(in[i]);
      nans += is_nan(opmath_t<T>(in[i])) ? 1u : 0u;
    }
    uint32_t k = select_number(p, nans);
    const K want = select_key<K>(keys, p.length, k);
    uint32_t at = 0;
    while (key_of(in[at]) != want || k-- != 0) ++at;
    static_cast<T*>(p.values)[row] = in[at];
    if (p.indices) p.indices[row] = at;
  }
}

}  // namespace xpu
