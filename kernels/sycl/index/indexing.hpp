// Element moves by index and compaction. Moves are instantiated by element size, not by type.
#pragma once
#include <sycl/group_algorithm.hpp>

#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/lanes.hpp"
#include "kernels/sycl/core/team_scan.hpp"
#include "kernels/sycl/core/walk.hpp"
#include "kernels/sycl/cpu/scalar_loop.hpp"
#include "kernels/sycl/cpu/short_rows.hpp"
#include "kernels/sycl/index/indexing_args.hpp"

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

template <class Index> XPU_SCALAR_LOOP bool all_plain(const Index* index, size_t n, uint64_t size) {
  uint32_t bad = 0;
  for (; n > 0; --n, ++index) bad |= static_cast<uint64_t>(static_cast<int64_t>(*index)) >= size ? 1 : 0;
  return bad == 0;
}

// Reads by indices that are known to be plain.
template <class T, class Index>
XPU_SCALAR_LOOP void plain_run(T* near, const T* far, const Index* index, size_t n, int64_t stride, int64_t step) {
#pragma unroll 4
  for (size_t i = 0; i < n; ++i, far += step) near[i] = far[static_cast<int64_t>(index[i]) * stride];
}

// Moves while indices are plain; returns how many are left.
template <class T, bool Write, class Index>
XPU_SCALAR_LOOP size_t indexed_run(T* near, T* far, const Index* index, size_t n, uint64_t size, int64_t stride,
                                   int64_t step) {
  for (; n > 0; --n, ++near, ++index, far += step) {
    const int64_t id = static_cast<int64_t>(*index);
    if (static_cast<uint64_t>(id) >= size) break;
    if constexpr (Write)
      far[id * stride] = *near;
    else
      *near = far[id * stride];
  }
  return n;
}

// A work-group goes through a piece of a row, in the order of memory. `o`: offsets of the row.
template <class T, bool Write, class Index, bool kOneIndex>
XPU_INLINE void indexed_row(const IndexedArgs& p, const int64_t (&o)[3], bool first, bool& known) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t local = item.get_local_range(1), lane = item.get_local_id(1), begin = item.get_group(1) * p.piece;
  const size_t stop = begin + p.piece < p.walk.inner ? begin + p.piece : p.walk.inner;
  const int32_t step = static_cast<int32_t>(p.walk.strides[0][1]);
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
  } else if (local == 1) {
    if constexpr (!Write) {
      if (first && p.shared) known = all_plain(index + begin, stop - begin, p.index.size);
      if (known)
        return plain_run(a + begin, b + static_cast<int64_t>(begin) * step, index + begin, stop - begin, p.index.stride,
                         step);
    }
    for (size_t i = begin; i < stop; ++i) {
      i = stop - indexed_run<T, Write>(a + i, b + static_cast<int64_t>(i) * step, index + i, stop - i, p.index.size,
                                       p.index.stride, step);
      if (i >= stop) break;
      int64_t id = static_cast<int64_t>(index[i]);
      if (!check_index(p.index, id)) continue;
      T* far = b + (static_cast<int64_t>(i) * step + id * p.index.stride);
      if constexpr (Write)
        *far = a[i];
      else
        a[i] = *far;
    }
  } else {
    for_piece(begin, stop, local, lane, [&](size_t i) {
      bool good;
      // 32 bits, which the host has checked, make one gather of what would be two.
      const int32_t id = static_cast<int32_t>(read_index(p.index, index + i, lane, good));
      const int32_t at = id * static_cast<int32_t>(p.index.stride) + static_cast<int32_t>(i + lane) * step;
      if (good) {
        if constexpr (Write)
          b[at] = (a + i)[lane];
        else
          (a + i)[lane] = b[at];
      }
    });
  }
}

