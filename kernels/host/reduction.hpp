// The three kernels of a reduction as loops of the host, over the same functors: every accumulator meets the same
// elements in the same order as in kernels/sycl/reduce/reduction.hpp, so that nobody can see which of the two ran.
#pragma once
#include "kernels/host/math.hpp"
#include "kernels/sycl/reduce/reduction_functors.hpp"

namespace xpu_ops::host {

// The type of an element in memory: a bool may be any byte there, and every byte but 0 becomes true.
template <class In> using Stored = std::conditional_t<std::is_same_v<In, bool>, uint8_t, In>;

// Calls, so that they are compiled once and not with every functor.
[[gnu::noinline]] inline xpu::KeptOffsets kept(const ReductionArgs& p, uint32_t o) { return xpu::kept_offsets(p, o); }
[[gnu::noinline]] inline xpu::KeptOffsets kept_but_first(const ReductionArgs& p, uint32_t o) {
  return xpu::kept_offsets<1>(p, o);
}
[[gnu::noinline]] inline int64_t outer(const ReductionArgs& p, uint32_t r) { return xpu::outer_offset(p, r); }

// The values of the lanes of a row, in the form that makes vectors. Values that are added where they lie stay in
// registers.
template <class Acc> struct RowLanes {
  Acc acc[kLanes];
  [[gnu::always_inline]] const Acc& operator[](uint32_t l) const { return acc[l]; }
  [[gnu::always_inline]] void put(uint32_t l, const Acc& a) { acc[l] = a; }
  template <class Op> [[gnu::always_inline]] void add(const Op& op, uint32_t l, typename Op::In x, int64_t index) {
    op.add(acc[l], x, index);
  }
};
template <class R> struct RowLanes<xpu::Wide<R>> {
  R hi[kLanes], lo[kLanes];
  [[gnu::always_inline]] xpu::Wide<R> operator[](uint32_t l) const { return {hi[l], lo[l]}; }
  [[gnu::always_inline]] void put(uint32_t l, const xpu::Wide<R>& a) { hi[l] = a.hi, lo[l] = a.lo; }
  template <class Op> [[gnu::always_inline]] void add(const Op& op, uint32_t l, typename Op::In x, int64_t index) {
    xpu::Wide<R> a{hi[l], lo[l]};
    op.add(a, x, index);
    put(l, a);
  }
};

struct Row {
  // Combines what the lanes have of row j of a group as exchanges between the lanes would.
  template <class Op, class Acc>
  [[gnu::always_inline]] static Acc across(const Op& op, const RowLanes<Acc>& a, uint32_t j) {
    const uint32_t own8 = (j >> 1) * 8, own4 = (j & 1) * 4;
    Acc c[8], d[4];
    for (uint32_t l = 0; l < 8; ++l) c[l] = a[l + own8], op.combine(c[l], a[(l + own8) ^ 8]);
    for (uint32_t l = 0; l < 4; ++l) d[l] = c[l + own4], op.combine(d[l], c[(l + own4) ^ 4]);
    op.combine(d[0], d[2]);
    op.combine(d[1], d[3]);
    op.combine(d[0], d[1]);
    return d[0];
  }

