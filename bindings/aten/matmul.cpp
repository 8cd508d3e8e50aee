// Matrix products: checks and shapes. kernels/products decides what serves them.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include "bindings/aten/blockscale.hpp"
#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/scalar_bits.hpp"
#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/ops/matmul.hpp"
#include "kernels/products/run.hpp"

namespace xpu_ops::aten {
namespace {

using products::Activation;

// out = activation(alpha * a @ b + beta * c), all 2-d or all 3-d; c may be undefined and broadcasts to out's sizes.
struct Product {
  at::Tensor a, b, c, out;
  at::Scalar beta = 0, alpha = 1;
  Activation activation = Activation::none;
  bool weight = false;  // b may be a layer's weight: keep it packed
};

void activate(const at::Tensor& t, Activation activation) {
  if (activation == Activation::relu) t.relu_();
  if (activation == Activation::gelu) at::gelu_(const_cast<at::Tensor&>(t));
}

// Of operands that are read as they are, into an out that has elements.
void serve(const Product& p) {
  const at::ScalarType type = p.a.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type != at::kBool, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
  const bool with_c = p.c.defined() && !is_zero(p.beta);
  products::MatmulProblem problem;
  problem.a = operand(p.a);
  problem.b = operand(p.b);
  problem.out = out_operand(p.out);
  if (with_c) problem.c = operand(p.c);
  if (onednn_float(type)) {
    problem.alpha = p.alpha.to<float>();
    problem.beta = with_c ? p.beta.to<float>() : 0.f;
    if (problem.beta == 0.f) problem.c = {};  // too small for a float
  }
  put_scalar(problem.alpha_bits, p.alpha, type);
  put_scalar(problem.beta_bits, p.beta, type);
  problem.activation = p.activation;
  if (p.weight) problem.weight = weight_of(p.b, p.a.size(0));
  const auto served = products::run(runtime::current_queue(), problem);
  TORCH_CHECK(served != products::Served::no, "matmul: no kernel for ", type, " into ", p.out.scalar_type());
  if (served == products::Served::without_tail) activate(p.out, p.activation);
}

void run(Product p) {
  if (p.c.defined() && p.c.sizes() != p.out.sizes()) p.c = p.c.expand(p.out.sizes());
  if (p.out.numel() == 0) return;
  // As in a BLAS, operands times zero are not read: their infinities are none of the result's. torch reads small ones.
  const at::ScalarType type = p.a.scalar_type();
  const bool reads = !is_zero(p.alpha) || type == at::kHalf || type == at::kBFloat16 || is_float8(type);
  if (p.a.size(-1) == 0 || !reads) {
    if (!p.c.defined() || is_zero(p.beta)) {
      p.out.zero_();
    } else if (p.beta.equal(1)) {
      p.out.copy_(p.c);
    } else {
      at::Tensor out = p.out;
      at::mul_out(out, p.c, at::scalar_tensor(p.beta, p.out.options().device(at::kCPU)));
    }
    return activate(p.out, p.activation);
  }
  if (is_float8(type)) {  // numbers of which float32 has all
    const at::Tensor out = p.out;
    p.weight = false;
    p.a = p.a.to(at::kFloat);
    p.b = p.b.to(at::kFloat);
    if (p.c.defined()) p.c = p.c.to(at::kFloat);
    p.out = new_empty(out.sizes(), at::kFloat);
    serve(p);
    out.copy_(p.out);
    return;
  }
  if (p.a.is_complex()) {
    p.a = p.a.resolve_conj().resolve_neg();
    p.b = p.b.resolve_conj().resolve_neg();
    if (p.c.defined()) p.c = p.c.resolve_conj().resolve_neg();
  }
  // An output that only pretends to hold its values is computed aside.
  if (!p.out.is_conj() && !p.out.is_neg()) return serve(p);
  const at::Tensor out = p.out;
  p.out = new_empty(out.sizes(), out.scalar_type());
  serve(p);
  out.copy_(p.out);
}

// torch multiplies complex numbers by real factors as by complex ones, by an alpha of one, too, so that an infinite
// part makes the other NaN: by alpha the vector where the matrix has its columns together, else the sums.
void complex_addmv(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                   const at::Scalar& alpha, const at::Tensor& out) {
  const bool by_columns =
      mat.stride(0) == 1 && (mat.size(1) == 1 || mat.stride(1) >= std::max<int64_t>(1, mat.size(0)));
  at::Tensor start;
  if (!is_zero(beta)) start = (beta.equal(1) && by_columns ? self : self.mul(beta)).expand({mat.size(0)});
  if (by_columns) {
    const at::Tensor c = start.defined() ? start.unsqueeze(1) : start;
    return run({.a = mat, .b = vec.mul(alpha).unsqueeze(1), .c = c, .out = out.unsqueeze(1), .beta = 1});
  }
  at::Tensor sums = new_empty(out.sizes(), out.scalar_type()), result = out;
  run({.a = mat, .b = vec.unsqueeze(1), .out = sums.unsqueeze(1)});
  if (start.defined())
    at::add_out(result, start, sums.mul(alpha));
  else
    at::mul_out(result, sums, at::scalar_tensor(alpha, out.options().device(at::kCPU)));
}

void check_types(const char* what, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected ", what, " to have the same dtype, but got: ", a.dtype(),
              " != ", b.dtype());
}

void check_out_dtype(const at::Tensor& self, at::ScalarType out_dtype) {
  TORCH_CHECK(out_dtype == self.scalar_type() ||
                  (out_dtype == at::kFloat && (self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16)),
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
}

}  // namespace

void mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  check_types("m1 and m2", self, mat2);
  at::assert_no_internal_overlap(out);
  run({.a = self, .b = mat2, .out = out, .weight = mat2.stride(0) == 1});
}

