#include "kernels/mkl/lapack.hpp"

#include <algorithm>
#include <cmath>
#include <complex>

#include "kernels/error.hpp"
#include "kernels/mkl/host.hpp"
#include "kernels/mkl/library.hpp"

namespace xpu_ops::mkl {
namespace {

enum class Use { read, write, change };

// Bytes from the first to the last element that a batch of matrices with so many columns reaches.
int64_t bytes(const Matrices& m, DType type, int64_t columns, int64_t batch) {
  return ((batch - 1) * m.stride + columns * m.ld) * static_cast<int64_t>(dtype_size(type));
}

DType real_type(DType type) { return type == DType::c64 ? DType::f32 : type == DType::c128 ? DType::f64 : type; }
DType complex_type(DType type) { return type == DType::f32 ? DType::c64 : type == DType::f64 ? DType::c128 : type; }
int64_t bytes(int64_t elements, DType type) { return elements * static_cast<int64_t>(dtype_size(type)); }
int64_t bytes_of_ints(int64_t elements) { return elements * static_cast<int64_t>(sizeof(int32_t)); }

Matrices image(HostArrays& host, Use use, Matrices m, int64_t size) {
  m.data = use == Use::read    ? host.read(m.data, size)
           : use == Use::write ? host.write(m.data, size)
                               : host.change(m.data, size);
  return m;
}

Batch of(runtime::Queue& queue, int64_t matrices) { return {matrices, threads_of(queue)}; }

// LAPACK reads and writes wherever a pivot points.
void check_pivots(const int32_t* pivots, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; ++i) {
    if (pivots[i] < 1)
      throw Error(ErrorKind::runtime,
                  "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of "
                  "lu_factor?");
    if (pivots[i] > n)
      throw Error(ErrorKind::runtime,
                  "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the "
                  "result of lu_factor?");
  }
}

// Those of LDL are negative where a block has two rows.
void check_block_pivots(const int32_t* pivots, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; ++i) {
    if (pivots[i] == 0 || pivots[i] > n || pivots[i] < -n)
      throw Error(ErrorKind::runtime, "Pivots given to ldl_solve must name rows of LD, from 1 or from -1.");
  }
}

// torch.sgn: NaN of a real type has none.
template <class T>
T direction(T x) {
  return static_cast<T>((T(0) < x) - (x < T(0)));
}
template <class R>
std::complex<R> direction(std::complex<R> z) {
  return z == std::complex<R>(0) ? z : z / std::abs(z);
}

template <class T>
void find(const Determinants& wanted, int64_t n, const Matrices& lu, const int32_t* pivots, int64_t batch) {
  using Real = decltype(std::abs(T{}));
  for (int64_t b = 0; b < batch; ++b) {
    const T* a = static_cast<const T*>(lu.data) + b * lu.stride;
    bool odd = false;
    for (int64_t i = 0; i < n; ++i) odd ^= pivots[b * n + i] != i + 1;
    T value(1), sign(1);
    Real logarithm(0);
    for (int64_t i = 0; i < n; ++i) {
      const T d = a[i * lu.ld + i];
      value *= d;
      if (!wanted.signs) continue;
      sign *= direction(d);
      logarithm += std::log(std::abs(d));
    }
    if (wanted.values) static_cast<T*>(wanted.values)[b] = odd ? -value : value;
    if (wanted.signs) static_cast<T*>(wanted.signs)[b] = odd ? -sign : sign;
    if (wanted.logarithms) static_cast<Real*>(wanted.logarithms)[b] = logarithm;
  }
}

void find(DType type, const Determinants& wanted, int64_t n, const Matrices& lu, const int32_t* pivots, int64_t batch) {
  switch (type) {
    case DType::f32: return find<float>(wanted, n, lu, pivots, batch);
    case DType::f64: return find<double>(wanted, n, lu, pivots, batch);
    case DType::c64: return find<std::complex<float>>(wanted, n, lu, pivots, batch);
    default: return find<std::complex<double>>(wanted, n, lu, pivots, batch);
  }
}

// Up to this many rows the calling thread copies in less time than a launch takes.
constexpr int64_t kHostTriangle = 128;

template <class T> void copy_triangle(bool upper, int64_t n, const Strided& from, const Matrices& to) {
  for (int64_t j = 0; j < n; ++j) {
    T* column = static_cast<T*>(to.data) + j * to.ld;
    const T* a = static_cast<const T*>(from.data) + j * from.col;
    const int64_t begin = upper ? 0 : j, end = upper ? j + 1 : n;
    std::fill(column, column + begin, T{});
    for (int64_t i = begin; i < end; ++i) column[i] = a[i * from.row];
    std::fill(column + end, column + n, T{});
  }
}

}  // namespace