  template <class Op>
  [[gnu::always_inline]] static void run(const ReductionArgs& p) {
    using In = Stored<typename Op::In>;
    using Acc = typename Op::Acc;
    const Op op(p);
    const bool many = p.short_rows;
    const uint32_t total = p.kept_count * p.splits;
    for (uint32_t task = 0; task < total; ++task) {
      const uint32_t split = xpu::div(task, p.by_kept), o = task - split * p.kept_count;
      const xpu::KeptOffsets k = kept(p, o);
      const xpu::SplitRange range = xpu::split_range(p, split);
      const size_t n = range.inner_end - range.inner_begin;
      const uint32_t pieces = many ? 1 : kRows;
      RowLanes<Acc> a[kRows];
      for (uint32_t j = 0; j < kRows; ++j)
        for (uint32_t l = 0; l < kLanes; ++l) a[j].put(l, op.identity());
      for (uint32_t ro = range.outer_begin; ro < range.outer_end; ++ro) {
        const In* x = static_cast<const In*>(p.in) + (k.in + outer(p, ro) + range.inner_begin * p.in_inner);
        const int64_t index = static_cast<int64_t>(ro) * p.inner_count + range.inner_begin;
        if (p.in_inner == 1) {
          size_t r = 0;
          if (!many)
            for (; r + kRows * kLanes <= n; r += kRows * kLanes)
              for (uint32_t j = 0; j < kRows; ++j)
                for (uint32_t l = 0; l < kLanes; ++l)
                  a[j].add(op, l, x[r + j * kLanes + l], index + static_cast<int64_t>(r + j * kLanes + l));
          for (uint32_t j = 0; r < n; r += kLanes, j = (j + 1) % pieces) {
            const uint32_t some = n - r < kLanes ? static_cast<uint32_t>(n - r) : kLanes;
            for (uint32_t l = 0; l < some; ++l) a[j].add(op, l, x[r + l], index + static_cast<int64_t>(r + l));
          }
        } else {
          for (size_t i = 0; i < n; ++i)
            a[0].add(op, i % kLanes, x[static_cast<int64_t>(i) * p.in_inner], index + static_cast<int64_t>(i));
        }
      }
      if (many) {
        const uint32_t j = (o - xpu::div(o, p.kept[0]) * p.kept[0].d) % kRows;
        op.store(p, k.out0, k.out1, xpu::finished(op, p, across(op, a[0], j)));
        continue;
      }
      for (uint32_t l = 0; l < kLanes; ++l) {
        Acc first = a[0][l], third = a[2][l];
        op.combine(first, a[1][l]);
        op.combine(third, a[3][l]);
        op.combine(first, third);
        a[0].put(l, first);
      }
      xpu::finish(op, p, split, o, k, across(op, a[0], 0));
    }
  }
};

struct Col {
  // Adjacent outputs side by side: as many as a work-group of ColMode::columns has, or all where there are fewer.
  static constexpr uint32_t kWide = kLanes * kColumns;

