// Bags of embedding rows and row renormalisation. Plain lookups are indexed_read, their gradients column_add.
#pragma once
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/index/embedding_args.hpp"
#include "kernels/sycl/index/indexing.hpp"
#include "kernels/sycl/math/math.hpp"

namespace xpu {

using xpu_ops::BagArgs;
using xpu_ops::BagGradArgs;
using xpu_ops::BagMode;
using xpu_ops::BagSampleGradArgs;
using xpu_ops::RenormArgs;

inline int64_t load_int(const void* p, uint8_t is32, int64_t at) {
  return is32 ? static_cast<int64_t>(static_cast<const int32_t*>(p)[at]) : static_cast<const int64_t*>(p)[at];
}

constexpr int kBagSums = 4;

// The ids of a bag.
struct BagSpan { int64_t begin, end; };
template <class Index> XPU_INLINE BagSpan span_of(const BagArgs& p, uint32_t bag) {
  const Index* starts = static_cast<const Index*>(p.offsets) + bag;
  const int64_t begin = starts[0], end = bag + 1 < p.bags ? static_cast<int64_t>(starts[1]) : p.count;
  return {begin < 0 ? 0 : begin > p.count ? p.count : begin, end > p.count ? p.count : end};
}
// Calls f(a zero of the type of the indices, first and last bag of the work-group).
template <class F> XPU_INLINE void for_bags(const BagArgs& p, F f) {
  const uint32_t group = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0)),
                 first = group * p.bags_per_group,
                 last = first + p.bags_per_group < p.bags ? first + p.bags_per_group : p.bags;
  if (p.is32) {
    f(int32_t{0}, first, last);
  } else {
    f(int64_t{0}, first, last);
  }
}

// A bag of a work-group. Its ids, the same for all items, are shared out among them for the bookkeeping, and gone
// through by all for the sums.
template <class T, class Index>
XPU_INLINE void sum_bag(const BagArgs& p, uint32_t bag) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), local = item.get_local_range(0);
  const Index* ids = static_cast<const Index*>(p.index.ptr);
  const auto [begin, end] = span_of<Index>(p, bag);
  auto good = [&](int64_t id) { return static_cast<uint64_t>(id) < static_cast<uint64_t>(p.index.size); };
  int64_t used = 0;
  for (int64_t j = begin; j < end; ++j) used += good(ids[j]) && ids[j] != p.padding ? 1 : 0;
  // Indices before the first bag count as its own, so that every place is written.
  for (int64_t j = (bag == 0 ? 0 : begin) + static_cast<int64_t>(lane); j < end; j += local) {
    if (p.offset2bag) static_cast<Index*>(p.offset2bag)[j] = static_cast<Index>(bag);
    if (!good(ids[j]))
      report_error(p.index.error, DeviceErrorCode::bag_index, static_cast<uint32_t>(j), ids[j], p.index.size);
  }
  if (lane == 0) static_cast<Index*>(p.bag_size)[bag] = static_cast<Index>(used);
  const T* weight = static_cast<const T*>(p.weight);
  const T* times = static_cast<const T*>(p.per_sample);
  T* out = static_cast<T*>(p.out) + static_cast<size_t>(bag) * p.features;
  const bool mean = p.mode == BagMode::mean && used > 0;
  size_t f = 0;
  if (p.mode != BagMode::max && p.weight_stride1 == 1) {  // whole vectors, several sums at once
    for (; f + kBagSums * local <= p.features; f += kBagSums * local) {
      M acc[kBagSums] = {};
      for (int64_t j = begin; j < end; ++j) {
        const int64_t id = ids[j];
        if (!good(id) || id == p.padding) continue;
        const T* row = weight + id * p.weight_stride0 + f;
        const M factor = times ? M(times[j * p.per_sample_stride]) : M(1);
#pragma unroll
        for (int s = 0; s < kBagSums; ++s) acc[s] += factor * M((row + s * local)[lane]);
      }
#pragma unroll
      for (int s = 0; s < kBagSums; ++s) (out + (f + s * local))[lane] = T(mean ? acc[s] / M(used) : acc[s]);
    }
  }
  for (f += lane; f < p.features; f += local) {
    M acc = M(0);
    Index where = -1;
    for (int64_t j = begin; j < end; ++j) {
      const Index id = ids[j];
      if (!good(id) || id == p.padding) continue;
      const M v = M(weight[id * p.weight_stride0 + static_cast<int64_t>(f) * p.weight_stride1]);
      if (p.mode == BagMode::max) {
        const bool take = where < 0 || v > acc || v != v;
        acc = take ? v : acc;
        where = take ? id : where;
      } else {
        acc += times ? v * M(times[j * p.per_sample_stride]) : v;
      }
    }
    if (p.mode == BagMode::max) static_cast<Index*>(p.max_indices)[static_cast<size_t>(bag) * p.features + f] = where;
    out[f] = T(mean ? acc / M(used) : acc);
  }
}

