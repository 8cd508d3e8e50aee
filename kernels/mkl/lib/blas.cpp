#include "kernels/mkl/lib/blas.hpp"

#include <cstring>

#include "kernels/mkl/lib/routines.hpp"
#include "kernels/mkl/lib/workers.hpp"

namespace xpu_ops::mkl {
namespace {

using Int = MKL_INT64;

// Steps of a product up to which a batch gives each thread matrices of its own.
constexpr Int kOneThread = Int{1} << 24;

char letter(Trans op) { return static_cast<char>(op); }

template <class T>
T factor(const unsigned char (&bytes)[16]) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// y = alpha * op(matrix) @ x + beta * y; the matrix is stored with `rows` rows.
template <class T>
struct Vector {
  Trans op;
  Int rows, columns;
  const T* matrix;
  Int ld;
  const T* x;
  Int x_step;
  T* y;
  Int y_step;
};

template <class T> void multiply(const Vector<T>& v, T alpha, T beta) {
  const char op = letter(v.op);
  Routines<T>::gemv(&op, &v.rows, &v.columns, &alpha, v.matrix, &v.ld, v.x, &v.x_step, &beta, v.y, &v.y_step);
}

}  // namespace

void gemm(const Gemm& g) {
  with_type(g.type, [&](auto zero) {
    using T = decltype(zero);
    const T alpha = factor<T>(g.alpha), beta = factor<T>(g.beta);
    const Int m = g.m, n = g.n, k = g.k, lda = g.a.ld, ldb = g.b.ld, ldc = g.c.ld;
    const bool a_as_it_is = g.op_a == Trans::none, b_as_it_is = g.op_b == Trans::none;
    const char op_a = letter(g.op_a), op_b = letter(g.op_b);
    const auto one = [&](int64_t i) {
      const T *a = at<T>(g.a, i), *b = at<T>(g.b, i);
      T* c = at<T>(g.c, i);
      if (n == 1) {
        const Int rows = a_as_it_is ? m : k, columns = a_as_it_is ? k : m;
        multiply<T>({g.op_a, rows, columns, a, lda, b, b_as_it_is ? 1 : ldb, c, 1}, alpha, beta);
      } else if (m == 1) {
        const Trans op = b_as_it_is ? Trans::transpose : Trans::none;
        const Int rows = b_as_it_is ? k : n, columns = b_as_it_is ? n : k;
        multiply<T>({op, rows, columns, b, ldb, a, a_as_it_is ? lda : 1, c, ldc}, alpha, beta);
      } else {
        Routines<T>::gemm(&op_a, &op_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
      }
    };
    run_blocks(g.batch, g.batch > 1 && m * n * k <= kOneThread ? g.threads : 1, one);
  });
}

}  // namespace xpu_ops::mkl
