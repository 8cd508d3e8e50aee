// Batches of small matrices on kernels of our own. Each function returns false where they do not serve the call, and
// has changed nothing then.
#pragma once
#include <ATen/core/Tensor.h>

namespace xpu_ops::aten::linalg::small {

// Whether they serve batches of this size and type.
bool serves(const at::Tensor& a);

// Undefined results are left out. Results may be operands.
bool cholesky(const at::Tensor& a, bool upper, const at::Tensor& l, const at::Tensor& info);
// Without b: the inverse. info is the number of a zero on the diagonal.
bool cholesky_solve(const at::Tensor& a, bool upper, const at::Tensor& b, const at::Tensor& x, const at::Tensor& info);
bool lu(const at::Tensor& a, bool pivot, const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& info,
        const at::Tensor& determinant);
// Without b: the inverse.
bool solve(const at::Tensor& a, const at::Tensor& b, const at::Tensor& x, const at::Tensor& lu,
           const at::Tensor& pivots, const at::Tensor& info);
bool triangular(const at::Tensor& a, const at::Tensor& b, bool left, bool upper, bool transpose, bool unit,
                const at::Tensor& x);
bool qr(const at::Tensor& a, const at::Tensor& q, const at::Tensor& r);
bool geqrf(const at::Tensor& a, const at::Tensor& result, const at::Tensor& tau);
bool eigh(const at::Tensor& a, bool upper, const at::Tensor& w, const at::Tensor& v, const at::Tensor& info);
bool svd(const at::Tensor& a, const at::Tensor& u, const at::Tensor& s, const at::Tensor& vh, const at::Tensor& info);

}  // namespace xpu_ops::aten::linalg::small
