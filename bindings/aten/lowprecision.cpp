// Products with scaled 8-bit and 4-bit operands.
#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "bindings/aten/blockscale.hpp"
#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/fused.hpp"
#include "bindings/aten/onednn.hpp"
#include "kernels/ops/lowprecision.hpp"
#include "kernels/products/run.hpp"

namespace xpu_ops::aten {
namespace {

using Scaling = std::pair<std::string, at::Tensor>;

// out = wide_a @ wide_b through the post-ops, in bf16 where `narrow` says that it holds the operands, or in float32.
void multiply(const at::Tensor& a, const at::Tensor& b, const Chain& chain, bool narrow, const at::Tensor& out) {
  const auto product = [&](at::ScalarType type) { return run_matmul(a.to(type), b.to(type), {}, chain, out); };
  if (a.size(1) == 0 || (!(narrow && product(at::kBFloat16)) && !product(at::kFloat)))
    out.copy_(compose_chain(at::mm(a.to(at::kFloat), b.to(at::kFloat)), chain));
}
at::Tensor bias_row(const std::optional<at::Tensor>& bias) {
  return bias && bias->defined() ? bias->reshape({1, -1}).to(at::kFloat).contiguous() : at::Tensor();
}
bool direct(const at::Tensor& out) {
  return out.is_contiguous() && (out.scalar_type() == at::kFloat || out.scalar_type() == at::kBFloat16);
}

}  // namespace

// Every float8 value is a bf16 one, and products are added in float32.
void scaled_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a, const at::Tensor& scale_b,
                    const std::optional<at::Tensor>& bias, const at::Tensor& out) {
  if (out.numel() == 0) return;
  const auto operand = [](const at::Tensor& s) { return s.numel() == 1 ? s.reshape({1, 1}) : s; };
  // A factor a row is no post-op that oneDNN has fast code for: it takes a pass of its own.
  const bool by_row = scale_a.numel() != 1, here = !by_row && direct(out);
  const at::Tensor row = bias_row(bias);
  if (few_rows(a, b, scale_a, scale_b, row, out)) return;
  Chain chain{Scaling("mul", operand(scale_b))};
  if (!by_row) chain.emplace_back(Scaling("mul", operand(scale_a)));
  if (!by_row && row.defined()) chain.emplace_back(Scaling("add", row));
  const at::Tensor result = here ? out : new_empty(out.sizes(), at::kFloat);
  multiply(a, b, chain, true, result);
  if (by_row) {
    result.mul_(scale_a);
    if (row.defined()) result.add_(row);
  }
  if (!here) out.copy_(result);
}

namespace {

void check_matrices(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x", a.size(1),
              " and ", b.size(0), "x", b.size(1), ")");
}

void check_bias(const at::Tensor& b, const std::optional<at::Tensor>& bias) {
  TORCH_CHECK(!bias || !bias->defined() || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ",
              bias->numel());
}

// Whether the scales are one for each operand, or one per row of a and one per column of b.
bool tensor_wise(const at::Tensor& sa, const at::Tensor& sb) { return sa.numel() == 1 && sb.numel() == 1; }
bool row_wise(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sa, const at::Tensor& sb) {
  return sa.dim() == 2 && sb.dim() == 2 && sa.size(0) == a.size(0) && sa.size(1) == 1 && sb.size(0) == 1 &&
         sb.size(1) == b.size(1) && sa.is_contiguous() && sb.is_contiguous();
}

}  // namespace

void block_product(const Operands& x, const std::optional<at::Tensor>& bias, const at::Tensor& out) {
  if (out.numel() == 0) return;
  if (x.a.size(1) == 0) return out.zero_(), void();
  const at::Tensor row = bias_row(bias);
  if (few_rows(x, row, out)) return;
  const at::Tensor factor =
      x.factor[0].defined() ? at::mul(x.factor[0].reshape({}), x.factor[1].reshape({})) : at::Tensor();
  const bool whole = out.is_contiguous() && out.scalar_type() == at::kFloat;
  if (const at::Tensor sum = whole ? out : new_empty(out.sizes(), at::kFloat); few_rows(x, sum)) {
    if (factor.defined()) sum.mul_(factor);
    if (row.defined()) sum.add_(row);
    if (!whole) out.copy_(sum);
    return;
  }
  Chain chain;
  if (factor.defined()) chain.emplace_back(Scaling("mul", factor.reshape({1, 1})));
  if (row.defined()) chain.emplace_back(Scaling("add", row));
  const bool slim = narrow(x.scale_a) && narrow(x.scale_b) && current_policy().products16;
  const auto type = slim ? at::kBFloat16 : at::kFloat;
  const at::Tensor result = direct(out) ? out : new_empty(out.sizes(), at::kFloat);
  multiply(widened(x.a, x.scale_a, type), widened(x.b, x.scale_b, type).t(), chain, slim, result);
  if (!result.is_same(out)) out.copy_(result);
}

