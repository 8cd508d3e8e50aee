// Layer norm and RMS norm, and sums along rows, for devices that want many items per work-group. A row of up to kHeld
// elements per item is read once, where it can be moved by fours. Included by normalization.hpp.
#pragma once
#include "kernels/sycl/core/team_row.hpp"

namespace xpu {

// A row in registers; x less `shift` is what is summed.
template <bool kRms, class T, class W, class A>
XPU_INLINE void layer_norm_held(const Team& t, const T* x, T* y, const W* w, const W* b, uint32_t n, A shift, A eps,
                                A& mean, A& rstd) {
  const A inverse = A(1) / static_cast<A>(n);
  A v[kHeld], sum = 0, squares = 0;
#pragma unroll
  for (uint32_t j = 0; j < kHeld; j += 4)
    if (holds(t, n, j)) read_four(x, four_at(t, j), v + j);
#pragma unroll
  for (uint32_t j = 0; j < kHeld; ++j) {
    if (!holds(t, n, j)) continue;
    v[j] -= shift;
    sum += v[j];
  }
  if constexpr (!kRms) mean = team_sum(t, sum) * inverse;
#pragma unroll
  for (uint32_t j = 0; j < kHeld; ++j)
    if (holds(t, n, j)) squares += (v[j] - mean) * (v[j] - mean);
  rstd = A(1) / sycl::sqrt(team_sum(t, squares) * inverse + eps);
#pragma unroll
  for (uint32_t j = 0; j < kHeld; j += 4) {
    if (!holds(t, n, j)) continue;
    A scale[4], offset[4];
    if (w) read_four(w, four_at(t, j), scale);
    if (b) read_four(b, four_at(t, j), offset);
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      A& r = v[j + k];
      r = (r - mean) * rstd;
      if (w) r = r * scale[k];
      if (b) r = r + offset[k];
    }
    write_four(y, four_at(t, j), v + j);
  }
}

template <class T, class W, bool kRms> XPU_INLINE void layer_norm_team(const LayerNormArgs& p) {
  using A = opmath_t<T>;
  const W *w = static_cast<const W*>(p.weight), *b = static_cast<const W*>(p.bias);
  const Team t = team_of(p.team);
  const size_t n = p.cols;
  const A inverse = A(1) / static_cast<A>(n);
  const bool fours = by_fours(static_cast<const T*>(p.x), n) && by_fours(static_cast<const T*>(p.y), n) &&
                     by_fours(w, n) && by_fours(b, n);
  // uniform over the group: a team of several sub-groups is the work-group
  for (uint32_t row = t.first; row < p.rows; row += t.count) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    T* y = static_cast<T*>(p.y) + row * n;
    // Sums are of differences to a value of the row, so that a mean far from zero does not round them away.
    const A shift = kRms ? A(0) : static_cast<A>(load(x, 0));
    A mean = 0, rstd;
    auto scaled = [&](A v, size_t at) {
      v = (v - mean) * rstd;
      if (w) v = v * static_cast<A>(load(w, at));
      if (b) v = v + static_cast<A>(load(b, at));
      store(y, at, static_cast<T>(v));
    };
    if (fours && n <= kHeld * size_t{t.lanes}) {
      layer_norm_held<kRms>(t, x, y, w, b, p.cols, shift, value<A>(p.eps), mean, rstd);
    } else {
      if constexpr (!kRms) {
        A s[4] = {0, 0, 0, 0};
        for_team(t, n, [&](size_t at, int j) { s[j] += static_cast<A>(load(x, at)) - shift; });
        mean = team_sum(t, (s[0] + s[1]) + (s[2] + s[3])) * inverse;
      }
      A q[4] = {0, 0, 0, 0};
      for_team(t, n, [&](size_t at, int j) {
        const A v = static_cast<A>(load(x, at)) - shift - mean;
        q[j] += v * v;
      });
      rstd = A(1) / sycl::sqrt(team_sum(t, (q[0] + q[1]) + (q[2] + q[3])) * inverse + value<A>(p.eps));
      for_team(t, n, [&](size_t at, int) { scaled(static_cast<A>(load(x, at)) - shift, at); });
    }
    if (t.leads()) {
      if constexpr (!kRms) static_cast<A*>(p.mean)[row] = shift + mean;
      static_cast<A*>(p.rstd)[row] = rstd;
    }
  }
}

