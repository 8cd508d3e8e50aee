// One element of every long row by its number in sorted order, without sorting: the digits of its key from the highest,
// each from a count of the elements that share the digits before it. Included by sort.hpp.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/nan.hpp"

namespace xpu {

using xpu_ops::kSelectBits;
using xpu_ops::kSelectLanes;
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
    for (uint32_t i = begin; i < end; ++i) {
      const T v = in[i];
      ++count[static_cast<uint32_t>(key_of(v) >> shift)];
      nans += is_nan(opmath_t<T>(v)) ? 1u : 0u;
    }
    count[1u << kSelectBits] = nans;
  } else {
    const K prefix = static_cast<K>(p.state[row].prefix);
    for (uint32_t i = begin; i < end; ++i) {
      const K key = key_of(in[i]);
      if (key >> (shift + width) == prefix) ++count[static_cast<uint32_t>(key >> shift) & mask];
    }
  }
}

// One item per row: the digit in which the counts pass the number looked for. The first pass finds that number as well:
// median is the first NaN if there is one, nanmedian the median of the others.
template <class T> void select_digit(const SelectArgs& p) {
  const uint32_t row = group_id();
  const uint32_t* count = p.counts + static_cast<int64_t>(row) * p.chunks * kSelectSlots;
  xpu_ops::SelectState s = p.state[row];
  if (p.pass == 0) {
    uint32_t nans = 0;
    for (uint32_t c = 0; c < p.chunks; ++c) nans += count[c * kSelectSlots + (1u << kSelectBits)];
    const uint32_t numbers = p.length - nans;
    s.prefix = 0;
    s.k = p.k;
    if (p.mode == 1) s.k = nans > 0 ? numbers : (p.length - 1) / 2;
    if (p.mode == 2) s.k = numbers == 0 ? 0 : (numbers - 1) / 2;
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

}  // namespace xpu
