// Element moves by index and compaction. Moves are instantiated by element size, not by type.
#pragma once
#include <sycl/group_algorithm.hpp>

#include "device_error.hpp"
#include "groups.hpp"
#include "indexing_args.hpp"
#include "walk.hpp"

namespace xpu {

using xpu_ops::AssertArgs;
using xpu_ops::CompactArgs;
using xpu_ops::FillTailArgs;
using xpu_ops::IndexedArgs;
using xpu_ops::IndexMode;
using xpu_ops::IndexSource;
using xpu_ops::LinearizeArgs;

template <class M> inline M real_as(const xpu_ops::Real& r) { return M(r.f32); }
template <> inline double real_as<double>(const xpu_ops::Real& r) { return sycl::bit_cast<double>(r.f64_bits); }

XPU_INLINE int64_t load_index(const IndexSource& s, int64_t at) {
  return s.is32 ? static_cast<int64_t>(static_cast<const int32_t*>(s.ptr)[at]) : static_cast<const int64_t*>(s.ptr)[at];
}

// Wraps a negative index; false, after a report, where it is out of range.
XPU_INLINE bool check_index(const IndexSource& s, int64_t& id) {
  int64_t given = id;
  if (s.wrap && id < 0) id += s.size;
  if (static_cast<uint64_t>(id) < static_cast<uint64_t>(s.size)) return true;
  report_error(s.error, s.code, s.dim, given, s.size);
  return false;
}

// As check_index; where `id` is bad for some items of a vector, those alone are skipped.
template <class Index> XPU_INLINE int64_t read_index(const IndexSource& s, const Index* at, size_t i, bool& good) {
  const int64_t given = static_cast<int64_t>(at[i]);
  const int64_t id = s.wrap && given < 0 ? given + s.size : given;
  good = static_cast<uint64_t>(id) < static_cast<uint64_t>(s.size);
  if (!good) report_error(s.error, s.code, s.dim, given, s.size);
  return id;
}

// Calls move(i) for every element i + lane of [begin, end); i is uniform.
template <class F> XPU_INLINE void for_piece(size_t begin, size_t end, size_t local, size_t lane, F move) {
  size_t i = begin;
  for (; i + 4 * local <= end; i += 4 * local) {
    [[clang::always_inline]] move(i);
    [[clang::always_inline]] move(i + local);
    [[clang::always_inline]] move(i + 2 * local);
    [[clang::always_inline]] move(i + 3 * local);
  }
  for (; i + local <= end; i += local) { [[clang::always_inline]] move(i); }
  if (i + lane < end) { [[clang::always_inline]] move(i); }
}

// A work-group goes through a piece of a row, in the order of memory. `o`: offsets of the row.
template <class T, bool Write, class Index, bool kOneIndex>
XPU_INLINE void indexed_row(const IndexedArgs& p, const int64_t (&o)[3]) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), lane = item.get_local_id(1), begin = item.get_group(1) * p.piece;
  const size_t stop = begin + p.piece < p.walk.inner ? begin + p.piece : p.walk.inner;
  const int64_t step = p.walk.strides[0][1];
  T* a = static_cast<T*>(p.plain) + o[0];
  T* b = static_cast<T*>(p.data) + o[1];
  const Index* index = static_cast<const Index*>(p.index.ptr) + o[2];
  if constexpr (kOneIndex) {
    int64_t id = static_cast<int64_t>(index[0]);
    if (!check_index(p.index, id)) return;
    b += id * p.index.stride;
    for_piece(begin, stop, local, lane, [&](size_t i) {
      if constexpr (Write)
        (b + i)[lane] = (a + i)[lane];
      else
        (a + i)[lane] = (b + i)[lane];
    });
  } else {
    for_piece(begin, stop, local, lane, [&](size_t i) {
      bool good;
      const int64_t id = read_index(p.index, index + i, lane, good);
      const int64_t at = id * p.index.stride + static_cast<int64_t>(i + lane) * step;
      if (good) {
        if constexpr (Write)
          b[at] = (a + i)[lane];
        else
          (a + i)[lane] = b[at];
      }
    });
  }
}

