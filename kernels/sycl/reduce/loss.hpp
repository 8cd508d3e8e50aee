// Losses: elementwise ones with fused reduction, negative log likelihood, margin losses.
// Every sum has a fixed order: items write partial sums, one item adds them.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/core/device_error.hpp"
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/core/team.hpp"
#include "kernels/sycl/reduce/loss_args.hpp"

namespace xpu {

using xpu_ops::LossArgs;
using xpu_ops::LossFinishArgs;
using xpu_ops::LossKind;
using xpu_ops::LossScalar;
using xpu_ops::MarginArgs;
using xpu_ops::NllArgs;

template <class A> inline A loss_scalar(const LossScalar& s) {
  if constexpr (sizeof(A) == 8) {
    return sycl::bit_cast<double>(s.f64);
  } else {
    return s.f32;
  }
}

template <LossKind kKind, class A> inline A loss_value(A x, A y, A param) {
  A d = x - y, z = sycl::fabs(d);
  switch (kKind) {
    case LossKind::mse: return d * d;
    case LossKind::smooth_l1: return z < param ? A(0.5f) * z * z / param : z - A(0.5f) * param;
    case LossKind::huber: return z <= param ? A(0.5f) * z * z : param * (z - A(0.5f) * param);
    case LossKind::bce: {
      A a = sycl::log1p(-x), b = sycl::log(x);
      a = a < A(-100) ? A(-100) : a;
      b = b < A(-100) ? A(-100) : b;
      return (y - A(1)) * a - y * b;
    }
  }
  return A(0);
}

template <LossKind kKind, class A> inline A loss_slope(A x, A y, A g, A param) {
  A d = x - y;
  switch (kKind) {
    case LossKind::mse: return d * g;
    case LossKind::smooth_l1: return d <= -param ? -g : d >= param ? g : d * g / param;
    case LossKind::huber: return d <= -param ? -g * param : d >= param ? g * param : d * g;
    case LossKind::bce: {
      A v = (A(1) - x) * x, eps = A(1e-12f);
      return g * d / (v < eps ? eps : v);
    }
  }
  return A(0);
}

template <class T> XPU_INLINE T loss_load(const T* x, size_t lane) { return x[lane]; }
XPU_INLINE bf16 loss_load(const bf16* x, size_t lane) {
  bf16 v;
  v.bits = reinterpret_cast<const uint16_t*>(x)[lane];
  return v;
}

// Element base + lane, of which base is uniform.
template <class T, LossKind kKind> XPU_INLINE opmath_t<T> loss_at(const LossArgs& p, size_t base, size_t lane) {
  using A = opmath_t<T>;
  A x = static_cast<A>(loss_load(static_cast<const T*>(p.input) + base, lane));
  A y = static_cast<A>(loss_load(static_cast<const T*>(p.target) + base, lane));
  A v = loss_value<kKind, A>(x, y, loss_scalar<A>(p.param));
  if constexpr (kKind == LossKind::bce) {
    if (!(x >= A(0) && x <= A(1))) report_error(p.error, DeviceErrorCode::probability, 0, base + lane, p.n);
  }
  if constexpr (kKind == LossKind::bce)
    if (p.weight) v *= static_cast<A>(loss_load(static_cast<const T*>(p.weight) + base, lane));
  return v;
}

template <class T, LossKind kKind> void loss_point(const LossArgs& p) {
  T* out = static_cast<T*>(p.out);
  for_tile(p.n, [&](size_t i) { out[i] = static_cast<T>(loss_at<T, kKind>(p, 0, i)); });
}

// kOne: one gradient for all elements.
template <class T, LossKind kKind, bool kOne> XPU_INLINE void loss_back_tile(const LossArgs& p) {
  using A = opmath_t<T>;
  const T *grad = static_cast<const T*>(p.grad), *input = static_cast<const T*>(p.input),
          *target = static_cast<const T*>(p.target), *weight = static_cast<const T*>(p.weight);
  T* out = static_cast<T*>(p.out);
  const A scale = loss_scalar<A>(p.scale), param = loss_scalar<A>(p.param),
          one = kOne ? static_cast<A>(grad[0]) * scale : A(0);
  for_tile(p.n, [&](size_t i) {
    const A g = kOne ? one : static_cast<A>(loss_load(grad, i)) * scale;
    A v = loss_slope<kKind, A>(static_cast<A>(loss_load(input, i)), static_cast<A>(loss_load(target, i)), g, param);
    if constexpr (kKind == LossKind::bce)
      if (weight) v *= static_cast<A>(loss_load(weight, i));
    out[i] = static_cast<T>(v);
  });
}
template <class T, LossKind kKind> void loss_back(const LossArgs& p) {
  if (p.grad_scalar)
    loss_back_tile<T, kKind, true>(p);
  else
    loss_back_tile<T, kKind, false>(p);
}

// A work-group adds one contiguous part of the elements; neighbouring items read neighbouring elements.
struct LossPart { uint32_t begin, end, step; };
inline LossPart loss_part(uint32_t n) {
  auto item = syclex::this_work_item::get_nd_item<1>();
  uint32_t groups = static_cast<uint32_t>(item.get_group_range(0)),
           step = static_cast<uint32_t>(item.get_local_range(0));
  uint32_t part = (n + groups - 1) / groups;
  uint32_t first = group_id() * part, last = first + part;
  return {first + local_id(), last < n ? last : n, step};
}

template <class T, LossKind kKind> void loss_partial(const LossArgs& p) {
  using A = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<1>();
  const size_t group = item.get_group(0), groups = item.get_group_range(0), lane = item.get_local_id(0),
               local = item.get_local_range(0);
  const size_t part = (p.n + groups - 1) / groups, last = (group + 1) * part, end = last < p.n ? last : p.n;
  A sum[4] = {A(0), A(0), A(0), A(0)};
  size_t i = group * part;
  for (; i + 4 * local <= end; i += 4 * local) {
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[j] += loss_at<T, kKind>(p, i + j * local, lane);
  }
  for (; i + local <= end; i += local) sum[0] += loss_at<T, kKind>(p, i, lane);
  if (i + lane < end) sum[1] += loss_at<T, kKind>(p, i, lane);
  (static_cast<A*>(p.out) + group * local)[lane] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Sums of every sixteenth value, then of halves: an order that is written down, which a compiler that may reassociate a
// plain loop keeps, and so does the calling thread (nll_sum_here).
template <class A> XPU_INLINE A loss_total(const A* x, uint32_t n) {
  constexpr uint32_t kParts = 16;
  A acc[kParts];
#pragma unroll
  for (uint32_t j = 0; j < kParts; ++j) acc[j] = A(0);
  uint32_t i = 0;
  for (; i + kParts <= n; i += kParts) {
#pragma unroll
    for (uint32_t j = 0; j < kParts; ++j) acc[j] += x[i + j];
  }
  for (; i < n; ++i) acc[0] += x[i];
#pragma unroll
  for (uint32_t half = kParts / 2; half > 0; half /= 2) {
#pragma unroll
    for (uint32_t j = 0; j < half; ++j) acc[j] += acc[j + half];
  }
  return acc[0];
}

template <class T> XPU_INLINE void loss_end(const LossFinishArgs& p, opmath_t<T> sum, opmath_t<T> weight) {
  using A = opmath_t<T>;
  if (!p.mean) sum = sum / loss_scalar<A>(p.divisor);
  if (p.total_weight) {
    *static_cast<T*>(p.total_weight) = static_cast<T>(weight);
    if (p.mean) sum = sum / weight;
  }
  *static_cast<T*>(p.out) = static_cast<T>(sum);
}

template <class T> void loss_finish(const LossFinishArgs& p) {
  using A = opmath_t<T>;
  if (global_id() != 0) return;
  const A* partial = static_cast<const A*>(p.partial);
  const A sum = loss_total(partial, p.count);
  loss_end<T>(p, sum, p.total_weight ? loss_total(partial + p.count, p.count) : A(0));
}

// By one work-group of many items.
template <class T> void loss_finish_team(const LossFinishArgs& p) {
  using A = opmath_t<T>;
  const A* partial = static_cast<const A*>(p.partial);
  const Team t = team_of(static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_local_range(0)));
  A s[4] = {0, 0, 0, 0}, w[4] = {0, 0, 0, 0};
  for_team(t, p.count, [&](size_t i, int j) { s[j] += partial[i]; });
  if (p.total_weight) for_team(t, p.count, [&](size_t i, int j) { w[j] += (partial + p.count)[i]; });
  const A sum = team_sum(t, (s[0] + s[1]) + (s[2] + s[3])), weight = team_sum(t, (w[0] + w[1]) + (w[2] + w[3]));
  if (t.leads()) loss_end<T>(p, sum, weight);
}

inline int64_t nll_target(const NllArgs& p, uint32_t i) {
  return p.byte_target ? static_cast<const uint8_t*>(p.target)[i] : static_cast<const int64_t*>(p.target)[i];
}

// -w[t] * x[t] of target i, and the weight it counts with: zeros where the target is left out, or out of range, when
// it is noted in `bad`.
template <class T> XPU_INLINE opmath_t<T> nll_at(const NllArgs& p, uint32_t i, opmath_t<T>& weight, int64_t& bad) {
  using A = opmath_t<T>;
  const int64_t t = nll_target(p, i);
  const bool in = static_cast<uint64_t>(t) < p.classes, used = in && t != p.ignore_index;
  bad = in || t == p.ignore_index ? bad : t;
  const uint32_t row = div(i, p.spatial), s = i - row * p.spatial.d;
  const int64_t at = (static_cast<int64_t>(row) * p.classes + t) * p.spatial.d + s;
  weight = A(0);
  A v = A(0);
  if (used) {
    weight = p.weight ? static_cast<A>(static_cast<const T*>(p.weight)[t]) : A(1);
    v = -static_cast<A>(static_cast<const T*>(p.input)[at]) * weight;
  }
  return v;
}

// After the loop: a report in it puts a branch around every element.
XPU_INLINE void report_target(const NllArgs& p, int64_t bad) {
  const bool in = static_cast<uint64_t>(bad) < p.classes;
  if (!in && bad != p.ignore_index) report_error(p.error, DeviceErrorCode::target, 1, bad, p.classes);
}

template <class T> void nll_point(const NllArgs& p) {
  uint32_t i = global_id();
  if (i >= p.n) return;
  opmath_t<T> weight;
  int64_t bad = p.ignore_index;
  static_cast<T*>(p.out)[i] = static_cast<T>(nll_at<T>(p, i, weight, bad));
  report_target(p, bad);
}

template <class T> void nll_partial(const NllArgs& p) {
  using A = opmath_t<T>;
  LossPart r = loss_part(p.n);
  A sum = A(0), total = A(0);
  int64_t bad = p.ignore_index;
  for (uint32_t i = r.begin; i < r.end; i += r.step) {
    A weight;
    sum += nll_at<T>(p, i, weight, bad);
    total += weight;
  }
  report_target(p, bad);
  uint32_t count = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_global_range(0));
  static_cast<A*>(p.out)[global_id()] = sum;
  static_cast<A*>(p.out)[count + global_id()] = total;
}

