// Reductions: three kernels (row, col, final) over one functor. The functors are in reduction_functors.hpp.
//
// A functor has: In, Acc; `identity()`; `add(Acc&, In, int64_t index)`; `combine(Acc&, const Acc&)`, associative up to
// rounding and, where it looks at indices, independent of order; `store(args, offset0, offset1, Acc)`. What `store`
// would need a built-in function for is done by `finished(args, Acc)`, before one lane's value goes to all.
// Which element meets which accumulator depends on sizes and strides alone, so results repeat from run to run.
//
// Two rules make these kernels fast on the CPU device (3 to 8 times):
//
// The compiler turns adjacent items into one vector where it can prove that an address is `uniform base + item`. Every
// hot load is pointer arithmetic on uniform values (group id, loop counters, arguments) indexed by the 64-bit local id
// alone. The same sum in 32 bits may wrap, and becomes a gather.
//
// Every access to the argument struct has a constant offset: loops over dimensions have constant bounds and unroll. One
// dynamic index makes the compiler keep a copy of the struct per item; then nothing read from it counts as uniform.
#pragma once
#include <sycl/group_algorithm.hpp>

#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/lanes.hpp"
#include "kernels/sycl/core/wide.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu {

using xpu_ops::ColMode;
using xpu_ops::kColumns;
using xpu_ops::kLanes;
using xpu_ops::kReductionDims;
using xpu_ops::kRows;
using xpu_ops::ReductionArgs;

// ---- Accumulators of several values: exchanged and chosen field by field, which keeps them in registers.
template <class A, class B> struct Acc2 {
  A a;
  B b;
};
template <class A, class B, class C> struct Acc3 {
  A a;
  B b;
  C c;
};

template <class T> inline T exchange(sycl::sub_group sg, const T& v, uint32_t m) {
  return sycl::permute_group_by_xor(sg, v, m);
}
template <class T> inline cplx<T> exchange(sycl::sub_group sg, const cplx<T>& v, uint32_t m) {
  return {exchange(sg, v.re, m), exchange(sg, v.im, m)};
}
template <class A, class B> inline Acc2<A, B> exchange(sycl::sub_group sg, const Acc2<A, B>& v, uint32_t m) {
  return {exchange(sg, v.a, m), exchange(sg, v.b, m)};
}
template <class A, class B, class C>
inline Acc3<A, B, C> exchange(sycl::sub_group sg, const Acc3<A, B, C>& v, uint32_t m) {
  return {exchange(sg, v.a, m), exchange(sg, v.b, m), exchange(sg, v.c, m)};
}

template <class R> inline Wide<R> exchange(sycl::sub_group sg, const Wide<R>& v, uint32_t m) {
  return {exchange(sg, v.hi, m), exchange(sg, v.lo, m)};
}
inline WideComplex exchange(sycl::sub_group sg, const WideComplex& v, uint32_t m) {
  return {exchange(sg, v.re, m), exchange(sg, v.im, m)};
}

template <class R> inline Wide<R> from_lane(const Wide<R>& v, uint32_t lane) {
  return {from_lane(v.hi, lane), from_lane(v.lo, lane)};
}
inline WideComplex from_lane(const WideComplex& v, uint32_t lane) {
  return {from_lane(v.re, lane), from_lane(v.im, lane)};
}
template <class T> inline cplx<T> from_lane(const cplx<T>& v, uint32_t lane) {
  return {from_lane(v.re, lane), from_lane(v.im, lane)};
}
template <class A, class B> inline Acc2<A, B> from_lane(const Acc2<A, B>& v, uint32_t lane) {
  return {from_lane(v.a, lane), from_lane(v.b, lane)};
}
template <class A, class B, class C> inline Acc3<A, B, C> from_lane(const Acc3<A, B, C>& v, uint32_t lane) {
  return {from_lane(v.a, lane), from_lane(v.b, lane), from_lane(v.c, lane)};
}

template <class T> inline T pick(bool c, const T& x, const T& y) { return c ? x : y; }
template <class T> inline cplx<T> pick(bool c, const cplx<T>& x, const cplx<T>& y) {
  return {pick(c, x.re, y.re), pick(c, x.im, y.im)};
}
template <class R> inline Wide<R> pick(bool c, const Wide<R>& x, const Wide<R>& y) {
  return {pick(c, x.hi, y.hi), pick(c, x.lo, y.lo)};
}
inline WideComplex pick(bool c, const WideComplex& x, const WideComplex& y) {
  return {pick(c, x.re, y.re), pick(c, x.im, y.im)};
}
template <class A, class B> inline Acc2<A, B> pick(bool c, const Acc2<A, B>& x, const Acc2<A, B>& y) {
  return {pick(c, x.a, y.a), pick(c, x.b, y.b)};
}
template <class A, class B, class C>
inline Acc3<A, B, C> pick(bool c, const Acc3<A, B, C>& x, const Acc3<A, B, C>& y) {
  return {pick(c, x.a, y.a), pick(c, x.b, y.b), pick(c, x.c, y.c)};
}

