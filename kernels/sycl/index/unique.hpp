// Runs of equal elements or slices, over sorted (or given) slices of `width` elements, `length` of them; the merge step
// that sorts slices. Included by sort.hpp.
#pragma once
#include "kernels/sycl/cpu/scalar_loop.hpp"

namespace xpu {

template <class T> inline bool slices_differ(const RunArgs& p, int64_t a, int64_t b) {
  const T* s = static_cast<const T*>(p.sorted);
  for (uint32_t j = 0; j < p.width; ++j)
    if (s[a * p.width + j] != s[b * p.width + j]) return true;
  return false;
}

template <class T> inline bool run_begins(const RunArgs& p, uint32_t i) {
  if (i == 0) return true;
  if (p.width == 1 && !p.order) return static_cast<const T*>(p.sorted)[i] != static_cast<const T*>(p.sorted)[i - 1];
  return p.order ? slices_differ<T>(p, p.order[i - 1], p.order[i]) : slices_differ<T>(p, i - 1, i);
}

// Vectors in which one item compares elements; their comparison counts as wide integers of its own.
template <class T> struct RunLanes { static constexpr uint32_t count = 0; };
#define XPU_RUN_LANES(TYPE, COUNT, MASK)                                                                             \
  template <> struct RunLanes<TYPE> {                                                                                \
    static constexpr uint32_t count = COUNT;                                                                         \
    using vector __attribute__((ext_vector_type(COUNT), aligned(alignof(TYPE)))) = TYPE;                             \
    using mask = MASK __attribute__((ext_vector_type(COUNT)));                                                       \
    static mask differs(const TYPE* s) {                                                                             \
      return __builtin_convertvector(*reinterpret_cast<const vector*>(s) != *reinterpret_cast<const vector*>(s - 1), \
                                     mask);                                                                          \
    }                                                                                                                \
  };
XPU_RUN_LANES(float, 16, int32_t)
XPU_RUN_LANES(int32_t, 16, int32_t)
XPU_RUN_LANES(double, 8, int64_t)
XPU_RUN_LANES(int64_t, 8, int64_t)
#undef XPU_RUN_LANES

// How many elements differ from the one before.
template <class T> XPU_SCALAR_LOOP uint32_t count_changes(const T* s, uint32_t n) {
  uint32_t changes = 0;
  if constexpr (RunLanes<T>::count > 0) {
    constexpr uint32_t kLanes = RunLanes<T>::count;
    typename RunLanes<T>::mask sum = 0;
    for (; n >= kLanes; n -= kLanes, s += kLanes) sum -= RunLanes<T>::differs(s);
#pragma unroll
    for (uint32_t l = 0; l < kLanes; ++l) changes += static_cast<uint32_t>(sum[l]);
  }
  for (; n > 0; --n, ++s) changes += s[0] != s[-1] ? 1 : 0;
  return changes;
}

constexpr uint32_t kRunBlock = 64;

// The same from element i to `end`, and where they are, as long as there is room for all of a block.
template <class T>
XPU_SCALAR_LOOP uint32_t note_changes(const T* s, uint32_t i, uint32_t end, uint32_t changes, uint32_t* noted,
                                      uint32_t room) {
  using Lanes = RunLanes<T>;
  for (; end - i >= kRunBlock; i += kRunBlock) {
    // Numbers and their order, not bits and 0: of those the optimizer makes a vector of bool read as an integer, or one
    // of seven components, which SPIR-V does not know.
    typename Lanes::mask sum = 0;
#pragma unroll
    for (uint32_t l = 0; l < kRunBlock; l += Lanes::count) sum -= Lanes::differs(s + (i + l));
    int32_t found = 0;
#pragma unroll
    for (uint32_t l = 0; l < Lanes::count; ++l) found += static_cast<int32_t>(sum[l]);
    if (found <= 0) continue;
    if (changes + kRunBlock > room) return changes + count_changes(s + i, end - i);
    for (uint32_t k = i; k < i + kRunBlock; ++k) {
      noted[changes] = k;
      changes += s[k] != s[k - 1] ? 1 : 0;
    }
  }
  if (changes + kRunBlock > room) return changes + count_changes(s + i, end - i);
  for (; i < end; ++i) {
    noted[changes] = i;
    changes += s[i] != s[i - 1] ? 1 : 0;
  }
  return changes;
}
// Whether `runs` changes are all noted: each block had room.
template <class T> XPU_INLINE bool all_noted(const RunArgs& p, uint32_t runs) {
  return RunLanes<T>::count > 0 && p.noted && runs + kRunBlock <= p.room;
}

// How many runs begin in each chunk; one item per chunk.
template <class T> void unique_count(const RunArgs& p) {
  const uint32_t c = global_id();
  if (c >= p.chunks) return;
  const uint32_t begin = c * p.chunk, end = begin + p.chunk < p.length ? begin + p.chunk : p.length;
  uint32_t n = 0;
  if (p.width == 1 && !p.order) {
    const uint32_t first = c == 0 ? 1 : 0;
    const T* sorted = static_cast<const T*>(p.sorted);
    if constexpr (RunLanes<T>::count > 0) {
      if (p.noted) {
        uint32_t* noted = p.noted + static_cast<size_t>(c) * p.room;
        if (first) noted[0] = 0;
        p.starts[c] = note_changes(sorted, begin + first, end, first, noted, p.room);
        return;
      }
    }
    n = first + count_changes(sorted + begin + first, end - begin - first);
  } else {
    for (uint32_t i = begin; i < end; ++i) n += run_begins<T>(p, i) ? 1 : 0;
  }
  p.starts[c] = n;
}

// Number of the first run that begins in each chunk, then their number.
inline void unique_scan(const RunArgs& p) {
  if (global_id() != 0) return;
  uint32_t sum = 0;
  for (uint32_t c = 0; c < p.chunks; ++c) {
    const uint32_t n = p.starts[c];
    p.starts[c] = sum;
    sum += n;
  }
  p.starts[p.chunks] = sum;
}

// `runs` runs of single elements: each element is written to where the next run belongs, which one that begins later
// overwrites, so that nothing branches on the elements. The first element begins one if `begins`.
template <class T>
XPU_SCALAR_LOOP void write_runs(const T* s, uint32_t i, bool begins, uint32_t runs, T* values, uint32_t* first) {
  uint32_t run = 0;
  if (begins && runs > 0) {
    values[0] = s[i];
    if (first) first[0] = i;
    ++run, ++i;
  }
  if (first) {
    for (; run < runs; ++i) {
      values[run] = s[i];
      first[run] = i;
      run += s[i] != s[i - 1] ? 1 : 0;
    }
  } else {
    for (; run < runs; ++i) {
      values[run] = s[i];
      run += s[i] != s[i - 1] ? 1 : 0;
    }
  }
}

// The number of the run of each element; `run`: that of the one before.
template <class T>
XPU_SCALAR_LOOP void write_inverse(const T* s, uint32_t i, uint32_t end, int64_t run, const int64_t* place,
                                   int64_t* indices) {
  if (i == 0) {
    indices[place ? place[0] : 0] = ++run;
    ++i;
  }
  if (place) {
    for (; i < end; ++i) indices[place[i]] = run += s[i] != s[i - 1] ? 1 : 0;
  } else {
    for (; i < end; ++i) indices[i] = run += s[i] != s[i - 1] ? 1 : 0;
  }
}

template <class T> void unique_write(const RunArgs& p) {
  const uint32_t c = global_id();
  if (c >= p.chunks) return;
  const uint32_t end = (c + 1) * p.chunk < p.length ? (c + 1) * p.chunk : p.length;
  int64_t run = static_cast<int64_t>(p.starts[c]) - 1;
  if (p.width == 1 && !p.order) {
    const T* s = static_cast<const T*>(p.sorted);
    const uint32_t runs = p.starts[c + 1] - p.starts[c];
    T* values = static_cast<T*>(p.values) + (run + 1);
    uint32_t* first = p.first ? p.first + (run + 1) : nullptr;
    if (all_noted<T>(p, runs)) {
      const uint32_t* noted = p.noted + static_cast<size_t>(c) * p.room;
      for (uint32_t k = 0; k < runs; ++k) {
        values[k] = s[noted[k]];
        if (first) first[k] = noted[k];
      }
    } else {
      write_runs(s, c * p.chunk, c == 0, runs, values, first);
    }
    if (p.indices) write_inverse(s, c * p.chunk, end, run, p.place, p.indices);
    return;
  }
  for (uint32_t i = c * p.chunk; i < end; ++i) {
    if (run_begins<T>(p, i)) {
      ++run;
      const T* s = static_cast<const T*>(p.sorted) + (p.order ? p.order[i] : i) * p.width;
      for (uint32_t j = 0; j < p.width; ++j) static_cast<T*>(p.values)[run * p.width + j] = s[j];
      if (p.first) p.first[run] = i;
    }
    if (p.indices) p.indices[p.place ? p.place[i] : i] = run;
  }
}

inline void unique_lengths(const RunArgs& p) {
  const uint32_t run = global_id();
  if (run >= p.out) return;
  p.counts[run] = static_cast<int64_t>((run + 1 < p.out ? p.first[run + 1] : p.length) - p.first[run]);
}

// Merge step of sorting slices lexicographically: pairs of sorted runs of `limit` order entries become one.
template <class T> void slice_merge(const RunArgs& p) {
  uint32_t i = global_id();
  if (i >= p.length) return;
  const int64_t* order = p.order;
  uint32_t run = i / p.limit, own = i - run * p.limit, first = (run ^ 1u) * p.limit;
  uint32_t low = 0, high = first >= p.length ? 0 : p.length - first < p.limit ? p.length - first : p.limit;
  const T* s = static_cast<const T*>(p.sorted);
  const T* mine = s + order[i] * p.width;
  bool left = (run & 1u) == 0;
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    const T* other = s + order[first + mid] * p.width;
    int32_t sign = 0;
    for (uint32_t j = 0; j < p.width && sign == 0; ++j) {
      auto a = key_of(other[j]), b = key_of(mine[j]);
      sign = a < b ? -1 : a > b ? 1 : 0;
    }
    // Equal slices of the left run come first.
    if (sign < 0 || (sign == 0 && !left))
      low = mid + 1;
    else
      high = mid;
  }
  p.indices[(run & ~1u) * p.limit + own + low] = order[i];
}

}  // namespace xpu