void check_block_product(const at::Tensor& a, const at::Tensor& b, int64_t per_element, bool use_fast_accum,
                         const std::optional<at::Tensor>& bias, at::ScalarType out) {
  const int64_t k = a.size(1) * per_element, n = b.size(1);
  TORCH_CHECK_VALUE(k % 16 == 0, "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (",
                    a.size(0), "x", k, ").");
  TORCH_CHECK_VALUE(n % 16 == 0, "mat2 shape (", k, "x", n, ") must be divisible by 16");
  TORCH_CHECK_VALUE(!use_fast_accum || !(is_float4(a.scalar_type()) || is_float4(b.scalar_type())),
                    "`use_fast_accum` is not supported when `mat_a` or `mat_b` tensors have the `Float4_e2m1fn_x2` "
                    "dtype.");
  TORCH_CHECK_VALUE(!bias || !bias->defined() || onednn_float(bias->scalar_type()),
                    "Bias must be Float32 or BFloat16 or Half, but got ", bias->scalar_type());
  TORCH_CHECK_VALUE(onednn_float(out) || is_float8(out), "Expected an output of a floating type, but got ", out);
}

// scale_result is not applied, as on the CPU.
at::Tensor& _scaled_mm_out(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                           const at::Tensor& scale_b, const std::optional<at::Tensor>& bias,
                           const std::optional<at::Tensor>& scale_result, std::optional<at::ScalarType> out_dtype,
                           bool use_fast_accum, at::Tensor& out) {
  check_matrices(self, mat2);
  const bool by_tensor_or_row = is_float8(self.scalar_type()) && is_float8(mat2.scalar_type()) &&
                                scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat &&
                                (tensor_wise(scale_a, scale_b) || row_wise(self, mat2, scale_a, scale_b));
  const auto blocks = by_tensor_or_row ? std::nullopt : block_operands(self, mat2, scale_a, scale_b);
  TORCH_CHECK_VALUE(by_tensor_or_row || blocks, invalid_scaling(self, mat2, scale_a, scale_b));
  check_bias(mat2, bias);
  TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(), "out_dtype must match output matrix type");
  if (blocks) check_block_product(self, mat2, 1, use_fast_accum, bias, out.scalar_type());
  resize_out(out, {self.size(0), mat2.size(1)}, {}, out.options());
  if (blocks)
    block_product(*blocks, bias, out);
  else
    scaled_product(self, mat2, scale_a, scale_b, bias, out);
  return out;
}

at::Tensor _scaled_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                      const at::Tensor& scale_b, const std::optional<at::Tensor>& bias,
                      const std::optional<at::Tensor>& scale_result, std::optional<at::ScalarType> out_dtype,
                      bool use_fast_accum) {
  at::Tensor out = new_empty({0}, out_dtype.value_or(self.scalar_type()));
  return _scaled_mm_out(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, out);
}