// Write = false: plain[o0] = data[o1 + ...]; true: the other way round.
template <class T, bool Write>
inline void indexed_move(const IndexedArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t first = item.get_group(0) * p.rows_per_group;
  const uint32_t end = first + p.rows_per_group < p.walk.rows ? first + p.rows_per_group : p.walk.rows;
  const size_t i0 = item.get_group(1) * item.get_local_range(1), lane = item.get_local_id(1);
  T* plain = static_cast<T*>(p.plain);
  T* data = static_cast<T*>(p.data);
  // Where neither is a row: items beyond the edge go along with the last one and move nothing.
  const bool inside = i0 + lane < p.walk.inner;
  uint32_t f[3];
  inner_offsets(p.walk, inside ? static_cast<uint32_t>(i0 + lane) : p.walk.inner - 1, f);
  // One loop for all modes: the offsets of a row are the largest part of this kernel.
  for (uint32_t row = first; row < end; ++row) {
    int64_t o[3] = {0, 0, 0};
    add_row(p.walk, row, o);
    if (p.mode == IndexMode::row) {
      if (p.index.is32)
        indexed_row<T, Write, int32_t, true>(p, o);
      else
        indexed_row<T, Write, int64_t, true>(p, o);
    } else if (p.mode == IndexMode::unit) {
      if (p.index.is32)
        indexed_row<T, Write, int32_t, false>(p, o);
      else
        indexed_row<T, Write, int64_t, false>(p, o);
    } else {
      int64_t id = load_index(p.index, o[2] + f[2]);
      if (check_index(p.index, id) && inside) {
        T* a = plain + (o[0] + f[0]);
        T* b = data + (o[1] + f[1] + id * p.index.stride);
        if constexpr (Write)
          *b = *a;
        else
          *a = *b;
      }
    }
  }
}

template <class T> inline void indexed_read(const IndexedArgs& p) { indexed_move<T, false>(p); }
template <class T> inline void indexed_write(const IndexedArgs& p) { indexed_move<T, true>(p); }

inline void index_linearize(const LinearizeArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t i = item.get_global_id(1), row = item.get_group(0);
  if (i >= p.walk.inner) return;
  int64_t o[xpu_ops::kMaxIndices + 1] = {};
  uint32_t f[xpu_ops::kMaxIndices + 1];
  add_row(p.walk, row, o);
  inner_offsets(p.walk, i, f);
  int64_t sum = 0;
  bool good = true;
  for (uint32_t k = 0; k < p.count; ++k) {
    int64_t at = o[k + 1] + f[k + 1];
    int64_t given = p.is32[k] ? static_cast<int64_t>(static_cast<const int32_t*>(p.index[k])[at])
                              : static_cast<const int64_t*>(p.index[k])[at];
    int64_t id = given < 0 ? given + p.size[k] : given;
    if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.size[k])) {
      good = false;
      report_error(p.error, DeviceErrorCode::index, p.dim[k], given, p.size[k]);
    }
    sum += id * p.stride[k];
  }
  p.out[o[0] + f[0]] = good ? sum : -1;
}

template <class T> inline bool is_set(const T* x, uint32_t i, const uint64_t (&keep)[2]) {
  return (x[i] & static_cast<T>(keep[0])) != 0;
}
template <> inline bool is_set<raw16>(const raw16* x, uint32_t i, const uint64_t (&keep)[2]) {
  return ((x[i].lo & keep[0]) | (x[i].hi & keep[1])) != 0;
}

// One sub-group counts one chunk.
template <class T>
inline void compact_count(const CompactArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto sg = item.get_sub_group();
  uint32_t lanes = sg.get_local_range()[0], lane = sg.get_local_linear_id();
  uint32_t chunk = item.get_group(0) * sg.get_group_range()[0] + sg.get_group_linear_id();
  if (chunk >= p.chunks) return;
  uint32_t begin = chunk * xpu_ops::kCompactChunk, end = begin + xpu_ops::kCompactChunk;
  if (end > p.n) end = p.n;
  const T* mask = static_cast<const T*>(p.mask);
  uint32_t count = 0;
  for (uint32_t i = begin + lane; i < end; i += lanes) count += is_set(mask, i, p.keep);
  count = sycl::reduce_over_group(sg, count, sycl::plus<uint32_t>());
  if (lane == 0) p.counts[chunk] = count;
}