void bmm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  check_scalar_type(mat2, self.scalar_type());
  run({.a = self, .b = mat2, .out = out});
}

void addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
           const at::Scalar& alpha, const at::Tensor& out) {
  check_types("m1 and m2", mat1, mat2);
  if (is_zero(beta))
    at::assert_no_internal_overlap(out);
  else
    check_apart(out, self);
  run({.a = mat1, .b = mat2, .c = self, .out = out, .beta = beta, .alpha = alpha, .weight = mat2.stride(0) == 1});
}

void _addmm_activation(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                       const at::Scalar& alpha, bool use_gelu, const at::Tensor& out) {
  check_types("m1 and m2", mat1, mat2);
  run({.a = mat1,
       .b = mat2,
       .c = self,
       .out = out,
       .beta = beta,
       .alpha = alpha,
       .activation = use_gelu ? Activation::gelu : Activation::relu,
       .weight = mat2.stride(0) == 1});
}

void baddbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
             const at::Scalar& alpha, const at::Tensor& out) {
  check_scalar_type(batch2, batch1.scalar_type());
  run({.a = batch1, .b = batch2, .c = self, .out = out, .beta = beta, .alpha = alpha});
}

void addmv(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
           const at::Scalar& alpha, const at::Tensor& out) {
  check_scalar_type(vec, mat.scalar_type());
  if (!is_zero(beta)) at::assert_no_internal_overlap(out);  // mv takes such an out, as on the CPU
  if (at::isComplexType(mat.scalar_type())) return complex_addmv(self, mat, vec, beta, alpha, out);
  run({.a = mat,
       .b = vec.unsqueeze(1),
       .c = self.expand({mat.size(0)}).unsqueeze(1),
       .out = out.unsqueeze(1),
       .beta = beta,
       .alpha = alpha});
}

at::Tensor& addbmm_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                       const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
              batch1.size(0), " and ", batch2.size(0));
  TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
              batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
  const int64_t b = batch1.size(0), m = batch1.size(1), k = batch1.size(2), n = batch2.size(2);
  // The sum over the batch is one longer inner dimension.
  return at::addmm_out(out, self, batch1.transpose(0, 1).reshape({m, b * k}), batch2.reshape({b * k, n}), beta, alpha);
}

at::Tensor addbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  at::Tensor out = new_empty({0}, self.scalar_type());
  return addbmm_out(self, batch1, batch2, beta, alpha, out);
}

at::Tensor& addbmm_(at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
                    const at::Scalar& alpha) {
  TORCH_CHECK(
      batch1.dim() != 3 || batch2.dim() != 3 || self.sizes() == at::IntArrayRef({batch1.size(1), batch2.size(2)}),
      "self tensor does not match matmul output shape");
  return addbmm_out(self, batch1, batch2, beta, alpha, self);
}

namespace {

at::Tensor dot_product(const char* name, const at::Tensor& a, const at::Tensor& b, bool conj) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [",
              b.numel(), "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
              " elements respectively");
  TORCH_CHECK_NOT_IMPLEMENTED(a.scalar_type() != at::kBool, "\"", name, "\" not implemented for 'Bool'");
  at::Tensor out = new_empty({}, a.scalar_type());
  if (a.numel() == 0) return out.zero_();
  const at::Tensor x = a.resolve_conj().resolve_neg(), y = b.resolve_conj().resolve_neg();
  ops::DotProblem problem{};
  problem.a = x.const_data_ptr();
  problem.b = y.const_data_ptr();
  problem.out = out.mutable_data_ptr();
  problem.a_stride = x.stride(0);
  problem.b_stride = y.stride(0);
  TORCH_CHECK(x.numel() < (int64_t{1} << 31), name, ": 2^31 or more elements are not supported");
  problem.n = x.numel();
  problem.conj = conj;
  ops::dot(runtime::current_queue(), dtype_of(x), problem);
  return out;
}

}  // namespace