at::Tensor& _scaled_mm_v2_out(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                              at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                              at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                              const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype,
                              at::IntArrayRef contraction_dim, bool use_fast_accum, at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      contraction_dim.empty() || (contraction_dim.size() == 2 && contraction_dim[0] == 1 && contraction_dim[1] == 0),
      "_scaled_mm_v2: only the contraction of a's columns with b's rows is supported on xpu");
  check_matrices(self, mat2);
  TORCH_CHECK_VALUE(!scale_a.empty() && !scale_b.empty(), "_scaled_mm_v2: both operands need a scale");
  const auto all = [&](Recipe r) {
    const auto one = [r](at::IntArrayRef recipe) { return recipe.size() == 1 && recipe[0] == static_cast<int64_t>(r); };
    return scale_a.size() == 1 && scale_b.size() == 1 && one(recipe_a) && one(recipe_b);
  };
  if (all(Recipe::tensor) || all(Recipe::row)) {
    for (const int64_t s : {swizzle_a.empty() ? 0 : swizzle_a[0], swizzle_b.empty() ? 0 : swizzle_b[0]})
      TORCH_CHECK_NOT_IMPLEMENTED(s == 0, "_scaled_mm_v2: float32 scales are not swizzled");
    at::Tensor sa = scale_a[0], sb = scale_b[0];
    if (all(Recipe::row)) {
      if (sa.numel() == self.size(0)) sa = sa.reshape({-1, 1});
      if (sb.numel() == mat2.size(1)) sb = sb.reshape({1, -1});
      TORCH_CHECK_VALUE(row_wise(self, mat2, sa, sb), invalid_scaling(self, mat2, scale_a[0], scale_b[0]));
    }
    return _scaled_mm_out(self, mat2, sa, sb, bias, std::nullopt, out_dtype, use_fast_accum, out);
  }
  const Operands operands = named_operands(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b);
  check_bias(mat2, bias);
  TORCH_CHECK_VALUE(!out_dtype || *out_dtype == out.scalar_type(), "out_dtype must match output matrix type");
  check_block_product(self, mat2, is_float4(self.scalar_type()) ? 2 : 1, use_fast_accum, bias, out.scalar_type());
  resize_out(out, {self.size(0), mat2.size(1)}, {}, out.options());
  block_product(operands, bias, out);
  return out;
}

at::Tensor _scaled_mm_v2(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                         at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                         at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, const std::optional<at::Tensor>& bias,
                         std::optional<at::ScalarType> out_dtype, at::IntArrayRef contraction_dim,
                         bool use_fast_accum) {
  at::Tensor out = new_empty({0}, out_dtype.value_or(self.scalar_type()));
  return _scaled_mm_v2_out(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype,
                           contraction_dim, use_fast_accum, out);
}

// ---- integer weights of a float product

namespace {

Quantization per_weight(const at::Tensor& values, bool zero_points, int64_t group) {
  Quantization q;
  q.of = Quantization::Of::weights;
  q.zero_points = zero_points;
  q.type = dtype_of(values);
  q.data = const_cast<void*>(values.const_data_ptr());
  if (values.numel() > 1) {
    q.dims = values.sizes().vec();
    q.mask = values.dim() == 2 ? 3 : 2;  // over (k, n), or over n
    if (values.dim() == 2) q.groups = {group, 1};
  }
  return q;
}

// A product of a few rows by an own kernel; zeros only where they have a tensor of their own.
bool few_rows(ops::WeightKind kind, const at::Tensor& a, const at::Tensor& w, int64_t group, const at::Tensor& scale,
              const at::Tensor& zero, const at::Tensor& out) {
  if (a.stride(1) != 1 || std::max({a.size(0), a.size(1), out.size(1)}) > INT32_MAX) return false;
  ops::WeightProblem problem;
  problem.a = a.const_data_ptr();
  problem.w = w.const_data_ptr();
  problem.scale = scale.const_data_ptr();
  problem.zero = zero.defined() ? zero.const_data_ptr() : nullptr;
  problem.out = out.mutable_data_ptr();
  problem.a_row = a.stride(0);
  problem.m = static_cast<uint32_t>(a.size(0));
  problem.n = static_cast<uint32_t>(out.size(1));
  problem.k = static_cast<uint32_t>(a.size(1));
  problem.group = static_cast<uint32_t>(group);
  return ops::weight_product(runtime::current_queue(), kind, dtype_of(a), problem);
}

// Integer weights are turned into the floating type inside the product.
PostOps decompression(const std::vector<Quantization>& quantization) {
  PostOps post;
  post.quantization = quantization;
  post.fpmath = FpMath::any;
  post.fpmath_on_integers = true;
  return post;
}

}  // namespace

at::Tensor _weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales) {
  static constexpr char name[] = "_weight_int8pack_mm_xpu";
  TORCH_CHECK(onednn_float(self.scalar_type()), name, " : expect A to be either 32-bit or 16-bit float tensor.");
  TORCH_CHECK(self.dim() == 2, name, " : expect A to be 2D tensor.");
  TORCH_CHECK(self.stride(1) == 1 || self.size(1) == 1, name, " : A must be contiguous on the last dimension.");
  TORCH_CHECK(mat2.scalar_type() == at::kChar, name, " : expect B to be int8 tensor.");
  TORCH_CHECK(mat2.is_contiguous(), name, " : expect B to be contiguous.");
  TORCH_CHECK(mat2.dim() == 2 && mat2.size(1) == self.size(1), name, " : expect B.size(1) == ", self.size(1));
  const int64_t n = mat2.size(0);
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == n, name, " : expect scales to be 1d tensor with size ", n);
  check_scalar_type(scales, self.scalar_type());
  const at::Tensor out = new_empty({self.size(0), n}, self.scalar_type());
  if (out.numel() == 0) return out;
  if (self.size(1)) {
    const at::Tensor b = mat2.t(), factor = scales.contiguous();
    if (few_rows(ops::WeightKind::int8, self, mat2, 0, factor, {}, out)) return out;
    const auto post = decompression({per_weight(factor, false, 0)});
    if (products::run(runtime::current_queue(),
                      {.a = operand(self), .b = operand(b), .out = out_operand(out), .epilogue = {nullptr, post}}))
      return out;
  }
  return at::mm(self.to(at::kFloat), mat2.t().to(at::kFloat)).mul(scales.to(at::kFloat)).to(self.scalar_type());
}