// One sub-group turns counts into starts and appends the total.
inline void compact_scan(const CompactArgs& p) {
  auto sg = syclex::this_work_item::get_nd_item<1>().get_sub_group();
  if (sg.get_group_linear_id() != 0) return;
  uint32_t lanes = sg.get_local_range()[0], lane = sg.get_local_linear_id(), total = 0;
  for (uint32_t at = 0; at < p.chunks; at += lanes) {
    uint32_t i = at + lane;
    uint32_t c = i < p.chunks ? p.counts[i] : 0;
    uint32_t before = sycl::exclusive_scan_over_group(sg, c, sycl::plus<uint32_t>());
    if (i < p.chunks) p.counts[i] = total + before;
    total += sycl::reduce_over_group(sg, c, sycl::plus<uint32_t>());
  }
  if (lane == 0) p.counts[p.chunks] = total;
}

// Calls emit(position among the set elements, element) for each set element of the sub-group's chunk.
template <class T, class Emit>
inline void for_each_set(const CompactArgs& p, Emit emit) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto sg = item.get_sub_group();
  uint32_t lanes = sg.get_local_range()[0], lane = sg.get_local_linear_id();
  uint32_t chunk = item.get_group(0) * sg.get_group_range()[0] + sg.get_group_linear_id();
  if (chunk >= p.chunks) return;
  uint32_t begin = chunk * xpu_ops::kCompactChunk, end = begin + xpu_ops::kCompactChunk;
  if (end > p.n) end = p.n;
  uint32_t at = p.counts[chunk];
  if (p.counts[chunk + 1] == at) return;
  const T* mask = static_cast<const T*>(p.mask);
  for (uint32_t b = begin; b < end; b += lanes) {
    uint32_t i = b + lane;
    uint32_t set = i < end ? is_set(mask, i, p.keep) : 0;
    uint32_t before = sycl::exclusive_scan_over_group(sg, set, sycl::plus<uint32_t>());
    if (set) emit(at + before, i);
    at += sycl::reduce_over_group(sg, set, sycl::plus<uint32_t>());
  }
}

template <class T>
inline void compact_nonzero(const CompactArgs& p) {
  int64_t* out = static_cast<int64_t*>(p.out);
  for_each_set<T>(p, [&](uint32_t k, uint32_t i) {
    if (k >= p.out_size) return;
    for (uint32_t d = 0; d < p.ndim; ++d) {
      uint32_t q = divide(i, p.dims[d]);
      out[(p.ndim - 1 - d) * p.out_stride + k] = i - q * p.dims[d].d;
      i = q;
    }
  });
}

template <class T>
inline void masked_select(const CompactArgs& p) {
  T* out = static_cast<T*>(p.out);
  const T* src = static_cast<const T*>(p.src);
  for_each_set<uint8_t>(p, [&](uint32_t k, uint32_t i) { out[k] = src[i]; });
}

template <class T>
inline void masked_scatter(const CompactArgs& p) {
  T* out = static_cast<T*>(p.out);
  const T* src = static_cast<const T*>(p.src);
  for_each_set<uint8_t>(p, [&](uint32_t k, uint32_t i) {
    if (k < p.out_size)
      out[i] = src[k];
    else
      report_error(p.error, DeviceErrorCode::masked_scatter, 0, k, p.out_size);
  });
}

inline void nonzero_fill_tail(const FillTailArgs& p) {
  uint32_t i = global_id();
  if (i >= p.rows || i < *p.total) return;
  for (uint32_t d = 0; d < p.ndim; ++d) p.out[d * p.stride + i] = p.value;
}

template <class T>
inline void assert_nonzero(const AssertArgs& p) {
  if (global_id() == 0 && !is_set(static_cast<const T*>(p.value), 0, p.keep))
    report_error(p.error, DeviceErrorCode::assertion, 0, p.message, 0);
}

}  // namespace xpu
