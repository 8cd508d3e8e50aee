#include "kernels/ops/interpolation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/error.hpp"

namespace xpu_ops::plan {
namespace {

using Taps = std::vector<std::pair<int32_t, double>>;

template <class F> F near_cubic(F x, F a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
template <class F> F far_cubic(F x, F a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

template <class F>
F window(Filter filter, F x) {
  x = std::abs(x);
  switch (filter) {
    case Filter::linear_aa: return x < 1 ? 1 - x : F(0);
    case Filter::cubic_aa: return x < 1 ? near_cubic<F>(x, F(-0.5)) : x < 2 ? far_cubic<F>(x, F(-0.5)) : F(0);
    default: break;
  }
  if (x >= 3) return 0;
  if (x == 0) return 1;
  const F pi = std::numbers::pi_v<F> * x;
  return std::sin(pi) / pi * (std::sin(pi / 3) / (pi / 3));
}

// The input step of one output step.
template <class F>
F axis_scale(int64_t in, int64_t out, bool align, std::optional<double> scale) {
  if (align) return out > 1 ? static_cast<F>(in - 1) / (out - 1) : F(0);
  return scale && *scale > 0 ? static_cast<F>(1.0 / *scale) : static_cast<F>(in) / out;
}

template <class F>
std::vector<Taps> forward_taps(Filter filter, int64_t in, int64_t out, bool align, std::optional<double> scale) {
  std::vector<Taps> taps(out);
  auto bounded = [&](int64_t i) { return static_cast<int32_t>(std::clamp<int64_t>(i, 0, in - 1)); };
  switch (filter) {
    case Filter::nearest:
    case Filter::nearest_exact: {
      const bool exact = filter == Filter::nearest_exact;
      const float step = axis_scale<float>(in, out, false, scale);
      for (int64_t o = 0; o < out; ++o) {
        const float x = exact ? std::floor(static_cast<float>((o + 0.5) * step)) : std::floor(o * step);
        taps[o] = {{bounded(static_cast<int64_t>(x)), 1.}};
      }
      return taps;
    }
    case Filter::linear: {
      const F step = axis_scale<F>(in, out, align, scale);
      for (int64_t o = 0; o < out; ++o) {
        if (in == out) {
          taps[o] = {{static_cast<int32_t>(o), 1.}};
          continue;
        }
        const F x = align ? step * o : std::max(F(0), step * (o + F(0.5)) - F(0.5));
        const int64_t i = std::min(static_cast<int64_t>(std::floor(static_cast<float>(x))), in - 1);
        const F part = std::min(std::max(x - i, F(0)), F(1));
        taps[o] = {{static_cast<int32_t>(i), 1 - part}, {bounded(i + 1), part}};
      }
      return taps;
    }
    case Filter::cubic: {
      const F step = axis_scale<F>(in, out, align, scale), a = F(-0.75);
      for (int64_t o = 0; o < out; ++o) {
        const F x = align ? step * o : step * (o + F(0.5)) - F(0.5);
        // Clamped like the linear index, so that a huge position does not overflow the cast.
        const int64_t i = std::min(static_cast<int64_t>(std::floor(x)), in - 1);
        const F t = std::min(std::max(x - i, F(0)), F(1));
        taps[o] = {{bounded(i - 1), far_cubic<F>(t + 1, a)},
                   {bounded(i), near_cubic<F>(t, a)},
                   {bounded(i + 1), near_cubic<F>(1 - t, a)},
                   {bounded(i + 2), far_cubic<F>(2 - t, a)}};
      }
      return taps;
    }
    default: break;
  }
  // Antialiased: the window grows with the input step, weights are normalised.
  const F half = filter == Filter::linear_aa ? 1 : filter == Filter::cubic_aa ? 2 : 3;
  const F step = axis_scale<F>(in, out, align, scale);
  const F support = step >= 1 ? half * step : half, shrink = step >= 1 ? 1 / step : F(1);
  for (int64_t o = 0; o < out; ++o) {
    const F center = step * (o + F(0.5));
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + F(0.5)), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(center + support + F(0.5)), in);
    F total = 0;
    std::vector<F> w;
    for (int64_t i = begin; i < end; ++i) {
      w.push_back(window<F>(filter, (i - center + F(0.5)) * shrink));
      total += w.back();
    }
    for (int64_t i = begin; i < end; ++i)
      taps[o].push_back({static_cast<int32_t>(i), total != 0 ? w[i - begin] / total : w[i - begin]});
    if (taps[o].empty()) taps[o].push_back({bounded(begin), 0.});
  }
  return taps;
}

AxisTable pack(const std::vector<Taps>& taps, int64_t in) {
  AxisTable t;
  t.in = static_cast<int32_t>(in);
  t.out = static_cast<int32_t>(taps.size());
  size_t most = 1;
  for (const auto& list : taps) most = std::max(most, list.size());
  t.taps = static_cast<int32_t>(most);
  const size_t n = taps.size();
  if (most * n > (size_t{1} << 27)) throw Error(ErrorKind::runtime, "interpolation: too many inputs touch one output");
  t.index.assign(most * n, 0);
  t.weight.assign(most * n, 0.);
  t.count.resize(n);
  for (size_t o = 0; o < n; ++o) {
    t.count[o] = static_cast<int32_t>(taps[o].size());
    for (size_t k = 0; k < most; ++k) {
      const bool used = k < taps[o].size();
      t.index[k * n + o] = used ? taps[o][k].first : taps[o].empty() ? 0 : taps[o][0].first;
      t.weight[k * n + o] = used ? taps[o][k].second : 0.;
    }
  }
  return t;
}

}  // namespace

bool AxisTable::identity() const {
  if (in != out || taps != 1) return false;
  for (int32_t o = 0; o < out; ++o)
    if (index[o] != o || weight[o] != 1.) return false;
  return true;
}

AxisTable axis_table(Filter filter, int64_t in, int64_t out, bool align_corners, std::optional<double> scale,
                     bool wide) {
  return pack(wide ? forward_taps<double>(filter, in, out, align_corners, scale)
                   : forward_taps<float>(filter, in, out, align_corners, scale),
              in);
}

AxisTable transpose(const AxisTable& table) {
  std::vector<Taps> taps(table.in);
  for (int32_t o = 0; o < table.out; ++o)
    for (int32_t k = 0; k < table.count[o]; ++k) {
      const size_t at = static_cast<size_t>(k) * table.out + o;
      Taps& list = taps[table.index[at]];
      // A clamped border counts one output several times: one tap with the summed weight.
      if (!list.empty() && list.back().first == o)
        list.back().second += table.weight[at];
      else
        list.push_back({o, table.weight[at]});
    }
  return pack(taps, table.out);
}

}  // namespace xpu_ops::plan