  template <class Op>
  [[gnu::always_inline]] static void run(const ReductionArgs& p) {
    using In = Stored<typename Op::In>;
    using Acc = typename Op::Acc;
    const Op op(p);
    const In* in = static_cast<const In*>(p.in);
    if (p.mode == ColMode::columns) {
      const uint32_t columns = p.kept[0].d, rows = p.kept_count / columns;
      const uint32_t wide = xpu::least(kWide, columns), blocks = columns < kWide ? 1 : p.blocks;
      for (uint32_t task = 0; task < rows * p.splits * blocks; ++task) {
        const uint32_t rest = task / blocks, row = rest / p.splits, split = rest - row * p.splits;
        const uint32_t c0 = xpu::least((task - rest * blocks) * kWide, columns - wide);
        const xpu::KeptOffsets k = kept_but_first(p, row);
        const xpu::SplitRange range = xpu::split_range(p, split);
        Acc acc[kWide];
        for (uint32_t j = 0; j < kWide; ++j) acc[j] = op.identity();
        for (uint32_t ro = range.outer_begin; ro < range.outer_end; ++ro) {
          const In* x = in + (k.in + outer(p, ro) + range.inner_begin * p.in_inner + c0);
          const int64_t index = static_cast<int64_t>(ro) * p.inner_count;
          for (uint32_t r = range.inner_begin; r < range.inner_end; ++r, x += p.in_inner)
            if (wide == kWide)
              for (uint32_t j = 0; j < kWide; ++j) op.add(acc[j], x[j], index + r);
            else
              for (uint32_t j = 0; j < wide; ++j) op.add(acc[j], x[j], index + r);
        }
        for (uint32_t j = 0; j < wide; ++j) {
          const int64_t c = c0 + j;
          const xpu::KeptOffsets kc{0, k.out0 + c * p.out0_kept[0], k.out1 + c * p.out1_kept[0]};
          xpu::finish(op, p, split, row * columns + c0 + j, kc, acc[j]);
        }
      }
      return;
    }
    if (p.mode == ColMode::flat) {
      const uint32_t width = p.splits * p.kept[0].d, full = p.inner_count / p.splits;
      for (uint32_t i0 = 0; i0 < width; i0 += kWide) {
        const uint32_t wide = xpu::least(kWide, width - i0);
        Acc acc[kWide];
        int64_t index[kWide];
        for (uint32_t j = 0; j < wide; ++j) acc[j] = op.identity(), index[j] = xpu::div(i0 + j, p.kept[0]);
        const In* x = in + i0;
        for (uint32_t n = 0; n < full; ++n, x += width)
          if (wide == kWide)
            for (uint32_t j = 0; j < kWide; ++j) op.add(acc[j], x[j], index[j] + int64_t{n} * p.splits);
          else
            for (uint32_t j = 0; j < wide; ++j) op.add(acc[j], x[j], index[j] + int64_t{n} * p.splits);
        for (uint32_t j = 0; j < wide; ++j) {
          const auto split = static_cast<uint32_t>(index[j]);
          const int64_t c = i0 + j - split * p.kept[0].d, last = index[j] + int64_t{full} * p.splits;
          if (last < p.inner_count) op.add(acc[j], x[j], last);
          const xpu::KeptOffsets kc{c, c * p.out0_kept[0], c * p.out1_kept[0]};
          xpu::finish(op, p, split, static_cast<uint32_t>(c), kc, acc[j]);
        }
      }
      return;
    }
    for (uint32_t task = 0; task < p.kept_count * p.splits; ++task) {
      const uint32_t split = xpu::div(task, p.by_kept), o = task - split * p.kept_count;
      const xpu::KeptOffsets k = kept(p, o);
      const xpu::SplitRange range = xpu::split_range(p, split);
      Acc acc = op.identity();
      for (uint32_t ro = range.outer_begin; ro < range.outer_end; ++ro) {
        const In* x = in + k.in + outer(p, ro);
        const int64_t index = static_cast<int64_t>(ro) * p.inner_count;
        for (uint32_t r = range.inner_begin; r < range.inner_end; ++r) op.add(acc, x[r * p.in_inner], index + r);
      }
      xpu::finish(op, p, split, o, k, acc);
    }
  }
};

struct Final {
  template <class Op>
  [[gnu::always_inline]] static void run(const ReductionArgs& p) {
    using Acc = typename Op::Acc;
    const Op op(p);
    for (uint32_t o = 0; o < p.kept_count; ++o) {
      const Acc* x = static_cast<const Acc*>(p.partial) + o;
      Acc acc = x[0];
      for (uint32_t s = 1; s < p.splits; ++s) op.combine(acc, x[static_cast<size_t>(s) * p.kept_count]);
      const xpu::KeptOffsets k = kept(p, o);
      op.store(p, k.out0, k.out1, xpu::finished(op, p, acc));
    }
  }
};

#define XPU_OPS_REDUCTION(NAME, OP)                                                                          \
  template <class T, class Part> [[gnu::always_inline]] inline void NAME(const ReductionArgs& p, uint32_t) { \
    Part::template run<xpu::OP<T>>(p);                                                                       \
  }
#define XPU_OPS_REDUCTION2(NAME, OP)                                                                                  \
  template <class I, class O, class Part> [[gnu::always_inline]] inline void NAME(const ReductionArgs& p, uint32_t) { \
    Part::template run<xpu::OP<I, O>>(p);                                                                             \
  }
XPU_OPS_REDUCTION2(reduce_sum, Sum)
XPU_OPS_REDUCTION2(reduce_prod, Prod)
XPU_OPS_REDUCTION(reduce_amax, Amax)
XPU_OPS_REDUCTION(reduce_amin, Amin)
XPU_OPS_REDUCTION(reduce_argmax, ArgMax)
XPU_OPS_REDUCTION(reduce_argmin, ArgMin)
XPU_OPS_REDUCTION(reduce_any, Any)
#undef XPU_OPS_REDUCTION
#undef XPU_OPS_REDUCTION2

}  // namespace xpu_ops::host
