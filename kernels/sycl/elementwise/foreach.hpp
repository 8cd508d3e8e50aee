// Multi-tensor kernels. A work-group handles 4096 elements of one tensor; sixteen lanes walk them side by side.
#pragma once
#include <sycl/group_barrier.hpp>

#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/core/modulus.hpp"
#include "kernels/sycl/elementwise/foreach_args.hpp"
#include "kernels/sycl/elementwise/pointwise.hpp"

namespace xpu {

using xpu_ops::ForeachReduceArgs;
using xpu_ops::kForeachBlock;
using xpu_ops::OptimizerArgs;
using xpu_ops::UnscaleArgs;
using xpu_ops::UpdateScaleArgs;

inline void foreach_table(const xpu_ops::ForeachTableArgs& p) {
  for (uint32_t i = global_id(); i < p.words; i += 16) p.dst[i] = p.word[i];
}

// The tensor of this work-group: the last one that begins at or before it.
template <class Args>
inline auto foreach_tensor(const Args& p, uint32_t group) {
  uint32_t low = 0, high = p.count - 1;
  while (low < high) {
    uint32_t mid = (low + high + 1) / 2;
    if (p.table[mid].first_group <= group)
      low = mid;
    else
      high = mid - 1;
  }
  return p.table[low];
}

// Calls f(i) for the elements of this work-group, which are those of tensor t.
template <class Tensor, class F>
inline void foreach_element(const Tensor& t, F f) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t begin = (it.get_group(0) - t.first_group) * kForeachBlock,
               end = begin + kForeachBlock < t.n ? begin + kForeachBlock : t.n;
  for_columns(begin, end, it.get_local_id(0), it.get_local_range(0), f);
}
template <class Args>
inline auto foreach_tensor(const Args& p) {
  return foreach_tensor(p, syclex::this_work_item::get_nd_item<1>().get_group(0));
}

// How a functor that was generated for a pointwise row reaches its operands here: by selection, as in pointwise.hpp.
template <int Operands>
struct ForeachAccess {
  const xpu_ops::ForeachArgs<Operands>& p;
  xpu_ops::Value own, argument;
  size_t i;
  const char* one[Operands];  // an operand of one element, or a stand-in
  const char* vec[Operands];  // an operand of n elements, or a stand-in
  HeldValues<Operands> same;
  template <int I, class T, class M> void hold() {
    same.template hold<I>(p.mode[I], widen<M>(element_at<T>(one[1 + I], 0)), value_as<M>(own));
  }
  template <int I, class T, class M> M in() const {
    return same.template chosen<I>(widen<M>(element_at<T>(vec[1 + I], i)));
  }
  template <int I, class M> M scalar() const { return value_as<M>(argument); }
  template <int I, class T, class V> void out(V v) const { store_at<T>(vec[I], i, narrow<T>(v)); }
};

template <class F, int Operands>
inline void foreach_pointwise(const xpu_ops::ForeachArgs<Operands>& p) {
  const auto t = foreach_tensor(p);
  ForeachAccess<Operands> x{p, t.scalar, p.own_scalar ? t.scalar : p.shared, 0, {}, {}, {}};
  const char* out = static_cast<const char*>(t.ptr[0]);
  x.one[0] = x.vec[0] = out;
#pragma unroll
  for (int k = 1; k < Operands; ++k) {
    const char* ptr = static_cast<const char*>(t.ptr[k]);
    x.one[k] = p.mode[k - 1] == xpu_ops::kImmediate ? out : ptr;
    x.vec[k] = p.mode[k - 1] == xpu_ops::kElement ? ptr : out;
  }
  F::hold(x);
  foreach_element(t, [&](size_t i) {
    x.i = i;
    F::run(x);
  });
}

