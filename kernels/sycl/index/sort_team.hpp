// Sorting of {key, index} entries for devices that want many items per work-group: least-significant-digit radix, in
// tiles that a work-group ranks in local memory. The kernels know keys alone: entries_load makes them of the elements,
// entries_take writes the elements in their order. Included by sort.hpp.
#pragma once
#include "kernels/sycl/core/counts.hpp"
#include "kernels/sycl/core/fours.hpp"
#include "kernels/sycl/core/team_scan.hpp"

namespace xpu {

constexpr uint32_t kByteValues = 256;
constexpr uint32_t kTileEach = 16;  // entries that an item ranks
constexpr uint32_t kRankShift = 9;  // behind a digit or kByteValues

// Local memory of a work-group: how often each sub-group met a digit, later the place of its next one in the tile.
// While entries are ranked, the count is in the upper half of a word, and the lanes that hold the digit are bits of the
// lower. Ranked entries take turns in `staged`, from which neighbours are written to neighbouring places.
constexpr uint32_t kCountShift = kLanes, kStagedBytes = 1 << 15;
struct DigitCounts {
  union {
    uint32_t by_part[kTeamParts * kByteValues];
    alignas(16) uint8_t staged[kStagedBytes];
  };
  uint32_t base[kByteValues];   // the place of the next entry with each digit
  uint32_t shift[kByteValues];  // from a place in the tile to that
  uint32_t parts[kTeamParts];
};

template <class K> XPU_INLINE uint32_t entry_digit(K key, K lowest, uint32_t pass) {
  return static_cast<uint32_t>((key - lowest) >> (8 * pass)) & (kByteValues - 1);
}

XPU_INLINE void clear_counts(const Team& t, DigitCounts& c) {
  for (uint32_t i = t.lane; i < t.parts * kByteValues; i += t.lanes) c.by_part[i] = 0;
  sycl::group_barrier(syclex::this_work_item::get_work_group<1>());
}

// Counts one digit per item, kByteValues for none, in the order of the lanes; returns how many equal ones the sub-group
// met before. Lanes of one digit find each other by their bits in its word (as in CUB's
// BlockRadixRankMatchEarlyCounts): one exchange through local memory instead of fifteen between lanes.
template <bool kWhole> XPU_INLINE uint32_t count_digit(const Team& t, DigitCounts& c, uint32_t digit) {
  auto sg = syclex::this_work_item::get_sub_group();
  const uint32_t own = 1u << sub_group_lane();
  const bool is = kWhole || digit < kByteValues;
  uint32_t& word = c.by_part[t.part * kByteValues + (is ? digit : 0)];
  if (is) sycl::atomic_ref<uint32_t, sycl::memory_order::relaxed, sycl::memory_scope::work_group>(word).fetch_or(own);
  sycl::group_barrier(sg);
  const uint32_t met = word, ahead = sycl::popcount(met & (own - 1));
  sycl::group_barrier(sg);
  if (is && ahead == 0) word = ((met >> kCountShift) + sycl::popcount(met & ((1u << kLanes) - 1))) << kCountShift;
  sycl::group_barrier(sg);
  return (met >> kCountShift) + ahead;
}

// Counts the digits of entries [begin, end) by sub-group, in any order.
template <class K>
XPU_INLINE void count_digits(const Team& t, DigitCounts& c, const SortEntry<K>* from, uint32_t begin, uint32_t end,
                             K lowest, uint32_t pass) {
  clear_counts(t, c);
  for (uint32_t i = begin + t.lane; i < end; i += t.lanes)
    count_one(c.by_part[t.part * kByteValues + entry_digit<K>(from[i].key, lowest, pass)]);
  sycl::group_barrier(syclex::this_work_item::get_work_group<1>());
}

// `shift`: of the counts in their words.
XPU_INLINE uint32_t digit_total(const Team& t, const DigitCounts& c, uint32_t digit, uint32_t shift) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < t.parts; ++i) sum += c.by_part[i * kByteValues + digit] >> shift;
  return sum;
}

// The place of the first entry with each digit, from the totals of the digits, goes to c.base.
template <class F> XPU_INLINE void place_digits(const Team& t, DigitCounts& c, F total_of) {
  uint32_t carry = 0;
  for (uint32_t first = 0; first < kByteValues; first += t.lanes) {
    const uint32_t d = first + t.lane, n = d < kByteValues ? total_of(d) : 0;
    uint32_t all;
    const uint32_t before = team_before(t, n, c.parts, all);
    if (d < kByteValues) c.base[d] = carry + before;
    carry += all;
  }
  sycl::group_barrier(syclex::this_work_item::get_work_group<1>());
}

