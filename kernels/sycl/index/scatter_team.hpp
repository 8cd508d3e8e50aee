// Columns by teams, for devices that want many items per work-group: the indices of a column are shared, and those that
// meet in one place take turns in their order, so that the bits are those of one item. Included by scatter.hpp.
#pragma once
#include "kernels/sycl/core/team_scan.hpp"

namespace xpu {

using xpu_ops::kHeldBytes;
using xpu_ops::kMeetPlaces;

// A sub-group per column: its lanes take neighbouring indices, and those that meet in one place take turns, in their
// order. `own`: the place of this lane, kNoPlace for none.
constexpr uint32_t kNoPlace = ~0u;
template <class T, class Op> XPU_INLINE void column_turns(T* data, int64_t stride, uint32_t own, T value) {
  auto sg = syclex::this_work_item::get_sub_group();
  const uint32_t lane = static_cast<uint32_t>(sub_group_lane());
  uint32_t turn = 0;
#pragma unroll
  for (uint32_t m = 1; m < xpu_ops::kLanes; ++m) {
    const bool same = sycl::permute_group_by_xor(sg, own, m) == own;
    turn += same && (lane ^ m) < lane ? 1 : 0;
  }
  const uint32_t turns = sycl::reduce_over_group(sg, own == kNoPlace ? 0 : turn + 1, sycl::maximum<uint32_t>());
  for (uint32_t k = 0; k < turns; ++k) {
    if (own != kNoPlace && turn == k) {
      T* to = data + own * stride;
      *to = Op::run(*to, value);
    }
    sycl::group_barrier(sg);
  }
}

// 1-D. Each sub-group takes columns in turn, so that no more places are written at a time than the cache holds.
template <class T, class Op>
XPU_INLINE void column_shared(const ColumnArgs& p) {
  constexpr uint32_t kAhead = 4;  // blocks of indices and elements that are loaded at once
  auto item = syclex::this_work_item::get_nd_item<1>();
  auto sg = item.get_sub_group();
  const uint32_t lane = static_cast<uint32_t>(sub_group_lane()), total = p.walk.rows * p.walk.inner,
                 each = sg.get_group_linear_range(), teams = static_cast<uint32_t>(item.get_group_range(0)) * each;
  const ColumnPart all{0, p.index.size, p.index.wrap ? p.index.size : 0, p.skip};
  for (uint32_t column = static_cast<uint32_t>(item.get_group(0)) * each + sg.get_group_linear_id(); column < total;
       column += teams) {
    int64_t o[3] = {0, 0, 0};
    column_offsets(p.walk, column, o);
    T* data = static_cast<T*>(p.data) + o[0];
    const T* src = static_cast<const T*>(p.src) + o[1];
    for (uint32_t first = 0; first < p.steps; first += kAhead * xpu_ops::kLanes) {
      int64_t id[kAhead];
      T value[kAhead];
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a) {
        const uint32_t j = first + a * xpu_ops::kLanes + lane, at = j < p.steps ? j : p.steps - 1;
        id[a] = load_index(p.index, o[2] + at * p.index_step);
        value[a] = src[at * p.src_step];
      }
      uint32_t own[kAhead];
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a)
        own[a] = first + a * xpu_ops::kLanes + lane < p.steps && takes(p, all, id[a]) ? static_cast<uint32_t>(id[a])
                                                                                      : kNoPlace;
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a) column_turns<T, Op>(data, p.index.stride, own[a], value[a]);
    }
  }
}

// Local memory of a work-group that shares a column: which entry is the first at each place, whether some are left, and
// the column where it is short enough.
struct Meetings {
  alignas(16) uint8_t held[kHeldBytes];
  uint32_t first[kMeetPlaces];
  uint32_t left[2];
};

