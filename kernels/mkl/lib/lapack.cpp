// Factorisations and solvers: the matrices of a batch one after another, or on several threads.
#include "kernels/mkl/lib/lapack.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/mkl/lib/batch.hpp"
#include "kernels/mkl/lib/routines.hpp"

namespace xpu_ops::mkl {
namespace {

using Int = MKL_INT64;

constexpr Int kAsk = -1;  // lwork of a query

const char* uplo(bool upper) { return upper ? "U" : "L"; }

// The size of the work array that a query answered.
template <class T>
Int asked(T answer) {
  return std::max<Int>(1, static_cast<Int>(std::real(answer)));
}

template <class T>
void mirror(T* a, Int ld, Int n, bool upper) {
  for (Int j = 0; j < n; ++j) {
    for (Int i = j + 1; i < n; ++i) {
      T &low = a[j * ld + i], &high = a[i * ld + j];
      if constexpr (is_complex_v<T>) {
        (upper ? low : high) = std::conj(upper ? high : low);
      } else {
        (upper ? low : high) = upper ? high : low;
      }
    }
  }
}

// Of a matrix, in multiplications of products that take as long; `weight` as measured at 64 rows.
int64_t steps(DType type, int64_t weight, int64_t m, int64_t n, int64_t k) {
  return floats_of(type) * weight * m * n * k;
}

std::vector<Int> widen(const int32_t* pivots, Int n) { return {pivots, pivots + n}; }

}  // namespace

void potrf(DType type, bool upper, int64_t size, Matrices a, Batch batch, int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int n = size, ld = a.ld;
    each(batch, steps(type, 1, n, n, n), [&] {
      return [&](int64_t b) {
        Int found = 0;
        Routines<T>::potrf(uplo(upper), &n, at<T>(a, b), &ld, &found);
        info[b] = static_cast<int32_t>(found);
      };
    });
  });
}

void potri(DType type, bool upper, int64_t size, Matrices a, Batch batch, int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int n = size, ld = a.ld;
    each(batch, steps(type, 2, n, n, n), [&] {
      return [&](int64_t b) {
        Int found = 0;
        Routines<T>::potri(uplo(upper), &n, at<T>(a, b), &ld, &found);
        info[b] = static_cast<int32_t>(found);
        mirror(at<T>(a, b), ld, n, upper);
      };
    });
  });
}

void potrs(DType type, bool upper, int64_t size, int64_t columns, Matrices a, Matrices x, Batch batch) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int n = size, nrhs = columns, lda = a.ld, ldx = x.ld;
    each(batch, steps(type, 4, n, n, nrhs), [&] {
      return [&](int64_t b) {
        Int found = 0;
        Routines<T>::potrs(uplo(upper), &n, &nrhs, at<T>(a, b), &lda, at<T>(x, b), &ldx, &found);
      };
    });
  });
}

void getrf(DType type, bool pivot, int64_t rows, int64_t columns, Matrices a, int32_t* pivots, Batch batch,
           int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int m = rows, n = columns, k = std::min(m, n), ld = a.ld;
    each(batch, steps(type, 2, m, n, k), [&] {
      std::vector<Int> places(k);
      for (Int i = 0; i < k; ++i) places[i] = i + 1;
      return [&, places](int64_t b) mutable {
        Int found = 0;
        if (pivot) {
          Routines<T>::getrf(&m, &n, at<T>(a, b), &ld, places.data(), &found);
        } else {
          Routines<T>::getrfnp(&m, &n, at<T>(a, b), &ld, &found);
        }
        info[b] = static_cast<int32_t>(found);
        std::copy(places.begin(), places.end(), pivots + b * k);
      };
    });
  });
}

void getrs(DType type, Trans trans, int64_t size, int64_t columns, Matrices a, const int32_t* pivots, Matrices x,
           Batch batch) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int n = size, nrhs = columns, lda = a.ld, ldx = x.ld;
    const char op = static_cast<char>(trans);
    each(batch, steps(type, 4, n, n, nrhs), [&] {
      return [&](int64_t b) {
        Int found = 0;
        const std::vector<Int> places = widen(pivots + b * n, n);
        Routines<T>::getrs(&op, &n, &nrhs, at<T>(a, b), &lda, places.data(), at<T>(x, b), &ldx, &found);
      };
    });
  });
}

void trsm(DType type, bool left, bool upper, Trans trans, bool unit, int64_t rows, int64_t columns, Matrices a,
          Matrices x, Batch batch) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int m = rows, n = columns, lda = a.ld, ldx = x.ld;
    const char op = static_cast<char>(trans);
    const T one(1);
    each(batch, steps(type, 4, m, n, left ? m : n), [&] {
      return [&](int64_t b) {
        Routines<T>::trsm(left ? "L" : "R", uplo(upper), &op, unit ? "U" : "N", &m, &n, &one, at<T>(a, b), &lda,
                          at<T>(x, b), &ldx);
      };
    });
  });
}

