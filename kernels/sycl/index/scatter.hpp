// Writes by index whose result does not depend on timing: one item owns a column and walks the indices in order.
#pragma once
#include <type_traits>

#include "kernels/sycl/core/counts.hpp"
#include "kernels/sycl/core/nan.hpp"
#include "kernels/sycl/index/indexing.hpp"
#include "kernels/sycl/index/scatter_args.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu {

using xpu_ops::ColumnArgs;
using xpu_ops::ColumnDealArgs;
using xpu_ops::ColumnKeyArgs;
using xpu_ops::ColumnLastArgs;
using xpu_ops::CountArgs;
using xpu_ops::kDealtParts;
using xpu_ops::SegmentArgs;
using xpu_ops::SegmentOp;

// NaN wins, as in torch's amax and amin.
template <class M> inline M nan_max(M a, M b) { return is_nan(a) || a > b ? a : b; }
template <class M> inline M nan_min(M a, M b) { return is_nan(a) || a < b ? a : b; }

struct OpAssign {
  template <class T> static T run(T, T b) { return b; }
};
struct OpAdd {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a || b;
    else
      return T(opmath_t<T>(a) + opmath_t<T>(b));
  }
};
struct OpMul {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a && b;
    else
      return T(opmath_t<T>(a) * opmath_t<T>(b));
  }
};
struct OpMax {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a || b;
    else
      return T(nan_max(opmath_t<T>(a), opmath_t<T>(b)));
  }
};
struct OpMin {
  template <class T> static T run(T a, T b) {
    if constexpr (__is_same(T, bool))
      return a && b;
    else
      return T(nan_min(opmath_t<T>(a), opmath_t<T>(b)));
  }
};

// The range of indices that an item takes, and what is added to negative ones.
struct ColumnPart { int64_t low, count, wrap, skip; };

// Whether an index is one that an item takes. What does not change between indices is computed once.
template <class Args>
XPU_INLINE bool takes(const Args& p, const ColumnPart& part, int64_t& id) {
  const int64_t given = id;
  if (static_cast<uint64_t>(id - part.low) < static_cast<uint64_t>(part.count)) return given != part.skip;
  id += id < 0 ? part.wrap : 0;
  if (static_cast<uint64_t>(id - part.low) < static_cast<uint64_t>(part.count)) return given != part.skip;
  if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.index.size) && p.index.code != DeviceErrorCode::none)
    report_error(p.index.error, p.index.code, p.index.dim, given, p.index.size);
  return false;
}

// Combines while indices are plain, below `size` and not left out; returns how many are left.
template <class T, class Op, class Index>
XPU_SCALAR_LOOP uint32_t column_run(T* data, const T* src, const Index* index, uint32_t n, uint64_t size,
                                    int64_t stride, int64_t skip, int64_t data_step, int64_t src_step,
                                    int64_t index_step) {
  for (; n > 0; --n, data += data_step, src += src_step, index += index_step) {
    const int64_t id = static_cast<int64_t>(*index);
    if (static_cast<uint64_t>(id) >= size || id == skip) break;
    data[id * stride] = Op::run(data[id * stride], *src);
  }
  return n;
}

// The same for a part of the indices, which are found first without a branch, so many at a time.
inline constexpr uint32_t kSiftBlock = 512;
template <class T, class Op, class Index>
XPU_SCALAR_LOOP uint32_t column_part_run(T* data, const T* src, const Index* index, uint32_t n, uint64_t size,
                                         uint64_t low, uint64_t count, int64_t stride, int64_t skip, int64_t src_step,
                                         int64_t index_step) {
  uint32_t own[kSiftBlock];
  while (n > 0) {
    const uint32_t block = n < kSiftBlock ? n : kSiftBlock;
    uint32_t found = 0;
    bool odd = false;
    const Index* at = index;
    for (uint32_t k = 0; k < block; ++k, at += index_step) {
      const int64_t id = static_cast<int64_t>(*at);
      odd |= static_cast<uint64_t>(id) >= size || id == skip;
      own[found] = k;
      found += static_cast<uint64_t>(id) - low < count ? 1 : 0;
    }
    if (odd) break;
    for (uint32_t k = 0; k < found; ++k) {
      T* to = data + static_cast<int64_t>(index[own[k] * index_step]) * stride;
      *to = Op::run(*to, src[own[k] * src_step]);
    }
    n -= block, src += block * src_step, index += block * index_step;
  }
  return n;
}