// The gradient is zero but for one element per target, which is all this writes.
template <class T> void nll_back(const NllArgs& p) {
  using A = opmath_t<T>;
  const uint32_t i = global_id();
  A g = p.grad_scalar ? static_cast<A>(*static_cast<const T*>(p.input)) : A(0);
  if (p.mean) g = g / static_cast<A>(*static_cast<const T*>(p.total_weight));
  if (i >= p.n) return;
  const int64_t t = nll_target(p, i);
  if (t == p.ignore_index || static_cast<uint64_t>(t) >= p.classes) return;
  if (!p.grad_scalar) g = static_cast<const T*>(p.input)[i];
  const uint32_t row = div(i, p.spatial), s = i - row * p.spatial.d;
  const int64_t at = (static_cast<int64_t>(row) * p.classes + t) * p.spatial.d + s;
  static_cast<T*>(p.out)[at] = static_cast<T>(p.weight ? -g * static_cast<A>(static_cast<const T*>(p.weight)[t]) : -g);
}

// --- margin losses: one item per row ---

inline void report_target(const MarginArgs& p, int64_t t) {
  if (p.error) report_error(p.error, DeviceErrorCode::target_range, 1, t, p.classes);
}

// A sum of many terms of one sign, as the double of torch's CPU: the part that an addition rounds off goes into the
// next (Kahan 1965).
template <class T> struct LongSum {
  T sum = T(0), lost = T(0);
  void add(T v) {
    const T y = v - lost, next = sum + y;
    lost = (next - sum) - y;
    if (lost - lost != T(0)) lost = T(0);  // infinity is the sum
    sum = next;
  }
};