template <class T>
inline void embedding_bag(const BagArgs& p) {
  for_bags(p, [&]<class Index>(Index, uint32_t first, uint32_t last) __attribute__((always_inline)) {
    for (uint32_t bag = first; bag < last; ++bag) sum_bag<T, Index>(p, bag);
  });
}

// kSums whole vectors of a bag's row, from column f.
template <class T, class Index, int kSums>
XPU_INLINE void bag_vectors(const BagArgs& p, const Index* ids, int64_t begin, int64_t end, uint32_t bag, size_t f,
                            bool all, int32_t used) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), local = item.get_local_range(0);
  const T* weight = static_cast<const T*>(p.weight) + f;
  const T* times = static_cast<const T*>(p.per_sample);
  T* out = static_cast<T*>(p.out) + (static_cast<size_t>(bag) * p.features + f);
  M acc[kSums] = {};
  for (int64_t j = begin; j < end; ++j) {
    const int64_t id = ids[j];
    if (!all && (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.index.size) || id == p.padding)) continue;
    const T* row = weight + id * p.weight_stride0;
    if (times) {
      const M factor = M(times[j * p.per_sample_stride]);
#pragma unroll
      for (int s = 0; s < kSums; ++s) acc[s] += factor * M((row + s * local)[lane]);
    } else {
#pragma unroll
      for (int s = 0; s < kSums; ++s) acc[s] += M((row + s * local)[lane]);
    }
  }
  if (p.mode == BagMode::mean && used > 0) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) acc[s] = acc[s] / M(used);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) (out + s * local)[lane] = T(acc[s]);
}

// Calls rows(bag, its span, whether all its ids count, how many do) for the bags of a group, whose sums or means they
// are, and does the bookkeeping. Where `clean`, all ids from `low` to `high` are known to count, and none wants its
// bag's number.
template <class Index, class F>
XPU_INLINE void for_summed_bags(const BagArgs& p, uint32_t first, uint32_t last, bool clean, int64_t low, int64_t high,
                                F rows) {
  const Index* ids = static_cast<const Index*>(p.index.ptr);
  Index* const bags = static_cast<Index*>(p.offset2bag);
  for (uint32_t bag = first; bag < last; ++bag) {
    const BagSpan span = span_of<Index>(p, bag);
    const auto [begin, end] = span;
    int32_t used = end > begin ? static_cast<int32_t>(end - begin) : 0, bad = 0;
    if (!clean || begin < low || end > high) {
      used = 0;
      for (int64_t j = begin; j < end; ++j) {
        const int64_t id = ids[j];
        const bool good = static_cast<uint64_t>(id) < static_cast<uint64_t>(p.index.size);
        used += good && id != p.padding ? 1 : 0;
        bad += good ? 0 : 1;
        if (bags) bags[j] = static_cast<Index>(bag);
      }
    }
    if (bags && bag == 0)
      for (int64_t j = 0; j < begin; ++j) bags[j] = Index(0);
    if (bad > 0)
      for (int64_t j = begin; j < end; ++j)
        if (static_cast<uint64_t>(ids[j]) >= static_cast<uint64_t>(p.index.size))
          report_error(p.index.error, DeviceErrorCode::bag_index, static_cast<uint32_t>(j), ids[j], p.index.size);
    static_cast<Index*>(p.bag_size)[bag] = static_cast<Index>(used);
    [[clang::always_inline]] rows(bag, span, used == end - begin, used);
  }
}