at::Tensor dot(const at::Tensor& self, const at::Tensor& tensor) { return dot_product("dot", self, tensor, false); }
at::Tensor vdot(const at::Tensor& self, const at::Tensor& other) {
  return dot_product("vdot", self, other, self.is_complex());
}

at::Tensor& mm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype, at::Tensor& out) {
  TORCH_CHECK(self.dim() == 2, "self must be a matrix");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(self.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "input dtypes must be the same");
  check_out_dtype(self, out_dtype);
  TORCH_CHECK(out.scalar_type() == out_dtype, "out_dtype must be the same as the dtype of the provided out tensor");
  resize_out(out, {self.size(0), mat2.size(1)}, {}, self.options().dtype(out_dtype));
  run({.a = self, .b = mat2, .out = out});
  return out;
}
at::Tensor mm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  at::Tensor out = new_empty({0}, out_dtype);
  return mm_dtype_out(self, mat2, out_dtype, out);
}

at::Tensor& baddbmm_dtype_out(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                              at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha,
                              at::Tensor& out) {
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1),
              "Expected size for first two dimensions of batch2 tensor to be: [", batch1.size(0), ", ", batch1.size(2),
              "] but got: [", batch2.size(0), ", ", batch2.size(1), "].");
  TORCH_CHECK(batch1.scalar_type() == batch2.scalar_type(), "input dtypes must be the same");
  check_out_dtype(batch1, out_dtype);
  TORCH_CHECK(out.scalar_type() == out_dtype, "out_dtype must be the same as the dtype of the provided out tensor");
  TORCH_CHECK(!self.defined() || self.scalar_type() == out_dtype || self.scalar_type() == batch1.scalar_type(),
              "self dtype must match either out_dtype or batch1 dtype");
  resize_out(out, {batch1.size(0), batch1.size(1), batch2.size(2)}, {}, batch1.options().dtype(out_dtype));
  run({.a = batch1, .b = batch2, .c = self, .out = out, .beta = beta, .alpha = alpha});
  return out;
}
at::Tensor baddbmm_dtype(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                         at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor out = new_empty({0}, out_dtype);
  return baddbmm_dtype_out(self, batch1, batch2, out_dtype, beta, alpha, out);
}
at::Tensor& bmm_dtype_out(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype, at::Tensor& out) {
  return baddbmm_dtype_out({}, self, mat2, out_dtype, 0, 1, out);
}
at::Tensor bmm_dtype(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  at::Tensor out = new_empty({0}, out_dtype);
  return baddbmm_dtype_out({}, self, mat2, out_dtype, 0, 1, out);
}

at::Tensor& addmm_dtype_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                            at::ScalarType out_dtype, const at::Scalar& beta, const at::Scalar& alpha,
                            at::Tensor& out) {
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2 && mat1.size(1) == mat2.size(0),
              "mat1 and mat2 shapes cannot be multiplied");
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(), "mat1 and mat2 must have the same dtype, but got ",
              mat1.scalar_type(), " and ", mat2.scalar_type());
  check_out_dtype(mat1, out_dtype);
  TORCH_CHECK(out.scalar_type() == out_dtype, "out_dtype must be the same as the dtype of the provided out tensor");
  TORCH_CHECK(self.scalar_type() == out_dtype || self.scalar_type() == mat1.scalar_type(),
              "self dtype must match either out_dtype or mat1 dtype");
  resize_out(out, {mat1.size(0), mat2.size(1)}, {}, mat1.options().dtype(out_dtype));
  run({.a = mat1, .b = mat2, .c = self, .out = out, .beta = beta, .alpha = alpha});
  return out;
}
at::Tensor addmm_dtype(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, at::ScalarType out_dtype,
                       const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor out = new_empty({0}, out_dtype);
  return addmm_dtype_out(self, mat1, mat2, out_dtype, beta, alpha, out);
}

// out[i] = sum over k of coefficients[i, k] * input[k]
at::Tensor& _compute_linear_combination_out(const at::Tensor& input, const at::Tensor& coefficients, at::Tensor& out) {
  TORCH_CHECK(input.dim() > 0 && input.numel() > 0, "Empty tensor not supported");
  TORCH_CHECK(coefficients.dim() == 2 && coefficients.size(1) == input.size(0),
              "_compute_linear_combination: expected coefficients of size [n, ", input.size(0), "]");
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes[0] = coefficients.size(0);
  const at::Tensor sums = at::mm(coefficients, input.reshape({input.size(0), -1})).view(sizes);
  resize_out(out, sizes, {}, input.options());
  return out.copy_(sums);
}
at::Tensor _compute_linear_combination(const at::Tensor& input, const at::Tensor& coefficients) {
  at::Tensor out = new_empty({0}, input.scalar_type());
  return _compute_linear_combination_out(input, coefficients, out);
}