// Turns the counts of a tile into places in it, and c.base into those behind it. `alone`: the tile is all there is.
XPU_INLINE void place_tile(const Team& t, DigitCounts& c, bool alone) {
  uint32_t carry = 0;
  for (uint32_t first = 0; first < kByteValues; first += t.lanes) {
    const uint32_t d = first + t.lane;
    const bool is = d < kByteValues;
    uint32_t n[kTeamParts], sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kTeamParts; ++i) {
      n[i] = is && i < t.parts ? c.by_part[i * kByteValues + d] >> kCountShift : 0;
      sum += n[i];
    }
    uint32_t all;
    uint32_t place = carry + team_before(t, sum, c.parts, all);
    carry += all;
    if (!is) continue;
    const uint32_t base = alone ? place : c.base[d];
    c.shift[d] = base - place;
    c.base[d] = base + sum;
#pragma unroll
    for (uint32_t i = 0; i < kTeamParts; ++i) {
      if (i < t.parts) c.by_part[i * kByteValues + d] = place;
      place += n[i];
    }
  }
}

// The `count` entries of one tile, of which this item has those from `at` on. The digit and the rank of each are kept,
// then its place in the tile; the entries are read twice, which costs less than their registers.
template <bool kWhole, class K>
XPU_INLINE void move_tile(const Team& t, DigitCounts& c, const SortEntry<K>* tile, SortEntry<K>* to, uint32_t count,
                          K lowest, uint32_t pass, bool alone) {
  constexpr uint32_t kStaged = kStagedBytes / sizeof(SortEntry<K>);
  auto group = syclex::this_work_item::get_work_group<1>();
  auto* staged = reinterpret_cast<SortEntry<K>*>(c.staged);
  const uint32_t own = t.part * kTileEach * kLanes + (t.lane - t.part * kLanes), left = own < count ? count - own : 0;
  const SortEntry<K>* at = tile + own;
  uint32_t place[kTileEach];
#pragma unroll
  for (uint32_t j = 0; j < kTileEach; ++j)
    place[j] = kWhole || j * kLanes < left ? entry_digit<K>(at[j * kLanes].key, lowest, pass) : kByteValues;
#pragma unroll
  for (uint32_t j = 0; j < kTileEach; ++j) place[j] |= count_digit<kWhole>(t, c, place[j]) << kRankShift;
  sycl::group_barrier(group);
  place_tile(t, c, alone);
  sycl::group_barrier(group);
#pragma unroll
  for (uint32_t j = 0; j < kTileEach; ++j)
    place[j] = (place[j] >> kRankShift) + c.by_part[t.part * kByteValues + (place[j] & (kByteValues - 1))];
  // uniform over the group: as many rounds as the tile fills
  for (uint32_t first = 0; first < count; first += kStaged) {
    sycl::group_barrier(group);  // all have read what was here
#pragma unroll
    for (uint32_t j = 0; j < kTileEach; ++j)
      if ((kWhole || j * kLanes < left) && place[j] - first < kStaged) staged[place[j] - first] = at[j * kLanes];
    sycl::group_barrier(group);
    const uint32_t end = count - first < kStaged ? count - first : kStaged;
    for (uint32_t i = t.lane; i < end; i += t.lanes) {
      const SortEntry<K> entry = staged[i];
      to[c.shift[entry_digit<K>(entry.key, lowest, pass)] + first + i] = entry;
    }
  }
  sycl::group_barrier(group);
}

// Moves entries [begin, end) to where c.base says that the next one with each digit belongs, in their order. `alone`:
// they are one tile and all there is, so that c.base is counted here.
template <class K>
XPU_INLINE void move_entries(const Team& t, DigitCounts& c, const SortEntry<K>* from, SortEntry<K>* to, uint32_t begin,
                             uint32_t end, K lowest, uint32_t pass, bool alone) {
  const uint32_t tile = kTileEach * t.lanes;
  // uniform over the group: all go to the end of the range
  for (uint32_t first = begin; first < end; first += tile) {
    clear_counts(t, c);
    // uniform over the group: one range
    if (end - first >= tile)
      move_tile<true, K>(t, c, from + first, to, tile, lowest, pass, alone);
    else
      move_tile<false, K>(t, c, from + first, to, end - first, lowest, pass, alone);
  }
}

