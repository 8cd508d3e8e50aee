// Factorisations of small matrices and solvers with them. Pivots, signs and info are those of LAPACK.
#pragma once
#include "kernels/sycl/small/pack.hpp"

namespace xpu::small {

template <class V> XPU_INLINE V magnitude(V v) { return __builtin_elementwise_abs(v); }
template <class V> XPU_INLINE V root(V v) { return __builtin_elementwise_sqrt(v); }

template <class T> struct Limits;
template <> struct Limits<float> {
  // below `tiny` a reciprocal may overflow; times `lift` it does not
  static constexpr float tiny = 0x1p-100f, lift = 0x1p64f, least = 0x1p-126f, epsilon = 0x1p-24f;
};
template <> struct Limits<double> {
  static constexpr double tiny = 0x1p-960, lift = 0x1p512, least = 0x1p-1022, epsilon = 0x1p-53;
};

template <class P> XPU_INLINE void fill(Tile<P> t, int rows, int columns, bool identity) {
  using V = typename P::V;
  using T = typename P::T;
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i) t(i, j) = V(identity && i == j ? T(1) : T(0));
  }
}

// f(width, j) for columns j .. j + width - 1: four at a time share what they read, and their sums do not wait for each
// other.
template <int columns> struct Width { static constexpr int value = columns; };
template <class F> XPU_INLINE void by_fours(int first, int last, F f) {
  int j = first;
  for (; j + 4 <= last; j += 4) { [[clang::always_inline]] f(Width<4>{}, j); }
  for (; j < last; ++j) { [[clang::always_inline]] f(Width<1>{}, j); }
}

// Columns j .. of b lose column k of a times a factor each.
template <class P, int columns>
XPU_INLINE void subtract(Tile<P> a, int k, Tile<P> b, int j, int begin, int end, const typename P::V* factors) {
  using V = typename P::V;
  for (int i = begin; i < end; ++i) {
    const V x = a(i, k);
#pragma unroll
    for (int c = 0; c < columns; ++c) b(i, j + c) -= x * factors[c];
  }
}

// H b for the reflection with the vector (1, v(k + 1, k) ...) in columns first .. last - 1 of b.
template <class P>
XPU_INLINE void reflect_columns(Tile<P> v, int k, int m, typename P::V tau, Tile<P> b, int first, int last) {
  using V = typename P::V;
  by_fours(first, last, [&](auto width, int j) __attribute__((always_inline)) {
    constexpr int columns = decltype(width)::value;
    V sum[columns];
#pragma unroll
    for (int c = 0; c < columns; ++c) sum[c] = b(k, j + c);
    for (int i = k + 1; i < m; ++i) {
      const V x = v(i, k);
#pragma unroll
      for (int c = 0; c < columns; ++c) sum[c] += x * b(i, j + c);
    }
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      sum[c] *= tau;
      b(k, j + c) -= sum[c];
    }
    subtract<P, columns>(v, k, b, j, k + 1, m, sum);
  });
}

// The lower factor; zero above. Where a pivot is not positive, info is its number, and it and what is behind it stay as
// LAPACK's potf2 leaves them.
template <class P> XPU_INLINE typename P::V cholesky(Tile<P> a, int n) {
  using V = typename P::V;
  using T = typename P::T;
  V info(T(0));
  for (int k = 0; k < n; ++k) {
    V pivot = a(k, k);
    for (int j = 0; j < k; ++j) pivot -= a(k, j) * a(k, j);
    const V found = pivot > V(T(0)) ? V(T(0)) : V(T(k + 1));
    const auto before = info == V(T(0));
    info = before ? found : info;
    const auto whole = info == V(T(0));
    const V diagonal = whole ? root(pivot) : pivot;
    a(k, k) = before ? diagonal : a(k, k);
    const V scale = V(T(1)) / diagonal;
    for (int i = k + 1; i < n; ++i) {
      V x = a(i, k);
      for (int j = 0; j < k; ++j) x -= a(i, j) * a(k, j);
      a(i, k) = whole ? x * scale : a(i, k);
    }
  }
  for (int j = 1; j < n; ++j) {
    for (int i = 0; i < j; ++i) a(i, j) = V(T(0));
  }
  return info;
}

// Rows k and `from` of column j change places.
template <class P> XPU_INLINE void swap_rows(Tile<P> a, int rows, int j, int k, typename P::V from) {
  using V = typename P::V;
  using T = typename P::T;
  const V held = a(k, j);
  V pivot = held, row = V(T(k));
  for (int i = k + 1; i < rows; ++i) {
    row += V(T(1));
    const V x = a(i, j);
    const auto here = from == row;
    pivot = here ? x : pivot;
    a(i, j) = here ? held : x;
  }
  a(k, j) = pivot;
}