void cholesky(runtime::Queue& queue, DType type, bool upper, int64_t n, Matrices a, int64_t batch, int32_t* info) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  info = host.write(info, bytes_of_ints(batch));
  host.call("cholesky", type, batch, n, n, [&] { table().potrf(type, upper, n, a, of(queue, batch), info); });
  host.done();
}

bool cholesky_of(runtime::Queue& queue, DType type, bool upper, int64_t n, Strided from, Matrices to, int32_t* info) {
  if (n > kHostTriangle || !runtime::host_accessible(queue.device)) return false;
  HostArrays host(queue);
  host.call("cholesky", type, 1, n, n, [&] {
    switch (type) {
      case DType::f32: copy_triangle<float>(upper, n, from, to); break;
      case DType::f64: copy_triangle<double>(upper, n, from, to); break;
      case DType::c64: copy_triangle<std::complex<float>>(upper, n, from, to); break;
      default: copy_triangle<std::complex<double>>(upper, n, from, to);
    }
    table().potrf(type, upper, n, to, Batch{}, info);
  });
  return true;
}

void cholesky_inverse(runtime::Queue& queue, DType type, bool upper, int64_t n, Matrices a, int64_t batch,
                      int32_t* info) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  info = host.write(info, bytes_of_ints(batch));
  host.call("cholesky_inverse", type, batch, n, n, [&] { table().potri(type, upper, n, a, of(queue, batch), info); });
  host.done();
}

void cholesky_solve(runtime::Queue& queue, DType type, bool upper, int64_t n, int64_t nrhs, Matrices a, Matrices b,
                    int64_t batch) {
  HostArrays host(queue);
  a = image(host, Use::read, a, bytes(a, type, n, batch));
  b = image(host, Use::change, b, bytes(b, type, nrhs, batch));
  host.call("cholesky_solve", type, batch, n, nrhs,
            [&] { table().potrs(type, upper, n, nrhs, a, b, of(queue, batch)); });
  host.done();
}

void lu(runtime::Queue& queue, DType type, bool pivot, int64_t m, int64_t n, Matrices a, int32_t* pivots, int64_t batch,
        int32_t* info, Determinants wanted) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  pivots = host.write(pivots, bytes_of_ints(batch * std::min(m, n)));
  info = host.write(info, bytes_of_ints(batch));
  wanted.values = host.write(wanted.values, bytes(batch, type));
  wanted.signs = host.write(wanted.signs, bytes(batch, type));
  wanted.logarithms = host.write(wanted.logarithms, bytes(batch, real_type(type)));
  host.call("lu", type, batch, m, n, [&] {
    table().getrf(type, pivot, m, n, a, pivots, of(queue, batch), info);
    if (wanted.values || wanted.signs) find(type, wanted, n, a, pivots, batch);
  });
  host.done();
}

void lu_solve(runtime::Queue& queue, DType type, Trans trans, int64_t n, int64_t nrhs, Matrices a,
              const int32_t* pivots, Matrices b, int64_t batch) {
  HostArrays host(queue);
  a = image(host, Use::read, a, bytes(a, type, n, batch));
  pivots = host.read(pivots, bytes_of_ints(batch * n));
  b = image(host, Use::change, b, bytes(b, type, nrhs, batch));
  check_pivots(pivots, batch * n, n);
  host.call("lu_solve", type, batch, n, nrhs,
            [&] { table().getrs(type, trans, n, nrhs, a, pivots, b, of(queue, batch)); });
  host.done();
}

void solve_triangular(runtime::Queue& queue, DType type, bool left, bool upper, Trans trans, bool unit, int64_t m,
                      int64_t n, Matrices a, Matrices b, int64_t batch) {
  HostArrays host(queue);
  a = image(host, Use::read, a, bytes(a, type, left ? m : n, batch));
  b = image(host, Use::change, b, bytes(b, type, n, batch));
  host.call("solve_triangular", type, batch, m, n,
            [&] { table().trsm(type, left, upper, trans, unit, m, n, a, b, of(queue, batch)); });
  host.done();
}

void qr(runtime::Queue& queue, DType type, int64_t m, int64_t n, Matrices a, void* tau, int64_t batch) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  tau = host.write(tau, bytes(batch * std::min(m, n), type));
  host.call("qr", type, batch, m, n, [&] { table().geqrf(type, m, n, a, tau, of(queue, batch)); });
  host.done();
}