template <class T, class Op, class Index>
XPU_INLINE void column_nest(const ColumnArgs& p, const ColumnPart& part, uint32_t columns, T* data, const T* src,
                            const Index* index) {
  const uint32_t outer = p.across ? p.steps : columns, inner = p.across ? columns : p.steps;
  const int64_t stride = p.index.stride, data_in = p.inner.data, src_in = p.inner.src, index_in = p.inner.index,
                data_out = p.outer.data, src_out = p.outer.src, index_out = p.outer.index;
  const uint64_t plain = p.parts > 1 ? 0 : p.index.size;
  for (uint32_t a = 0; a < outer; ++a, data += data_out, src += src_out, index += index_out) {
    for (uint32_t b = 0; b < inner;) {
      const uint32_t left =
          p.sift ? column_part_run<T, Op>(data, src + b * src_in, index + b * index_in, inner - b, p.index.size,
                                          part.low, part.count, stride, part.skip, src_in, index_in)
                 : column_run<T, Op>(data + b * data_in, src + b * src_in, index + b * index_in, inner - b, plain,
                                     stride, part.skip, data_in, src_in, index_in);
      if (left == 0) break;
      b = inner - left;
      // A block with a negative index, or one that is left out, goes through one by one.
      for (uint32_t odd = p.sift && left > kSiftBlock ? kSiftBlock : p.sift ? left : 1; odd > 0; --odd, ++b) {
        int64_t id = static_cast<int64_t>(index[b * index_in]);
        if (!takes(p, part, id)) continue;
        T* to = data + (b * data_in + id * stride);
        *to = Op::run(*to, src[b * src_in]);
      }
    }
  }
}

// Offsets of a column by its number.
XPU_INLINE void column_offsets(const xpu_ops::Walk<3>& walk, uint32_t column, int64_t (&o)[3]) {
  uint32_t f[3];
  add_row(walk, column / walk.inner, o);
  inner_offsets(walk, column % walk.inner, f);
  for (int k = 0; k < 3; ++k) o[k] += f[k];
}

// Groups of the first dimension are columns.
inline void column_keys(const ColumnKeyArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t column = item.get_group(0), j = item.get_global_id(1);
  if (j >= p.steps) return;
  int64_t o[3] = {0, 0, 0};
  column_offsets(p.walk, column, o);
  int64_t id = load_index(p.index, o[2] + j * p.index_step);
  const ColumnPart all{0, p.index.size, p.index.wrap ? p.index.size : 0, p.skip};
  p.keys[size_t{column} * p.steps + j] = static_cast<int32_t>(takes(p, all, id) ? id : p.index.size);
}

// The number of the last step of each place, plus one; and the indices without those that a later one overwrites.
inline void column_last_mark(const ColumnLastArgs& p) {
  const uint32_t j = global_id();
  if (j >= p.steps || p.keys[j] >= p.size) return;
  sycl::atomic_ref<uint32_t, sycl::memory_order::relaxed, sycl::memory_scope::device>(p.last[p.keys[j]])
      .fetch_max(j + 1);
}
inline void column_last_keep(const ColumnLastArgs& p) {
  const uint32_t j = global_id();
  if (j < p.steps && p.keys[j] < p.size && p.last[p.keys[j]] != j + 1) p.keys[j] = p.size;
}

template <class T, class Op>
XPU_INLINE void column_sorted(const ColumnArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t column = item.get_group(0), j = item.get_global_id(1);
  if (j >= p.steps) return;
  const size_t begin = p.uniform ? 0 : size_t{column} * p.steps;
  const int32_t* keys = p.keys + begin;
  const int64_t* places = p.places + begin;
  const int32_t id = keys[j];
  if (id >= p.index.size) return;
  int64_t o[3] = {0, 0, 0};
  column_offsets(p.walk, column, o);
  T* to = static_cast<T*>(p.data) + o[0] + id * p.index.stride;
  const T* src = static_cast<const T*>(p.src) + o[1];
  if constexpr (std::is_same_v<Op, OpAssign>) {
    if (!p.places) {
      *to = src[j * p.src_step];
      return;
    }
  }
  if (j > 0 && keys[j - 1] == id) return;
  T result = *to;
  for (uint32_t k = j; k < p.steps && keys[k] == id; ++k) result = Op::run(result, src[places[k] * p.src_step]);
  *to = result;
}