// Adjacent 16-bit structs are not read as one vector; their bits are.
template <class T, class I> inline T load(const T* x, I i) { return x[i]; }
template <class I> inline bf16 load(const bf16* x, I i) {
  bf16 v;
  v.bits = reinterpret_cast<const uint16_t*>(x)[i];
  return v;
}

// ---- Where elements are
// Not sycl::min: the compiler takes the result of a built-in function for different in every item.
inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

struct KeptOffsets { int64_t in = 0, out0 = 0, out1 = 0; };

// Offsets of output `o`, starting at kept dimension `first`.
template <int first = 0>
inline KeptOffsets kept_offsets(const ReductionArgs& p, uint32_t o) {
  KeptOffsets k;
#pragma unroll
  for (int d = first; d < kReductionDims; ++d) {
    if (static_cast<uint32_t>(d) >= p.kept_rank) break;
    const uint32_t q = div(o, p.kept[d]);
    const int64_t i = o - q * p.kept[d].d;
    k.in += i * p.in_kept[d];
    k.out0 += i * p.out0_kept[d];
    k.out1 += i * p.out1_kept[d];
    o = q;
  }
  return k;
}

inline int64_t outer_offset(const ReductionArgs& p, uint32_t r) {
  int64_t off = 0;
#pragma unroll
  for (int d = 0; d < kReductionDims; ++d) {
    if (static_cast<uint32_t>(d) >= p.outer_rank) break;
    const uint32_t q = div(r, p.outer[d]);
    off += static_cast<int64_t>(r - q * p.outer[d].d) * p.in_outer[d];
    r = q;
  }
  return off;
}

struct SplitRange { uint32_t inner_begin, inner_end, outer_begin, outer_end; };

inline SplitRange split_range(const ReductionArgs& p, uint32_t s) {
  uint32_t so = div(s, p.inner_splits), si = s - so * p.inner_splits.d;
  uint32_t ib = si * p.inner_block, ob = so * p.outer_block;
  return {ib, least(p.inner_count, ib + p.inner_block), ob, least(p.outer_count, ob + p.outer_block)};
}

// Where the inner elements of outer element `ro` end.
inline uint32_t inner_end(const ReductionArgs& p, const SplitRange& range, uint32_t ro) {
  if (p.tail == 0 || ro + 1 < p.outer_count) return range.inner_end;
  return range.inner_begin < p.tail ? least(range.inner_end, p.tail) : range.inner_begin;
}

template <class Op, class Acc> inline auto finished(const Op& op, const ReductionArgs& p, const Acc& a, int)
    -> decltype(op.finished(p, a)) {
  return op.finished(p, a);
}
template <class Op, class Acc> inline const Acc& finished(const Op&, const ReductionArgs&, const Acc& a, long) {
  return a;
}
template <class Op> inline typename Op::Acc finished(const Op& op, const ReductionArgs& p, const typename Op::Acc& a) {
  return finished(op, p, a, 0);
}
struct Same {
  template <class A> const A& operator()(const A& a) const { return a; }
};
// give(acc): what is stored of the result of all lanes.
template <class Op, class Give = Same>
inline void finish(const Op& op, const ReductionArgs& p, uint32_t split, uint32_t o, const KeptOffsets& k,
                   const typename Op::Acc& acc, Give give = {}) {
  if (p.partial)
    static_cast<typename Op::Acc*>(p.partial)[static_cast<size_t>(split) * p.kept_count + o] = give(acc);
  else
    op.store(p, k.out0, k.out1, give(finished(op, p, acc)));
}

// Whether rows are added four elements per lane at a time.
template <class Op> constexpr auto joins_fours(int) -> decltype(Op::kFours) { return Op::kFours; }
template <class Op> constexpr bool joins_fours(long) { return false; }
template <class Op, class In>
XPU_INLINE void add_four(const Op& op, typename Op::Acc& a, const In* x, size_t lane, int64_t index) {
  In v[kRows];
#pragma unroll
  for (uint32_t j = 0; j < kRows; ++j) v[j] = load(x + j * kLanes, lane);
  op.add_fours(a, v, index + static_cast<int64_t>(lane), kLanes);
}