// IndexMode::row for one item: rows [first, end), in runs along the innermost dimension of rows.
template <class T, bool Write, class Index>
XPU_INLINE void indexed_rows(const IndexedArgs& p, uint32_t first, uint32_t end) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  ShortRows r;
  r.near_step = p.walk.strides[1][0] * kBytes, r.far_step = p.walk.strides[1][1] * kBytes;
  r.index_step = p.walk.strides[1][2];
  r.size = p.index.size, r.stride = p.index.stride * kBytes, r.wrap = p.index.wrap;
  r.bytes = p.walk.inner * sizeof(T);
  const uint32_t run = p.walk.ndim > 1 ? p.walk.dims[1].d : 1;
  for (uint32_t row = first; row < end;) {
    int64_t o[3] = {0, 0, 0};
    add_row(p.walk, row, o);
    const uint32_t left = run - row % run, count = left < end - row ? left : end - row;
    r.near = static_cast<char*>(p.plain) + o[0] * kBytes, r.far = static_cast<char*>(p.data) + o[1] * kBytes;
    const Index* index = static_cast<const Index*>(p.index.ptr) + o[2];
    const uint32_t done = r.bytes >= 16  ? short_rows<raw16, Write>(r, index, count)
                          : r.bytes >= 8 ? short_rows<uint64_t, Write>(r, index, count)
                                         : short_rows<T, Write>(r, index, count);
    row += done;
    if (done == count) continue;
    int64_t id = static_cast<int64_t>(index[done * r.index_step]);
    check_index(p.index, id);
    ++row;
  }
}

