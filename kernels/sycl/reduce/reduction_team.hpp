// The kernel of a reduction for devices that want many items per work-group. Included by reduction_functors.hpp.
#pragma once
#include "kernels/sycl/core/fours.hpp"
#include "kernels/sycl/core/team.hpp"

namespace xpu {

// Elements of up to four bytes are read by fours where they lie side by side.
template <class T> inline constexpr bool kReadByFours = sizeof(T) <= 4;

// Whether a functor adds several fours as one, with one comparison or division for all of them: fours that lie `step`
// elements apart, the first element of them with an index.
template <class Op> constexpr auto adds_fours(int) -> decltype(&Op::template add_fours<4>, true) { return true; }
template <class Op> constexpr bool adds_fours(long) { return false; }

// ---- team: `blocks` items share one output and one split of it. With `tasks` = 0 the partial results of all splits
// are combined: those of one output by a work-group, or of kLanes neighbouring ones by a work-group, an output per
// lane.
struct Shared {
  template <class Op>
  static XPU_INLINE void run(const ReductionArgs& p) {
    if (p.tasks == 0 && p.blocks == kLanes) return columns<Op>(p);
    using In = typename Op::In;
    using Acc = typename Op::Acc;
    const Op op(p);
    const Team t = team_of(p.blocks);
    auto joined = [&](Acc a, const Acc& b) {
      op.combine(a, b);
      return a;
    };
    if (p.tasks == 0) {
      const Acc* x = static_cast<const Acc*>(p.partial) + t.first;
      Acc acc = op.identity();
      for (uint32_t s = t.lane; s < p.splits; s += t.lanes) op.combine(acc, x[static_cast<size_t>(s) * p.kept_count]);
      acc = team_join(t, acc, joined);
      if (t.leads()) last<Op>(op, p, t.first, acc);
      return;
    }
    const uint32_t total = p.kept_count * p.splits, first = t.first * p.tasks, end = least(first + p.tasks, total);
    // uniform over the group: a team of several sub-groups is the work-group
    for (uint32_t task = first; task < end; ++task) {
      const uint32_t split = div(task, p.by_kept), o = task - split * p.kept_count;
      const KeptOffsets k = kept_offsets(p, o);
      const SplitRange range = split_range(p, split);
      Acc a[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) a[j] = op.identity();
      for (uint32_t ro = range.outer_begin; ro < range.outer_end; ++ro) {
        const In* x = static_cast<const In*>(p.in) + (k.in + outer_offset(p, ro) + range.inner_begin * p.in_inner);
        const int64_t index = static_cast<int64_t>(ro) * p.inner_count + range.inner_begin;
        const size_t n = inner_end(p, range, ro) - range.inner_begin;
        if (kReadByFours<In> && p.in_inner == 1 && at_a_four(x))
          add_row(op, t, x, n, index, a);
        else if (p.in_inner == 1)
          for_team(t, n, [&](size_t r, int j) { op.add(a[j], load(x, r), index + r); });
        else
          for_team(t, n, [&](size_t r, int j) { op.add(a[j], load(x, r * p.in_inner), index + r); });
      }
      op.combine(a[0], a[1]);
      op.combine(a[2], a[3]);
      op.combine(a[0], a[2]);
      const Acc all = team_join(t, a[0], joined);
      if (t.leads()) finish(op, p, split, o, k, all);
    }
  }

  template <class Op, class In, class Acc>
  static XPU_INLINE void add_row(const Op& op, const Team& t, const In* x, size_t n, int64_t index, Acc (&a)[4]) {
    if constexpr (kReadByFours<In>) {
      const uint32_t step = 4 * t.lanes;
      const size_t whole = n / 4 * 4;
      const auto four = [&](size_t at) {
        In v[4];
        read_four(x, at, v);
        if constexpr (adds_fours<Op>(0)) {
          op.add_fours(a[0], v, index + static_cast<int64_t>(at), step);
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j) op.add(a[j], v[j], index + static_cast<int64_t>(at) + j);
        }
      };
      size_t r = 4 * t.lane;
      for (; r + 3 * size_t{step} < whole; r += 4 * size_t{step}) {
        if constexpr (adds_fours<Op>(0)) {
          In v[16];
#pragma unroll
          for (uint32_t k = 0; k < 4; ++k) read_four(x, r + k * size_t{step}, v + 4 * k);
          op.add_fours(a[0], v, index + static_cast<int64_t>(r), step);
        } else {
#pragma unroll
          for (uint32_t k = 0; k < 4; ++k) [[clang::always_inline]]
            four(r + k * size_t{step});
        }
      }
#pragma clang loop unroll(disable)
      for (; r < whole; r += step) [[clang::always_inline]]
        four(r);
      if (r = whole + t.lane; r < n) op.add(a[0], load(x, r), index + static_cast<int64_t>(r));
    }
  }

  template <class Op> static XPU_INLINE void last(const Op& op, const ReductionArgs& p, uint32_t o,
                                                  const typename Op::Acc& acc) {
    const KeptOffsets k = kept_offsets(p, o);
    op.store(p, k.out0, k.out1, finished(op, p, acc));
  }

  template <class Op>
  static XPU_INLINE void columns(const ReductionArgs& p) {
    using Acc = typename Op::Acc;
    const Op op(p);
    auto item = syclex::this_work_item::get_nd_item<1>();
    const uint32_t part = item.get_sub_group().get_group_linear_id(),
                   parts = static_cast<uint32_t>(item.get_local_range(0)) / kLanes,
                   lane = static_cast<uint32_t>(sub_group_lane()),
                   o = static_cast<uint32_t>(item.get_group(0)) * kLanes + lane;
    const Acc* x = static_cast<const Acc*>(p.partial) + o;
    Acc acc = op.identity();
    if (o < p.kept_count)
      for (uint32_t s = part; s < p.splits; s += parts) op.combine(acc, x[static_cast<size_t>(s) * p.kept_count]);
    syclexp::work_group_static<Acc[kTeamParts * kLanes]> shared;
    Acc* all = shared;
    all[part * kLanes + lane] = acc;
    sycl::group_barrier(syclex::this_work_item::get_work_group<1>());
    if (part != 0 || o >= p.kept_count) return;
    for (uint32_t i = 1; i < parts; ++i) op.combine(acc, all[i * kLanes + lane]);
    last<Op>(op, p, o, acc);
  }
};

}  // namespace xpu