namespace {

// Bytes of (n, k / 2) packed weights, whichever type and shape carries them.
at::Tensor nibbles(const char* name, const at::Tensor& w, int64_t k) {
  TORCH_CHECK(w.scalar_type() == at::kInt || w.scalar_type() == at::kUInt32 || w.scalar_type() == at::kByte, name,
              " : expect B to be int32 or uint32 or uint8 tensor.");
  TORCH_CHECK(w.is_contiguous() && w.dim() == 2, name, " : expect B to be a contiguous 2D tensor.");
  TORCH_CHECK(w.size(1) * static_cast<int64_t>(w.itemsize()) * 2 == k, name, " : expect B to hold ", k,
              " values per row, got shape ", w.sizes());
  return w;
}

void check_int4(const char* name, const at::Tensor& a, int64_t group) {
  TORCH_CHECK(onednn_float(a.scalar_type()), name, " : expect A to be either 32-bit or 16-bit float tensor.");
  TORCH_CHECK(a.dim() == 2 && a.is_contiguous(), name, " : expect A to be a contiguous 2D tensor.");
  TORCH_CHECK(group == 16 || group == 32 || group == 64 || group == 128 || group == 256, name,
              ": expect qGroupSize to be 16, 32, 64, 128 or 256, got ", group);
  TORCH_CHECK(a.size(1) % group == 0, name, ": expect the groups of ", group, " to divide ", a.size(1));
}

// out += a @ ((q - zero) * scale): scale and zero of (k / group, n), zero of one element or the same.
bool int4_product(const at::Tensor& a, const at::Tensor& packed, int64_t group, const at::Tensor& scale,
                  const at::Tensor& zero, const at::Tensor& out, const at::Tensor& added) {
  PostOps post = decompression({per_weight(scale, false, group), per_weight(zero, true, group)});
  if (added.defined()) post.ops.push_back(PostOp::binary(PostFunction::add, view(added)));
  const products::Operand b{.data = const_cast<void*>(packed.const_data_ptr()),
                            .rows = a.size(1),
                            .cols = packed.size(0),
                            .row_stride = 1,
                            .col_stride = a.size(1)};
  return products::run(runtime::current_queue(),
                       {.a = operand(a), .b = b, .out = out_operand(out), .epilogue = {nullptr, post}, .int4 = true});
}

// The weight itself, (n, k) in float32: what a device without the fast product multiplies with.
at::Tensor int4_weight(const at::Tensor& packed, int64_t k, int64_t group, const at::Tensor& scale,
                       const at::Tensor& zero, const at::Tensor& offset) {
  const int64_t n = packed.size(0);
  const at::Tensor bytes = packed.view(at::kByte);
  const at::Tensor values =
      at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, -1).view({n, k / group, group}).to(at::kFloat);
  const auto by_group = [&](const at::Tensor& t) { return t.to(at::kFloat).t().unsqueeze(-1); };
  at::Tensor w = (values - (zero.numel() == 1 ? zero.to(at::kFloat) : by_group(zero))) * by_group(scale);
  if (offset.defined()) w = w + by_group(offset);
  return w.view({n, k});
}

at::Tensor int4_mm(const at::Tensor& a, const at::Tensor& packed, int64_t group, const at::Tensor& scale,
                   const at::Tensor& zero, const at::Tensor& offset, const at::Tensor& out) {
  const int64_t k = a.size(1);
  if (k == 0) return out.zero_();
  // sum_k a_k * offset_g(k): one small product over the groups' sums.
  at::Tensor added;
  if (offset.defined())
    added = at::mm(a.to(at::kFloat).view({a.size(0), k / group, group}).sum(-1), offset.to(at::kFloat));
  if (int4_product(a, packed, group, scale, zero, out, added)) return out;
  return out.copy_(at::mm(a.to(at::kFloat), int4_weight(packed, k, group, scale, zero, offset).t()));
}

}  // namespace