// The gradient of one row, which registers hold; adds its terms of the sums by column.
template <bool kRms, class T, class W, class A>
XPU_INLINE void layer_norm_backward_held(const Team& t, const T* x, const T* dy, T* dx, const W* w, uint32_t n, A mean,
                                         A rstd, A (&held_q)[kHeld], A (&held_s)[kHeld]) {
  const A inverse = A(1) / static_cast<A>(n);
  A h[kHeld], g[kHeld], s = 0, q = 0;
#pragma unroll
  for (uint32_t j = 0; j < kHeld; j += 4) {
    if (!holds(t, n, j)) continue;
    A scale[4] = {1, 1, 1, 1};
    read_four(x, four_at(t, j), h + j);
    read_four(dy, four_at(t, j), g + j);
    if (w) read_four(w, four_at(t, j), scale);
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      A &normal = h[j + k], &grad = g[j + k];
      normal = (normal - mean) * rstd;
      held_q[j + k] += grad * normal;
      held_s[j + k] += grad;
      grad = grad * scale[k];
      s += grad;
      q += grad * normal;
    }
  }
  A mg = 0;
  if constexpr (!kRms) mg = team_sum(t, s) * inverse;
  const A mgh = team_sum(t, q) * inverse;
#pragma unroll
  for (uint32_t j = 0; j < kHeld; j += 4) {
    if (!holds(t, n, j)) continue;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) g[j + k] = rstd * (g[j + k] - mg - h[j + k] * mgh);
    write_four(dx, four_at(t, j), g + j);
  }
}

// See layer_norm_backward_row. kSums: a work-group, which is one team, adds by column for the gradients of weight and
// bias; each item has columns of its own, whose sums its registers hold where they are few.
template <class T, class W, bool kRms, bool kSums> XPU_INLINE void layer_norm_backward_team(const LayerNormArgs& p) {
  using A = opmath_t<T>;
  const W* w = static_cast<const W*>(p.weight);
  const Team t = team_of(p.team);
  const size_t n = p.cols;
  const A inverse = A(1) / static_cast<A>(n);
  A* partial = nullptr;
  A held_q[kHeld], held_s[kHeld];
  const bool held = n <= kHeld * size_t{t.lanes};
  const bool fours = kSums && held && by_fours(static_cast<const T*>(p.x), n) &&
                     by_fours(static_cast<const T*>(p.dy), n) && by_fours(static_cast<const T*>(p.y), n) &&
                     by_fours(w, n);
  if constexpr (kSums) {
    partial = static_cast<A*>(p.partial) + t.first * 2 * n;
#pragma unroll
    for (uint32_t j = 0; j < kHeld; ++j) held_q[j] = held_s[j] = A(0);
    if (!held)
      for (size_t at = t.lane; at < n; at += t.lanes) partial[at] = partial[n + at] = A(0);
  }
  // uniform over the group: a team of several sub-groups is the work-group
  for (uint32_t row = t.first; row < p.rows; row += t.count) {
    const T *x = static_cast<const T*>(p.x) + row * n, *dy = static_cast<const T*>(p.dy) + row * n;
    T* dx = static_cast<T*>(p.y) + row * n;
    A mean = 0;
    if constexpr (!kRms) mean = static_cast<const A*>(p.mean)[row];
    const A rstd = static_cast<const A*>(p.rstd)[row];
    if (fours) {
      layer_norm_backward_held<kRms>(t, x, dy, dx, w, p.cols, mean, rstd, held_q, held_s);
      continue;
    }
    auto gradient = [&](size_t at) {
      const A g = static_cast<A>(load(dy, at));
      return w ? g * static_cast<A>(load(w, at)) : g;
    };
    A s[4] = {0, 0, 0, 0}, q[4] = {0, 0, 0, 0};
    for_team(t, n, [&](size_t at, int j) {
      const A g = gradient(at);
      s[j] += g;
      q[j] += g * (static_cast<A>(load(x, at)) - mean) * rstd;
    });
    A mg = 0;
    if constexpr (!kRms) mg = team_sum(t, (s[0] + s[1]) + (s[2] + s[3])) * inverse;
    const A mgh = team_sum(t, (q[0] + q[1]) + (q[2] + q[3])) * inverse;
    auto give = [&](size_t at, A h) { store(dx, at, static_cast<T>(rstd * (gradient(at) - mg - h * mgh))); };
    if (kSums && held) {
      for_held<kHeld>(t, p.cols, [&](uint32_t at, int j) {
        const A h = (static_cast<A>(load(x, at)) - mean) * rstd, v = static_cast<A>(load(dy, at));
        held_q[j] += v * h;
        held_s[j] += v;
        give(at, h);
      });
    } else {
      for_team(t, n, [&](size_t at, int) {
        const A h = (static_cast<A>(load(x, at)) - mean) * rstd;
        if constexpr (kSums) {
          const A v = static_cast<A>(load(dy, at));
          partial[at] += v * h;
          partial[n + at] += v;
        }
        give(at, h);
      });
    }
  }
  if constexpr (kSums) {
    if (fours) {
#pragma unroll
      for (uint32_t j = 0; j < kHeld; ++j) {
        const uint32_t at = four_at(t, j / 4 * 4) + j % 4;
        if (at < n) partial[at] = held_q[j], partial[n + at] = held_s[j];
      }
    } else if (held) {
      for_held<kHeld>(t, p.cols, [&](uint32_t at, int j) { partial[at] = held_q[j], partial[n + at] = held_s[j]; });
    }
  }
}