// 1-D, a work-group per column. In each round the first entry of a place, by its number, is combined; the others wait.
// A round has a smaller word than those before it, so that nothing is cleared between them.
template <class T, class Op>
XPU_INLINE void column_meet(const ColumnArgs& p) {
  constexpr uint32_t kEach = 4, kNumberBits = 10, kRounds = (1u << (32 - kNumberBits)) - 1;
  static_assert(kEach * kTeamParts * kLanes <= 1u << kNumberBits);
  syclexp::work_group_static<Meetings> local;
  Meetings& m = local;
  auto group = syclex::this_work_item::get_work_group<1>();
  const Team t = whole_team();
  const uint32_t total = p.walk.rows * p.walk.inner, size = static_cast<uint32_t>(p.index.size);
  const ColumnPart all{0, p.index.size, p.index.wrap ? p.index.size : 0, p.skip};
  T* held = reinterpret_cast<T*>(m.held);
  uint32_t round = 0;
  // uniform over the group: so are the rounds, whose number all read
  for (uint32_t column = t.first; column < total; column += t.count) {
    int64_t o[3] = {0, 0, 0};
    column_offsets(p.walk, column, o);
    T* data = static_cast<T*>(p.data) + o[0];
    const T* src = static_cast<const T*>(p.src) + o[1];
    if (p.held)
      for (uint32_t i = t.lane; i < size; i += t.lanes) held[i] = data[i];
    // uniform over the group: all go to the end of the indices
    for (uint32_t begin = 0; begin < p.steps; begin += kEach * t.lanes) {
      uint32_t own[kEach];
      T value[kEach];
#pragma unroll
      for (uint32_t a = 0; a < kEach; ++a) {
        const uint32_t j = begin + a * t.lanes + t.lane, at = j < p.steps ? j : p.steps - 1;
        int64_t id = load_index(p.index, o[2] + at * p.index_step);
        value[a] = src[at * p.src_step];
        own[a] = j < p.steps && takes(p, all, id) ? static_cast<uint32_t>(id) : kNoPlace;
      }
      // uniform over the group: all read one word
      for (bool more = true; more;) {
        // uniform over the group: all count the rounds
        if (round == 0) {
          sycl::group_barrier(group);  // all have read the last round's words
          for (uint32_t i = t.lane; i < kMeetPlaces; i += t.lanes) m.first[i] = ~0u;
          if (t.lane < 2) m.left[t.lane] = ~0u;
          round = kRounds;
          sycl::group_barrier(group);
        }
        --round;
        const uint32_t number = round << kNumberBits | t.lane;
#pragma unroll
        for (uint32_t a = 0; a < kEach; ++a)
          if (own[a] != kNoPlace)
            sycl::atomic_ref<uint32_t, sycl::memory_order::relaxed, sycl::memory_scope::work_group>(
                m.first[own[a] % kMeetPlaces])
                .fetch_min(number + a * t.lanes);
        sycl::group_barrier(group);
        bool waits = false;
#pragma unroll
        for (uint32_t a = 0; a < kEach; ++a) {
          if (own[a] == kNoPlace) continue;
          if (m.first[own[a] % kMeetPlaces] != number + a * t.lanes) {
            waits = true;
            continue;
          }
          T* to = p.held ? held + own[a] : data + own[a] * p.index.stride;
          *to = Op::run(*to, value[a]);
          own[a] = kNoPlace;
        }
        if (waits) m.left[round % 2] = round;
        sycl::group_barrier(group);
        more = m.left[round % 2] == round;
      }
    }
    if (p.held)
      for (uint32_t i = t.lane; i < size; i += t.lanes) data[i] = held[i];
    sycl::group_barrier(group);  // before the next column takes its place
  }
}

template <class T, class Op> XPU_INLINE void column_team(const ColumnArgs& p) {
  // Of the others the code is not worth its size.
  if constexpr (std::is_same_v<Op, OpAssign> || std::is_same_v<Op, OpAdd>)
    if (p.meets) return column_meet<T, Op>(p);
  column_shared<T, Op>(p);
}

}  // namespace xpu