// Sums and means of rows of a vector and more, of which the last may overlap the one before. Nothing differs between
// items but their column: one loop that some items leave would put masks on all of it, and make the stores scatters.
template <class T, class Index>
XPU_INLINE void sum_bags(const BagArgs& p, uint32_t first, uint32_t last) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), local = item.get_local_range(0);
  const Index* ids = static_cast<const Index*>(p.index.ptr);
  // All ids of the group at once; nearly always every one counts.
  const int64_t low = span_of<Index>(p, first).begin, high = span_of<Index>(p, last - 1).end;
  bool odd = false;
  auto look = [&](const Index* at) {
    const int64_t id = at[lane];
    odd |= static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.index.size) || id == p.padding;
  };
  int64_t j0 = low;
  for (; j0 + static_cast<int64_t>(local) <= high; j0 += local) [[clang::always_inline]]
    look(ids + j0);
  if (j0 + static_cast<int64_t>(lane) < high) [[clang::always_inline]]
    look(ids + j0);
  const bool clean = !p.offset2bag && !sycl::any_of_group(syclex::this_work_item::get_sub_group(), odd);
  for_summed_bags<Index>(p, first, last, clean, low, high,
                         [&](uint32_t bag, BagSpan ids_at, bool all, int32_t used) __attribute__((always_inline)) {
                           const auto [begin, end] = ids_at;
                           size_t f = 0;
                           for (; f + kBagSums * local <= p.features; f += kBagSums * local)
                             bag_vectors<T, Index, kBagSums>(p, ids, begin, end, bag, f, all, used);
                           for (; f + local <= p.features; f += local)
                             bag_vectors<T, Index, 1>(p, ids, begin, end, bag, f, all, used);
                           if (f < p.features)
                             bag_vectors<T, Index, 1>(p, ids, begin, end, bag, p.features - local, all, used);
                         });
}

template <class T>
inline void embedding_bag_vectors(const BagArgs& p) {
  for_bags(p, [&]<class Index>(Index, uint32_t first, uint32_t last)
                  __attribute__((always_inline)) { sum_bags<T, Index>(p, first, last); });
}

// The same in vectors of its own, whose distances the compiler knows: with those of items it read three of them back
// from the stack for every row, and the processor looked less far ahead for rows to wait for.
template <class T, class Index, int kSums>
XPU_INLINE void bag_pieces(const BagArgs& p, BagSpan span, uint32_t bag, size_t f, bool all, int32_t used) {
  const Index* ids = static_cast<const Index*>(p.index.ptr);
  const T* weight = static_cast<const T*>(p.weight) + f;
  const T* times = static_cast<const T*>(p.per_sample);
  T* out = static_cast<T*>(p.out) + (static_cast<size_t>(bag) * p.features + f);
  float16v acc[kSums];
#pragma unroll
  for (int s = 0; s < kSums; ++s) acc[s] = 0;
  if (all && !times) {
    const auto add = [&](int64_t j) __attribute__((always_inline)) {
      const T* row = weight + static_cast<int64_t>(ids[j]) * p.weight_stride0;
#pragma unroll
      for (int s = 0; s < kSums; ++s) acc[s] += load16(row + s * 16);
    };
    int64_t j = span.begin;
    for (; j + 4 <= span.end; j += 4) add(j), add(j + 1), add(j + 2), add(j + 3);
    for (; j < span.end; ++j) add(j);
  } else {
    for (int64_t j = span.begin; j < span.end; ++j) {
      const int64_t id = ids[j];
      if (!all && (static_cast<uint64_t>(id) >= static_cast<uint64_t>(p.index.size) || id == p.padding)) continue;
      const float factor = times ? static_cast<float>(times[j * p.per_sample_stride]) : 1.0f;
      const T* row = weight + id * p.weight_stride0;
#pragma unroll
      for (int s = 0; s < kSums; ++s) acc[s] += factor * load16(row + s * 16);
    }
  }
  if (p.mode == BagMode::mean && used > 0) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) acc[s] = acc[s] / static_cast<float>(used);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) store16(out + s * 16, acc[s]);
}