void geqrf(DType type, int64_t rows, int64_t columns, Matrices a, void* tau, Batch batch) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int m = rows, n = columns, k = std::min(m, n), ld = a.ld;
    T answer{};
    Int found = 0;
    Routines<T>::geqrf(&m, &n, at<T>(a, 0), &ld, static_cast<T*>(tau), &answer, &kAsk, &found);
    const Int size = asked(answer);
    each(batch, steps(type, 4, m, n, k), [&] {
      return [&, work = std::vector<T>(size)](int64_t b) mutable {
        Int unused = 0;
        Routines<T>::geqrf(&m, &n, at<T>(a, b), &ld, static_cast<T*>(tau) + b * k, work.data(), &size, &unused);
      };
    });
  });
}

void orgqr(DType type, int64_t rows, int64_t columns, int64_t reflectors, Matrices a, const void* tau, Batch batch) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Int m = rows, n = columns, k = reflectors, ld = a.ld;
    const T* scales = static_cast<const T*>(tau);
    T answer{};
    Int found = 0;
    Routines<T>::orgqr(&m, &n, &k, at<T>(a, 0), &ld, scales, &answer, &kAsk, &found);
    const Int size = asked(answer);
    each(batch, steps(type, 4, m, n, k), [&] {
      return [&, work = std::vector<T>(size)](int64_t b) mutable {
        Int unused = 0;
        Routines<T>::orgqr(&m, &n, &k, at<T>(a, b), &ld, scales + b * k, work.data(), &size, &unused);
      };
    });
  });
}

void ormqr(DType type, bool left, bool adjoint, int64_t rows, int64_t columns, int64_t reflectors, Matrices a,
           const void* tau, Matrices c, Batch batch) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using R = Routines<T>;
    const Int m = rows, n = columns, k = reflectors, lda = a.ld, ldc = c.ld;
    const char *side = left ? "L" : "R", *op = adjoint ? R::adjoint : "N";
    const T* scales = static_cast<const T*>(tau);
    T answer{};
    Int found = 0;
    R::ormqr(side, op, &m, &n, &k, at<T>(a, 0), &lda, scales, at<T>(c, 0), &ldc, &answer, &kAsk, &found);
    const Int size = asked(answer);
    each(batch, steps(type, 4, m, n, k), [&] {
      return [&, work = std::vector<T>(size)](int64_t b) mutable {
        Int unused = 0;
        R::ormqr(side, op, &m, &n, &k, at<T>(a, b), &lda, scales + b * k, at<T>(c, b), &ldc, work.data(), &size,
                 &unused);
      };
    });
  });
}

void gesdd(DType type, char job, int64_t rows, int64_t columns, Matrices a, void* s, Matrices u, Matrices vh,
           Batch batch, int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using R = Routines<T>;
    using Real = typename R::Real;
    const Int m = rows, n = columns, k = std::min(m, n), lda = a.ld, ldu = u.ld, ldvh = vh.ld;
    // as LAPACK's documentation of ?gesdd bounds it
    const Int longer = std::max(m, n);
    const Int real_size = !is_complex_v<T> ? 0
                          : job == 'N'     ? 7 * k
                                           : std::max(5 * k * k + 5 * k, 2 * longer * k + 2 * k * k + k);
    const auto make = [&](Int size) {
      return [&, size, work = std::vector<T>(std::max<Int>(size, 1)), reals = std::vector<Real>(real_size),
              integers = std::vector<Int>(8 * k)](int64_t b) mutable {
        Real* values = static_cast<Real*>(s) + b * k;
        Int found = 0;
        if constexpr (is_complex_v<T>) {
          R::gesdd(&job, &m, &n, at<T>(a, b), &lda, values, at<T>(u, b), &ldu, at<T>(vh, b), &ldvh, work.data(), &size,
                   reals.data(), integers.data(), &found);
        } else {
          R::gesdd(&job, &m, &n, at<T>(a, b), &lda, values, at<T>(u, b), &ldu, at<T>(vh, b), &ldvh, work.data(), &size,
                   integers.data(), &found);
        }
        info[b] = static_cast<int32_t>(found);
        return asked(work[0]);
      };
    };
    const Int size = make(kAsk)(0);
    each(batch, steps(type, job == 'N' ? 12 : 36, m, n, k), [&] { return make(size); });
  });
}