// ---- row: a work-group, which is one sub-group of kLanes items, shares one output and one split of it: for reduced
// dimensions that are contiguous or long. With p.short_rows it takes kRows neighbouring outputs; their lanes are
// combined together in 5 exchanges instead of 16.
struct Row {
  template <class Op>
  static void run(const ReductionArgs& p) {
    using In = typename Op::In;
    using Acc = typename Op::Acc;
    static_assert(kRows == 4 && kLanes == 16);
    const Op op(p);
    auto item = syclex::this_work_item::get_nd_item<1>();
    auto sg = syclex::this_work_item::get_sub_group();
    const size_t lane = item.get_local_id(0);
    const In* in = static_cast<const In*>(p.in);
    const bool many = p.short_rows;
    const uint32_t total = many ? p.short_rows : p.kept_count * p.splits, first = item.get_group(0) * p.tasks,
                   last = least(first + p.tasks, total);
    for (uint32_t task = first; task < last; ++task) {
      uint32_t split = 0, o, rows = 1;
      KeptOffsets k;
      if (many) {
        const uint32_t rest = task / p.blocks, r0 = (task - rest * p.blocks) * kRows;
        k = kept_offsets<1>(p, rest);
        k.in += r0 * p.in_kept[0];
        o = r0;
        rows = least(kRows, p.kept[0].d - r0);
      } else {
        split = div(task, p.by_kept);
        o = task - split * p.kept_count;
        k = kept_offsets(p, o);
      }
      const SplitRange range = split_range(p, split);
      Acc a[kRows];
#pragma unroll
      for (uint32_t j = 0; j < kRows; ++j) a[j] = op.identity();
      if (many) {
        // One row after the other, in the order of memory; the last row again where the block is not full. The rows
        // move up through the accumulators: one that is chosen by a running number would live in memory.
        const size_t n = range.inner_end - range.inner_begin;
        for (uint32_t j = 0; j < kRows; ++j) {
          Acc sum = op.identity();
          const In* x = in + (k.in + least(j, rows - 1) * p.in_kept[0]);
          size_t r = 0;
          if constexpr (joins_fours<Op>(0))
            for (; r + kRows * kLanes <= n; r += kRows * kLanes) add_four(op, sum, x + r, lane, r);
          for (; r + kLanes <= n; r += kLanes) op.add(sum, load(x + r, lane), r + lane);
          if (r + lane < n) op.add(sum, load(x + r, lane), r + lane);
#pragma unroll
          for (uint32_t i = 0; i + 1 < kRows; ++i) a[i] = a[i + 1];
          a[kRows - 1] = sum;
        }
      } else {
        // Accumulator j takes the j-th piece of kLanes elements of the one row.
        for (uint32_t ro = range.outer_begin; ro < range.outer_end; ++ro) {
          const In* x = in + (k.in + outer_offset(p, ro) + range.inner_begin * p.in_inner);
          const int64_t index = static_cast<int64_t>(ro) * p.inner_count + range.inner_begin;
          const size_t n = inner_end(p, range, ro) - range.inner_begin;
          if (p.in_inner == 1) {
            size_t r = 0;
            for (; r + kRows * kLanes <= n; r += kRows * kLanes)
              if constexpr (joins_fours<Op>(0))
                add_four(op, a[0], x + r, lane, index + r);
              else
#pragma unroll
                for (uint32_t j = 0; j < kRows; ++j)
                  op.add(a[j], load(x + r + j * kLanes, lane), index + r + j * kLanes + lane);
            if (r < n)
#pragma unroll
              for (uint32_t j = 0; j < kRows; ++j)
                if (r + j * kLanes + lane < n)
                  op.add(a[j], load(x + r + j * kLanes, lane), index + r + j * kLanes + lane);
          } else {
            for (size_t i = lane; i < n; i += kLanes) op.add(a[0], load(x, i * p.in_inner), index + i);
          }
        }
      }
      if (many) {
        const bool upper8 = lane & 8, upper4 = lane & 4;
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const Acc send = pick(upper8, a[i], a[i + 2]);
          a[i] = pick(upper8, a[i + 2], a[i]);
          op.combine(a[i], exchange(sg, send, 8));
        }
        const Acc send = pick(upper4, a[0], a[1]);
        a[0] = pick(upper4, a[1], a[0]);
        op.combine(a[0], exchange(sg, send, 4));
      } else {
        op.combine(a[0], a[1]);
        op.combine(a[2], a[3]);
        op.combine(a[0], a[2]);
        op.combine(a[0], exchange(sg, a[0], 8));
        op.combine(a[0], exchange(sg, a[0], 4));
      }
      op.combine(a[0], exchange(sg, a[0], 2));
      op.combine(a[0], exchange(sg, a[0], 1));
      if (!many) {
        finish(op, p, split, o, k, a[0], [](const Acc& v) { return from_lane(v, 0); });
        continue;
      }
      a[0] = finished(op, p, a[0]);
      // Lane 4 j has row j (bit 3 of the lane chose between rows j and j + 2, bit 2 between j and j + 1).
#pragma unroll
      for (uint32_t j = 0; j < kRows; ++j)
        if (j < rows)
          op.store(p, k.out0 + static_cast<int64_t>(o + j) * p.out0_kept[0],
                   k.out1 + static_cast<int64_t>(o + j) * p.out1_kept[0], from_lane(a[0], 4 * j));
    }
  }
};

