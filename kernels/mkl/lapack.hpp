// Factorisations and solvers of device memory, in order with what is on the queue. Each has finished on return.
// mkl/table.hpp says what the arguments are; `a`, `b` and their kin are changed in place.
#pragma once
#include "kernels/mkl/table.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::mkl {

void cholesky(runtime::Queue& queue, DType type, bool upper, int64_t n, Matrices a, int64_t batch, int32_t* info);
// The factor of one small matrix in `to`, and zeros beside it. Strides in elements; the two share no memory. False
// where the host does not reach the memory or the matrix is large: then copies on the device are faster.
struct Strided {
  const void* data = nullptr;
  int64_t row = 1, col = 1;
};
bool cholesky_of(runtime::Queue& queue, DType type, bool upper, int64_t n, Strided from, Matrices to, int32_t* info);
void cholesky_inverse(runtime::Queue& queue, DType type, bool upper, int64_t n, Matrices a, int64_t batch,
                      int32_t* info);
void cholesky_solve(runtime::Queue& queue, DType type, bool upper, int64_t n, int64_t nrhs, Matrices a, Matrices b,
                    int64_t batch);
// Determinants of square matrices by their factors, one per matrix; those without data are not wanted.
struct Determinants {
  void* values = nullptr;
  void *signs = nullptr, *logarithms = nullptr;  // of the magnitudes, real
};
void lu(runtime::Queue& queue, DType type, bool pivot, int64_t m, int64_t n, Matrices a, int32_t* pivots, int64_t batch,
        int32_t* info, Determinants wanted = {});
void lu_solve(runtime::Queue& queue, DType type, Trans trans, int64_t n, int64_t nrhs, Matrices a,
              const int32_t* pivots, Matrices b, int64_t batch);
void solve_triangular(runtime::Queue& queue, DType type, bool left, bool upper, Trans trans, bool unit, int64_t m,
                      int64_t n, Matrices a, Matrices b, int64_t batch);
void qr(runtime::Queue& queue, DType type, int64_t m, int64_t n, Matrices a, void* tau, int64_t batch);
void householder(runtime::Queue& queue, DType type, int64_t m, int64_t n, int64_t k, Matrices a, const void* tau,
                 int64_t batch);
void multiply_q(runtime::Queue& queue, DType type, bool left, bool adjoint, int64_t m, int64_t n, int64_t k, Matrices a,
                const void* tau, Matrices c, int64_t batch);
void svd(runtime::Queue& queue, DType type, char job, int64_t m, int64_t n, Matrices a, void* s, Matrices u,
         Matrices vh, int64_t batch, int32_t* info);
void eigh(runtime::Queue& queue, DType type, bool vectors, bool upper, int64_t n, Matrices a, void* w, int64_t batch,
          int32_t* info);
void eig(runtime::Queue& queue, DType type, bool vectors, int64_t n, Matrices a, void* w, Matrices v, int64_t batch,
         int32_t* info);
void lstsq(runtime::Queue& queue, DType type, LstsqDriver driver, int64_t m, int64_t n, int64_t nrhs, Matrices a,
           Matrices b, double rcond, int64_t* rank, void* s, int64_t batch, int32_t* info);
void ldl(runtime::Queue& queue, DType type, bool hermitian, bool upper, int64_t n, Matrices a, int32_t* pivots,
         int64_t batch, int32_t* info);
void ldl_solve(runtime::Queue& queue, DType type, bool hermitian, bool upper, int64_t n, int64_t nrhs, Matrices a,
               const int32_t* pivots, Matrices b, int64_t batch);

}  // namespace xpu_ops::mkl