// Smallest and largest key.
template <class K> struct KeyRange { K low, high; };
template <class K> inline KeyRange<K> exchange(sycl::sub_group sg, const KeyRange<K>& v, uint32_t m) {
  return {exchange(sg, v.low, m), exchange(sg, v.high, m)};
}
template <class K> XPU_INLINE KeyRange<K> team_range(const Team& t, KeyRange<K> v) {
  return team_join(t, v, [](KeyRange<K> a, KeyRange<K> b) {
    return KeyRange<K>{a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
  });
}
template <class K> XPU_INLINE KeyRange<K> no_range() { return {std::numeric_limits<K>::max(), 0}; }
template <class K>
XPU_INLINE KeyRange<K> range_of(const Team& t, const SortEntry<K>* from, uint32_t begin, uint32_t end) {
  KeyRange<K> r = no_range<K>();
  for (uint32_t i = begin + t.lane; i < end; i += t.lanes) {
    const K key = from[i].key;
    r.low = key < r.low ? key : r.low;
    r.high = key > r.high ? key : r.high;
  }
  return team_range(t, r);
}
template <class K> XPU_INLINE uint32_t passes_of(K width) {
  uint32_t n = 0;
  for (uint32_t at = 0; at < sizeof(K) * 8; at += 8) n += (width >> at) != 0 ? 1 : 0;
  return n;
}

// A row per work-group.
template <class T> void entries_row(const SortArgs& p) {
  using K = sort_key_t<T>;
  syclexp::work_group_static<DigitCounts> local;
  DigitCounts& c = local;
  const Team t = whole_team();
  const size_t base = size_t{t.first} * p.length;
  auto* from = static_cast<SortEntry<K>*>(p.entries[0]) + base;
  auto* to = static_cast<SortEntry<K>*>(p.entries[1]) + base;
  const KeyRange<K> range = range_of<K>(t, from, 0, p.length);
  const uint32_t passes = passes_of<K>(range.high - range.low);
  const bool alone = p.length <= kTileEach * t.lanes;
  // uniform over the group: one range
  for (uint32_t pass = 0; pass < passes; ++pass) {
    if (!alone) {
      count_digits<K>(t, c, from, 0, p.length, range.low, pass);
      place_digits(t, c, [&](uint32_t d) { return digit_total(t, c, d, 0); });
    }
    move_entries<K>(t, c, from, to, 0, p.length, range.low, pass, alone);
    auto* other = from;
    from = to;
    to = other;
  }
  if (t.leads()) p.moved[t.first] = passes & 1;
}

// One row, a chunk per work-group. range: smallest key and distance to the largest, then both ends of each chunk.
template <class T> void entries_range(const SortArgs& p) {
  using K = sort_key_t<T>;
  const Team t = whole_team();
  const uint32_t end = (t.first + 1) * p.chunk < p.length ? (t.first + 1) * p.chunk : p.length;
  const KeyRange<K> r = range_of<K>(t, static_cast<const SortEntry<K>*>(p.entries[0]), t.first * p.chunk, end);
  if (!t.leads()) return;
  static_cast<K*>(p.range)[2 + 2 * t.first] = r.low;
  static_cast<K*>(p.range)[3 + 2 * t.first] = r.high;
}

template <class T> void entries_width(const SortArgs& p) {
  using K = sort_key_t<T>;
  auto* range = static_cast<K*>(p.range);
  const Team t = whole_team();
  KeyRange<K> r = no_range<K>();
  for (uint32_t i = t.lane; i < p.chunks; i += t.lanes) {
    const K low = range[2 + 2 * i], high = range[3 + 2 * i];
    r.low = low < r.low ? low : r.low;
    r.high = high > r.high ? high : r.high;
  }
  r = team_range(t, r);
  if (!t.leads()) return;
  range[0] = r.low;
  range[1] = r.high - r.low;
  p.moved[0] = passes_of<K>(range[1]) & 1;
}

// One of the two buffers: an index that is no constant would put the arguments into memory.
template <class T> XPU_INLINE SortEntry<sort_key_t<T>>* entries_of(const SortArgs& p, uint32_t which) {
  return static_cast<SortEntry<sort_key_t<T>>*>(which ? p.entries[1] : p.entries[0]);
}

template <class T> XPU_INLINE bool pass_needed(const SortArgs& p) {
  return p.pass < passes_of(static_cast<const sort_key_t<T>*>(p.range)[1]);
}

// counts: [digit, chunk], then the total of each digit.
template <class T> void entries_count(const SortArgs& p) {
  using K = sort_key_t<T>;
  syclexp::work_group_static<DigitCounts> local;
  DigitCounts& c = local;
  if (!pass_needed<T>(p)) return;
  const Team t = whole_team();
  const uint32_t end = (t.first + 1) * p.chunk < p.length ? (t.first + 1) * p.chunk : p.length;
  count_digits<K>(t, c, entries_of<T>(p, p.pass & 1), t.first * p.chunk, end, static_cast<const K*>(p.range)[0],
                  p.pass);
  for (uint32_t d = t.lane; d < kByteValues; d += t.lanes)
    p.counts[size_t{d} * p.chunks + t.first] = digit_total(t, c, d, 0);
}

// A digit per work-group.
template <class T> void entries_scan(const SortArgs& p) {
  syclexp::work_group_static<DigitCounts> local;
  DigitCounts& c = local;
  if (!pass_needed<T>(p)) return;
  const Team t = whole_team();
  uint32_t* counts = p.counts + size_t{t.first} * p.chunks;
  uint32_t sum = 0;
  for (uint32_t first = 0; first < p.chunks; first += t.lanes) {
    const uint32_t i = first + t.lane, n = i < p.chunks ? counts[i] : 0;
    uint32_t all;
    const uint32_t before = team_before(t, n, c.parts, all);
    if (i < p.chunks) counts[i] = sum + before;
    sum += all;
  }
  if (t.leads()) p.counts[size_t{kByteValues} * p.chunks + t.first] = sum;
}

template <class T> void entries_move(const SortArgs& p) {
  using K = sort_key_t<T>;
  syclexp::work_group_static<DigitCounts> local;
  DigitCounts& c = local;
  if (!pass_needed<T>(p)) return;
  const Team t = whole_team();
  const uint32_t* totals = p.counts + size_t{kByteValues} * p.chunks;
  place_digits(t, c, [&](uint32_t d) { return totals[d]; });
  for (uint32_t d = t.lane; d < kByteValues; d += t.lanes) c.base[d] += p.counts[size_t{d} * p.chunks + t.first];
  const uint32_t end = (t.first + 1) * p.chunk < p.length ? (t.first + 1) * p.chunk : p.length;
  move_entries<K>(t, c, entries_of<T>(p, p.pass & 1), entries_of<T>(p, 1 - (p.pass & 1)), t.first * p.chunk, end,
                  static_cast<const K*>(p.range)[0], p.pass, false);
}

// An item per element of all rows.
template <class T> void entries_load(const SortArgs& p) {
  using K = sort_key_t<T>;
  const uint32_t i = global_id();
  if (i >= p.rows * p.length) return;
  static_cast<SortEntry<K>*>(p.entries[0])[i] = {sort_key_at(p, static_cast<const T*>(p.in), i),
                                                 i - div(i, p.by_length) * p.length};
}

// The float of a key, which is nearer than the element that it is of; none where several have one: zeros and nans.
template <class T> XPU_INLINE bool float_of_key(sort_key_t<T> key, T& value) {
  using K = sort_key_t<T>;
  using Bits = OneOf<T>;
  constexpr K kSign = K(1) << (kKeyBits<T> - 1);
  value = sycl::bit_cast<T>(static_cast<Bits>(key & kSign ? key ^ kSign : ~key));
  return key != kSign && key != (kSign | (kSign - 1));
}

template <class T> void entries_take(const SortArgs& p) {
  const uint32_t i = global_id();
  if (i >= p.rows * p.take) return;
  const uint32_t row = div(i, p.by_take), at = i - row * p.take;
  const auto entry = (entries_of<T>(p, p.moved[row]) + size_t{row} * p.length)[at];
  if constexpr (is_float_v<T>) {
    using K = sort_key_t<T>;
    constexpr K kAll = std::numeric_limits<K>::max() >> (sizeof(K) * 8 - kKeyBits<T>);
    T value;
    if (float_of_key<T>(p.descending ? static_cast<K>(~entry.key & kAll) : entry.key, value)) {
      if (p.values) static_cast<T*>(p.values)[i] = value;
      if (p.indices) p.indices[i] = entry.at;
      return;
    }
  }
  sort_emit_one<T>(p, row, at, entry, 0);
}

}  // namespace xpu