at::Tensor _convert_weight_to_int4pack(const at::Tensor& self, int64_t innerKTiles) {
  static constexpr char name[] = "_convert_weight_to_int4pack_xpu";
  TORCH_CHECK(self.dim() == 2, name, " : expect weight to be 2D tensor.");
  TORCH_CHECK(self.scalar_type() == at::kByte, name, " : expect weight to be kByte.");
  TORCH_CHECK(innerKTiles == 2 || innerKTiles == 4 || innerKTiles == 8, name,
              " : innerKTiles need to be 2, 4, or 8, got ", innerKTiles);
  TORCH_CHECK(self.size(1) % 4 == 0, "The K dimension of int4 GEMM should be a multiple of 8.");
  return self.clone(at::MemoryFormat::Contiguous).view(at::kInt);
}

// Scales and zeros: (k / group, n, 2) as torch documents it, or (n, k / group, 2) as the upstream kernels of this
// device read it; a square one is taken as documented.
at::Tensor _weight_int4pack_mm(const at::Tensor& self, const at::Tensor& mat2, int64_t qGroupSize,
                               const at::Tensor& qScaleAndZeros) {
  static constexpr char name[] = "_weight_int4pack_mm_xpu";
  check_int4(name, self, qGroupSize);
  const at::Tensor packed = nibbles(name, mat2, self.size(1));
  const int64_t groups = self.size(1) / qGroupSize, n = packed.size(0);
  TORCH_CHECK(qScaleAndZeros.scalar_type() == self.scalar_type(), name, ": expect qScaleAndZeros to be of type ",
              self.scalar_type(), ", got ", qScaleAndZeros.scalar_type());
  const bool documented = qScaleAndZeros.sizes() == at::IntArrayRef({groups, n, 2});
  TORCH_CHECK(documented || qScaleAndZeros.sizes() == at::IntArrayRef({n, groups, 2}), name,
              ": expect qScaleAndZeros to be of shape [", groups, ", ", n, ", 2], got ", qScaleAndZeros.sizes());
  const at::Tensor both = (documented ? qScaleAndZeros : qScaleAndZeros.transpose(0, 1)).contiguous();
  const at::Tensor out = new_empty({self.size(0), n}, self.scalar_type());
  if (out.numel() == 0 || few_rows(ops::WeightKind::int4_pairs, self, packed, qGroupSize, both, {}, out)) return out;
  const at::Tensor middle = new_empty({1}, at::kChar);
  const_cast<at::Tensor&>(middle).fill_(8);
  return int4_mm(self, packed, qGroupSize, both.select(2, 0).contiguous(), middle, both.select(2, 1).contiguous(), out);
}

at::Tensor _weight_int4pack_mm_with_scales_and_zeros(const at::Tensor& self, const at::Tensor& mat2, int64_t qGroupSize,
                                                     const at::Tensor& qScale, const at::Tensor& qZeros) {
  static constexpr char name[] = "_weight_int4pack_mm_with_scales_and_zeros_xpu";
  check_int4(name, self, qGroupSize);
  const at::Tensor packed = nibbles(name, mat2, self.size(1));
  const int64_t groups = self.size(1) / qGroupSize, n = packed.size(0);
  for (const at::Tensor* t : {&qScale, &qZeros})
    TORCH_CHECK(t->sizes() == at::IntArrayRef({groups, n}), name, ": expect qScale and qZeros to be of shape [", groups,
                ", ", n, "], got ", t->sizes());
  TORCH_CHECK(qZeros.scalar_type() == at::kChar || qZeros.scalar_type() == at::kByte, name,
              ": expect qZeros to be int8, got ", qZeros.scalar_type());
  const at::Tensor scale = qScale.contiguous(), zeros = qZeros.contiguous();
  const at::Tensor out = new_empty({self.size(0), n}, self.scalar_type());
  const bool typed = scale.scalar_type() == self.scalar_type() && zeros.scalar_type() == at::kChar;
  if (out.numel() == 0 || (typed && few_rows(ops::WeightKind::int4_zeros, self, packed, qGroupSize, scale, zeros, out)))
    return out;
  return int4_mm(self, packed, qGroupSize, scale, zeros, {}, out);
}

}  // namespace xpu_ops::aten
