// CTC loss (Graves et al. 2006), forward and backward in log space. One work-group per batch entry; items share the
// states of a time step and meet at a barrier between steps.
#pragma once
#include <limits>
#include <sycl/group_barrier.hpp>

#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/reduce/loss_args.hpp"

namespace xpu {

using xpu_ops::CtcArgs;

template <class T> struct CtcView {
  const CtcArgs& p;
  uint32_t b, lanes, lane;
  int64_t length, labels;  // of the input and of the target
  const int64_t* target;
  const T* log_probs;

  explicit CtcView(const CtcArgs& args) : p(args) {
    b = group_id();
    lanes = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_local_range(0));
    lane = local_id();
    length = p.input_lengths[b];
    labels = p.target_lengths[b];
    target = p.targets + p.target_offsets[b];
    log_probs = static_cast<const T*>(p.log_probs) + static_cast<int64_t>(b) * p.stride_n;
  }
  // Label of state s: blanks between the target's labels.
  int64_t label(int64_t s) const {
    int64_t c = s & 1 ? target[(s >> 1) * p.target_stride] : p.blank;
    return static_cast<uint64_t>(c) < p.classes ? c : 0;  // upstream does not check labels; stay inside the tensor
  }
  T lp(int64_t t, int64_t s) const { return log_probs[t * p.stride_t + label(s) * p.stride_c]; }
  T* line(void* base, int64_t t) const {
    return static_cast<T*>(base) + (static_cast<int64_t>(b) * p.steps + t) * p.states;
  }
  void meet() const { sycl::group_barrier(syclex::this_work_item::get_work_group<1>()); }
};

template <class T> inline T ctc_log_sum(T a, T b, T c) {
  T m = a > b ? a : b;
  m = c > m ? c : m;
  if (m == -std::numeric_limits<T>::infinity()) return a + b + c;  // each is that or NaN
  return sycl::log(sycl::exp(a - m) + sycl::exp(b - m) + sycl::exp(c - m)) + m;
}

template <class T> void ctc_forward(const CtcArgs& p) {
  CtcView<T> v(p);
  const T none = -std::numeric_limits<T>::infinity();
  int64_t states = 2 * v.labels + 1;
  for (int64_t t = 0; t < static_cast<int64_t>(p.steps); ++t) {
    T* now = v.line(p.alpha, t);
    const T* before = t > 0 ? v.line(p.alpha, t - 1) : nullptr;
    for (int64_t s = v.lane; s < static_cast<int64_t>(p.states); s += v.lanes) {
      T a = none;
      if (t < v.length && s < states) {
        if (t == 0) {
          a = s < 2 ? v.lp(0, s) : none;
        } else {
          T skip = s > 1 && v.label(s - 2) != v.label(s) ? before[s - 2] : none;
          a = ctc_log_sum(before[s], s > 0 ? before[s - 1] : none, skip) + v.lp(t, s);
        }
      }
      now[s] = a;
    }
    v.meet();
  }
  if (v.lane != 0) return;
  T loss;
  if (v.length == 0) {
    loss = v.labels == 0 ? T(0) : -none;
  } else {
    const T* end = v.line(p.alpha, v.length - 1);
    loss = -ctc_log_sum(end[2 * v.labels], v.labels > 0 ? end[2 * v.labels - 1] : none, none);
  }
  static_cast<T*>(p.loss)[v.b] = loss;
}

template <class T> void ctc_backward(const CtcArgs& p) {
  CtcView<T> v(p);
  const T none = -std::numeric_limits<T>::infinity();
  int64_t states = 2 * v.labels + 1;
  T loss = static_cast<const T*>(p.loss)[v.b];
  T scale = static_cast<const T*>(p.grad_out)[v.b * p.grad_out_stride];
  T* grad = static_cast<T*>(p.grad) + static_cast<int64_t>(v.b) * p.classes;
  int64_t grad_t = static_cast<int64_t>(p.batch) * p.classes;
  bool dead = p.zero_infinity && loss == -none;
  for (int64_t t = v.length - 1; t >= 0 && !dead; --t) {
    T* now = v.line(p.beta, t);
    const T* after = t + 1 < v.length ? v.line(p.beta, t + 1) : nullptr;
    for (int64_t s = v.lane; s < states; s += v.lanes) {
      T b;
      if (!after) {
        b = s >= states - 2 ? v.lp(t, s) : none;
      } else {
        T skip = s + 2 < states && v.label(s + 2) != v.label(s) ? after[s + 2] : none;
        b = ctc_log_sum(after[s], s + 1 < states ? after[s + 1] : none, skip) + v.lp(t, s);
      }
      now[s] = b;
    }
    v.meet();
  }
  // Each item owns time steps: sums over the states of a label need no atomics.
  for (int64_t t = v.lane; t < static_cast<int64_t>(p.steps); t += v.lanes) {
    T* g = grad + t * grad_t;
    bool used = t < v.length && !dead;
    for (uint32_t c = 0; c < p.classes; ++c) g[c] = used ? none : T(0);
    if (!used) continue;
    const T* alpha = v.line(p.alpha, t);
    const T* beta = v.line(p.beta, t);
    for (int64_t s = 0; s < states; ++s) {
      T& sum = g[v.label(s)];
      sum = ctc_log_sum(sum, alpha[s] + beta[s], none);
    }
    for (uint32_t c = 0; c < p.classes; ++c) {
      T lp = v.log_probs[t * p.stride_t + c * p.stride_c];
      g[c] = (sycl::exp(lp) - sycl::exp(g[c] + loss - lp)) * scale;
    }
  }
}

}  // namespace xpu