template <class T>
void foreach_copy(const xpu_ops::ForeachArgs<2>& p) {
  const auto t = foreach_tensor(p);
  foreach_element(t, [&](size_t i) { static_cast<T*>(t.ptr[0])[i] = static_cast<const T*>(t.ptr[1])[i]; });
}
template <class T>
void foreach_zero(const xpu_ops::ForeachArgs<1>& p) {
  const auto t = foreach_tensor(p);
  foreach_element(t, [&](size_t i) { static_cast<T*>(t.ptr[0])[i] = T{}; });
}

// ---- norms and maxima -----------------------------------------------------------------------------------------------
enum class ForeachReduce { norm1, norm2, norm_inf, max };

template <ForeachReduce R, class M>
inline M reduce_step(M a, M v) {
  if constexpr (R == ForeachReduce::norm_inf || R == ForeachReduce::max) {
    if constexpr (is_float_v<M>)
      return a != a || v < a || v == a ? a : v;  // a NaN, once seen, stays
    else
      return v > a ? v : a;
  } else {
    return a + v;
  }
}

template <ForeachReduce R, class M>
inline M reduce_start() {
  if constexpr (R != ForeachReduce::max)
    return M(0);
  else if constexpr (is_same_v<M, float>)
    return -sycl::bit_cast<float>(0x7f800000u);
  else if constexpr (is_same_v<M, double>)
    return -sycl::bit_cast<double>(uint64_t{0x7ff0000000000000u});
  else if constexpr (M(-1) < M(0))
    return static_cast<M>(uint64_t{1} << (8 * sizeof(M) - 1));
  else
    return M(0);
}

// Sums carry what rounding drops (Kahan 1965): a lane adds thousands of elements one after the other.
template <ForeachReduce R, class M>
struct Accumulator {
  M total = reduce_start<R, M>(), lost = M(0);
  void add(M v) {
    if constexpr (R == ForeachReduce::norm1 || R == ForeachReduce::norm2) {
      M y = v - lost, t = total + y, e = (t - total) - y;
      lost = e == e ? e : M(0);  // an infinite total has no rounding to carry
      total = t;
    } else {
      total = reduce_step<R>(total, v);
    }
  }
  M value() const { return total; }
};

// The addend of one element: |x|, x^2 or x.
template <ForeachReduce R, class T>
inline auto reduce_value(T x) {
  using M = opmath_t<T>;
  if constexpr (R == ForeachReduce::max) {
    return static_cast<M>(x);
  } else if constexpr (is_complex_v<T>) {
    using V = real_t<M>;
    V s = squared_modulus(static_cast<V>(x.re), static_cast<V>(x.im));
    if constexpr (R == ForeachReduce::norm2)
      return s;
    else
      return sycl::sqrt(s);
  } else {
    M v = static_cast<M>(x), a = sycl::fabs(v);
    if constexpr (R == ForeachReduce::norm2)
      return v * v;
    else
      return a;
  }
}

// Work-groups are one sub-group wide, so a lane's partial is written apart and the second pass adds all lanes. Four
// results a lane, of 64 elements each: one would wait for itself at every step.
template <class T, ForeachReduce R>
void foreach_reduce(const ForeachReduceArgs& p) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  using V = decltype(reduce_value<R>(T{}));
  constexpr int kSums = 4;
  const auto t = foreach_tensor(p);
  const size_t begin = (it.get_group(0) - t.first_group) * size_t{kForeachBlock}, lane = it.get_local_id(0),
               lanes = it.get_local_range(0);
  const size_t n = t.n - begin < kForeachBlock ? t.n - begin : kForeachBlock;
  const T* src = static_cast<const T*>(t.ptr[1]) + begin;
  V acc[kSums];