// pivots(k, 0) becomes the row, from 0, that changed places with row k: the first with the largest magnitude.
// Columns from min(m, n) on are only transformed, so that right-hand sides may stand there.
template <class P>
XPU_INLINE typename P::V lu(Tile<P> a, int m, int n, int columns, bool pivoting, Tile<P> pivots) {
  using V = typename P::V;
  using T = typename P::T;
  using L = Limits<T>;
  V info(T(0));
  const int steps = m < n ? m : n;
  for (int k = 0; k < steps; ++k) {
    V largest = magnitude(a(k, k)), from = V(T(k)), row = from;
    for (int i = k + 1; pivoting && i < m; ++i) {
      row += V(T(1));
      const V size = magnitude(a(i, k));
      const auto larger = size > largest;
      largest = larger ? size : largest;
      from = larger ? row : from;
    }
    pivots(k, 0) = from;
    if (pivoting) swap_rows(a, m, k, k, from);
    const V pivot = a(k, k);
    const V found = pivot == V(T(0)) ? V(T(k + 1)) : V(T(0));
    info = info == V(T(0)) ? found : info;
    // A column of zeros stays what it is.
    const V lift = magnitude(pivot) < V(L::tiny) ? V(L::lift) : V(T(1));
    const V scale = pivot == V(T(0)) ? V(T(1)) : V(T(1)) / (pivot * lift);
    const V factor = pivot == V(T(0)) ? V(T(1)) : lift;
    for (int i = k + 1; i < m; ++i) a(i, k) = a(i, k) * factor * scale;
    for (int j = 0; pivoting && j < k; ++j) swap_rows(a, m, j, k, from);
    by_fours(k + 1, columns, [&](auto width, int j) __attribute__((always_inline)) {
      constexpr int wide = decltype(width)::value;
      V held[wide], top[wide];
#pragma unroll
      for (int c = 0; c < wide; ++c) top[c] = held[c] = a(k, j + c);
      if (!pivoting) {
        subtract<P, wide>(a, k, a, j, k + 1, m, top);
        return;
      }
      V at = V(T(k));
      for (int i = k + 1; i < m; ++i) {
        at += V(T(1));
        const auto here = from == at;
#pragma unroll
        for (int c = 0; c < wide; ++c) top[c] = here ? a(i, j + c) : top[c];
      }
#pragma unroll
      for (int c = 0; c < wide; ++c) a(k, j + c) = top[c];
      at = V(T(k));
      for (int i = k + 1; i < m; ++i) {
        at += V(T(1));
        const auto here = from == at;
        const V x = a(i, k);
#pragma unroll
        for (int c = 0; c < wide; ++c) {
          const V y = here ? held[c] : a(i, j + c);
          a(i, j + c) = y - x * top[c];
        }
      }
    });
  }
  return info;
}

// b becomes the solution of a x = b.
template <class P>
XPU_INLINE void solve_triangle(Tile<P> a, Tile<P> b, int n, int columns, bool upper, bool unit) {
  using V = typename P::V;
  for (int s = 0; s < n; ++s) {
    const int k = upper ? n - 1 - s : s;
    const int begin = upper ? 0 : k + 1, end = upper ? k : n;
    const V pivot = a(k, k);
    by_fours(0, columns, [&](auto width, int j) __attribute__((always_inline)) {
      constexpr int wide = decltype(width)::value;
      V x[wide];
#pragma unroll
      for (int c = 0; c < wide; ++c) {
        x[c] = unit ? b(k, j + c) : b(k, j + c) / pivot;
        b(k, j + c) = x[c];
      }
      subtract<P, wide>(a, k, b, j, begin, end, x);
    });
  }
}

// Householder vectors below the diagonal of a, tau(k, 0), and R above.
template <class P> XPU_INLINE void reflect(Tile<P> a, int m, int n, Tile<P> tau) {
  using V = typename P::V;
  using T = typename P::T;
  const int steps = m < n ? m : n;
  for (int k = 0; k < steps; ++k) {
    const V alpha = a(k, k);
    V largest = magnitude(alpha);
    for (int i = k + 1; i < m; ++i) {
      const V size = magnitude(a(i, k));
      largest = largest > size ? largest : size;
    }
    largest = largest > V(Limits<T>::least) ? largest : V(Limits<T>::least);
    const V scale = V(T(1)) / largest;
    V tail(T(0));
    for (int i = k + 1; i < m; ++i) {
      const V x = a(i, k) * scale;
      tail += x * x;
    }
    const V head = alpha * scale;
    const V length = root(head * head + tail);
    const V beta = head > V(T(0)) ? -length : length;  // in units of the largest element
    const auto none = tail == V(T(0));
    const V t = none ? V(T(0)) : (beta - head) / beta;
    const V by = none ? V(T(0)) : scale / (head - beta);
    tau(k, 0) = t;
    a(k, k) = none ? alpha : beta * largest;
    for (int i = k + 1; i < m; ++i) a(i, k) *= by;
    reflect_columns(a, k, m, t, a, k + 1, n);
  }
}