// Write = false: plain[o0] = data[o1 + ...]; true: the other way round.
template <class T, bool Write>
inline void indexed_move(const IndexedArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const uint32_t first = item.get_group(0) * p.rows_per_group;
  const uint32_t end = first + p.rows_per_group < p.walk.rows ? first + p.rows_per_group : p.walk.rows;
  const size_t i0 = item.get_group(1) * item.get_local_range(1), lane = item.get_local_id(1);
  if (p.mode == IndexMode::row && item.get_local_range(1) == 1)
    return p.index.is32 ? indexed_rows<T, Write, int32_t>(p, first, end)
                        : indexed_rows<T, Write, int64_t>(p, first, end);
  T* plain = static_cast<T*>(p.plain);
  T* data = static_cast<T*>(p.data);
  // Where neither is a row: items beyond the edge go along with the last one and move nothing.
  const bool inside = i0 + lane < p.walk.inner;
  uint32_t f[3];
  inner_offsets(p.walk, inside ? static_cast<uint32_t>(i0 + lane) : p.walk.inner - 1, f);
  bool known = false;
  // One loop for all modes: the offsets of a row are the largest part of this kernel.
  for (uint32_t row = first; row < end; ++row) {
    int64_t o[3] = {0, 0, 0};
    add_row(p.walk, row, o);
    if (p.mode == IndexMode::row) {
      if (p.index.is32)
        indexed_row<T, Write, int32_t, true>(p, o, row == first, known);
      else
        indexed_row<T, Write, int64_t, true>(p, o, row == first, known);
    } else if (p.mode == IndexMode::unit) {
      if (p.index.is32)
        indexed_row<T, Write, int32_t, false>(p, o, row == first, known);
      else
        indexed_row<T, Write, int64_t, false>(p, o, row == first, known);
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

// Adds one index times its stride to the offsets of a row, -1 where it is out of range.
template <class Index>
XPU_INLINE void add_index(const LinearizeArgs& p, const Index* index, int64_t step, int64_t size, int64_t stride,
                          uint32_t dim, bool first, int64_t* out) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t lane = item.get_local_id(1), local = item.get_local_range(1),
               c0 = item.get_group(1) * size_t{kTileElements},
               c1 = c0 + kTileElements < p.walk.inner ? c0 + kTileElements : p.walk.inner;
  const auto one = [&](size_t c, int64_t given) __attribute__((always_inline)) {
    const int64_t id = given < 0 ? given + size : given, before = first ? 0 : out[c];
    const bool good = static_cast<uint64_t>(id) < static_cast<uint64_t>(size);
    if (!good) report_error(p.error, DeviceErrorCode::index, dim, given, size);
    out[c] = good && before >= 0 ? before + id * stride : -1;
  };
  if (step == 1) {
    for_columns(c0, c1, lane, local, [&](size_t c) __attribute__((always_inline)) { one(c, index[c]); });
  } else if (step == 0) {
    const int64_t given = index[0];
    for_columns(c0, c1, lane, local, [&](size_t c) __attribute__((always_inline)) { one(c, given); });
  } else {
    for_columns(c0, c1, lane, local,
                [&](size_t c) __attribute__((always_inline)) { one(c, index[static_cast<int64_t>(c) * step]); });
  }
}

// A sub-group has some rows, or a piece of a long one, and goes through each once an index tensor.
inline void index_linearize(const LinearizeArgs& p) {
  uint32_t row = syclex::this_work_item::get_nd_item<2>().get_group(0) * p.rows_per_group;
  const uint32_t end = row + p.rows_per_group < p.walk.rows ? row + p.rows_per_group : p.walk.rows;
  for (; row < end; ++row) {
    int64_t o[xpu_ops::kMaxIndices + 1] = {};
    add_row(p.walk, row, o);
    for (uint32_t k = 0; k < p.count; ++k) {
      // Chosen among constant places: an index into the arguments would copy them for every item.
      const void* index = p.index[0];
      int64_t at = o[1], step = p.walk.strides[0][1], size = p.size[0], stride = p.stride[0];
      uint32_t dim = p.dim[0];
      bool is32 = p.is32[0];
#pragma unroll
      for (uint32_t q = 1; q < xpu_ops::kMaxIndices; ++q) {
        const bool mine = q == k;
        index = mine ? p.index[q] : index;
        at = mine ? o[q + 1] : at;
        step = mine ? p.walk.strides[0][q + 1] : step;
        size = mine ? p.size[q] : size;
        stride = mine ? p.stride[q] : stride;
        dim = mine ? p.dim[q] : dim;
        is32 = mine ? p.is32[q] != 0 : is32;
      }
      if (is32)
        add_index(p, static_cast<const int32_t*>(index) + at, step, size, stride, dim, k == 0, p.out + o[0]);
      else
        add_index(p, static_cast<const int64_t*>(index) + at, step, size, stride, dim, k == 0, p.out + o[0]);
    }
  }
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
  if (is_first_lane()) p.counts[chunk] = count;
}

// One work-group turns counts into starts and appends the total.
inline void compact_scan(const CompactArgs& p) { counts_to_places(p.counts, p.chunks); }

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

// The running number of each set element, where its last coordinate belongs.
template <class T>
inline void compact_nonzero(const CompactArgs& p) {
  int64_t* out = static_cast<int64_t*>(p.out) + (p.ndim - 1) * p.out_stride;
  for_each_set<T>(p, [&](uint32_t k, uint32_t i) {
    if (k < p.out_size) out[k] = i;
  });
}

// Turns running numbers into coordinates. Constant bounds: see walk.hpp.
inline void nonzero_unravel(const CompactArgs& p) {
  int64_t* out = static_cast<int64_t*>(p.out);
  for_tile(static_cast<uint32_t>(p.out_size), [&](size_t k) __attribute__((always_inline)) {
    uint32_t i = static_cast<uint32_t>((out + (p.ndim - 1) * p.out_stride)[k]);
#pragma unroll
    for (uint32_t d = 0; d < xpu_ops::kCompactDims; ++d) {
      if (d >= p.ndim) break;
      const uint32_t q = divide(i, p.dims[d]);
      (out + (p.ndim - 1 - d) * p.out_stride)[k] = i - q * p.dims[d].d;
      i = q;
    }
  });
}

// Both for one item per chunk: it notes positions without a branch, some hundred at a time, then divides them.
template <class T> XPU_INLINE void chunk_coordinates(const CompactArgs& p, uint32_t chunk) {
  constexpr uint32_t kNoted = 256;
  if (chunk >= p.chunks || p.counts[chunk + 1] == p.counts[chunk]) return;
  const T* mask = static_cast<const T*>(p.mask);
  const uint64_t keep[2] = {p.keep[0], p.keep[1]};
  const uint32_t first = chunk * xpu_ops::kCompactChunk,
                 end = first + xpu_ops::kCompactChunk < p.n ? first + xpu_ops::kCompactChunk : p.n;
  int64_t at = p.counts[chunk];
  for (uint32_t begin = first; begin < end && at < p.out_size; begin += kNoted) {
    uint32_t noted[kNoted], count = 0;
    const uint32_t stop = begin + kNoted < end ? begin + kNoted : end;
    for (uint32_t i = begin; i < stop; ++i) {
      noted[count] = i;
      count += is_set(mask, i, keep) ? 1 : 0;
    }
    if (at + count > p.out_size) count = static_cast<uint32_t>(p.out_size - at);
    int64_t* out = static_cast<int64_t*>(p.out) + (p.ndim - 1) * p.out_stride + at;
    for (uint32_t d = 0; d + 1 < p.ndim; ++d, out -= p.out_stride) {
      const Divider by = p.dims[d];
      for (uint32_t k = 0; k < count; ++k) {
        const uint32_t q = divide(noted[k], by);
        out[k] = noted[k] - q * by.d;
        noted[k] = q;
      }
    }
    for (uint32_t k = 0; k < count; ++k) out[k] = noted[k];
    at += count;
  }
}

template <class T> inline void compact_coordinates(const CompactArgs& p) { chunk_coordinates<T>(p, global_id()); }

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
