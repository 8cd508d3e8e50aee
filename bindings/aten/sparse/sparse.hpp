// Helpers of the sparse adapters. sparse.cpp: COO tensors; sparse_csr.cpp: compressed layouts; sparse_product.cpp:
// products; sparse_reduce.cpp: sums and softmax; sparse_create.cpp: from parts.
#pragma once
#include <ATen/native/SparseTensorUtils.h>

#include "bindings/aten/indexing.hpp"

namespace xpu_ops::aten {

using at::sparse::get_sparse_impl;

// Elements sorted by their keys, equal ones in their order. `order`: key and place lie apart.
struct SortedKeys {
  at::Tensor entries, order;
  uint32_t bits = 0;
  at::Tensor places() const;
};

// The running number of each element: sum of index times stride over dims of `sizes`; indices are [dims, nnz]. An index
// out of range is reported and counts as 0.
at::Tensor coo_keys(const at::Tensor& indices, at::IntArrayRef sizes);
SortedKeys sort_keys(const at::Tensor& indices, at::IntArrayRef sizes);

// Where each key is among sorted ones, and whether.
struct Found { at::Tensor at, hit; };
Found find_keys(const at::Tensor& sorted, const at::Tensor& keys);

// The elements of a list in which element e stands counts[e] times in a row: e, and the number of its repetition.
struct Repeats { at::Tensor element, number; };
Repeats repeat_by(const at::Tensor& counts);

// The numbers from pointers[i] to pointers[i + 1] for each i of `index` in turn, and its place in `index`. Undefined
// where an index is out of range. `wrap`: those below 0 count from the end.
struct Ranges { at::Tensor element, owner; };
Ranges named_ranges(const at::Tensor& pointers, const at::Tensor& index, bool wrap);

// Counts of items, turned into where each begins by a launch of its own; returns the sum.
int64_t scan_counts(const at::Tensor& counts);

// [rows + 1] pointers to the elements of each row, of sorted row numbers.
at::Tensor row_pointers(const at::Tensor& rows, int64_t count, bool as_int32);

// A COO tensor of the type of values; `like` gives device and layout.
at::Tensor make_coo(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes, bool coalesced);
// Makes r that tensor, without a copy.
void set_coo(const at::Tensor& r, const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes,
             bool coalesced);

// The sizes of the sparse dims.
inline at::IntArrayRef sparse_sizes(const at::Tensor& t) { return t.sizes().slice(0, t.sparse_dim()); }

// A matrix by compressed rows.
struct Rows2d {
  at::Tensor pointers, columns, values;
  int64_t rows, inner;
};
Rows2d rows_of_coo(const at::Tensor& self);
Rows2d rows_of_csr(const at::Tensor& self);

// out = beta * self + alpha * a @ dense; self may be undefined. out has its sizes.
void spmm(const Rows2d& a, const at::Tensor& dense, const at::Tensor& self, const at::Scalar& beta,
          const at::Scalar& alpha, const at::Tensor& out);
// Sparse times sparse: a coalesced COO matrix.
at::Tensor spgemm(const Rows2d& a, const Rows2d& b);
// The same by compressed rows, where it is made so.
std::optional<Rows2d> spgemm_compressed(const Rows2d& a, const Rows2d& b);

}  // namespace xpu_ops::aten