#pragma unroll
  for (int j = 0; j < kSums; ++j) acc[j] = reduce_start<R, V>();
  size_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) acc[j] = reduce_step<R>(acc[j], reduce_value<R>((src + (i + j * lanes))[lane]));
  }
  for (; i + lanes <= n; i += lanes) acc[0] = reduce_step<R>(acc[0], reduce_value<R>((src + i)[lane]));
  if (i + lane < n) acc[1] = reduce_step<R>(acc[1], reduce_value<R>((src + i)[lane]));
  const V low = reduce_step<R>(acc[0], acc[1]), high = reduce_step<R>(acc[2], acc[3]);
  (static_cast<V*>(p.partial) + it.get_group(0) * lanes)[lane] = reduce_step<R>(low, high);
}

// A work-group per tensor: each lane adds its own partials, then one of them adds the lanes.
template <class T, ForeachReduce R>
void foreach_reduce_final(const ForeachReduceArgs& p) {
  using V = decltype(reduce_value<R>(T{}));
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t lane = it.get_local_id(0), lanes = it.get_local_range(0);
  const auto t = p.table[it.get_group(0)];
  const size_t groups = (t.n + kForeachBlock - 1) / kForeachBlock;
  V* partial = static_cast<V*>(p.partial) + size_t{t.first_group} * lanes;
  Accumulator<R, V> own;
  for (size_t g = 0; g < groups; ++g) own.add((partial + g * lanes)[lane]);
  partial[lane] = own.value();
  sycl::group_barrier(syclex::this_work_item::get_work_group<1>());
  if (lane != 0) return;
  Accumulator<R, V> all;
  for (size_t i = 0; i < lanes; ++i) all.add(partial[i]);
  V acc = all.value();
  if constexpr (R == ForeachReduce::norm2) acc = sycl::sqrt(acc);
  if constexpr (R == ForeachReduce::max)
    static_cast<T*>(t.ptr[0])[0] = T(acc);
  else
    static_cast<real_t<T>*>(t.ptr[0])[0] = real_t<T>(acc);
}

template <class T> void foreach_max(const ForeachReduceArgs& p) { foreach_reduce<T, ForeachReduce::max>(p); }
template <class T> void foreach_max_final(const ForeachReduceArgs& p) {
  foreach_reduce_final<T, ForeachReduce::max>(p);
}

// ---- gradient scaling -----------------------------------------------------------------------------------------------
template <class T>
void amp_unscale(const UnscaleArgs& p) {
  using M = opmath_t<T>;
  const float inv = *p.inv_scale;
  const auto t = foreach_tensor(p);
  bool found = false;
  foreach_element(t, [&](size_t i) {
    T* x = static_cast<T*>(t.ptr[0]);
    const M v = static_cast<M>(x[i]), scaled = v * M(inv);
    found |= v - v != M(0.0f);  // only infinities and NaN differ from themselves so
    x[i] = T(inv == 1.0f ? v : scaled);
  });
  if (found) *p.found_inf = 1.0f;
}

inline void amp_update_scale(const UpdateScaleArgs& p) {
  if (global_id() != 0) return;
  if (*p.found_inf != 0.0f) {
    *p.scale = *p.scale * p.backoff;
    *p.tracker = 0;
    return;
  }
  int32_t steps = *p.tracker + 1;
  if (steps == p.interval) {
    float grown = *p.scale * p.growth;
    if (grown - grown == 0.0f) *p.scale = grown;
    steps = 0;
  }
  *p.tracker = steps;
}

// ---- optimizers -----------------------------------------------------------------------------------------------------
enum class Optimizer { adam, adamw, sgd, adagrad };

// A hyperparameter in the type of the computation.
template <class M>
inline M hyper(float f, uint64_t d) {
  if constexpr (is_same_v<M, double>)
    return sycl::bit_cast<double>(d);
  else
    return f;
}