// ---- col: one item reduces one output (and one split of it) alone: for reduced dimensions that are strided or short.
struct Col {
  template <class Op>
  static void run(const ReductionArgs& p) {
    using In = typename Op::In;
    using Acc = typename Op::Acc;
    const Op op(p);
    auto item = syclex::this_work_item::get_nd_item<1>();
    const size_t id = item.get_local_id(0), local = item.get_local_range(0);
    const In* in = static_cast<const In*>(p.in);
    if (p.mode == ColMode::columns) {
      // group = (row of outputs, split, block of columns): everything but the column is the same for the whole group.
      // An item takes kColumns columns, a group's width apart, so that one visit of a row reads a long piece of it. The
      // last block overlaps the one before instead of masking.
      const uint32_t g = item.get_group(0), rest = g / p.blocks, block = g - rest * p.blocks;
      const uint32_t row = rest / p.splits, split = rest - row * p.splits;
      const uint32_t wide = local * kColumns;
      const size_t c0 = least(block * wide, p.kept[0].d - wide);
      const KeptOffsets k = kept_offsets<1>(p, row);
      const SplitRange range = split_range(p, split);
      Acc acc[kColumns];
#pragma unroll
      for (size_t j = 0; j < kColumns; ++j) acc[j] = op.identity();
      for (uint32_t ro = range.outer_begin; ro < range.outer_end; ++ro) {
        const In* x = in + (k.in + outer_offset(p, ro) + range.inner_begin * p.in_inner + c0);
        const int64_t index = static_cast<int64_t>(ro) * p.inner_count;
        for (uint32_t r = range.inner_begin, end = inner_end(p, range, ro); r < end; ++r, x += p.in_inner)
#pragma unroll
          for (size_t j = 0; j < kColumns; ++j) op.add(acc[j], load(x + j * local, id), index + r);
      }
#pragma unroll
      for (size_t j = 0; j < kColumns; ++j) {
        const int64_t c = c0 + j * local + id;
        const KeptOffsets kc{0, k.out0 + c * p.out0_kept[0], k.out1 + c * p.out1_kept[0]};
        finish(op, p, split, row * p.kept[0].d + c, kc, acc[j]);
      }
      return;
    }
    Acc acc = op.identity();
    if (p.mode == ColMode::flat) {
      const size_t width = static_cast<size_t>(p.splits) * p.kept[0].d, i0 = item.get_group(0) * local;
      if (i0 + id >= width) return;
      const uint32_t i = i0 + id, split = div(i, p.kept[0]), c = i - split * p.kept[0].d;
      const uint32_t full = p.inner_count / p.splits;
      const In* x = in + i0;
      int64_t index = split;
      for (uint32_t n = 0; n < full; ++n, x += width, index += p.splits) op.add(acc, load(x, id), index);
      if (index < p.inner_count) op.add(acc, load(x, id), index);
      finish(op, p, split, c, KeptOffsets{c, c * p.out0_kept[0], c * p.out1_kept[0]}, acc);
      return;
    }
    const uint32_t i = item.get_group(0) * local + id;
    if (i >= p.kept_count * p.splits) return;
    const uint32_t split = div(i, p.by_kept), o = i - split * p.kept_count;
    const KeptOffsets k = kept_offsets(p, o);
    const SplitRange range = split_range(p, split);
    for (uint32_t ro = range.outer_begin; ro < range.outer_end; ++ro) {
      const In* x = in + k.in + outer_offset(p, ro);
      const int64_t index = static_cast<int64_t>(ro) * p.inner_count;
      for (uint32_t r = range.inner_begin, end = inner_end(p, range, ro); r < end; ++r)
        op.add(acc, load(x, r * p.in_inner), index + r);
    }
    finish(op, p, split, o, k, acc);
  }
};

// ---- final: one item combines the partial results of one output.
struct Final {
  template <class Op>
  static void run(const ReductionArgs& p) {
    using Acc = typename Op::Acc;
    const Op op(p);
    const uint32_t o = global_id();
    if (o >= p.kept_count) return;
    const Acc* x = static_cast<const Acc*>(p.partial) + o;
    Acc acc = x[0];
    for (uint32_t s = 1; s < p.splits; ++s) op.combine(acc, x[static_cast<size_t>(s) * p.kept_count]);
    const KeptOffsets k = kept_offsets(p, o);
    op.store(p, k.out0, k.out1, finished(op, p, acc));
  }
};

}  // namespace xpu