at::Tensor& _int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  static constexpr char name[] = "int_mm_out_xpu";
  TORCH_CHECK(self.dim() == 2, name, ": Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(mat2.dim() == 2, name, ": Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(self.size(1) == mat2.size(0), name, ": self.size(1) needs to match mat2.size(0) but got ", self.size(1),
              " and ", mat2.size(0));
  TORCH_CHECK(self.scalar_type() == at::kChar || self.scalar_type() == at::kByte, name,
              ": Expected self dtype to be of type int8 but got ", self.dtype());
  TORCH_CHECK(mat2.scalar_type() == at::kChar, name, ": Expected mat2 dtype to be of type int8 but got ", mat2.dtype());
  TORCH_CHECK(out.scalar_type() == at::kInt, name, ": Expected result dtype to be of type kInt but got ", out.dtype());
  TORCH_CHECK(out.dim() == 2, name, ": Expected result to be of dimension 2 but got ", out.dim());
  TORCH_CHECK(out.size(0) == self.size(0), name, ": Expected result.size(0) to be ", self.size(0), " but got ",
              out.size(0));
  TORCH_CHECK(out.size(1) == mat2.size(1), name, ": Expected result.size(1) to be ", mat2.size(1), " but got ",
              out.size(1));
  TORCH_CHECK(out.is_contiguous(), name, ": Expected result to be contiguous.");
  if (out.numel() == 0) return out;
  if (self.size(1) == 0) return out.zero_();
  serve({.a = self, .b = mat2, .out = out});
  return out;
}
at::Tensor _int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 2,
              "int_mm_out_xpu: Expected both arguments to be of dimension 2 but got ", self.dim(), " and ", mat2.dim());
  at::Tensor out = new_empty({self.size(0), mat2.size(1)}, at::kInt);
  return _int_mm_out(self, mat2, out);
}

// ---- outer product

namespace {

// A number as self is expanded first, and counts as the vectors do.
at::ScalarType addr_type(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2) {
  return c10::promoteTypes(c10::promoteTypes(self.scalar_type(), vec1.scalar_type()), vec2.scalar_type());
}

void check_factor(const at::Scalar& factor, const char* name, at::ScalarType type) {
  TORCH_CHECK(!factor.isBoolean() || type == at::kBool, "Boolean ", name, " only supported for Boolean results.");
  TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type) || factor.isIntegral(true),
              "For integral input tensors, argument ", name, " must not be a floating point number.");
}

}  // namespace

// As torch's CPU kernel: self * beta + (alpha * vec1) * vec2, where a beta of 0 leaves self unread.
at::Tensor& addr_out(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                     const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got ", vec1.dim(), "-D");
  TORCH_CHECK(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
  if (out.is_same(self)) {  // addr_ does not resize
    TORCH_CHECK(self.dim() == 2, "2D tensor expected, got ", self.dim(), "D tensor for input");
    TORCH_CHECK(self.size(0) == vec1.size(0) && self.size(1) == vec2.size(0), "size mismatch, input: ", self.sizes(),
                ", v1: ", vec1.sizes(), ", v2: ", vec2.sizes());
  }
  const auto whole = at::expand_size(self, {vec1.size(0), vec2.size(0)}, "addr");
  const at::ScalarType type = addr_type(self, vec1, vec2);
  check_factor(beta, "beta", type);
  check_factor(alpha, "alpha", type);
  TORCH_CHECK(at::canCast(type, out.scalar_type()), "result type ", type, " can't be cast to the desired output type ",
              out.scalar_type());
  const at::Tensor column = vec1.to(type).unsqueeze(1), row = vec2.to(type);
  resize_as_iterator(out, {*whole, column, row});
  if (type == at::kBool) {
    const at::Tensor product = at::logical_and(column, alpha.to<bool>() ? row : at::zeros_like(row));
    return beta.to<bool>() ? at::logical_or_out(out, *whole, product) : at::logical_or_out(out, product, product);
  }
  if (beta.toComplexDouble() == 0.0) return at::mul_out(out, column.mul(alpha), row);
  const at::Tensor start = whole->to(type);
  if (at::isComplexType(type))
    return at::add_out(out, start.mul(beta), column.mul(alpha).mul(row));  // whole products, by one as well
  return at::addcmul_out(out, beta.equal(1) ? start : start.mul(beta), column, row, alpha);
}

at::Tensor addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha) {
  at::Tensor out = at::empty({0}, self.options().dtype(addr_type(self, vec1, vec2)));
  return addr_out(self, vec1, vec2, beta, alpha, out);
}

}  // namespace xpu_ops::aten
