// Eigenvalues and singular values of small matrices by Jacobi's rotations: every matrix of a pack takes the same ones.
// Golub and Van Loan, Matrix Computations, 8.5 (eigenvalues) and 8.6.3 (singular values, one-sided).
#pragma once
#include "kernels/sycl/small/factor.hpp"

namespace xpu::small {

// Six to ten sweeps converge. Rounding may keep a pair turning at the limit for ever: it doubles with each sweep after
// those.
constexpr int kSweeps = 30, kEagerSweeps = 12;

// The power of the largest magnitude that all elements are divided by; squares neither overflow nor vanish then.
template <class P> XPU_INLINE typename P::V normalise(Tile<P> a, int rows, int columns) {
  using V = typename P::V;
  using T = typename P::T;
  V largest(T(0));
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i) {
      const V size = magnitude(a(i, j));
      largest = size > largest ? size : largest;
    }
  }
  const V floor = V(Limits<T>::least);
  largest = largest > floor ? largest : V(T(1));
  const V scale = V(T(1)) / largest;
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i) a(i, j) *= scale;
  }
  return largest;
}

// Of columns p and q.
template <class P>
XPU_INLINE void rotate(Tile<P> a, int begin, int end, int p, int q, typename P::V c, typename P::V s) {
  using V = typename P::V;
  for (int k = begin; k < end; ++k) {
    const V x = a(k, p), y = a(k, q);
    a(k, p) = c * x - s * y;
    a(k, q) = s * x + c * y;
  }
}

// The tangent of the smaller angle that makes a pair orthogonal: half the difference of the diagonal over the rest.
template <class V> XPU_INLINE V tangent(V theta, V one) {
  const V t = one / (magnitude(theta) + root(theta * theta + one));
  return theta < one - one ? -t : t;
}

template <class P, class Mask> XPU_INLINE void swap_columns(Tile<P> a, int rows, int i, int j, Mask wanted) {
  using V = typename P::V;
  for (int k = 0; k < rows; ++k) {
    const V x = a(k, i), y = a(k, j);
    a(k, i) = wanted ? y : x;
    a(k, j) = wanted ? x : y;
  }
}

// values: eigenvalues, rising; x: their vectors. a's lower triangle counts, or with `upper` the other.
struct Eigh {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    using V = typename P::V;
    using T = typename P::T;
    const int n = p.a.rows;
    const bool vectors = p.x.data != nullptr;
    const Tile<P> a = w.tile(n, n), v = w.tile(n, n);
    load(w, p.a, a);
    const Tile<P> low = p.upper ? a.transposed() : a;
    for (int j = 1; j < n; ++j) {
      for (int i = 0; i < j; ++i) low(i, j) = low(j, i);
    }
    if (vectors) fill(v, n, n, true);
    const V size = normalise(a, n, n);
    V square(T(0));
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) square += a(i, j) * a(i, j);
    }
    V small = root(square) * V(Limits<T>::epsilon / T(n));
    V left = square == square ? V(T(0)) : V(T(1));
    bool rotated = true;
    for (int sweep = 0; rotated && sweep < kSweeps; ++sweep) {
      rotated = false;
      for (int r = 0; r < n - 1; ++r) {
        for (int q = r + 1; q < n; ++q) rotated |= turn(a, v, n, r, q, small, vectors);
      }
      if (sweep >= kEagerSweeps) small += small;
    }
    if (rotated) left = V(T(1));
    put(w, p.info, 1, 0, left);
    for (int i = 0; i < n - 1; ++i) {
      for (int j = i + 1; j < n; ++j) {
        const V x = a(i, i), y = a(j, j);
        const auto wanted = y < x;
        a(i, i) = wanted ? y : x;
        a(j, j) = wanted ? x : y;
        if (vectors) swap_columns(v, n, i, j, wanted);
      }
    }
    for (int i = 0; i < n; ++i) put(w, static_cast<T*>(p.values), n, i, a(i, i) * size);
    store(w, v, p.x);
  }

 private:
  template <class P>
  static XPU_INLINE bool turn(Tile<P> a, Tile<P> v, int n, int p, int q, typename P::V small, bool vectors) {
    using V = typename P::V;
    using T = typename P::T;
    const V zero(T(0)), one(T(1)), off = a(p, q);
    const auto wanted = magnitude(off) > small;
    if (!any(wanted)) return false;
    const V app = a(p, p), aqq = a(q, q);
    const V found = tangent((aqq - app) * V(T(0.5)) / off, one);
    const V t = wanted ? found : zero;
    const V c = one / root(t * t + one), s = t * c;
    a(p, p) = app - t * off;
    a(q, q) = aqq + t * off;
    a(p, q) = wanted ? zero : off;
    a(q, p) = a(p, q);
    const auto both = [&](int begin, int end) __attribute__((always_inline)) {
      for (int k = begin; k < end; ++k) {
        const V x = a(k, p), y = a(k, q);
        const V u = c * x - s * y, d = s * x + c * y;
        a(k, p) = u;
        a(p, k) = u;
        a(k, q) = d;
        a(q, k) = d;
      }
    };
    both(0, p);
    both(p + 1, q);
    both(q + 1, n);
    if (vectors) rotate(v, 0, n, p, q, c, s);
    return true;
  }
};