// The first columns of the product of `count` reflections, whose vectors are those of v.
template <class P> XPU_INLINE void form_q(Tile<P> v, Tile<P> tau, int m, int count, Tile<P> q, int columns) {
  using V = typename P::V;
  using T = typename P::T;
  fill(q, m, columns, true);
  for (int k = count - 1; k >= 0; --k) {
    const V t = tau(k, 0);
    reflect_columns(v, k, m, t, q, k + 1, columns);
    q(k, k) = V(T(1)) - t;
    for (int i = k + 1; i < m; ++i) q(i, k) = -t * v(i, k);
  }
}

// ---- Routines: load, compute, store

struct Cholesky {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    const int n = p.a.rows;
    const Tile<P> a = w.tile(n, n);
    load(w, p.a, a);
    put(w, p.info, 1, 0, cholesky(a, n));
    store(w, a, p.x);
  }
};

// x: the solution of L L^T x = b; without b, the inverse. info: the first zero on the diagonal of L.
struct CholeskySolve {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    using V = typename P::V;
    using T = typename P::T;
    const int n = p.a.rows, columns = p.x.columns;
    const Tile<P> a = w.tile(n, n), x = w.tile(n, columns);
    load(w, p.a, a);
    if (p.b.data) {
      load(w, p.b, x);
    } else {
      fill(x, n, columns, true);
    }
    V info(T(0));
    for (int k = n - 1; k >= 0; --k) info = a(k, k) == V(T(0)) ? V(T(k + 1)) : info;
    put(w, p.info, 1, 0, info);
    solve_triangle(a, x, n, columns, false, false);
    solve_triangle(a.transposed(), x, n, columns, true, false);
    store(w, x, p.x);
  }
};

template <class P> XPU_INLINE void put_pivots(const Work<P>& w, const SmallArgs& p, Tile<P> pivots, int steps) {
  using V = typename P::V;
  for (int k = 0; k < steps; ++k) put(w, p.pivots, steps, k, pivots(k, 0) + V(typename P::T(1)));
}

// x: LU; values: the determinant.
struct Lu {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    using V = typename P::V;
    using T = typename P::T;
    const int m = p.a.rows, n = p.a.columns, steps = m < n ? m : n;
    const Tile<P> a = w.tile(m, n), pivots = w.tile(steps, 1);
    load(w, p.a, a);
    put(w, p.info, 1, 0, lu(a, m, n, n, p.pivoting != 0, pivots));
    put_pivots(w, p, pivots, steps);
    store(w, a, p.x);
    if (!p.values) return;
    V det(T(1));
    for (int k = 0; k < steps; ++k) {
      const V d = a(k, k);
      det *= pivots(k, 0) == V(T(k)) ? d : -d;
    }
    put(w, static_cast<T*>(p.values), 1, 0, det);
  }
};

// x: the solution of a x = b, without b the inverse; y: LU of a.
struct Solve {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    const int n = p.a.rows, columns = p.x.columns;
    const Tile<P> pivots = w.tile(n, 1), a = w.tile(n, n + columns);
    const Tile<P> b{&a(0, n), a.row, a.column};
    load(w, p.a, a);
    if (p.b.data) {
      load(w, p.b, b);
    } else {
      fill(b, n, columns, true);
    }
    put(w, p.info, 1, 0, lu(a, n, n, n + columns, true, pivots));
    put_pivots(w, p, pivots, n);
    store(w, a, p.y);
    solve_triangle(a, b, n, columns, true, false);
    store(w, b, p.x);
  }
};

struct Triangular {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    const int n = p.a.rows, columns = p.x.columns;
    const Tile<P> a = w.tile(n, n), b = w.tile(n, columns);
    load(w, p.a, a);
    load(w, p.b, b);
    solve_triangle(a, b, n, columns, p.upper != 0, p.unit != 0);
    store(w, b, p.x);
  }
};

// x: Q; y: R, or with `unit` the vectors too, as geqrf gives them; values: tau.
struct Qr {
  template <class P> static XPU_INLINE void run(Work<P>& w, const SmallArgs& p) {
    using V = typename P::V;
    using T = typename P::T;
    const int m = p.a.rows, n = p.a.columns, steps = m < n ? m : n;
    const Tile<P> a = w.tile(m, n), tau = w.tile(steps, 1);
    load(w, p.a, a);
    reflect(a, m, n, tau);
    for (int k = 0; p.values && k < steps; ++k) put(w, static_cast<T*>(p.values), steps, k, tau(k, 0));
    if (p.x.data) {
      const Tile<P> q = w.tile(m, p.x.columns);
      form_q(a, tau, m, steps, q, p.x.columns);
      store(w, q, p.x);
    }
    for (int j = 0; !p.unit && j < n; ++j) {
      for (int i = j + 1; i < p.y.rows; ++i) a(i, j) = V(T(0));
    }
    store(w, a, p.y);
  }
};

}  // namespace xpu::small
