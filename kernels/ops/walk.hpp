// Host side of Walk: drops and merges dims, then decides how many of them one work-group row covers. Needs no device.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/policy.hpp"
#include "kernels/sycl/core/walk_args.hpp"

namespace xpu_ops {

template <int N>
struct WalkDim {
  int64_t size;
  int64_t strides[N];
};

// dims: outermost first. A row covers at least `want_inner` items where the shape allows it; operand 0 decides the
// order of dims if `reorder`.
template <int N>
Walk<N> make_walk(std::vector<WalkDim<N>> dims, bool reorder = true, int64_t want_inner = 256) {
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