// Calls work(step, index, part) for each index of the item's chunk that is not left out. Parts of plain indices that
// lie side by side are computed first, so many in vectors at a time.
inline constexpr uint32_t kDealBlock = 64;
template <class Index, class Work>
XPU_INLINE void deal_chunk(const ColumnDealArgs& p, const Index* index, uint32_t c, Work work) {
  const ColumnPart all{0, p.index.size, p.index.wrap ? p.index.size : 0, p.skip};
  const uint32_t end = (c + 1) * p.chunk < p.steps ? (c + 1) * p.chunk : p.steps;
  uint32_t ids[kDealBlock], parts[kDealBlock];
  for (uint32_t first = c * p.chunk; first < end;) {
    if (p.index_step == 1 && first + kDealBlock <= end) {
      const Index* at = index + first;
      const int64_t size = p.index.size, skip = p.skip;
      const xpu_ops::Divider by = p.by_part_size;
      uint32_t odd = 0;
      for (uint32_t k = 0; k < kDealBlock; ++k) {
        const int64_t id = static_cast<int64_t>(at[k]);
        odd |= static_cast<uint64_t>(id) >= static_cast<uint64_t>(size) || id == skip ? 1u : 0u;
        ids[k] = static_cast<uint32_t>(id);
        parts[k] = xpu_ops::div(ids[k], by);
      }
      if (odd == 0) {
        for (uint32_t k = 0; k < kDealBlock; ++k) work(first + k, ids[k], parts[k]);
        first += kDealBlock;
        continue;
      }
    }
    const uint32_t stop = first + kDealBlock < end ? first + kDealBlock : end;
    for (; first < stop; ++first) {
      int64_t id = static_cast<int64_t>(index[first * p.index_step]);
      if (takes(p, all, id))
        work(first, static_cast<uint32_t>(id), xpu_ops::div(static_cast<uint32_t>(id), p.by_part_size));
    }
  }
}

template <class Work> XPU_INLINE void deal_chunk(const ColumnDealArgs& p, uint32_t c, Work work) {
  if (p.index.is32)
    deal_chunk(p, static_cast<const int32_t*>(p.index.ptr), c, work);
  else
    deal_chunk(p, static_cast<const int64_t*>(p.index.ptr), c, work);
}

inline void column_deal_count(const ColumnDealArgs& p) {
  const uint32_t c = global_id();
  if (c >= p.chunks) return;
  // A count waits for the last of the same part: neighbours count in tables of their own.
  uint32_t tables[4][kDealtParts];
  for (auto& table : tables)
    for (uint32_t& n : table) n = 0;
  deal_chunk(p, c, [&](uint32_t j, uint32_t, uint32_t part) __attribute__((always_inline)) { ++tables[j % 4][part]; });
  uint32_t* count = p.counts + size_t{c} * p.parts;
  for (uint32_t q = 0; q < p.parts; ++q) count[q] = tables[0][q] + tables[1][q] + tables[2][q] + tables[3][q];
}

// Where the next index of each part goes that the item's chunk has.
XPU_INLINE void deal_places(const ColumnDealArgs& p, uint32_t c, uint32_t (&to)[kDealtParts]) {
  uint32_t sum = 0;
  for (uint32_t q = 0; q < p.parts; ++q) {
    if (c == 0) p.starts[q] = sum;
    for (uint32_t other = 0; other < p.chunks; ++other) {
      if (other == c) to[q] = sum;
      sum += p.counts[size_t{other} * p.parts + q];
    }
  }
  if (c == 0) p.starts[p.parts] = sum;
}

// Each index and value(step) of the item's chunk go to the next place of their part.
template <class T, class Value> XPU_INLINE void deal_write(const ColumnDealArgs& p, Value value) {
  const uint32_t c = global_id();
  if (c >= p.chunks) return;
  uint32_t to[kDealtParts];
  deal_places(p, c, to);
  T* values = static_cast<T*>(p.values);
  int32_t* ids = p.ids;
  deal_chunk(p, c, [&](uint32_t j, uint32_t id, uint32_t part) __attribute__((always_inline)) {
    const uint32_t k = to[part]++;
    ids[k] = static_cast<int32_t>(id);
    values[k] = value(j);
  });
}