template <class T> void multi_margin(const MarginArgs& p) {
  uint32_t row = global_id();
  if (row >= p.rows) return;
  const T* x = static_cast<const T*>(p.input) + static_cast<int64_t>(row) * p.classes;
  int64_t t = p.target[row];
  LongSum<T> sum;
  const T margin = loss_scalar<T>(p.margin);
  if (t < 0 || t >= static_cast<int64_t>(p.classes)) {
    report_target(p, t);
    static_cast<T*>(p.out)[row] = T(0);
    return;
  }
  for (uint32_t c = 0; c < p.classes; ++c) {
    if (c == static_cast<uint32_t>(t)) continue;
    T z = margin - x[t] + x[c];
    if (z > T(0)) {
      T h = p.square ? z * z : z;
      sum.add(p.weight ? h * static_cast<const T*>(p.weight)[t] : h);
    }
  }
  static_cast<T*>(p.out)[row] = sum.sum / static_cast<T>(p.classes);
}

template <class T> void multi_margin_back(const MarginArgs& p) {
  uint32_t row = global_id();
  if (row >= p.rows) return;
  const T* x = static_cast<const T*>(p.input) + static_cast<int64_t>(row) * p.classes;
  T* out = static_cast<T*>(p.out) + static_cast<int64_t>(row) * p.classes;
  int64_t t = p.target[row];
  bool valid = t >= 0 && t < static_cast<int64_t>(p.classes);
  if (!valid) report_target(p, t);
  uint32_t target = valid ? static_cast<uint32_t>(t) : 0;
  T g = loss_scalar<T>(p.scale), margin = loss_scalar<T>(p.margin), own = T(0);
  T grad = static_cast<const T*>(p.grad)[p.grad_scalar ? 0 : row];
  if (p.weight) g *= static_cast<const T*>(p.weight)[target];
  for (uint32_t c = 0; c < p.classes; ++c) {
    T z = margin - x[target] + x[c], h = T(0);
    if (valid && c != target && z > T(0)) h = p.square ? T(2) * g * z : g;
    own -= h;
    out[c] = h * grad;
  }
  if (valid) out[target] = own * grad;
}

