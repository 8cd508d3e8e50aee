// Problems of linear algebra with own kernels; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops {

// Matrices of a batch: element (i, j) of matrix b is data[b * batch + i * row + j * column]. No data: not wanted.
struct SmallMatrices {
  void* data;
  int64_t batch, row, column;
  int32_t rows, columns;
};

namespace ops {

// Pivots of LU as a permutation: row i of the result is row permutation[i] of the identity.
struct PermutationProblem {
  const int32_t* pivots;  // [batch, swaps], from 1
  int64_t* permutation;   // [batch, rows]
  int64_t batch;
  int64_t rows;
  int64_t swaps;
};

// One routine on a batch of small matrices; kernels/ops/linalg.hpp says what each routine reads and writes.
struct SmallProblem {
  SmallMatrices a, b;     // read
  SmallMatrices x, y, z;  // written
  void* values;           // [batch, .] of the element type: determinants, tau, eigenvalues, singular values
  int32_t* pivots;        // [batch, min(rows, columns)], from 1
  int32_t* info;          // [batch], as LAPACK
  int64_t count;          // matrices
  int32_t pivoting;       // lu: search pivots
  int32_t upper;          // triangular: a is upper
  int32_t unit;           // triangular: the diagonal of a is one and not read
};

}  // namespace ops
}  // namespace xpu_ops