template <class T> inline void column_deal_write(const ColumnDealArgs& p) {
  const T* src = static_cast<const T*>(p.src);
  const int64_t step = p.src_step;
  deal_write<T>(p, [=](uint32_t j) __attribute__((always_inline)) { return src[j * step]; });
}
inline void column_deal_steps(const ColumnDealArgs& p) {
  deal_write<uint32_t>(p, [](uint32_t j) __attribute__((always_inline)) { return j; });
}

template <class T, class Op>
XPU_INLINE void column_dealt(const ColumnArgs& p) {
  const uint32_t part = syclex::this_work_item::get_nd_item<2>().get_group(0);
  if (part >= p.parts) return;
  const uint32_t begin = p.starts[part], count = p.starts[part + 1] - begin;
  column_run<T, Op>(static_cast<T*>(p.data), static_cast<const T*>(p.src) + begin,
                    static_cast<const int32_t*>(p.index.ptr) + begin, count, p.index.size, p.index.stride, p.skip, 0, 1,
                    1);
}

// The same where columns lie side by side: a work-group has `tile` of them, an item per column, and begins the places
// of `take` indices.
template <class T, class Op>
XPU_INLINE void column_sorted_tiles(const ColumnArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t blocks = (p.steps + p.take - 1) / p.take, row = static_cast<uint32_t>(item.get_group(0)) / blocks,
                 first = (static_cast<uint32_t>(item.get_group(0)) - row * blocks) * p.take,
                 end = first + p.take < p.steps ? first + p.take : p.steps;
  const size_t c0 = item.get_group(1) * size_t{p.tile}, lane = item.get_local_id(1);
  if (c0 + lane >= p.walk.inner) return;
  int64_t o[3] = {0, 0, 0};
  add_row(p.walk, row, o);
  T* data = static_cast<T*>(p.data) + (o[0] + c0);
  const T* src = static_cast<const T*>(p.src) + (o[1] + c0);
  if constexpr (std::is_same_v<Op, OpAssign>) {
    if (!p.places) {
      constexpr uint32_t kAhead = 4;  // elements that are loaded before one is stored
      for (uint32_t j = first; j < end; j += kAhead) {
        int32_t id[kAhead];
        T value[kAhead];
#pragma unroll
        for (uint32_t a = 0; a < kAhead; ++a) {
          const uint32_t at = j + a < end ? j + a : end - 1;
          id[a] = p.keys[at];
          value[a] = (src + at * p.src_step)[lane];
        }
#pragma unroll
        for (uint32_t a = 0; a < kAhead; ++a)
          if (id[a] < p.index.size) (data + id[a] * p.index.stride)[lane] = value[a];
      }
      return;
    }
  }
  for (uint32_t j = first; j < end; ++j) {
    const int32_t id = p.keys[j];
    if (id >= p.index.size || (j > 0 && p.keys[j - 1] == id)) continue;
    T* to = data + id * p.index.stride;
    T result = to[lane];
    for (uint32_t k = j; k < p.steps && p.keys[k] == id; ++k)
      result = Op::run(result, (src + p.places[k] * p.src_step)[lane]);
    to[lane] = result;
  }
}