// Scaled: gradients are divided by p.grad_scale first, and stored so. Extra: the last state is there, which is the
// largest second moment (Adam) or the momentum (SGD). The rest is decided by selection: see pointwise.hpp.
template <class T, Optimizer O, bool Scaled, bool Extra>
inline void optimizer_elements(const OptimizerArgs& p, const OptimizerArgs::Tensor& t) {
  using M = opmath_t<T>;
  M lr = hyper<M>(p.lr, p.lr64);
  if (p.lr_tensor) lr = M(*static_cast<const float*>(p.lr_tensor));
  const M a = hyper<M>(p.a, p.a64), b = hyper<M>(p.b, p.b64);
  const M weight_decay = hyper<M>(p.weight_decay, p.weight_decay64), eps = hyper<M>(p.eps, p.eps64);
  const bool decays = weight_decay != M(0), maximize = p.maximize, first_step = p.first_step, nesterov = p.nesterov;
  const M scale = Scaled ? M(*p.grad_scale) : M(1);
  T *param = static_cast<T*>(t.ptr[0]), *grad = static_cast<T*>(t.ptr[1]), *s1 = static_cast<T*>(t.ptr[2]);
  T *s2 = static_cast<T*>(t.ptr[3]), *s3 = static_cast<T*>(t.ptr[4]);
  M w1 = M(0), w2 = M(0), rate = lr, root = M(1);
  if constexpr (O == Optimizer::adam || O == Optimizer::adamw) {
    // a and b are logarithms of the betas: 1 - beta^step = -expm1(step * log beta) keeps its precision.
    const M step = M(*static_cast<const float*>(t.ptr[5]));
    w1 = -sycl::expm1(a), w2 = -sycl::expm1(b);
    rate = lr / -sycl::expm1(step * a), root = sycl::sqrt(-sycl::expm1(step * b));
  } else if constexpr (O == Optimizer::adagrad) {
    rate = lr / (M(1) + (M(*static_cast<const float*>(t.ptr[5])) - M(1)) * a);
  }
  foreach_element(t, [&](size_t i) {
    M x = static_cast<M>(param[i]), g = static_cast<M>(grad[i]);
    if constexpr (Scaled) {
      g = g / scale;
      grad[i] = T(g);
    }
    g = maximize ? -g : g;
    const M decayed = g + x * weight_decay;
    if constexpr (O != Optimizer::adamw) g = decays ? decayed : g;
    if constexpr (O == Optimizer::adam || O == Optimizer::adamw) {
      if constexpr (O == Optimizer::adamw) x = x - lr * weight_decay * x;
      M m = static_cast<M>(s1[i]), v = static_cast<M>(s2[i]);
      m = m + w1 * (g - m);
      v = v + w2 * (g * g - v);
      s1[i] = T(m), s2[i] = T(v);
      M top = v;
      if constexpr (Extra) {
        const M old = static_cast<M>(s3[i]);
        top = old > v ? old : v;
        s3[i] = T(top);
      }
      x = x - rate * m / (sycl::sqrt(top) / root + eps);
    } else if constexpr (O == Optimizer::sgd) {
      if constexpr (Extra) {
        const M next = a * static_cast<M>(s1[i]) + (M(1) - b) * g, m = first_step ? g : next, ahead = g + a * m;
        s1[i] = T(m);
        g = nesterov ? ahead : m;
      }
      x = x - lr * g;
    } else {
      const M sum = static_cast<M>(s1[i]) + g * g;
      s1[i] = T(sum);
      x = x - rate * g / (sycl::sqrt(sum) + eps);
    }
    param[i] = T(x);
  });
}

template <class T, Optimizer O>
void optimizer_step(const OptimizerArgs& p) {
  if (p.found_inf && *p.found_inf == 1.0f) return;
  const auto t = foreach_tensor(p);
  const bool extra = O != Optimizer::adagrad && t.ptr[O == Optimizer::sgd ? 2 : 4];
  if (p.grad_scale) {
    if (extra)
      optimizer_elements<T, O, true, true>(p, t);
    else
      optimizer_elements<T, O, true, false>(p, t);
  } else {
    if (extra)
      optimizer_elements<T, O, false, true>(p, t);
    else
      optimizer_elements<T, O, false, false>(p, t);
  }
}

}  // namespace xpu
