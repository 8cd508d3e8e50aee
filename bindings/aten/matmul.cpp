// Matrix products: oneDNN where it has a fast implementation, own kernels for the rest.
#include <ATen/ExpandUtils.h>
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

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/scalar_bits.hpp"
#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/fused.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/onednn/matmul.hpp"
#include "kernels/ops/copy.hpp"
#include "kernels/ops/matmul.hpp"

namespace xpu_ops::aten {
namespace {

enum class AddmmActivation { none, relu, gelu };

// out = activation(alpha * a @ b + beta * c), all 2-d or all 3-d; c may be undefined and has out's sizes.
struct Product {
  at::Tensor a, b, c, out;
  at::Scalar beta = 0, alpha = 1;
  AddmmActivation activation = AddmmActivation::none;
  bool weight = false;              // b may be a layer's weight: keep it packed
  onednn::MatmulOptions options{};  // how, once that was asked
};

// One of the last two strides is 1 and rows do not overlap, up to dims of size 1.
bool is_plain(const at::Tensor& t) {
  const int64_t d = t.dim(), rows = t.size(d - 2), cols = t.size(d - 1), sr = t.stride(d - 2), sc = t.stride(d - 1);
  const bool row_major = (sc == 1 || cols == 1) && (sr >= cols || rows == 1);
  const bool column_major = (sr == 1 || rows == 1) && (sc >= rows || cols == 1);
  return row_major || column_major;
}
bool is_row_major(const at::Tensor& t) {
  const int64_t d = t.dim();
  return (t.stride(d - 1) == 1 || t.size(d - 1) == 1) && (t.stride(d - 2) >= t.size(d - 1) || t.size(d - 2) == 1);
}
at::Tensor as_plain(const at::Tensor& t) { return is_plain(t) ? t : t.contiguous(); }

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (a.const_data_ptr() == b.const_data_ptr() && a.strides() == b.strides());
}

// As an operand that broadcasts: expanded dims (stride 0) get size 1.
onednn::View broadcast_view(const at::Tensor& t) {
  onednn::View v = view(t);
  for (int i = 0; i < v.ndim; ++i)
    if (v.strides[i] == 0) v.dims[i] = 1;
  int64_t dense = 1;
  for (int i = v.ndim - 1; i >= 0; --i) {
    if (v.dims[i] == 1) v.strides[i] = dense;
    dense = std::max(dense, v.dims[i] * v.strides[i]);
  }
  return v;
}

void add_activation(onednn::PostOps& post, AddmmActivation activation) {
  if (activation == AddmmActivation::relu)
    onednn::append_eltwise(post.ops, onednn::PostOp::eltwise(dnnl::algorithm::eltwise_relu));
  if (activation == AddmmActivation::gelu)
    post.ops.push_back(onednn::PostOp::eltwise(dnnl::algorithm::eltwise_gelu_erf));
}

// One attempt; `c_in_out` says that out holds c already.
bool try_onednn(const Product& p, const at::Tensor& a, const at::Tensor& b, bool c_in_out) {
  using onednn::PostOp;
  onednn::PostOps post;
  onednn::View bias;
  at::Tensor held;  // the operand that post points to
  bool has_bias = false;
  const float alpha = p.alpha.to<float>(), beta = p.c.defined() ? p.beta.to<float>() : 0.f;
  const auto scale = [&](float s) {
    if (s != 1.f) post.ops.push_back(PostOp::eltwise(dnnl::algorithm::eltwise_linear, s, 0.f));
  };
  if (beta == 0.f) {
    scale(alpha);
  } else if (c_in_out) {
    scale(alpha);
    post.ops.push_back(PostOp::sum(beta));
  } else {
    held = p.c;
    onednn::View c = broadcast_view(held);
    has_bias = alpha == 1.f && beta == 1.f;
    for (int i = 0; i + 1 < c.ndim; ++i) has_bias &= c.dims[i] == 1;
    has_bias &= c.strides[c.ndim - 1] == 1;
    if (has_bias) {
      bias = c;
    } else {
      const float ratio = alpha / beta;
      if (!(std::abs(ratio) > 1e-4f && std::abs(ratio) < 1e4f)) return false;
      // Batched, oneDNN takes a binary operand that broadcasts over rows, but not over rows and batch.
      if (c.ndim == 3 && c.dims[0] == 1 && c.dims[1] == 1 && c.dims[2] > 1) {
        held = held.narrow(1, 0, 1).contiguous();
        c = broadcast_view(held);
      }
      scale(ratio);
      post.ops.push_back(PostOp::binary(dnnl::algorithm::binary_add, c));
      scale(beta);
    }
  }
  add_activation(post, p.activation);
  // The kept weight is named by the storage and layout of p.b, not by those of a copy.
  const onednn::MatmulOptions options = same_memory(b, p.b) ? p.options : onednn::MatmulOptions{};
  auto& queue = runtime::current_queue();
  const onednn::View av = view(a), bv = view(b), out = out_view(p.out);
  if (onednn::matmul(queue, av, bv, has_bias ? &bias : nullptr, out, post, options)) return true;
  return options.pack && !options.widen && onednn::matmul(queue, av, bv, has_bias ? &bias : nullptr, out, post, {});
}

bool run_onednn(const Product& p) {
  const at::Tensor a = as_plain(p.a), b = as_plain(p.b);
  const bool with_c = p.c.defined() && !is_zero(p.beta);
  const bool in_place = with_c && same_memory(p.c, p.out);
  if (try_onednn(p, a, b, in_place)) return true;
  if (with_c && !in_place) {
    p.out.copy_(p.c);
    if (try_onednn(p, a, b, true)) return true;
  }
  if (a.is_contiguous() && b.is_contiguous()) return false;
  return try_onednn(p, a.contiguous(), b.contiguous(), with_c);
}

Matrix strides_of(const at::Tensor& t) {
  const int64_t d = t.dim();
  return {d == 3 ? t.stride(0) : 0, t.stride(d - 2), t.stride(d - 1)};
}

// Rows of a and columns of b are contiguous, as where b is a transposed weight.
bool by_dots(const Product& p) {
  const int64_t d = p.a.dim();
  return onednn_float(p.a.scalar_type()) && p.b.stride(d - 2) == 1 && p.b.stride(d - 1) != 1 &&
         (p.a.stride(d - 1) == 1 || p.a.size(d - 1) == 1);
}

bool few_rows(const Product& p, plan::MatmulForm form) {
  const int64_t d = p.out.dim();
  return plan::plan_few_rows(dtype_of(p.a), p.out.size(d - 2), p.out.size(d - 1), form, current_policy());
}

plan::MatmulForm form_of(const Product& p) {
  using Form = plan::MatmulForm;
  if (!current_policy().single_items || !onednn_float(p.a.scalar_type())) return Form::any;
  if (by_dots(p)) return Form::dots;
  return p.b.stride(p.b.dim() - 1) == 1 && few_rows(p, Form::across) ? Form::across : Form::any;
}

void run_kernel(const Product& p) {
  const int64_t d = p.a.dim();
  TORCH_CHECK_NOT_IMPLEMENTED(p.a.scalar_type() != at::kBool, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
  MatmulArgs args{};
  at::Tensor b = p.b;
  const plan::MatmulForm form = form_of(p);
  // Neighbouring items read neighbouring columns: a b that lies the other way costs less to copy than to gather.
  if (form == plan::MatmulForm::any && b.stride(d - 1) != 1 && p.a.size(d - 2) >= 8) b = b.contiguous();
  args.m = p.out.size(d - 2);
  args.n = p.out.size(d - 1);
  args.k = p.a.size(d - 1);
  args.a = p.a.const_data_ptr();
  args.b = b.const_data_ptr();
  args.out = p.out.mutable_data_ptr();
  args.as = strides_of(p.a);
  args.bs = strides_of(b);
  args.os = strides_of(p.out);
  if (p.c.defined() && !is_zero(p.beta)) {
    args.c = p.c.const_data_ptr();
    args.cs = strides_of(p.c);
  }
  put_scalar(args.alpha, p.alpha, p.a.scalar_type());
  put_scalar(args.beta, p.beta, p.a.scalar_type());
  plan::matmul(runtime::current_queue(), dtype_of(p.a), args, d == 3 ? p.out.size(0) : 1, form);
}

bool is_small(const Product& p) {
  const int64_t d = p.a.dim();
  if (!onednn_float(p.a.scalar_type()) || p.out.scalar_type() != p.a.scalar_type()) return false;
  const plan::MatmulForm form = form_of(p);
  if (few_rows(p, form)) return true;
  return (form == plan::MatmulForm::dots || p.b.stride(d - 1) == 1) &&
         plan::plan_small_matmul(p.out.numel(), p.a.size(d - 1), current_policy());
}

void activate(const at::Tensor& t, AddmmActivation activation) {
  if (activation == AddmmActivation::relu) t.relu_();
  if (activation == AddmmActivation::gelu) at::gelu_(const_cast<at::Tensor&>(t));
}

void run(Product p) {
  if (p.activation == AddmmActivation::gelu && p.out.scalar_type() == at::kHalf) {  // onednn::keeps_special_values
    p.activation = AddmmActivation::none;
    run(p);
    return activate(p.out, AddmmActivation::gelu);
  }
  const int64_t d = p.out.dim();
  if (p.c.defined()) p.c = p.c.expand(p.out.sizes());
  if (p.out.numel() == 0) return;
  if (p.a.size(d - 1) == 0) {
    if (!p.c.defined() || is_zero(p.beta)) {
      p.out.zero_();
    } else {
      at::Tensor out = p.out;
      at::mul_out(out, p.c, at::scalar_tensor(p.beta, p.out.options().device(at::kCPU)));
    }
    return activate(p.out, p.activation);
  }
  const bool complex = p.a.is_complex();
  if (complex) {
    p.a = p.a.resolve_conj().resolve_neg();
    p.b = p.b.resolve_conj().resolve_neg();
    if (p.c.defined()) p.c = p.c.resolve_conj().resolve_neg();
  }
  // An output in an odd layout, or one that only pretends to hold its values, is computed aside.
  const bool lazy = p.out.is_conj() || p.out.is_neg();
  const bool aside =
      lazy || p.out.is_same(p.a) || p.out.is_same(p.b) || (onednn_float(p.a.scalar_type()) && !is_row_major(p.out));
  if (aside && !lazy && d == 2 && p.out.stride(0) == 1 && p.out.stride(1) >= p.out.size(0) && !p.out.is_same(p.a) &&
      !p.out.is_same(p.b)) {
    // A column-major result is the transpose of a row-major one.
    Product t = p;
    t.a = p.b.t();
    t.b = p.a.t();
    t.out = p.out.t();
    if (p.c.defined()) t.c = p.c.t();
    t.weight = false;
    return run(t);
  }
  if (aside) {
    Product t = p;
    t.out = new_empty(p.out.sizes(), p.out.scalar_type());
    run(t);
    p.out.copy_(t.out);
    return;
  }
  if (is_small(p)) {
    run_kernel(p);
    return activate(p.out, p.activation);
  }
  if (onednn_float(p.a.scalar_type())) {
    if (p.weight) p.options = weight_options(p.b, p.a.size(0));
    p.weight = false;
    if (run_onednn(p)) return;
    if (p.a.scalar_type() != at::kFloat) {  // a device that does not compute in this type
      Product f = p;
      f.a = p.a.to(at::kFloat);
      if (p.c.defined()) f.c = p.c.to(at::kFloat);
      f.out = new_empty(p.out.sizes(), at::kFloat);
      f.options.widen = plan::cast_to_float;  // a weight is converted when it is packed, not at each call
      bool done = p.options.pack && run_onednn(f);
      if (!done) {
        f.b = p.b.to(at::kFloat);
        f.options = {};
        done = run_onednn(f);
      }
      if (done) {
        p.out.copy_(f.out);
        return;
      }
    }
    TORCH_CHECK(p.out.scalar_type() == p.a.scalar_type(), "matmul: no kernel for ", p.a.scalar_type(), " into ",
                p.out.scalar_type());
  }
  run_kernel(p);
  activate(p.out, p.activation);
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
  run({.a = self, .b = mat2, .out = out, .weight = mat2.stride(0) == 1});
}

void bmm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "expected scalar type ", self.scalar_type(), " but found ",
              mat2.scalar_type());
  run({.a = self, .b = mat2, .out = out});
}

void addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
           const at::Scalar& alpha, const at::Tensor& out) {
  check_types("m1 and m2", mat1, mat2);
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
       .activation = use_gelu ? AddmmActivation::gelu : AddmmActivation::relu,
       .weight = mat2.stride(0) == 1});
}

void baddbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, const at::Scalar& beta,
             const at::Scalar& alpha, const at::Tensor& out) {
  TORCH_CHECK(batch1.scalar_type() == batch2.scalar_type(), "expected scalar type ", batch1.scalar_type(),
              " but found ", batch2.scalar_type());
  run({.a = batch1, .b = batch2, .c = self, .out = out, .beta = beta, .alpha = alpha});
}

void addmv(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
           const at::Scalar& alpha, const at::Tensor& out) {
  TORCH_CHECK(mat.scalar_type() == vec.scalar_type(), "expected scalar type ", mat.scalar_type(), " but found ",
              vec.scalar_type());
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
  DotArgs args{};
  args.a = x.const_data_ptr();
  args.b = y.const_data_ptr();
  args.out = out.mutable_data_ptr();
  args.a_stride = x.stride(0);
  args.b_stride = y.stride(0);
  TORCH_CHECK(x.numel() < (int64_t{1} << 31), name, ": 2^31 or more elements are not supported");
  args.n = x.numel();
  args.conj = conj;
  plan::dot(runtime::current_queue(), dtype_of(x), args);
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
  const at::Tensor a = as_plain(self), b = as_plain(mat2);
  auto& queue = runtime::current_queue();
  if (onednn::matmul(queue, view(a), view(b), nullptr, out_view(out))) return out;
  run_kernel({.a = self.to(at::kInt), .b = mat2.to(at::kInt), .out = out});
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
  return at::addcmul_out(out, beta.equal(1) ? start : start.mul(beta), column, row, alpha);
}

at::Tensor addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha) {
  at::Tensor out = at::empty({0}, self.options().dtype(addr_type(self, vec1, vec2)));
  return addr_out(self, vec1, vec2, beta, alpha, out);
}

}  // namespace xpu_ops::aten