void householder(runtime::Queue& queue, DType type, int64_t m, int64_t n, int64_t k, Matrices a, const void* tau,
                 int64_t batch) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  tau = host.read(tau, bytes(batch * k, type));
  host.call("householder", type, batch, m, n, [&] { table().orgqr(type, m, n, k, a, tau, of(queue, batch)); });
  host.done();
}

void multiply_q(runtime::Queue& queue, DType type, bool left, bool adjoint, int64_t m, int64_t n, int64_t k, Matrices a,
                const void* tau, Matrices c, int64_t batch) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, k, batch));
  tau = host.read(tau, bytes(batch * k, type));
  c = image(host, Use::change, c, bytes(c, type, n, batch));
  host.call("multiply_q", type, batch, m, n,
            [&] { table().ormqr(type, left, adjoint, m, n, k, a, tau, c, of(queue, batch)); });
  host.done();
}

void svd(runtime::Queue& queue, DType type, char job, int64_t m, int64_t n, Matrices a, void* s, Matrices u,
         Matrices vh, int64_t batch, int32_t* info) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  s = host.write(s, bytes(batch * std::min(m, n), real_type(type)));
  u = image(host, Use::write, u, bytes(u, type, job == 'A' ? m : std::min(m, n), batch));
  vh = image(host, Use::write, vh, bytes(vh, type, n, batch));
  info = host.write(info, bytes_of_ints(batch));
  host.call("svd", type, batch, m, n, [&] { table().gesdd(type, job, m, n, a, s, u, vh, of(queue, batch), info); });
  host.done();
}

void eigh(runtime::Queue& queue, DType type, bool vectors, bool upper, int64_t n, Matrices a, void* w, int64_t batch,
          int32_t* info) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  w = host.write(w, bytes(batch * n, real_type(type)));
  info = host.write(info, bytes_of_ints(batch));
  host.call("eigh", type, batch, n, n, [&] { table().syevd(type, vectors, upper, n, a, w, of(queue, batch), info); });
  host.done();
}

void eig(runtime::Queue& queue, DType type, bool vectors, int64_t n, Matrices a, void* w, Matrices v, int64_t batch,
         int32_t* info) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  w = host.write(w, bytes(batch * n, complex_type(type)));
  v = image(host, Use::write, v, bytes(v, complex_type(type), n, batch));
  info = host.write(info, bytes_of_ints(batch));
  host.call("eig", type, batch, n, n, [&] { table().geev(type, vectors, n, a, w, v, of(queue, batch), info); });
  host.done();
}

void lstsq(runtime::Queue& queue, DType type, LstsqDriver driver, int64_t m, int64_t n, int64_t nrhs, Matrices a,
           Matrices b, double rcond, int64_t* rank, void* s, int64_t batch, int32_t* info) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  b = image(host, Use::change, b, bytes(b, type, nrhs, batch));
  s = host.write(s, bytes(batch * std::min(m, n), real_type(type)));
  rank = host.write(rank, bytes(batch, DType::i64));
  info = host.write(info, bytes_of_ints(batch));
  host.call("lstsq", type, batch, m, n,
            [&] { table().lstsq(type, driver, m, n, nrhs, a, b, rcond, rank, s, of(queue, batch), info); });
  host.done();
}

void ldl(runtime::Queue& queue, DType type, bool hermitian, bool upper, int64_t n, Matrices a, int32_t* pivots,
         int64_t batch, int32_t* info) {
  HostArrays host(queue);
  a = image(host, Use::change, a, bytes(a, type, n, batch));
  pivots = host.write(pivots, bytes_of_ints(batch * n));
  info = host.write(info, bytes_of_ints(batch));
  host.call("ldl", type, batch, n, n,
            [&] { table().sytrf(type, hermitian, upper, n, a, pivots, of(queue, batch), info); });
  host.done();
}

void ldl_solve(runtime::Queue& queue, DType type, bool hermitian, bool upper, int64_t n, int64_t nrhs, Matrices a,
               const int32_t* pivots, Matrices b, int64_t batch) {
  HostArrays host(queue);
  a = image(host, Use::read, a, bytes(a, type, n, batch));
  pivots = host.read(pivots, bytes_of_ints(batch * n));
  b = image(host, Use::change, b, bytes(b, type, nrhs, batch));
  check_block_pivots(pivots, batch * n, n);
  host.call("ldl_solve", type, batch, n, nrhs,
            [&] { table().sytrs(type, hermitian, upper, n, nrhs, a, pivots, b, of(queue, batch)); });
  host.done();
}

}  // namespace xpu_ops::mkl