template <class T, class Op>
XPU_INLINE void column_loop(const ColumnArgs& p) {
  if (p.starts && !p.order) return column_dealt<T, Op>(p);
  if (p.keys) return p.uniform && p.unit ? column_sorted_tiles<T, Op>(p) : column_sorted<T, Op>(p);
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), i0 = item.get_group(1) * local, lane = item.get_local_id(1);
  uint32_t row = item.get_group(0), number = 0;
  if (p.parts > 1) {
    number = row % p.parts;
    row /= p.parts;
  }
  const int64_t low = number * p.part_size;
  const ColumnPart part{low, low + p.part_size < p.index.size ? p.part_size : p.index.size - low,
                        p.index.wrap ? p.index.size : 0, p.skip};
  int64_t o[3] = {0, 0, 0};
  add_row(p.walk, row, o);
  if (p.uniform && p.unit) {
    // A piece of each slice that the items of the group share.
    const size_t c0 = item.get_group(1) * size_t{p.tile}, c1 = c0 + p.tile < p.walk.inner ? c0 + p.tile : p.walk.inner;
    T* data = static_cast<T*>(p.data) + o[0] + c0;
    const T* src = static_cast<const T*>(p.src) + o[1] + c0;
    const auto combine = [&](uint32_t j, int64_t id) __attribute__((always_inline)) {
      T* d = data + id * p.index.stride;
      const T* s = src + j * p.src_step;
      size_t c = 0;
      for (; c + local <= c1 - c0; c += local) (d + c)[lane] = Op::run((d + c)[lane], (s + c)[lane]);
      if (c + lane < c1 - c0) (d + c)[lane] = Op::run((d + c)[lane], (s + c)[lane]);
    };
    if (p.order) {
      const auto* dealt = static_cast<const int32_t*>(p.index.ptr);
      for (uint32_t k = p.starts[number]; k < p.starts[number + 1]; ++k) combine(p.order[k], dealt[k]);
      return;
    }
    for (uint32_t j = 0; j < p.steps; ++j) {
      int64_t id = load_index(p.index, o[2] + j * p.index_step);
      if (takes(p, part, id)) combine(j, id);
    }
    return;
  }
  const uint32_t first = static_cast<uint32_t>(i0 + lane) * p.tile,
                 last = first + p.tile < p.walk.inner ? first + p.tile : p.walk.inner;
  for (uint32_t c = first; c < last; c += p.take) {
    uint32_t f[3];
    inner_offsets(p.walk, c, f);
    const uint32_t columns = last - c < p.take ? last - c : p.take;
    T* data = static_cast<T*>(p.data) + (o[0] + f[0]);
    const T* src = static_cast<const T*>(p.src) + (o[1] + f[1]);
    const int64_t at = o[2] + f[2];
    if (p.index.is32)
      column_nest<T, Op>(p, part, columns, data, src, static_cast<const int32_t*>(p.index.ptr) + at);
    else
      column_nest<T, Op>(p, part, columns, data, src, static_cast<const int64_t*>(p.index.ptr) + at);
  }
}

}  // namespace xpu

#include "kernels/sycl/index/scatter_team.hpp"

namespace xpu {

#define XPU_COLUMN(name, op)                                                          \
  template <class T> inline void name(const ColumnArgs& p) { column_loop<T, op>(p); } \
  template <class T> inline void name##_team(const ColumnArgs& p) { column_team<T, op>(p); }
XPU_COLUMN(column_assign, OpAssign)
XPU_COLUMN(column_add, OpAdd)
XPU_COLUMN(column_mul, OpMul)
XPU_COLUMN(column_max, OpMax)
XPU_COLUMN(column_min, OpMin)
#undef XPU_COLUMN

XPU_INLINE int64_t count_index(const CountArgs& p, uint32_t i) {
  return p.is32 ? static_cast<int64_t>(static_cast<const int32_t*>(p.index)[i])
                : static_cast<const int64_t*>(p.index)[i];
}

// A table per work-group.
inline void count_local(const CountArgs& p) {
  count_share(p.n, p.bins, p.counts, [&](uint32_t i) {
    const int64_t id = count_index(p, i);
    return static_cast<uint64_t>(id) < p.bins ? static_cast<uint32_t>(id) : p.bins;
  });
}

// One table of 32-bit counts for all, where it is too large for local memory; count_widen makes the result of it.
inline void count_shared(const CountArgs& p) {
  auto* table = reinterpret_cast<uint32_t*>(p.counts);
  const size_t step = syclex::this_work_item::get_nd_item<1>().get_global_range(0);
  for (size_t i = global_id(); i < p.n; i += step) {
    const int64_t id = count_index(p, static_cast<uint32_t>(i));
    if (static_cast<uint64_t>(id) < p.bins) count_one(table[id]);
  }
}
inline void count_widen(const CountArgs& p) {
  const uint32_t b = global_id();
  if (b < p.bins) p.out[b] = reinterpret_cast<const uint32_t*>(p.counts)[b];
}

// Each item counts a contiguous share of the indices in a table of its own.
inline void count_private(const CountArgs& p) {
  uint32_t t = global_id();
  if (t >= p.tables) return;
  uint32_t share = (p.n + p.tables - 1) / p.tables;
  uint32_t begin = t * share, end = begin + share < p.n ? begin + share : p.n;
  int64_t* mine = p.counts + static_cast<int64_t>(t) * p.bins;
  for (uint32_t b = 0; b < p.bins; ++b) mine[b] = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const int64_t id = count_index(p, i);
    if (static_cast<uint64_t>(id) < p.bins) ++mine[id];
  }
}

inline void count_merge(const CountArgs& p) {
  uint32_t b = global_id();
  if (b >= p.bins) return;
  int64_t sum = 0;
  for (uint32_t t = 0; t < p.tables; ++t) sum += p.counts[static_cast<int64_t>(t) * p.bins + b];
  p.out[b] = sum;
}

