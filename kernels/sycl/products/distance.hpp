// Pairwise distances with their gradients, and the cross product.
#pragma once
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/index/indexing.hpp"
#include "kernels/sycl/products/distance_args.hpp"

namespace xpu {

using xpu_ops::CdistArgs;
using xpu_ops::CrossArgs;
using xpu_ops::NormKind;
using xpu_ops::PdistSumArgs;

template <class M> inline M norm_step(M sum, M diff, NormKind kind, M p) {
  M d = sycl::fabs(diff);
  switch (kind) {
    case NormKind::zero: return sum + (d != d ? d : d != M(0) ? M(1) : M(0));
    case NormKind::one: return sum + d;
    case NormKind::two: return sum + d * d;
    case NormKind::infinity: return d > sum || d != d ? d : sum;
    default: return sum + sycl::pow(d, p);
  }
}
// Adds up a block of features. Blocks keep the error of long sums small: it grows with a block's length and their
// number.
constexpr size_t kNormBlock = 4096;
template <class M> inline M norm_join(M total, M sum, NormKind kind) {
  if (kind == NormKind::infinity) return sum > total || sum != sum ? sum : total;
  return total + sum;
}
template <class M> inline M norm_finish(M sum, NormKind kind, M p) {
  if (kind == NormKind::two) return sycl::sqrt(sum);
  if (kind == NormKind::below_two || kind == NormKind::above_two) return sycl::pow(sum, M(1) / p);
  return sum;
}
template <class M> inline M sign_of(M x) { return x > M(0) ? M(1) : x < M(0) ? M(-1) : M(0); }
// Derivative of the distance by `diff`, times the gradient.
template <class M> inline M norm_slope(M diff, M grad, M dist, NormKind kind, M p) {
  switch (kind) {
    case NormKind::zero: return M(0);
    case NormKind::one: return grad * sign_of(diff);
    case NormKind::two: return dist == M(0) ? M(0) : grad * diff / dist;
    case NormKind::infinity: return sycl::fabs(diff) == dist ? grad * sign_of(diff) : M(0);
    case NormKind::below_two:
      return dist == M(0) || (p < M(1) && diff == M(0))
                 ? M(0)
                 : sign_of(diff) * sycl::pow(sycl::fabs(diff), p - M(1)) * grad / sycl::pow(dist, p - M(1));
    default:
      return dist == M(0) ? M(0) : diff * sycl::pow(sycl::fabs(diff), p - M(2)) * grad / sycl::pow(dist, p - M(1));
  }
}

// Rows (batch, row of x1), items rows of x2.
template <class T>
inline void cdist(const CdistArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t j = item.get_global_id(1), row = item.get_group(0);
  if (j >= p.rows2) return;
  int64_t batch = row / p.rows1;
  const T* a = static_cast<const T*>(p.x1) + static_cast<int64_t>(row) * p.features;
  const T* b = static_cast<const T*>(p.x2) + batch * p.features * p.rows2;
  const T power = real_as<T>(p.p);
  T total = T(0);
  for (size_t k0 = 0; k0 < p.features; k0 += kNormBlock) {
    const size_t end = k0 + kNormBlock < p.features ? k0 + kNormBlock : p.features;
    T sum = T(0);
    for (size_t k = k0; k < end; ++k, b += p.rows2) sum = norm_step(sum, a[k] - b[j], p.kind, power);
    total = norm_join(total, sum, p.kind);
  }
  static_cast<T*>(p.out)[static_cast<int64_t>(row) * p.rows2 + j] = norm_finish(total, p.kind, power);
}

// Rows (batch, row of x1), items features.
template <class T>
inline void cdist_backward(const CdistArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t k = item.get_global_id(1), row = item.get_group(0);
  if (k >= p.features) return;
  int64_t batch = row / p.rows1, pair = static_cast<int64_t>(row) * p.rows2;
  const T* b = static_cast<const T*>(p.x2) + batch * p.rows2 * p.features;
  const T* grad = static_cast<const T*>(p.grad) + pair;
  const T* dist = static_cast<const T*>(p.distance) + pair;
  const T a = static_cast<const T*>(p.x1)[static_cast<int64_t>(row) * p.features + k], power = real_as<T>(p.p);
  T sum = T(0);
  for (uint32_t j = 0; j < p.rows2; ++j, b += p.features) sum += norm_slope(a - b[k], grad[j], dist[j], p.kind, power);
  static_cast<T*>(p.out)[static_cast<int64_t>(row) * p.features + k] = sum;
}

inline int64_t condensed(int64_t n, int64_t i, int64_t j) { return n * i - i * (i + 1) / 2 + j - i - 1; }

// Rows i, items j > i; x2 is x1 transposed. An item has several sums at once, each a chain of additions that wait.
template <class T>
inline void pdist(const CdistArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  constexpr int kSums = xpu_ops::kPdistSums;
  const uint32_t i = item.get_group(0);
  const size_t lane = item.get_local_id(1), local = item.get_local_range(1);
  const size_t j = i + 1 + item.get_group(1) * local * kSums;
  if (j >= p.rows1) return;
  const T* a = static_cast<const T*>(p.x1) + static_cast<int64_t>(i) * p.features;
  const T* b = static_cast<const T*>(p.x2) + j;
  T* out = static_cast<T*>(p.out) + condensed(p.rows1, i, j);
  const T power = real_as<T>(p.p);
  if (j + local * kSums <= p.rows1) {
    T total[kSums] = {};
    for (size_t k0 = 0; k0 < p.features; k0 += kNormBlock) {
      const size_t end = k0 + kNormBlock < p.features ? k0 + kNormBlock : p.features;
      T sum[kSums] = {};
      for (size_t k = k0; k < end; ++k, b += p.rows1) {
#pragma unroll
        for (int s = 0; s < kSums; ++s) sum[s] = norm_step(sum[s], a[k] - (b + s * local)[lane], p.kind, power);
      }
#pragma unroll
      for (int s = 0; s < kSums; ++s) total[s] = norm_join(total[s], sum[s], p.kind);
    }
#pragma unroll
    for (int s = 0; s < kSums; ++s) (out + s * local)[lane] = norm_finish(total[s], p.kind, power);
    return;
  }
  for (size_t c = lane; c < p.rows1 - j; c += local) {
    T total = T(0);
    for (size_t k0 = 0; k0 < p.features; k0 += kNormBlock) {
      const size_t end = k0 + kNormBlock < p.features ? k0 + kNormBlock : p.features;
      T sum = T(0);
      for (size_t k = k0; k < end; ++k) sum = norm_step(sum, a[k] - b[k * p.rows1 + c], p.kind, power);
      total = norm_join(total, sum, p.kind);
    }
    out[c] = norm_finish(total, p.kind, power);
  }
}

// Rows i, items features.
template <class T>
inline void pdist_backward(const CdistArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t k = item.get_global_id(1), i = item.get_group(0);
  if (k >= p.features) return;
  const T* x = static_cast<const T*>(p.x1);
  const T* grad = static_cast<const T*>(p.grad);
  const T* dist = static_cast<const T*>(p.distance);
  const T a = x[static_cast<int64_t>(i) * p.features + k], power = real_as<T>(p.p);
  T sum = T(0);
  for (uint32_t j = 0; j < p.rows1; ++j) {
    if (j == i) continue;
    int64_t at = j > i ? condensed(p.rows1, i, j) : condensed(p.rows1, j, i);
    sum += norm_slope(a - x[static_cast<int64_t>(j) * p.features + k], grad[at], dist[at], p.kind, power);
  }
  static_cast<T*>(p.out)[static_cast<int64_t>(i) * p.features + k] = sum;
}

// For a CPU: each pair once, in the order of memory, in sums of a group's own. Groups: parts, tiles of features.
template <class T>
inline void pdist_backward_pairs(const PdistSumArgs& p) {
  auto item = syclex::this_work_item::get_nd_item<2>();
  const size_t part = item.get_group(0), local = item.get_local_range(1), k0 = item.get_group(1) * local,
               lane = item.get_local_id(1), features = p.features, rows = p.rows;
  const T* x = static_cast<const T*>(p.x) + k0;
  T* sums = static_cast<T*>(p.sums) + part * rows * features + k0;
  const T power = real_as<T>(p.p);
  whole_or_part(k0 + local <= features, k0 + lane < features, item.get_local_range(0),
                [&]() __attribute__((always_inline)) {
                  for (size_t j = 0; j < rows; ++j) (sums + j * features)[lane] = T(0);
                  for (size_t i = part; i + 1 < rows; i += p.parts) {
                    const T *grad = static_cast<const T*>(p.grad) + condensed(rows, i, i + 1),
                            *dist = static_cast<const T*>(p.distance) + condensed(rows, i, i + 1);
                    const T a = (x + i * features)[lane];
                    const T* b = x + (i + 1) * features;
                    T* other = sums + (i + 1) * features;
                    T sum = T(0);
                    if (p.kind == NormKind::two) {
                      for (size_t j = i + 1; j < rows; ++j, ++grad, ++dist, b += features, other += features) {
                        const T v = (*dist == T(0) ? T(0) : *grad / *dist) * (a - b[lane]);
                        sum += v;
                        other[lane] -= v;
                      }
                    } else {
                      for (size_t j = i + 1; j < rows; ++j, ++grad, ++dist, b += features, other += features) {
                        const T v = norm_slope(a - b[lane], *grad, *dist, p.kind, power);
                        sum += v;
                        other[lane] -= v;
                      }
                    }
                    (sums + i * features)[lane] += sum;
                  }
                });
}

template <class T>
inline void cross(const CrossArgs& p) {
  using M = opmath_t<T>;
  auto item = syclex::this_work_item::get_nd_item<2>();
  uint32_t i = item.get_global_id(1);
  if (i >= p.walk.inner) return;
  int64_t o[3] = {0, 0, 0};
  uint32_t f[3];
  add_row(p.walk, item.get_group(0), o);
  inner_offsets(p.walk, i, f);
  T* out = static_cast<T*>(p.out) + (o[0] + f[0]);
  const T* a = static_cast<const T*>(p.a) + (o[1] + f[1]);
  const T* b = static_cast<const T*>(p.b) + (o[2] + f[2]);
  M x[3], y[3];
  for (int k = 0; k < 3; ++k) {
    x[k] = M(a[k * p.step[1]]);
    y[k] = M(b[k * p.step[2]]);
  }
  out[0] = T(x[1] * y[2] - x[2] * y[1]);
  out[p.step[0]] = T(x[2] * y[0] - x[0] * y[2]);
  out[2 * p.step[0]] = T(x[0] * y[1] - x[1] * y[0]);
}

}  // namespace xpu