template <class T, class Index>
XPU_INLINE void sum_bags_single(const BagArgs& p, uint32_t first, uint32_t last) {
  using Index8 = Index __attribute__((ext_vector_type(8)));
  using Index8u __attribute__((ext_vector_type(8), aligned(sizeof(Index)))) = Index;
  const Index* ids = static_cast<const Index*>(p.index.ptr);
  const int64_t low = span_of<Index>(p, first).begin, high = span_of<Index>(p, last - 1).end;
  constexpr int64_t kMost = static_cast<int64_t>(~uint64_t{0} >> (65 - 8 * sizeof(Index)));
  const Index size = static_cast<Index>(p.index.size < kMost ? p.index.size : kMost),
              padding = static_cast<Index>(p.padding);
  Index8 odd = 0;  // how many, less than 0: see note_changes in unique.hpp
  const auto look = [&](Index8 id)
                        __attribute__((always_inline)) { odd += (id < Index(0)) | (id >= size) | (id == padding); };
  int64_t j = low;
  for (; j + 8 <= high; j += 8) look(*reinterpret_cast<const Index8u*>(ids + j));
  for (; j < high; ++j) look(Index8(ids[j]));
  Index any = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) any += odd[k];
  for_summed_bags<Index>(p, first, last, any >= 0 && !p.offset2bag, low, high,
                         [&](uint32_t bag, BagSpan span, bool all, int32_t used) __attribute__((always_inline)) {
                           size_t f = 0;
                           for (; f + kBagSums * 16 <= p.features; f += kBagSums * 16)
                             bag_pieces<T, Index, kBagSums>(p, span, bag, f, all, used);
                           for (; f + 16 <= p.features; f += 16) bag_pieces<T, Index, 1>(p, span, bag, f, all, used);
                           if (f < p.features) bag_pieces<T, Index, 1>(p, span, bag, p.features - 16, all, used);
                         });
}

template <class T>
inline void embedding_bag_single(const BagArgs& p) {
  for_bags(p, [&]<class Index>(Index, uint32_t first, uint32_t last)
                  __attribute__((always_inline)) { sum_bags_single<T, Index>(p, first, last); });
}

template <class T, class Index>
XPU_INLINE void add_bag_rows(const BagGradArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = item.get_local_id(0), local = item.get_local_range(0);
  const uint32_t group = static_cast<uint32_t>(item.get_group(0)), part = group / p.tiles,
                 tile = group - part * p.tiles;
  const size_t c0 = static_cast<size_t>(tile) * p.tile, width = p.features - c0 < p.tile ? p.features - c0 : p.tile;
  const int64_t low = part * p.rows_per_part, left = p.rows - low,
                size = left < p.rows_per_part ? left : p.rows_per_part;
  const Index* ids = static_cast<const Index*>(p.index);
  const Index* bags = static_cast<const Index*>(p.offset2bag);
  const T* times = static_cast<const T*>(p.per_sample);
  for (uint32_t j = 0; j < p.count; ++j) {
    const int64_t id = ids[j];
    if (static_cast<uint64_t>(id - low) >= static_cast<uint64_t>(size) || id == p.padding) continue;
    const int64_t bag = bags ? static_cast<int64_t>(bags[j]) : j;
    if (static_cast<uint64_t>(bag) >= static_cast<uint64_t>(p.bags)) {
      report_error(p.error, DeviceErrorCode::index_self, 0, bag, p.bags);
      continue;
    }
    const T* src = static_cast<const T*>(p.grad) + (bag * p.features + c0);
    T* dst = static_cast<T*>(p.out) + (id * p.features + c0);
    // Each step is rounded, as by the operators that this stands for.
    if (p.bag_size) {
      const M by = M(T(M(static_cast<const Index*>(p.bag_size)[bag])));
      for_columns(0, width, lane, local, [&](size_t c) { dst[c] = T(M(dst[c]) + M(T(M(src[c]) / by))); });
    } else if (times) {
      const M factor = M(times[j * p.per_sample_stride]);
      for_columns(0, width, lane, local, [&](size_t c) {
        const T v = T(M(src[c]) * factor);
        dst[c] = T(M(dst[c]) + M(v));
      });
    } else {
      for_columns(0, width, lane, local, [&](size_t c) { dst[c] = T(M(dst[c]) + M(src[c])); });
    }
  }
}

template <class T>
inline void bag_grad(const BagGradArgs& p) {
  if (p.is32)
    add_bag_rows<T, int32_t>(p);
  else
    add_bag_rows<T, int64_t>(p);
}