// Nobody checks offsets on the way here: those outside of the axis end at its ends.
inline int64_t segment_offset(const SegmentArgs& p, uint32_t outer, uint32_t k) {
  const int64_t at = static_cast<int64_t>(outer) * (p.segments + 1) + k, axis = p.axis;
  const int64_t offset = p.is32 ? static_cast<int64_t>(static_cast<const int32_t*>(p.offsets)[at])
                                : static_cast<const int64_t*>(p.offsets)[at];
  return offset < 0 ? 0 : offset > axis ? axis : offset;
}

// One item per (outer, segment, inner): rows (outer, segment), items inner.
template <class T>
inline void segment_reduce(const SegmentArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t i = item.get_global_id(1), row = item.get_group(0);
  if (i >= p.inner) return;
  uint32_t outer = row / p.segments, s = row % p.segments;
  int64_t begin = segment_offset(p, outer, s), end = segment_offset(p, outer, s + 1);
  const T* data = static_cast<const T*>(p.data) + static_cast<int64_t>(outer) * p.axis * p.inner + i;
  const M inf = M(__builtin_inff());
  M acc = p.has_initial             ? real_as<M>(p.initial)
          : p.op == SegmentOp::max  ? -inf
          : p.op == SegmentOp::min  ? inf
          : p.op == SegmentOp::prod ? M(1)
                                    : M(0);
  for (int64_t j = begin; j < end; ++j) {
    M v = M(data[j * p.inner]);
    if (p.op == SegmentOp::max)
      acc = is_nan(v) ? v : nan_max(acc, v);
    else if (p.op == SegmentOp::min)
      acc = is_nan(v) ? v : nan_min(acc, v);
    else if (p.op == SegmentOp::prod)
      acc *= v;
    else
      acc += v;
  }
  int64_t length = end - begin;
  if (p.op == SegmentOp::mean) {
    if (length == 0 && !p.has_initial)
      acc = M(__builtin_nanf(""));
    else if (length > 0 && !is_nan(acc))
      acc = acc / M(length);
  }
  static_cast<T*>(p.out)[static_cast<int64_t>(row) * p.inner + i] = T(acc);
}

template <class T>
inline void segment_reduce_backward(const SegmentArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t i = item.get_global_id(1), row = item.get_group(0);
  if (i >= p.inner) return;
  uint32_t outer = row / p.segments, s = row % p.segments;
  int64_t begin = segment_offset(p, outer, s), end = segment_offset(p, outer, s + 1);
  if (begin >= end) return;
  int64_t base = static_cast<int64_t>(outer) * p.axis * p.inner + i, at = static_cast<int64_t>(row) * p.inner + i;
  const T* data = static_cast<const T*>(p.data) + base;
  T* result = static_cast<T*>(p.result) + base;
  M grad = M(static_cast<const T*>(p.grad)[at]), out = M(static_cast<const T*>(p.out)[at]);
  if (p.op == SegmentOp::max || p.op == SegmentOp::min) {
    uint32_t equal = 0;
    for (int64_t j = begin; j < end; ++j) {
      M v = M(data[j * p.inner]);
      if (v == out || is_nan(v)) {
        result[j * p.inner] = T(grad);
        ++equal;
      }
    }
    // As on the CPU, only a positive gradient is shared among equal elements.
    if (equal > 1 && grad > M(0))
      for (int64_t j = begin; j < end; ++j)
        if (M v = M(data[j * p.inner]); v == out || is_nan(v)) result[j * p.inner] = T(grad / M(equal));
  } else if (p.op == SegmentOp::mean) {
    for (int64_t j = begin; j < end; ++j) result[j * p.inner] = T(grad / M(end - begin));
  } else if (p.op == SegmentOp::sum) {
    for (int64_t j = begin; j < end; ++j) result[j * p.inner] = T(grad);
  } else {
    const M initial = p.has_initial ? real_as<M>(p.initial) : M(1);
    for (int64_t j = begin; j < end; ++j) {
      M v = M(data[j * p.inner]);
      if (is_nan(v) || v == M(0)) {
        M others = initial;
        for (int64_t k = begin; k < end; ++k)
          if (k != j) others *= M(data[k * p.inner]);
        result[j * p.inner] = T(grad * others);
      } else {
        result[j * p.inner] = T(grad * out / v);
      }
    }
  }
}

}  // namespace xpu
