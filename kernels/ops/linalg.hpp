// Linear algebra on a queue, with kernels of our own.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/ops/problem/linalg.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

void lu_permutation(runtime::Queue& queue, const PermutationProblem& problem);

// Routines on batches of small matrices. Results that have no data are left out; results may be operands.
enum class SmallRoutine : int8_t {
  cholesky,        // x: the lower factor of a's lower triangle; info
  cholesky_solve,  // x: the solution of L L^T x = b for L in the lower triangle of a; without b, the inverse
  lu,              // x: LU of a; pivots, info; values: its determinant
  solve,           // x: the solution of a x = b, without b the inverse; y: LU of a; pivots, info
  triangular,      // x: the solution of a x = b
  qr,              // x: Q; y: R, or R and the vectors; values: tau
  eigh,            // x: eigenvectors of a; values: eigenvalues; info
  svd,             // x: left vectors of a; values: singular values; z: right vectors by rows; info
};

constexpr int64_t kSmallSide = 32;  // most rows and columns
// Fewer matrices go through LAPACK on the calling thread where the host reaches device memory.
constexpr int64_t kSmallCount = 32;

// `side` is the largest number of rows or columns of any operand.
bool small_serves(const runtime::Policy& policy, DType type, int64_t count, int64_t side);

struct SmallPlan {
  bool packs;  // vectors of a CPU device, else one matrix per work-item
  uint32_t workers;
  int32_t elements;  // of scratch memory per worker and lane
  int64_t scratch_bytes;
};
SmallPlan plan_small(const runtime::Policy& policy, DType type, const SmallProblem& problem);

void run_small(runtime::Queue& queue, SmallRoutine routine, DType type, const SmallProblem& problem);

}  // namespace xpu_ops::ops
