// Values of 8 bits with a scale, rounded to even and held in the range of their type: floats, whose NaN stays, and
// whole numbers, where it is 0.
#pragma once
#include "kernels/sycl/core/float8.hpp"
#include "kernels/sycl/core/lane_row.hpp"
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/core/team.hpp"
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/elementwise/rounding_args.hpp"

namespace xpu {

using xpu_ops::RoundArgs;
using xpu_ops::ScaleArgs;

template <class Q> struct EightBits;
template <> struct EightBits<f8e4m3fn> {
  static constexpr float kTop = 448.0f, kLow = -448.0f;
  static constexpr uint32_t kMantissa = 3, kBias = 7;
};
template <> struct EightBits<f8e5m2> {
  static constexpr float kTop = 57344.0f, kLow = -57344.0f;
  static constexpr uint32_t kMantissa = 2, kBias = 15;
};
template <> struct EightBits<int8_t> { static constexpr float kTop = 127.0f, kLow = -128.0f; };

constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: a sum with it has no fraction left
using byte16v = uint8_t __attribute__((ext_vector_type(16)));

template <class Q> XPU_INLINE void store_eight(uint8_t* at, float v) {
  using B = EightBits<Q>;
  v = v > B::kTop ? B::kTop : v < B::kLow ? B::kLow : v;
  if constexpr (__is_same(Q, int8_t))
    *at = v != v ? uint8_t(0) : static_cast<uint8_t>(sycl::bit_cast<uint32_t>(v + kWhole));
  else
    *at = Q(v).bits;
}
template <class Q> XPU_INLINE void store_eight16(uint8_t* at, float16v v) {
  using B = EightBits<Q>;
  v = v > B::kTop ? float16v(B::kTop) : v < B::kLow ? float16v(B::kLow) : v;
  uint16v r;
  if constexpr (__is_same(Q, int8_t)) {
    r = v != v ? uint16v(0u) : __builtin_bit_cast(uint16v, v + kWhole);
  } else {
    // As float8 (core/float8.hpp) rounds what is in its range.
    constexpr uint32_t kCut = 23 - B::kMantissa, kMagic = (127 + 1 - B::kBias - B::kMantissa + 23) << 23;
    const uint16v whole = __builtin_bit_cast(uint16v, v), sign = (whole >> 24) & 0x80u, u = whole & 0x7fffffffu;
    const uint16v odd = (u >> kCut) & 1u;
    const uint16v normal = (u - ((127u - B::kBias) << 23) + ((1u << (kCut - 1)) - 1u) + odd) >> kCut;
    const float16v low = __builtin_bit_cast(float16v, u) + sycl::bit_cast<float>(kMagic);
    r = u < ((128u - B::kBias) << 23) ? __builtin_bit_cast(uint16v, low) - kMagic : normal;
    r = (u > 0x7f800000u ? uint16v(0x7fu) : r) | sign;
  }
  store_row(at, __builtin_convertvector(r & 0xffu, byte16v));
}

// The scale of a group whose largest magnitude is `most`.
template <class Q> XPU_INLINE float scale_of(const RoundArgs& p, float most) {
  if (p.bound) most = smaller(most, *p.bound);
  const float least = larger(most, p.least_value);
  float scale = larger(least / EightBits<Q>::kTop, p.least_scale);
  scale = p.one && most == 0.0f ? 1.0f : scale;
  if (!p.exponents) return scale;
  scale = larger(scale, 1e-10f);
  const uint32_t u = sycl::bit_cast<uint32_t>(scale);
  return sycl::bit_cast<float>(u >= 0x7f800000u || !(u & 0x7fffffu) ? u : (u | 0x7fffffu) + 1u);
}

XPU_INLINE float inverse_of(float scale, bool safe) { return 1.0f / (!safe || scale > 0.0f ? scale : 1.0f); }

// Teams take groups.
template <class T, class Q> void round_teams(const RoundArgs& p) {
  const Team t = team_of(p.team);
  // uniform over the group: a team of several sub-groups is the work-group
  for (size_t i = t.first; i < size_t{p.rows} * p.groups; i += t.count) {
    const size_t row = i / p.groups, g = i - row * p.groups;
    const T* x = static_cast<const T*>(p.x) + (static_cast<int64_t>(row) * p.x_row + static_cast<int64_t>(g * p.group));
    uint8_t* out =
        static_cast<uint8_t*>(p.out) + (static_cast<int64_t>(row) * p.out_row + static_cast<int64_t>(g * p.group));
    float most[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for_team(t, p.group, [&](size_t c, int j) {
      const float v = static_cast<float>(x[c]);
      most[j] = larger(most[j], v < 0.0f ? -v : v);
    });
    const float scale = scale_of<Q>(p, team_max(t, larger(larger(most[0], most[1]), larger(most[2], most[3]))));
    if (p.inverse) {
      const float factor = inverse_of(scale, true);
      for_team(t, p.group, [&](size_t c, int) { store_eight<Q>(out + c, static_cast<float>(x[c]) * factor); });
    } else {
      for_team(t, p.group, [&](size_t c, int) { store_eight<Q>(out + c, static_cast<float>(x[c]) / scale); });
    }
    if (t.leads()) p.scales[static_cast<int64_t>(row) * p.scale_row + static_cast<int64_t>(g) * p.scale_group] = scale;
  }
}

XPU_INLINE float16v magnitude16(float16v v) {
  return __builtin_bit_cast(float16v, __builtin_bit_cast(uint16v, v) & 0x7fffffffu);
}

// For a CPU device: an item takes `each` groups.
template <class T, class Q> void round_spans(const RoundArgs& p) {
  const size_t begin = size_t{group_id()} * p.each, all = size_t{p.rows} * p.groups;
  const size_t end = begin + p.each < all ? begin + p.each : all;
  size_t row = begin / p.groups, g = begin - row * p.groups;
  for (size_t i = begin; i < end; ++i, ++g) {
    if (g == p.groups) g = 0, ++row;
    const T* x = static_cast<const T*>(p.x) + (static_cast<int64_t>(row) * p.x_row + static_cast<int64_t>(g * p.group));
    uint8_t* out =
        static_cast<uint8_t*>(p.out) + (static_cast<int64_t>(row) * p.out_row + static_cast<int64_t>(g * p.group));
    const uint32_t n = p.group;
    float16v most = 0.0f, other = 0.0f;
    uint32_t c = 0;
    for (; c + 32 <= n; c += 32) {
      most = larger(most, magnitude16(load16(x + c)));
      other = larger(other, magnitude16(load16(x + c + 16)));
    }
    for (; c + 16 <= n; c += 16) most = larger(most, magnitude16(load16(x + c)));
    most = larger(most, other);
    most = larger(most, other_lanes<8>(most));
    most = larger(most, other_lanes<4>(most));
    most = larger(most, other_lanes<2>(most));
    float top = larger(most[0], most[1]);
    for (; c < n; ++c) {
      const float v = static_cast<float>(x[c]);
      top = larger(top, v < 0.0f ? -v : v);
    }
    const float scale = scale_of<Q>(p, top);
    c = 0;
    if (p.inverse) {
      const float factor = inverse_of(scale, true);
      for (; c + 16 <= n; c += 16) store_eight16<Q>(out + c, load16(x + c) * factor);
      for (; c < n; ++c) store_eight<Q>(out + c, static_cast<float>(x[c]) * factor);
    }
    for (; c + 16 <= n; c += 16) store_eight16<Q>(out + c, load16(x + c) / scale);
    for (; c < n; ++c) store_eight<Q>(out + c, static_cast<float>(x[c]) / scale);
    p.scales[static_cast<int64_t>(row) * p.scale_row + static_cast<int64_t>(g) * p.scale_group] = scale;
  }
}

struct ScaledPart {
  int64_t row;
  size_t c0, c1;
  const float* scales;
};
XPU_INLINE ScaledPart scaled_part(const ScaleArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const size_t row = it.get_group(0), c0 = it.get_group(1) * size_t{p.chunk};
  const size_t part = row / p.row_group;
  return {static_cast<int64_t>(row), c0, c0 + p.chunk < p.columns ? c0 + p.chunk : p.columns,
          p.scales + static_cast<int64_t>(part) * p.scale_row};
}

// 2-D: items side by side take the columns of a row.
template <class T, class Q> void scale_items(const ScaleArgs& p) {
  const auto it = syclex::this_work_item::get_nd_item<2>();
  const ScaledPart part = scaled_part(p);
  const T* x = static_cast<const T*>(p.x) + part.row * p.x_row;
  uint8_t* out = static_cast<uint8_t*>(p.out) + part.row * p.out_row;
  const size_t lane = it.get_local_id(1), lanes = it.get_local_range(1);
  if (p.group == 1) {
    for_columns(part.c0, part.c1, lane, lanes, [&](size_t c) {
      const float factor = inverse_of(part.scales[static_cast<int64_t>(c) * p.scale_group], p.safe);
      store_eight<Q>(out + c, static_cast<float>(x[c]) * factor);
    });
    return;
  }
  size_t g = part.c0 / p.group;
  for (size_t c0 = part.c0; c0 < part.c1; c0 += p.group, ++g) {
    const float factor = inverse_of(part.scales[static_cast<int64_t>(g) * p.scale_group], p.safe);
    const size_t c1 = c0 + p.group < part.c1 ? c0 + p.group : part.c1;
    for_columns(c0, c1, lane, lanes, [&](size_t c) { store_eight<Q>(out + c, static_cast<float>(x[c]) * factor); });
  }
}

// For a CPU device: work-groups of one item. Scales of single columns lie side by side.
template <class T, class Q> void scale_spans(const ScaleArgs& p) {
  const ScaledPart part = scaled_part(p);
  const T* x = static_cast<const T*>(p.x) + part.row * p.x_row;
  uint8_t* out = static_cast<uint8_t*>(p.out) + part.row * p.out_row;
  size_t c = part.c0;
  if (p.group == 1) {
    for (; c + 16 <= part.c1; c += 16) {
      const float16v s = load16(part.scales + c);
      store_eight16<Q>(out + c, load16(x + c) * (1.0f / (p.safe ? (s > 0.0f ? s : float16v(1.0f)) : s)));
    }
    for (; c < part.c1; ++c) store_eight<Q>(out + c, static_cast<float>(x[c]) * inverse_of(part.scales[c], p.safe));
    return;
  }
  size_t g = part.c0 / p.group;
  for (size_t c0 = part.c0; c0 < part.c1; c0 += p.group, ++g) {
    const float factor = inverse_of(part.scales[static_cast<int64_t>(g) * p.scale_group], p.safe);
    const size_t c1 = c0 + p.group < part.c1 ? c0 + p.group : part.c1;
    for (c = c0; c + 16 <= c1; c += 16) store_eight16<Q>(out + c, load16(x + c) * factor);
    for (; c < c1; ++c) store_eight<Q>(out + c, static_cast<float>(x[c]) * factor);
  }
}

}  // namespace xpu