void syevd(DType type, bool vectors, bool upper, int64_t size_n, Matrices a, void* w, Batch batch, int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using R = Routines<T>;
    using Real = typename R::Real;
    const Int n = size_n, ld = a.ld;
    const char* job = vectors ? "V" : "N";
    struct Sizes { Int work = kAsk, reals = kAsk, integers = kAsk; };
    const auto make = [&](Sizes size) {
      return [&, size, work = std::vector<T>(std::max<Int>(size.work, 1)),
              reals = std::vector<Real>(std::max<Int>(size.reals, 1)),
              integers = std::vector<Int>(std::max<Int>(size.integers, 1))](int64_t b) mutable -> Sizes {
        Real* values = static_cast<Real*>(w) + b * n;
        Int found = 0;
        if constexpr (is_complex_v<T>) {
          R::syevd(job, uplo(upper), &n, at<T>(a, b), &ld, values, work.data(), &size.work, reals.data(), &size.reals,
                   integers.data(), &size.integers, &found);
        } else {
          R::syevd(job, uplo(upper), &n, at<T>(a, b), &ld, values, work.data(), &size.work, integers.data(),
                   &size.integers, &found);
        }
        info[b] = static_cast<int32_t>(found);
        return {asked(work[0]), asked(reals[0]), std::max<Int>(1, integers[0])};
      };
    };
    const Sizes sizes = make({})(0);
    each(batch, steps(type, vectors ? 22 : 8, n, n, n), [&] { return make(sizes); });
  });
}

namespace {

// Real matrices: an eigenvalue with an imaginary part comes with its conjugate, and columns j and j + 1 of vr are the
// real and the imaginary part of the first's vector.
template <class R>
void join(Int n, const R* real, const R* imag, const R* vr, std::complex<R>* w, std::complex<R>* v, Int ldv) {
  for (Int j = 0; j < n; ++j) w[j] = {real[j], imag[j]};
  if (!v) return;
  for (Int j = 0; j < n; ++j) {
    const R* first = vr + j * n;
    if (imag[j] == R(0)) {
      for (Int i = 0; i < n; ++i) v[j * ldv + i] = first[i];
      continue;
    }
    const R* second = first + n;
    for (Int i = 0; i < n; ++i) {
      v[j * ldv + i] = {first[i], second[i]};
      v[(j + 1) * ldv + i] = {first[i], -second[i]};
    }
    ++j;
  }
}

}  // namespace

void geev(DType type, bool vectors, int64_t size_n, Matrices a, void* w, Matrices v, Batch batch, int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using R = Routines<T>;
    using Real = typename R::Real;
    using Complex = std::complex<Real>;
    const Int n = size_n, ld = a.ld, ldv = std::max<Int>(1, v.ld), one = 1, ldr = std::max<Int>(1, n);
    const char* job = vectors ? "V" : "N";
    const auto make = [&](Int size) {
      return [&, size, work = std::vector<T>(std::max<Int>(size, 1)), reals = std::vector<Real>(2 * n),
              real_vectors = std::vector<T>(!is_complex_v<T> && vectors ? n * n : 0)](int64_t b) mutable {
        Complex* values = static_cast<Complex*>(w) + b * n;
        Complex* columns = vectors ? at<Complex>(v, b) : nullptr;
        Int found = 0;
        if constexpr (is_complex_v<T>) {
          R::geev("N", job, &n, at<T>(a, b), &ld, values, nullptr, &one, columns, &ldv, work.data(), &size,
                  reals.data(), &found);
        } else {
          R::geev("N", job, &n, at<T>(a, b), &ld, reals.data(), reals.data() + n, nullptr, &one, real_vectors.data(),
                  &ldr, work.data(), &size, &found);
          if (size != kAsk) join(n, reals.data(), reals.data() + n, real_vectors.data(), values, columns, ldv);
        }
        info[b] = static_cast<int32_t>(found);
        return asked(work[0]);
      };
    };
    const Int size = make(kAsk)(0);
    each(batch, steps(type, 42, n, n, n), [&] { return make(size); });
  });
}

namespace {

template <class T>
class Lstsq {
  using R = Routines<T>;
  using Real = typename R::Real;

 public:
  Lstsq(LstsqDriver driver, int64_t m, int64_t n, int64_t nrhs, double rcond)
      : driver_(driver),
        m_(m),
        n_(n),
        nrhs_(nrhs),
        rcond_(static_cast<Real>(rcond)),
        work_(1),
        reals_(1),
        integers_(1) {}

  // Makes the work arrays for the matrices of a batch.
  void prepare(const Matrices& a, const Matrices& x) {
    const Int k = std::min(m_, n_);
    own_.resize(std::max<Int>(1, k));
    order_.resize(std::max<Int>(1, n_));
    Int found = 0;
    call(a, x, 0, own_.data(), &found);
    size_ = asked(work_[0]);
    reals_.resize(std::max<Int>({1, asked(reals_[0]), 5 * k, 2 * n_}));
    integers_.resize(std::max<Int>({1, integers_[0]}));
    work_.resize(size_);
  }

