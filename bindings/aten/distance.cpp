// cdist, pdist, cross, trace, renorm.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/WrapDimMinimal.h>

#include "bindings/aten/indexing.hpp"
#include "bindings/aten/reduction.hpp"
#include "kernels/ops/distance.hpp"

namespace xpu_ops::aten {

void sum_dim_IntList(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                     std::optional<at::ScalarType> dtype, const at::Tensor& out);  // reduction.cpp

namespace {

// Both operands over their common batch, dense, as [batch, rows, features].
struct Pair {
  at::Tensor x1, x2;
  std::vector<int64_t> batch;  // common batch sizes
  int64_t count = 1;           // their product
  Pair(const at::Tensor& a, const at::Tensor& b) {
    const auto a_batch = a.sizes().slice(0, a.dim() - 2), b_batch = b.sizes().slice(0, b.dim() - 2);
    const auto common = at::infer_size(a_batch, b_batch);
    batch.assign(common.begin(), common.end());
    for (int64_t s : batch) count *= s;
    auto flat = [&](const at::Tensor& t) {
      std::vector<int64_t> sizes = batch;
      sizes.insert(sizes.end(), {t.size(-2), t.size(-1)});
      return t.expand(sizes).reshape({count, t.size(-2), t.size(-1)}).contiguous();
    };
    x1 = flat(a);
    x2 = flat(b);
  }
};

ops::CdistProblem problem_of(const Pair& pair, double p) {
  ops::CdistProblem problem{};
  problem.x1 = pair.x1.const_data_ptr();
  problem.x2 = pair.x2.const_data_ptr();
  problem.batch = static_cast<uint32_t>(pair.count);
  problem.rows1 = static_cast<uint32_t>(pair.x1.size(1));
  problem.rows2 = static_cast<uint32_t>(pair.x2.size(1));
  problem.features = static_cast<uint32_t>(pair.x1.size(2));
  problem.p = p;
  return problem;
}

// The pairs of rows of one tensor.
ops::CdistProblem pairs_of(const at::Tensor& self, double p, const at::Tensor& out) {
  ops::CdistProblem problem{};
  problem.x1 = self.const_data_ptr();
  problem.out = mutable_ptr(out);
  problem.rows1 = static_cast<uint32_t>(self.size(0));
  problem.features = static_cast<uint32_t>(self.size(1));
  problem.p = p;
  return problem;
}

}  // namespace

at::Tensor _cdist_forward(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  TORCH_CHECK(x1.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", x1.dim(), "D");
  TORCH_CHECK(x2.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", x2.dim(), "D");
  TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(at::isFloatingType(x1.scalar_type()),
              "cdist only supports floating-point dtypes, X1 got: ", x1.scalar_type());
  TORCH_CHECK(at::isFloatingType(x2.scalar_type()),
              "cdist only supports floating-point dtypes, X2 got: ", x2.scalar_type());
  check_scalar_type(x2, x1.scalar_type());
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = compute_mode.value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  Pair pair(x1, x2);
  const int64_t rows1 = x1.size(-2), rows2 = x2.size(-2);
  std::vector<int64_t> sizes = pair.batch;
  sizes.insert(sizes.end(), {rows1, rows2});
  if (rows1 == 0 || rows2 == 0 || pair.count == 0) return new_empty(sizes, x1.scalar_type());
  if (x1.size(-1) == 0) return at::zeros(sizes, x1.options());
  if (p == 2. && (mode == 1 || (mode == 0 && (rows1 > 25 || rows2 > 25))))
    return at::_euclidean_dist(pair.x1, pair.x2).view(sizes);
  at::Tensor out = new_empty(sizes, x1.scalar_type());
  ops::CdistProblem problem = problem_of(pair, p);
  const at::Tensor turned = pair.x2.transpose(1, 2).contiguous();
  problem.x2 = turned.const_data_ptr();
  problem.out = mutable_ptr(out);
  ops::cdist(runtime::current_queue(), dtype_of(x1), problem);
  return out;
}

at::Tensor _cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p,
                           const at::Tensor& cdist) {
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2 && x1.size(-1) == x2.size(-1) && x1.scalar_type() == x2.scalar_type(),
              "_cdist_backward: expected X1 and X2 of one type with as many columns, but got ", x1.sizes(), " of type ",
              x1.scalar_type(), " and ", x2.sizes(), " of type ", x2.scalar_type());
  Pair pair(x1, x2);
  std::vector<int64_t> sizes = pair.batch;
  sizes.insert(sizes.end(), {x1.size(-2), x2.size(-2)});
  for (const at::Tensor* t : {&grad, &cdist})
    TORCH_CHECK(t->sizes() == sizes && t->scalar_type() == x1.scalar_type(),
                "_cdist_backward: expected grad and cdist of size ", at::IntArrayRef(sizes), " and type ",
                x1.scalar_type(), ", but got ", t->sizes(), " of type ", t->scalar_type());
  sizes.back() = x1.size(-1);
  if (x1.size(-2) == 0 || x2.size(-2) == 0 || x1.size(-1) == 0 || pair.count == 0)
    return at::zeros_like(x1);  // of x1's size, not the batch's: as at::_cdist_backward
  at::Tensor out = new_empty(sizes, x1.scalar_type());
  const at::Tensor g = grad.contiguous(), dist = cdist.contiguous();
  ops::CdistProblem problem = problem_of(pair, p);
  problem.grad = g.const_data_ptr();
  problem.distance = dist.const_data_ptr();
  problem.out = mutable_ptr(out);
  ops::cdist_backward(runtime::current_queue(), dtype_of(x1), problem);
  return out;
}

at::Tensor _pdist_forward(const at::Tensor& self, double p) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
  const int64_t n = self.size(0);
  at::Tensor out = new_empty({n <= 1 ? 0 : n * (n - 1) / 2}, self.scalar_type());
  if (n <= 1) return out;
  TORCH_CHECK(self.dim() == 2, "_pdist_forward: expected self to be 2-D, but got ", self.sizes());
  if (self.size(1) == 0) return out.zero_();
  const at::Tensor turned = self.t().contiguous();
  ops::CdistProblem problem = pairs_of(self, p, out);
  problem.x2 = turned.const_data_ptr();
  ops::pdist(runtime::current_queue(), dtype_of(self), problem);
  return out;
}

