// Selecting one element of every long row (select.hpp) for devices that want many items per work-group: a chunk or a
// row per work-group. Included by sort.hpp.
#pragma once
#include "kernels/sycl/core/counts.hpp"
#include "kernels/sycl/index/sort_team.hpp"

namespace xpu {

static_assert(kSelectSlots <= kLocalBins);

template <class T> void select_count_team(const SelectArgs& p) {
  using K = sort_key_t<T>;
  const uint32_t g = group_id(), row = g / p.chunks, c = g - row * p.chunks;
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
  uint32_t* out = p.counts + static_cast<int64_t>(g) * kSelectSlots;
  const uint32_t begin = c * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  const uint32_t shift = select_shift<T>(p.pass), width = select_width<T>(p.pass), mask = (1u << width) - 1;
  const bool first = p.pass == 0;
  const K prefix = first ? 0 : static_cast<K>(p.state[row].prefix);
  count_by_group(
      begin, end, kSelectSlots,
      [&](uint32_t i, uint32_t* counts) {
        const T v = in[i];
        const K key = key_of(v);
        if (first && is_nan(opmath_t<T>(v))) count_one(counts[1u << kSelectBits]);
        if (first || key >> (shift + width) == prefix) count_one(counts[static_cast<uint32_t>(key >> shift) & mask]);
      },
      [&](uint32_t b, uint32_t count) { out[b] = count; });
}

// A row per work-group; see select_digit.
template <class T> void select_digit_team(const SelectArgs& p) {
  struct Sums { uint32_t slots[kSelectSlots], parts[kTeamParts]; };
  syclexp::work_group_static<Sums> local;
  Sums& sums = local;
  const Team t = whole_team();
  const uint32_t* count = p.counts + static_cast<int64_t>(t.first) * p.chunks * kSelectSlots;
  for (uint32_t b = t.lane; b < kSelectSlots; b += t.lanes) {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < p.chunks; ++c) sum += count[c * kSelectSlots + b];
    sums.slots[b] = sum;
  }
  sycl::group_barrier(syclex::this_work_item::get_work_group<1>());
  xpu_ops::SelectState s = p.state[t.first];
  if (p.pass == 0) {
    const uint32_t nans = sums.slots[1u << kSelectBits], numbers = p.length - nans;
    s.prefix = 0;
    s.k = p.k;
    if (p.mode == 1) s.k = nans > 0 ? numbers : (p.length - 1) / 2;
    if (p.mode == 2) s.k = numbers == 0 ? 0 : (numbers - 1) / 2;
  }
  const uint32_t width = select_width<T>(p.pass), digits = 1u << width, each = (digits + t.lanes - 1) / t.lanes,
                 begin = t.lane * each < digits ? t.lane * each : digits,
                 end = begin + each < digits ? begin + each : digits;
  uint32_t own = 0;
  for (uint32_t d = begin; d < end; ++d) own += sums.slots[d];
  uint32_t all;
  uint32_t before = team_before(t, own, sums.parts, all);
  if (s.k < before || s.k - before >= own) return;
  uint32_t d = begin;
  for (; d + 1 < end && s.k - before >= sums.slots[d]; ++d) before += sums.slots[d];
  s.k -= before;
  s.prefix = s.prefix << width | d;
  p.state[t.first] = s;
}

template <class T> void select_find_team(const SelectArgs& p) {
  using K = sort_key_t<T>;
  const Team t = whole_team();
  const uint32_t row = t.first / p.chunks, c = t.first - row * p.chunks;
  const T* in = static_cast<const T*>(p.in) + static_cast<int64_t>(row) * p.length;
  const K want = static_cast<K>(p.state[row].prefix);
  const uint32_t begin = c * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  uint32_t at = ~0u;
  for (uint32_t i = begin + t.lane; i < end; i += t.lanes)
    if (i < at && key_of(in[i]) == want) at = i;
  at = team_join(t, at, [](uint32_t a, uint32_t b) { return a < b ? a : b; });
  if (t.leads()) p.counts[static_cast<int64_t>(t.first) * kSelectSlots] = at;
}

template <class T> void select_emit_team(const SelectArgs& p) {
  const Team t = whole_team();
  const uint32_t* found = p.counts + static_cast<int64_t>(t.first) * p.chunks * kSelectSlots;
  uint32_t at = ~0u;
  for (uint32_t c = t.lane; c < p.chunks; c += t.lanes)
    at = found[c * kSelectSlots] < at ? found[c * kSelectSlots] : at;
  at = team_join(t, at, [](uint32_t a, uint32_t b) { return a < b ? a : b; });
  if (!t.leads()) return;
  static_cast<T*>(p.values)[t.first] = static_cast<const T*>(p.in)[static_cast<int64_t>(t.first) * p.length + at];
  if (p.indices) p.indices[t.first] = at;
}

}  // namespace xpu