  void run(const Matrices& a, const Matrices& x, int64_t* rank, Real* s, int64_t b, int32_t* info) {
    Int found = 0;
    std::fill(order_.begin(), order_.end(), 0);
    call(a, x, b, s ? s + b * std::min(m_, n_) : own_.data(), &found);
    info[b] = static_cast<int32_t>(found);
    if (rank) rank[b] = rank_;
  }

 private:
  void call(const Matrices& a, const Matrices& x, int64_t b, Real* s, Int* found) {
    T *pa = at<T>(a, b), *px = at<T>(x, b);
    const Int lda = a.ld, ldx = x.ld;
    switch (driver_) {
      case LstsqDriver::gels: R::gels("N", &m_, &n_, &nrhs_, pa, &lda, px, &ldx, work_.data(), &size_, found); return;
      case LstsqDriver::gelsy:
        if constexpr (is_complex_v<T>) {
          R::gelsy(&m_, &n_, &nrhs_, pa, &lda, px, &ldx, order_.data(), &rcond_, &rank_, work_.data(), &size_,
                   reals_.data(), found);
        } else {
          R::gelsy(&m_, &n_, &nrhs_, pa, &lda, px, &ldx, order_.data(), &rcond_, &rank_, work_.data(), &size_, found);
        }
        return;
      case LstsqDriver::gelsd:
        if constexpr (is_complex_v<T>) {
          R::gelsd(&m_, &n_, &nrhs_, pa, &lda, px, &ldx, s, &rcond_, &rank_, work_.data(), &size_, reals_.data(),
                   integers_.data(), found);
        } else {
          R::gelsd(&m_, &n_, &nrhs_, pa, &lda, px, &ldx, s, &rcond_, &rank_, work_.data(), &size_, integers_.data(),
                   found);
        }
        return;
      case LstsqDriver::gelss:
        if constexpr (is_complex_v<T>) {
          R::gelss(&m_, &n_, &nrhs_, pa, &lda, px, &ldx, s, &rcond_, &rank_, work_.data(), &size_, reals_.data(),
                   found);
        } else {
          R::gelss(&m_, &n_, &nrhs_, pa, &lda, px, &ldx, s, &rcond_, &rank_, work_.data(), &size_, found);
        }
        return;
    }
  }

  const LstsqDriver driver_;
  const Int m_, n_, nrhs_;
  Real rcond_;
  Int size_ = kAsk, rank_ = 0;
  std::vector<T> work_;
  std::vector<Real> reals_, own_;
  std::vector<Int> integers_, order_;
};

}  // namespace

void lstsq(DType type, LstsqDriver driver, int64_t m, int64_t n, int64_t nrhs, Matrices a, Matrices x, double rcond,
           int64_t* rank, void* s, Batch batch, int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using Real = typename Routines<T>::Real;
    Lstsq<T> prepared(driver, m, n, nrhs, rcond);
    prepared.prepare(a, x);
    each(batch, steps(type, 12, m, n, std::min(m, n)), [&] {
      return [&, solver = prepared](int64_t b) mutable { solver.run(a, x, rank, static_cast<Real*>(s), b, info); };
    });
  });
}

void sytrf(DType type, bool hermitian, bool upper, int64_t size_n, Matrices a, int32_t* pivots, Batch batch,
           int32_t* info) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using R = Routines<T>;
    const Int n = size_n, ld = a.ld;
    const auto routine = hermitian ? R::hetrf : R::sytrf;
    std::vector<Int> none(n);
    T answer{};
    Int unused = 0;
    routine(uplo(upper), &n, at<T>(a, 0), &ld, none.data(), &answer, &kAsk, &unused);
    const Int size = asked(answer);
    each(batch, steps(type, 2, n, n, n), [&] {
      return [&, places = std::vector<Int>(n), work = std::vector<T>(size)](int64_t b) mutable {
        Int found = 0;
        routine(uplo(upper), &n, at<T>(a, b), &ld, places.data(), work.data(), &size, &found);
        info[b] = static_cast<int32_t>(found);
        std::copy(places.begin(), places.end(), pivots + b * n);
      };
    });
  });
}

void sytrs(DType type, bool hermitian, bool upper, int64_t size, int64_t columns, Matrices a, const int32_t* pivots,
           Matrices x, Batch batch) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    using R = Routines<T>;
    const Int n = size, nrhs = columns, lda = a.ld, ldx = x.ld;
    const auto routine = hermitian ? R::hetrs : R::sytrs;
    each(batch, steps(type, 4, n, n, nrhs), [&] {
      return [&](int64_t b) {
        Int found = 0;
        const std::vector<Int> places = widen(pivots + b * n, n);
        routine(uplo(upper), &n, &nrhs, at<T>(a, b), &lda, places.data(), at<T>(x, b), &ldx, &found);
      };
    });
  });
}

}  // namespace xpu_ops::mkl