at::Tensor _pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p, const at::Tensor& pdist) {
  TORCH_CHECK(self.is_contiguous(), "_pdist_backward requires self to be contiguous");
  TORCH_CHECK(pdist.is_contiguous(), "_pdist_backward requires pdist to be contiguous");
  TORCH_CHECK(self.dim() == 2, "_pdist_backward: expected self to be 2-D, but got ", self.sizes());
  const int64_t pairs = self.size(0) * (self.size(0) - 1) / 2;
  for (const at::Tensor* t : {&grad, &pdist})
    TORCH_CHECK(t->numel() == pairs && t->scalar_type() == self.scalar_type(),
                "_pdist_backward: expected grad and pdist to have ", pairs, " elements of type ", self.scalar_type(),
                ", but got ", t->sizes(), " of type ", t->scalar_type());
  at::Tensor out = at::zeros(self.sizes(), self.options());
  if (self.size(0) <= 1 || self.size(1) == 0) return out;
  const at::Tensor g = grad.contiguous();
  const runtime::Policy& policy = current_policy();
  if (const int64_t parts = ops::plan_pdist_parts(self.size(0), self.size(1), policy)) {
    const at::Tensor sums = new_empty({parts, self.size(0), self.size(1)}, self.scalar_type());
    ops::PdistSumProblem problem{};
    problem.x = self.const_data_ptr();
    problem.grad = g.const_data_ptr();
    problem.distance = pdist.const_data_ptr();
    problem.sums = mutable_ptr(sums);
    problem.rows = static_cast<uint32_t>(self.size(0));
    problem.features = static_cast<uint32_t>(self.size(1));
    problem.parts = static_cast<uint32_t>(parts);
    problem.p = p;
    ops::pdist_backward_parts(runtime::current_queue(), dtype_of(self), problem);
    return at::sum_out(out, sums, 0);
  }
  ops::CdistProblem problem = pairs_of(self, p, out);
  problem.grad = g.const_data_ptr();
  problem.distance = pdist.const_data_ptr();
  ops::pdist_backward(runtime::current_queue(), dtype_of(self), problem);
  return out;
}

void linalg_cross(const at::Tensor& self, const at::Tensor& other, int64_t dim, const at::Tensor& out) {
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, other);
  check_scalar_type(other, self.scalar_type());
  if (out.numel() == 0) return;
  dim = at::maybe_wrap_dim(dim, out.dim());
  const at::Tensor a = self.expand(out.sizes()), b = other.expand(out.sizes());
  ops::CrossProblem problem{};
  problem.out = mutable_ptr(out);
  problem.a = a.const_data_ptr();
  problem.b = b.const_data_ptr();
  problem.step[0] = out.stride(dim);
  problem.step[1] = a.stride(dim);
  problem.step[2] = b.stride(dim);
  Dims3 dims;
  for (int64_t d = 0; d < out.dim(); ++d)
    if (d != dim) dims.push_back({out.size(d), {out.stride(d), a.stride(d), b.stride(d)}});
  ops::cross(runtime::current_queue(), dtype_of(out), problem, dims);
}

at::Tensor trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  const int64_t count = std::min(self.size(0), self.size(1)), step = self.stride(0) + self.stride(1);
  const at::ScalarType type = self.scalar_type();
  const at::Tensor out = new_empty({}, at::isIntegralType(type, true) ? at::kLong : type);
  if (sum_line(self, count, step, out)) return out;
  const at::Tensor diagonal = at::native::as_strided_tensorimpl(self, {count}, {step}, self.storage_offset());
  sum_dim_IntList(diagonal, std::nullopt, false, std::nullopt, out);
  return out;
}

void renorm(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm,
            const at::Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  std::vector<int64_t> others;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != dim) others.push_back(d);
  const at::ScalarType type = self.scalar_type();
  const auto real = at::isComplexType(type) ? c10::toRealValueType(type) : type;
  const auto wide = real == at::kHalf || real == at::kBFloat16 ? at::kFloat : real;
  const at::Tensor norm = at::linalg_vector_norm(self, p.toDouble(), others, true,
                                                 wide == real ? std::nullopt : std::optional<at::ScalarType>(wide));
  const at::Tensor factor =
      at::where(norm.gt(maxnorm), norm.add(1e-7).reciprocal_().mul_(maxnorm), at::ones_like(norm));
  at::Tensor result = out;
  at::mul_out(result, self, factor.to(real));
}

}  // namespace xpu_ops::aten