// One sub-group per sample.
template <class T>
inline void bag_sample_grad(const BagSampleGradArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto sg = item.get_sub_group();
  uint32_t j = item.get_group(0) * sg.get_group_range()[0] + sg.get_group_linear_id();
  if (j >= p.count) return;
  int64_t id = load_int(p.index, p.is32, j), bag = load_int(p.offset2bag, p.is32, j);
  M sum = M(0);
  const bool known = static_cast<uint64_t>(id) < static_cast<uint64_t>(p.rows) &&
                     static_cast<uint64_t>(bag) < static_cast<uint64_t>(p.bags);
  if (!known) {
    report_error(p.error, DeviceErrorCode::index_self, 0, id, p.rows);
  } else if (id != p.padding && p.grad_stride1 == 1 && p.weight_stride1 == 1) {
    // Vector loads want strides that are known to be 1; four sums, each of which would wait for itself.
    const T* grad = static_cast<const T*>(p.grad) + bag * p.grad_stride0;
    const T* weight = static_cast<const T*>(p.weight) + id * p.weight_stride0;
    const size_t lane = sg.get_local_linear_id(), lanes = sg.get_local_range()[0];
    M acc[kBagSums] = {};
    size_t f = 0;
    for (; f + kBagSums * lanes <= p.features; f += kBagSums * lanes) {
#pragma unroll
      for (int s = 0; s < kBagSums; ++s)
        acc[s] += M((grad + (f + s * lanes))[lane]) * M((weight + (f + s * lanes))[lane]);
    }
    for (; f + lanes <= p.features; f += lanes) acc[0] += M((grad + f)[lane]) * M((weight + f)[lane]);
    if (f + lane < p.features) acc[1] += M((grad + f)[lane]) * M((weight + f)[lane]);
    sum = (acc[0] + acc[1]) + (acc[2] + acc[3]);
  } else if (id != p.padding)
    for (uint32_t f = sg.get_local_linear_id(); f < p.features; f += sg.get_local_range()[0])
      sum += M(static_cast<const T*>(p.grad)[bag * p.grad_stride0 + f * p.grad_stride1]) *
             M(static_cast<const T*>(p.weight)[id * p.weight_stride0 + f * p.weight_stride1]);
  sum = sycl::reduce_over_group(sg, sum, sycl::plus<M>());
  if (is_first_lane()) static_cast<T*>(p.out)[j] = T(sum);
}

// One sub-group per row.
template <class T>
inline void renorm_rows(const RenormArgs& p) {
  using V = opmath_t<T>;
  using M = real_t<V>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto sg = item.get_sub_group();
  uint32_t row = item.get_group(0) * sg.get_group_range()[0] + sg.get_group_linear_id();
  if (row >= p.rows || !p.flags[row]) return;
  T* weight = static_cast<T*>(p.weight) + row * p.stride0;
  uint32_t lane = sg.get_local_linear_id(), lanes = sg.get_local_range()[0];
  const M power = real_as<M>(p.p);
  const bool infinite = p.norm == 0;
  M sum = M(0);
  for (uint32_t f = lane; f < p.features; f += lanes) {
    const V x = static_cast<V>(weight[f * p.stride1]);
    M v;
    if constexpr (is_complex_v<V>)
      v = sycl::hypot(x.re, x.im);
    else
      v = sycl::fabs(x);
    if (infinite)
      sum = sycl::fmax(sum, v);
    else
      sum += p.norm == 2 ? v * v : p.norm == 1 ? v : sycl::pow(v, power);
  }
  M norm;
  if (infinite)
    norm = sycl::reduce_over_group(sg, sum, sycl::maximum<M>());
  else {
    sum = sycl::reduce_over_group(sg, sum, sycl::plus<M>());
    norm = p.norm == 2 ? sycl::sqrt(sum) : p.norm == 1 ? sum : sycl::pow(sum, M(1) / power);
  }
  if (norm > real_as<M>(p.max_norm)) {
    M scale = real_as<M>(p.max_norm) / (norm + M(1e-7f));
    for (uint32_t f = lane; f < p.features; f += lanes)
      weight[f * p.stride1] = static_cast<T>(static_cast<V>(weight[f * p.stride1]) * V(scale));
  }
}

}  // namespace xpu