template <class T> void multilabel_margin(const MarginArgs& p) {
  uint32_t row = global_id();
  if (row >= p.rows) return;
  int64_t base = static_cast<int64_t>(row) * p.classes;
  const T* x = static_cast<const T*>(p.input) + base;
  const int64_t* target = p.target + base;
  T* flag = static_cast<T*>(p.is_target) + base;
  for (uint32_t c = 0; c < p.classes; ++c) flag[c] = T(0);
  uint32_t labels = 0;
  for (; labels < p.classes && target[labels] >= 0; ++labels) {
    if (target[labels] >= static_cast<int64_t>(p.classes)) {
      report_target(p, target[labels]);
      break;
    }
    flag[target[labels]] = T(1);
  }
  LongSum<T> sum;
  for (uint32_t k = 0; k < labels; ++k) {
    T own = x[target[k]];
    for (uint32_t c = 0; c < p.classes; ++c) {
      T z = T(1) - own + x[c];
      if (flag[c] == T(0) && z > T(0)) sum.add(z);
    }
  }
  static_cast<T*>(p.out)[row] = sum.sum / static_cast<T>(p.classes);
}

template <class T> void multilabel_margin_back(const MarginArgs& p) {
  uint32_t row = global_id();
  if (row >= p.rows) return;
  int64_t base = static_cast<int64_t>(row) * p.classes;
  const T* x = static_cast<const T*>(p.input) + base;
  const int64_t* target = p.target + base;
  const T* flag = static_cast<const T*>(p.is_target) + base;
  T* out = static_cast<T*>(p.out) + base;
  T g = loss_scalar<T>(p.scale), grad = static_cast<const T*>(p.grad)[p.grad_scalar ? 0 : row];
  for (uint32_t c = 0; c < p.classes; ++c) out[c] = T(0);
  for (uint32_t k = 0; k < p.classes && target[k] >= 0 && target[k] < static_cast<int64_t>(p.classes); ++k) {
    T own = x[target[k]], pairs = T(0);
    for (uint32_t c = 0; c < p.classes; ++c) {
      if (flag[c] == T(0) && T(1) - own + x[c] > T(0)) {
        pairs += T(1);
        out[c] += T(1);
      }
    }
    out[target[k]] -= pairs;
  }
  for (uint32_t c = 0; c < p.classes; ++c) out[c] = out[c] * g * grad;  // counts are exact
}

}  // namespace xpu
