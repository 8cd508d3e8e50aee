#include "kernels/mkl/lib/blas.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/mkl/lib/batch.hpp"
#include "kernels/mkl/lib/routines.hpp"

namespace xpu_ops::mkl {
namespace {

using Int = MKL_INT64;

constexpr Int kMatrixSteps = Int{1} << 11;  // a matrix of a batch costs as much as so many multiplications at least
constexpr Int kLeastBlock = 8;              // rows or columns of a thread

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

// One product as blocks of its result.
struct Grid { Int rows = 1, columns = 1; };

// With the fewest rows of a and columns of b to read per block.
Grid divide(Int m, Int n, Int blocks) {
  Grid best;
  const auto longest = [&](const Grid& g) { return (m + g.rows - 1) / g.rows + (n + g.columns - 1) / g.columns; };
  const Int most_rows = std::max<Int>(m / kLeastBlock, 1), most_columns = std::max<Int>(n / kLeastBlock, 1);
  for (Int rows = 1; rows <= std::min(blocks, most_rows); ++rows) {
    const Grid grid{rows, std::min(blocks / rows, most_columns)};
    if (longest(grid) < longest(best)) best = grid;
  }
  return best;
}

// The first element of part i of `parts`: whole vectors but for the last part.
Int edge(Int length, Int i, Int parts) { return i == parts ? length : length * i / parts / kLeastBlock * kLeastBlock; }

template <class T>
class Product {
 public:
  explicit Product(const Gemm& g) : g_(g), alpha_(factor<T>(g.alpha)), beta_(factor<T>(g.beta)) {}

  // Matrices first ... end - 1 of the batch.
  void run(Int first, Int end) const {
    const Int count = end - first;
    // oneMKL refuses batches whose results lie among one another.
    if (g_.m == 1 || g_.n == 1 || count == 1 || step_c_ < ldc_ * n_) {
      for (Int i = first; i < end; ++i) run(i, 0, g_.m, 0, g_.n);
      return;
    }
    Routines<T>::gemm_batch(&op_a_, &op_b_, &m_, &n_, &k_, &alpha_, at<T>(g_.a, first), &lda_, &step_a_,
                            at<T>(g_.b, first), &ldb_, &step_b_, &beta_, at<T>(g_.c, first), &ldc_, &step_c_, &count);
  }

  // Rows m0 ... m1 - 1 and columns n0 ... n1 - 1 of matrix i.
  void run(Int i, Int m0, Int m1, Int n0, Int n1) const {
    const bool a_as_it_is = g_.op_a == Trans::none, b_as_it_is = g_.op_b == Trans::none;
    const Int m = m1 - m0, n = n1 - n0;
    if (m == 0 || n == 0) return;
    const T* a = at<T>(g_.a, i) + (a_as_it_is ? m0 : m0 * lda_);
    const T* b = at<T>(g_.b, i) + (b_as_it_is ? n0 * ldb_ : n0);
    T* c = at<T>(g_.c, i) + m0 + n0 * ldc_;
    if (g_.n == 1) {
      multiply<T>({g_.op_a, a_as_it_is ? m : k_, a_as_it_is ? k_ : m, a, lda_, b, b_as_it_is ? 1 : ldb_, c, 1}, alpha_,
                  beta_);
    } else if (g_.m == 1) {
      const Trans op = b_as_it_is ? Trans::transpose : Trans::none;
      multiply<T>({op, b_as_it_is ? k_ : n, b_as_it_is ? n : k_, b, ldb_, a, a_as_it_is ? lda_ : 1, c, ldc_}, alpha_,
                  beta_);
    } else {
      Routines<T>::gemm(&op_a_, &op_b_, &m, &n, &k_, &alpha_, a, &lda_, b, &ldb_, &beta_, c, &ldc_);
    }
  }

 private:
  const Gemm& g_;
  const T alpha_, beta_;
  const char op_a_ = letter(g_.op_a), op_b_ = letter(g_.op_b);
  const Int m_ = g_.m, n_ = g_.n, k_ = g_.k, lda_ = g_.a.ld, ldb_ = g_.b.ld, ldc_ = g_.c.ld;
  const Int step_a_ = g_.a.stride, step_b_ = g_.b.stride, step_c_ = g_.c.stride;
};

}  // namespace

void gemm(const Gemm& g) {
  with_type(g.type, [&](auto zero) {
    using T = decltype(zero);
    const Product<T> product(g);
    const Int steps = floats_of(g.type) * g.m * g.n * g.k + kMatrixSteps;
    const Int matrices = g.batch.count;
    const int threads = worth(matrices * steps, g.batch.threads);
    if (matrices >= threads) {
      return run_ranges(matrices, threads, [&](int64_t first, int64_t end) {
        const OneThread alone;
        product.run(first, end);
      });
    }
    const Grid grid = divide(g.m, g.n, (threads + matrices - 1) / matrices);
    const Int blocks = grid.rows * grid.columns;
    run_parts(matrices * blocks, threads, [&](int64_t part) {
      const OneThread alone;
      const Int i = part / blocks, row = part % grid.rows, column = part % blocks / grid.rows;
      product.run(i, edge(g.m, row, grid.rows), edge(g.m, row + 1, grid.rows), edge(g.n, column, grid.columns),
                  edge(g.n, column + 1, grid.columns));
    });
  });
}

}  // namespace xpu_ops::mkl