// values: singular values, falling; x: left vectors, as many as it has columns; z: right vectors, by rows. a has no
// more columns than rows.
struct Svd {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    using V = typename P::V;
    using T = typename P::T;
    const int m = p.a.rows, n = p.a.columns;
    const bool vectors = p.x.data != nullptr;
    const V zero(T(0));
    const Tile<P> a = w.tile(m, n), s = w.tile(n, 1), v = w.tile(n, n);
    load(w, p.a, a);
    V left = zero;
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i)
        left = a(i, j) == a(i, j) ? left : V(T(-4));  // as gesdd, where its fourth argument has NaN
    }
    const V size = normalise(a, m, n);
    if (vectors) fill(v, n, n, true);
    V small = root(V(T(m))) * V(Limits<T>::epsilon);
    bool rotated = n > 1;
    for (int sweep = 0; rotated && sweep < kSweeps; ++sweep) {
      rotated = false;
      for (int r = 0; r < n - 1; ++r) {
        for (int q = r + 1; q < n; ++q) rotated |= turn(a, v, m, n, r, q, small, vectors);
      }
      if (sweep >= kEagerSweeps) small += small;
    }
    if (rotated) left = V(T(1));
    for (int j = 0; j < n; ++j) {
      V square = zero;
      for (int i = 0; i < m; ++i) square += a(i, j) * a(i, j);
      s(j, 0) = root(square);
    }
    put(w, p.info, 1, 0, left);
    for (int i = 0; i < n - 1; ++i) {
      for (int j = i + 1; j < n; ++j) {
        const V x = s(i, 0), y = s(j, 0);
        const auto wanted = y > x;
        s(i, 0) = wanted ? y : x;
        s(j, 0) = wanted ? x : y;
        if (!vectors) continue;
        swap_columns(v, n, i, j, wanted);
        swap_columns(a, m, i, j, wanted);
      }
    }
    for (int j = 0; j < n; ++j) put(w, static_cast<T*>(p.values), n, j, s(j, 0) * size);
    if (!vectors) return;
    store(w, v.transposed(), p.z);
    // The columns are orthogonal: Q of a QR factorisation has their directions, and orthogonal ones where they vanish.
    const Tile<P> u = w.tile(m, p.x.columns);
    reflect(a, m, n, s);
    form_q(a, s, m, n, u, p.x.columns);
    for (int j = 0; j < n; ++j) {
      const auto negative = a(j, j) < zero;
      for (int i = 0; i < m; ++i) u(i, j) = negative ? -u(i, j) : u(i, j);
    }
    store(w, u, p.x);
  }

 private:
  template <class P>
  static XPU_INLINE bool turn(Tile<P> a, Tile<P> v, int m, int n, int p, int q, typename P::V small, bool vectors) {
    using V = typename P::V;
    using T = typename P::T;
    const V zero(T(0)), one(T(1));
    V pp = zero, qq = zero, pq = zero;
    for (int i = 0; i < m; ++i) {
      const V x = a(i, p), y = a(i, q);
      pp += x * x;
      qq += y * y;
      pq += x * y;
    }
    const auto wanted = magnitude(pq) > small * root(pp) * root(qq);
    if (!any(wanted)) return false;
    const V found = tangent((qq - pp) * V(T(0.5)) / pq, one);
    const V t = wanted ? found : zero;
    const V c = one / root(t * t + one), s = t * c;
    rotate(a, 0, m, p, q, c, s);
    if (vectors) rotate(v, 0, n, p, q, c, s);
    return true;
  }
};

}  // namespace xpu::small