// Adds the partial sums of kLanes columns: a column per lane, the splits shared out among the sub-groups.
template <class T, class W> XPU_INLINE void norm_column_final_team(const ColumnSumArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const uint32_t part = item.get_sub_group().get_group_linear_id(), lane = static_cast<uint32_t>(sub_group_lane()),
                 parts = static_cast<uint32_t>(item.get_local_range(0)) / kLanes, total = p.batches * p.cols,
                 i = static_cast<uint32_t>(item.get_group(0)) * kLanes + lane, batch = div(i, p.by_cols);
  const size_t cols = p.cols;
  A q = 0, s = 0;
  if (i < total) {
    const A* x = static_cast<const A*>(p.partial) + batch * p.splits * 2 * cols + (i - batch * p.cols);
    for (uint32_t split = part; split < p.splits; split += parts) {
      q += x[split * 2 * cols];
      s += x[(split * 2 + 1) * cols];
    }
  }
  syclexp::work_group_static<A[2 * kTeamParts * kLanes]> shared;
  A* all = shared;
  all[part * kLanes + lane] = q;
  all[(kTeamParts + part) * kLanes + lane] = s;
  sycl::group_barrier(syclex::this_work_item::get_work_group<1>());
  if (part != 0 || i >= total) return;
  for (uint32_t k = 1; k < parts; ++k) {
    q += all[k * kLanes + lane];
    s += all[(kTeamParts + k) * kLanes + lane];
  }
  if (p.out0) static_cast<W*>(p.out0)[i] = static_cast<W>(q);
  if (p.out1) static_cast<W*>(p.out1)[i] = static_cast<W>(s);
}

template <class T> XPU_INLINE void norm_row_sums_team(const RowSumArgs& p) {
  using A = opmath_t<T>;
  const Team t = team_of(p.team);
  const size_t n = p.cols;
  // uniform over the group: a team of several sub-groups is the work-group
  for (uint32_t row = t.first; row < p.rows; row += t.count) {
    const T *x = static_cast<const T*>(p.x) + row * n, *dy = static_cast<const T*>(p.dy) + row * n;
    const A shift = p.shift ? static_cast<const A*>(p.shift)[row % p.period] : A(0);
    A s[4] = {0, 0, 0, 0}, q[4] = {0, 0, 0, 0};
    for_team(t, n, [&](size_t at, int j) {
      const A v = static_cast<A>(load(dy, at));
      s[j] += v;
      q[j] += v * (static_cast<A>(load(x, at)) - shift);
    });
    const A dot = team_sum(t, (q[0] + q[1]) + (q[2] + q[3])), sum = team_sum(t, (s[0] + s[1]) + (s[2] + s[3]));
    if (t.leads()) {
      static_cast<A*>(p.out0)[row] = dot;
      static_cast<A*>(p.out1)[row] = sum;
    }
  }
}

}  // namespace xpu
