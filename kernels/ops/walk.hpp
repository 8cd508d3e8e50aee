// Host side of Walk: drops and merges dims, then decides how many of them one work-group row covers. Needs no device.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/sycl/core/walk_args.hpp"

namespace xpu_ops {

template <int N>
struct WalkDim {
  int64_t size;
  int64_t strides[N];
};

// Without dims of one item, and neighbours joined where all operands allow it; operand 0 decides their order if
// `reorder`.
template <int N>
std::vector<WalkDim<N>> merged(std::vector<WalkDim<N>> dims, bool reorder) {
  std::erase_if(dims, [](const auto& d) { return d.size == 1; });
  if (reorder)
    std::stable_sort(dims.begin(), dims.end(),
                     [](const auto& a, const auto& b) { return a.strides[0] > b.strides[0]; });
  std::vector<WalkDim<N>> m;
  for (const auto& d : dims) {
    bool merge = !m.empty() && m.back().size * d.size < (int64_t{1} << 31);
    for (int k = 0; merge && k < N; ++k) merge = m.back().strides[k] == d.strides[k] * d.size;
    if (merge) {
      m.back().size *= d.size;
      std::copy(d.strides, d.strides + N, m.back().strides);
    } else {
      m.push_back(d);
    }
  }
  return m;
}

// Calls part(dims, offsets) for parts that a walk takes and that cover all items together: where more dims are left
// than a walk has, the host steps through the shortest, never the innermost.
template <int N, class Part>
void for_walks(const std::vector<WalkDim<N>>& all, bool reorder, Part&& part) {
  int64_t offsets[N] = {};
  if (all.size() <= kWalkDims) return part(all, offsets);
  std::vector<WalkDim<N>> dims = merged<N>(all, reorder), outer;
  while (dims.size() > kWalkDims) {
    const auto least =
        std::min_element(dims.begin(), dims.end() - 1, [](const auto& a, const auto& b) { return a.size < b.size; });
    outer.push_back(*least);
    dims.erase(least);
  }
  int64_t steps = 1;
  for (const auto& d : outer) steps *= d.size;
  for (int64_t step = 0; step < steps; ++step) {
    std::fill(offsets, offsets + N, 0);
    int64_t rest = step;
    for (const auto& d : outer) {
      for (int k = 0; k < N; ++k) offsets[k] += rest % d.size * d.strides[k];
      rest /= d.size;
    }
    part(dims, offsets);
  }
}

// dims: outermost first. A row covers at least `want_inner` items where the shape allows it.
template <int N>
Walk<N> make_walk(std::vector<WalkDim<N>> dims, bool reorder = true, int64_t want_inner = 256) {
  const std::vector<WalkDim<N>> m = merged<N>(std::move(dims), reorder);
  if (m.size() > kWalkDims)
    throw Error(ErrorKind::runtime,
                "tensors with more than " + std::to_string(kWalkDims) + " separate dimensions are not supported");
  Walk<N> w{};
  w.ndim = static_cast<uint32_t>(m.size());
  int64_t inner = 1, reach[N] = {};
  uint32_t taken = 0;
  for (uint32_t i = 0; i < w.ndim; ++i) {
    const auto& d = m[w.ndim - 1 - i];
    w.dims[i] = make_divider(static_cast<uint32_t>(d.size));
    std::copy(d.strides, d.strides + N, w.strides[i]);
    if (taken == i && inner < want_inner && inner * d.size < (int64_t{1} << 31)) {
      bool fits = true;
      for (int k = 0; k < N; ++k) fits = fits && reach[k] + (d.size - 1) * d.strides[k] < (int64_t{1} << 32);
      if (!fits) continue;
      for (int k = 0; k < N; ++k) reach[k] += (d.size - 1) * d.strides[k];
      inner *= d.size;
      ++taken;
    }
  }
  w.inner = static_cast<uint32_t>(inner);
  w.inner_ndim = taken;
  int64_t rows = 1;
  for (uint32_t i = taken; i < w.ndim; ++i) rows *= w.dims[i].d;
  if (rows >= (int64_t{1} << 32)) throw Error(ErrorKind::runtime, "index space too large");
  w.rows = static_cast<uint32_t>(rows);
  return w;
}

// Work-items of one group for rows of `inner` items: whole sub-groups, no nearly empty last group.
inline size_t even_group(size_t inner, size_t most = 1024) {
  const size_t groups = std::max<size_t>(1, (inner + most - 1) / most), each = (inner + groups - 1) / groups;
  return std::max<size_t>(16, (each + 15) / 16 * 16);
}
inline size_t even_group(size_t inner, const runtime::Policy& policy) {
  return even_group(inner, policy.elementwise_group);
}

// Work-items of a group that goes through pieces of `width` elements side by side. A thread of a CPU device takes the
// items of a vector through the whole piece, then those of the next. With vectors of 256 bits that would be twice
// through every line.
inline size_t tile_group(size_t width, const runtime::Policy& policy) {
  constexpr size_t kNarrowVector = 8;  // items
  return policy.narrow ? kNarrowVector : even_group(width, policy.tile_items);
}
// Elements of such a group where a full one has `tile`: an item has as many in a narrow group.
inline size_t tile_share(size_t local, size_t tile, const runtime::Policy& policy) {
  return policy.narrow ? tile : tile * local / policy.tile_items;
}

// Work-groups in which each sub-group takes a row.
struct RowGroups { size_t groups, local; };
inline RowGroups sub_group_rows(size_t rows, const runtime::Policy& policy) {
  const size_t most = policy.row_items / policy.lanes, each = std::clamp<size_t>(rows, 1, most);
  return {(rows + each - 1) / each, each * policy.lanes};
}

// Rows of `n` elements by teams of `items`, a sub-group or a work-group, whose items hold `held` elements each where
// the row is not too long for that.
struct RowTeams { size_t groups, local, items; };
inline RowTeams row_teams(size_t rows, size_t n, size_t held, const runtime::Policy& policy) {
  constexpr size_t kMostGroups = size_t{1} << 20, kLeastItems = 64;  // smaller work-groups leave a GPU half empty
  if (n <= held * policy.lanes) {
    const RowGroups small = sub_group_rows(rows, policy);
    return {std::min(small.groups, kMostGroups), small.local, policy.lanes};
  }
  const size_t wanted = ((n + held - 1) / held + 15) / 16 * 16;
  const size_t items = std::clamp<size_t>(wanted, std::min<size_t>(kLeastItems, policy.team_items), policy.team_items);
  return {std::min(rows, kMostGroups), items, items};
}

// How many items to launch for n elements that cost little each: where an item is a thread few, each with many in turn.
struct Spread {
  size_t groups, local;
  uint32_t chunk;
};
inline Spread spread(size_t n, const runtime::Policy& policy) {
  if (!policy.single_items) return {(n + 255) / 256, 256, 1};
  const size_t share = 16 * size_t{policy.units};
  const size_t chunk = std::clamp<size_t>((n + share - 1) / share, 16, 16384);
  return {(n + chunk - 1) / chunk, 1, static_cast<uint32_t>(chunk)};
}

}  // namespace xpu_ops
