// Adapters of the reductions.
#include "bindings/aten/reduction.hpp"

#include <cmath>

#include <ATen/AccumulateType.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/all.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/logsumexp_native.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <c10/core/DefaultDtype.h>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/torch_compat.hpp"
#include "gen/aten/reduction_ops.hpp"
#include "gen/kernels/reduction_kernels.hpp"

namespace xpu_ops::aten {
namespace {

using runtime::KernelTable2;

DimMask one_dim(int64_t dim, int64_t ndim) {
  DimMask mask;
  mask[at::maybe_wrap_dim(dim, ndim)] = true;
  return ndim == 0 ? DimMask() : mask;
}

DimMask every_dim(int64_t ndim) { return at::native::make_dim_mask(std::nullopt, ndim); }

// `self` as the kernels take it: cast to the result's type where there is no kernel from its own.
at::Tensor as_input(const at::Tensor& self, const KernelTable2& table, at::ScalarType out) {
  return table.has(dtype_of(self), to_dtype(out)) ? self : self.to(out);
}

// The same for a norm, which of complex numbers is real, and that of their magnitudes.
at::Tensor as_norm_input(const at::Tensor& self, const KernelTable2& table, at::ScalarType out) {
  if (!self.is_complex() || table.has(dtype_of(self), to_dtype(out))) return as_input(self, table, out);
  const at::ScalarType type = at::toComplexType(out);
  return as_input(table.has(to_dtype(type), to_dtype(out)) ? self.to(type) : at::abs(self.to(type)), table, out);
}

#define REDUCE2(NAME, AS_INPUT, SELF, OUT, MASK, ...)                                              \
  do {                                                                                             \
    const at::Tensor in_ = AS_INPUT(SELF, kernels::reduce_##NAME##_row, (OUT).scalar_type());      \
    reduce(in_, MASK, OUT, at::Tensor(),                                                           \
           XPU_OPS_REDUCTION2(NAME, dtype_of(in_), to_dtype((OUT).scalar_type())), ##__VA_ARGS__); \
  } while (false)
#define REDUCE(NAME, SELF, MASK, OUT0, OUT1, ...) \
  reduce(SELF, MASK, OUT0, OUT1, XPU_OPS_REDUCTION(NAME, dtype_of(SELF)), ##__VA_ARGS__)

constexpr const char* kEmptyFull =
    "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
    "argument.";

// The result of an operator without a structured meta: resized as torch resizes `out`.
void shape_result(const char* name, const at::Tensor& out, const at::Tensor& self, DimMask mask, bool keepdim,
                  at::ScalarType dtype) {
  TORCH_CHECK(out.scalar_type() == dtype, name, ": provided dtype must match dtype of result. Got ",
              toString(out.scalar_type()), " and ", toString(dtype), ".");
  at::native::resize_output(out, reduced_sizes(self, mask, keepdim));
}

}  // namespace

// ---- sums and products
namespace {
// Integers narrower than 64 bits wrap, whether at each step or at the end; of bool any number but zero is true.
bool narrow_integer(const at::Tensor& out) {
  return at::isIntegralType(out.scalar_type(), /*includeBool=*/true) && out.scalar_type() != at::kLong;
}

#define REDUCE_NUMBERS(NAME, SELF, MASK, OUT)                               \
  do {                                                                      \
    if (narrow_integer(OUT)) {                                              \
      const at::Tensor wide_ = new_empty((OUT).sizes(), at::kLong);         \
      REDUCE2(NAME, as_input, (SELF).to((OUT).scalar_type()), wide_, MASK); \
      (OUT).copy_(wide_);                                                   \
    } else {                                                                \
      REDUCE2(NAME, as_input, SELF, OUT, MASK);                             \
    }                                                                       \
  } while (false)
}  // namespace

void sum_dim_IntList(const at::Tensor& self, at::OptionalIntArrayRef dim, bool, std::optional<at::ScalarType>,
                     const at::Tensor& out) {
  REDUCE_NUMBERS(sum, self, dim_mask(dim, self.dim()), out);
}

bool sum_line(const at::Tensor& in, int64_t count, int64_t stride, const at::Tensor& out) {
  if (!kernels::reduce_sum_row.has(dtype_of(in), dtype_of(out))) return false;
  reduce_line(in, count, stride, out, XPU_OPS_REDUCTION2(sum, dtype_of(in), dtype_of(out)));
  return true;
}

void mean_impl(const at::Tensor& self, at::OptionalIntArrayRef dim, bool, std::optional<at::ScalarType>,
               const at::Tensor& out) {
  TORCH_CHECK(at::isFloatingType(out.scalar_type()) || at::isComplexType(out.scalar_type()),
              "result type Float can't be cast to the desired output type ", out.scalar_type());
  const DimMask mask = dim_mask(dim, self.dim());
  if (!at::isComplexType(out.scalar_type()) || out.scalar_type() == at::kComplexHalf) {
    REDUCE2(sum, as_input, self, out, mask, ReductionOptions{.flags = kDivideByCount});
    return;
  }
  // As torch, by a complex number: an infinite part makes the other NaN.
  REDUCE2(sum, as_input, self, out, mask);
  if (out.numel() > 0) out.div_(self.numel() / out.numel());
}

at::Tensor& nansum_out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                       std::optional<at::ScalarType> dtype, at::Tensor& out) {
  if (at::isIntegralType(self.scalar_type(), /*includeBool=*/true)) return at::sum_out(out, self, dim, keepdim, dtype);
  const DimMask mask = dim_mask(dim, self.dim());
  shape_result("nansum", out, self, mask, keepdim, dtype.value_or(out.scalar_type()));
  if (at::isIntegralType(out.scalar_type(), true)) {
    TORCH_CHECK_NOT_IMPLEMENTED(dtype, "\"nansum\" not implemented for '", out.scalar_type(), "'");
    return at::sum_out(out, self.masked_fill(self.isnan(), 0), dim, keepdim, out.scalar_type());
  }
  REDUCE2(nansum, as_input, self, out, mask);
  return out;
}

at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                  std::optional<at::ScalarType> dtype) {
  at::Tensor out = new_empty({0}, at::native::get_dtype_from_self(self, dtype, /*promote_integers=*/true));
  return nansum_out(self, dim, keepdim, dtype, out);
}

void prod_dim_int(const at::Tensor& self, int64_t dim, bool, std::optional<at::ScalarType>, const at::Tensor& out) {
  REDUCE_NUMBERS(prod, self, one_dim(dim, self.dim()), out);
}

at::Tensor prod(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  const at::Tensor out = new_empty({}, at::native::get_dtype_from_self(self, dtype, /*promote_integers=*/true));
  REDUCE_NUMBERS(prod, self, every_dim(self.dim()), out);
  return out;
}

// ---- extrema
void amax(const at::Tensor& self, at::IntArrayRef dim, bool, const at::Tensor& out) {
  REDUCE(amax, self, dim_mask(dim, self.dim()), out, at::Tensor());
}

void amin(const at::Tensor& self, at::IntArrayRef dim, bool, const at::Tensor& out) {
  REDUCE(amin, self, dim_mask(dim, self.dim()), out, at::Tensor());
}

void aminmax(const at::Tensor& self, std::optional<int64_t> dim, bool, const at::Tensor& min, const at::Tensor& max) {
  REDUCE(aminmax, self, dim ? one_dim(*dim, self.dim()) : every_dim(self.dim()), min, max);
}

std::tuple<at::Tensor, at::Tensor> _aminmax(const at::Tensor& self) {
  TORCH_WARN_ONCE("_aminmax is deprecated and will be removed in a future PyTorch release. Use aminmax instead.");
  return at::aminmax(self);
}

std::tuple<at::Tensor, at::Tensor> _aminmax_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
  TORCH_WARN_ONCE("_aminmax is deprecated and will be removed in a future PyTorch release. Use aminmax instead.");
  return at::aminmax(self, dim, keepdim);
}

void argmax(const at::Tensor& self, std::optional<int64_t> dim, bool, const at::Tensor& out) {
  REDUCE(argmax, self, dim ? one_dim(*dim, self.dim()) : every_dim(self.dim()), at::Tensor(), out,
         ReductionOptions{.ordered = true});
}

void argmin(const at::Tensor& self, std::optional<int64_t> dim, bool, const at::Tensor& out) {
  REDUCE(argmin, self, dim ? one_dim(*dim, self.dim()) : every_dim(self.dim()), at::Tensor(), out,
         ReductionOptions{.ordered = true});
}

void max_dim(const at::Tensor& self, int64_t dim, bool, const at::Tensor& values, const at::Tensor& indices) {
  REDUCE(argmax, self, one_dim(dim, self.dim()), values, indices, ReductionOptions{.ordered = true});
}

void min_dim(const at::Tensor& self, int64_t dim, bool, const at::Tensor& values, const at::Tensor& indices) {
  REDUCE(argmin, self, one_dim(dim, self.dim()), values, indices, ReductionOptions{.ordered = true});
}

at::Tensor max_full(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "max", kEmptyFull);
  const at::Tensor out = new_empty({}, self.scalar_type());
  REDUCE(amax, self, every_dim(self.dim()), out, at::Tensor());
  return out;
}

at::Tensor min_full(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "min", kEmptyFull);
  const at::Tensor out = new_empty({}, self.scalar_type());
  REDUCE(amin, self, every_dim(self.dim()), out, at::Tensor());
  return out;
}

namespace {
at::Tensor& full_into(const at::Tensor& self, at::Tensor& out, at::Tensor (*full)(const at::Tensor&)) {
  check_same_device(out, self);
  TORCH_CHECK(at::canCast(self.scalar_type(), out.scalar_type()), "result type ", self.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, {});
  return out.copy_(full(self));
}
}  // namespace

at::Tensor& max_unary_out(const at::Tensor& self, at::Tensor& out) { return full_into(self, out, max_full); }
at::Tensor& min_unary_out(const at::Tensor& self, at::Tensor& out) { return full_into(self, out, min_full); }

// ---- truth
namespace {
// The elements as unsigned integers of their size, and which of their bits tell them from zero.
struct Bits {
  DType type;
  uint64_t mask;
};
Bits bits_of(const char* label, const at::Tensor& self) {
  switch (dtype_of(self)) {
    case DType::b8:
    case DType::u8:
    case DType::i8:
    case DType::f8e5m2fnuz:
    case DType::f8e4m3fnuz: return {DType::u8, 0xff};
    case DType::f8e5m2:
    case DType::f8e4m3fn: return {DType::u8, 0x7f};
    case DType::u16:
    case DType::i16: return {DType::u16, 0xffff};
    case DType::u32:
    case DType::i32: return {DType::u32, 0xffffffff};
    case DType::u64:
    case DType::i64: return {DType::u64, ~uint64_t{0}};
    case DType::f16:
    case DType::bf16: return {DType::u16, 0x7fff};
    case DType::f32: return {DType::u32, 0x7fffffff};
    case DType::f64: return {DType::u64, ~uint64_t{0} >> 1};
    case DType::c32: return {DType::u32, 0x7fff7fff};
    case DType::c64: return {DType::u64, 0x7fffffff7fffffff};
    case DType::c128: return {DType::c128, 1};
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, "\"", label, "\" not implemented for '", self.scalar_type(), "'");
  }
}

void truth(const at::Tensor& self, DimMask mask, const at::Tensor& out, bool all) {
  const Bits bits = bits_of(all ? "all_cpu" : "any_cpu", self);
  reduce(self, mask, out, at::Tensor(), XPU_OPS_REDUCTION(any, bits.type),
         ReductionOptions{.bits = bits.mask, .flags = all ? kAllOf : 0});
}

void count_nonzero(const at::Tensor& self, DimMask mask, const at::Tensor& out) {
  const Bits bits = bits_of("nonzero_count_cpu", self);
  reduce(self, mask, out, at::Tensor(), XPU_OPS_REDUCTION(count_nonzero, bits.type),
         ReductionOptions{.bits = bits.mask});
}

// An empty list keeps every dimension, unlike in other reductions.
DimMask listed_dims(at::OptionalIntArrayRef dim, int64_t ndim) {
  return at::native::make_dim_mask(dim, ndim, /*allow_empty_dims=*/true);
}
}  // namespace

void all_dim(const at::Tensor& self, int64_t dim, bool, const at::Tensor& out) {
  truth(self, one_dim(dim, self.dim()), out, true);
}
void all_dims(const at::Tensor& self, at::OptionalIntArrayRef dim, bool, const at::Tensor& out) {
  truth(self, listed_dims(dim, self.dim()), out, true);
}
void all_full(const at::Tensor& self, const at::Tensor& out) { truth(self, every_dim(self.dim()), out, true); }
void any_dim(const at::Tensor& self, int64_t dim, bool, const at::Tensor& out) {
  truth(self, one_dim(dim, self.dim()), out, false);
}
void any_dims(const at::Tensor& self, at::OptionalIntArrayRef dim, bool, const at::Tensor& out) {
  truth(self, listed_dims(dim, self.dim()), out, false);
}
void any_full(const at::Tensor& self, const at::Tensor& out) { truth(self, every_dim(self.dim()), out, false); }

at::Tensor count_nonzero_dim_IntList(const at::Tensor& self, at::IntArrayRef dim) {
  const DimMask mask = dim_mask(dim, self.dim());
  const at::Tensor out = new_empty(reduced_sizes(self, mask, false), at::kLong);
  count_nonzero(self, mask, out);
  return out;
}

void hash_tensor(const at::Tensor& self, at::IntArrayRef dim, bool, int64_t mode, const at::Tensor& out) {
  TORCH_CHECK(mode == 0, "Unknown hash_tensor mode: ", mode);
  REDUCE(hash, self, dim_mask(dim, self.dim()), out, at::Tensor());
}

namespace {

constexpr int64_t kLookFirst = 1 << 20, kFirst = 1 << 14;  // elements

// Some of the first elements, about kFirst of them.
at::Tensor first_of(at::Tensor t) {
  for (int64_t d = 0; t.numel() > kFirst; ++d)
    t = t.narrow(d, 0, std::max<int64_t>(1, kFirst / (t.numel() / t.size(d))));
  return t;
}

bool equal_elements(const at::Tensor& self, const at::Tensor& other) { return at::eq(self, other).all().item<bool>(); }

}  // namespace

// Large tensors that differ mostly do so from the beginning: a look there spares the rest.
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(),
              " and ", other.device());
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  const bool has_nan = self.is_floating_point() || self.is_complex();  // which is not equal to itself
  if (!has_nan && self.is_alias_of(other) && self.storage_offset() == other.storage_offset() &&
      self.dtype() == other.dtype() && self.strides() == other.strides() && self.is_conj() == other.is_conj() &&
      self.is_neg() == other.is_neg())
    return true;
  if (self.numel() >= kLookFirst && !equal_elements(first_of(self), first_of(other))) return false;
  return equal_elements(self, other);
}

// ---- variance
namespace {
struct VarResult {
  at::Tensor var, mean;  // mean undefined unless wanted
};

VarResult variance(const char* name, const at::Tensor& self, at::OptionalIntArrayRef dim,
                   const std::optional<at::Scalar>& correction, bool keepdim, bool root, bool with_mean,
                   std::optional<at::ScalarType> dtype = std::nullopt) {
  check_variance_type(with_mean ? name : "std and var", self.scalar_type());
  if (self.is_complex()) {
    // The variance of a complex variable is that of its parts, added.
    const VarResult re = variance(name, at::real(self), dim, correction, keepdim, false, with_mean);
    const VarResult im = variance(name, at::imag(self), dim, correction, keepdim, false, with_mean);
    at::Tensor var = at::add(re.var, im.var);
    return {root ? at::sqrt(var) : var, with_mean ? at::complex(re.mean, im.mean) : at::Tensor()};
  }
  const double c = correction.value_or(1).toDouble();
  const DimMask mask = dim_mask(dim, self.dim());
  const at::Tensor in = dtype ? self.to(*dtype) : self;
  const auto sizes = reduced_sizes(self, mask, keepdim);
  VarResult result{new_empty(sizes, in.scalar_type()), with_mean ? new_empty(sizes, in.scalar_type()) : at::Tensor()};
  const int64_t outputs = result.var.numel();
  if ((outputs == 0 ? 0.0 : static_cast<double>(self.numel() / outputs)) - c <= 0)
    TORCH_WARN(name, "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor ",
               "(input numel divided by output numel).");
  if (self.numel() == 0) {  // also where a negative correction leaves degrees of freedom
    result.var.fill_(std::numeric_limits<double>::quiet_NaN());
    if (with_mean) result.mean.fill_(std::numeric_limits<double>::quiet_NaN());
    return result;
  }
  REDUCE(var, in, mask, result.var, result.mean, ReductionOptions{.parameter = c, .flags = root ? kSquareRoot : 0});
  return result;
}

at::Tensor& variance_out(const char* name, const at::Tensor& self, at::OptionalIntArrayRef dim,
                         const std::optional<at::Scalar>& correction, bool keepdim, bool root, at::Tensor& out) {
  check_same_device(out, self);
  const at::ScalarType real = c10::toRealValueType(self.scalar_type());
  TORCH_CHECK(at::canCast(real, out.scalar_type()), "result type ", real, " can't be cast to the desired output type ",
              out.scalar_type());
  const bool wider = !self.is_complex() && at::isFloatingType(out.scalar_type());
  const at::Tensor var = variance(name, self, dim, correction, keepdim, root, false,
                                  wider ? std::optional(out.scalar_type()) : std::nullopt)
                             .var;
  at::native::resize_output(out, var.sizes());
  return out.copy_(var);
}
}  // namespace

at::Tensor std_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                          const std::optional<at::Scalar>& correction, bool keepdim) {
  return variance("std", self, dim, correction, keepdim, true, false).var;
}
at::Tensor var_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                          const std::optional<at::Scalar>& correction, bool keepdim) {
  return variance("var", self, dim, correction, keepdim, false, false).var;
}
at::Tensor& std_correction_out(const at::Tensor& self, at::OptionalIntArrayRef dim,
                               const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& out) {
  return variance_out("std", self, dim, correction, keepdim, true, out);
}
at::Tensor& var_correction_out(const at::Tensor& self, at::OptionalIntArrayRef dim,
                               const std::optional<at::Scalar>& correction, bool keepdim, at::Tensor& out) {
  return variance_out("var", self, dim, correction, keepdim, false, out);
}
std::tuple<at::Tensor, at::Tensor> std_mean_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                                       const std::optional<at::Scalar>& correction, bool keepdim) {
  VarResult r = variance("std_mean", self, dim, correction, keepdim, true, true);
  return {std::move(r.var), std::move(r.mean)};
}
std::tuple<at::Tensor, at::Tensor> var_mean_correction(const at::Tensor& self, at::OptionalIntArrayRef dim,
                                                       const std::optional<at::Scalar>& correction, bool keepdim) {
  VarResult r = variance("var_mean", self, dim, correction, keepdim, false, true);
  return {std::move(r.var), std::move(r.mean)};
}

// ---- norms
void linalg_vector_norm(const at::Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dim, bool,
                        std::optional<at::ScalarType>, const at::Tensor& out) {
  const DimMask mask = dim_mask(dim, self.dim());
  const double p = ord.toDouble();
  if (p != 0 && self.numel() == out.numel() && self.numel() > 0) {  // of one element each, as at::linalg_vector_norm
    out.copy_(self.abs().view(out.sizes()));
  } else if (p == 0) {
    const at::ScalarType type = self.is_complex() ? at::toComplexType(out.scalar_type()) : out.scalar_type();
    const at::Tensor count = new_empty(out.sizes(), at::kLong);
    count_nonzero(self.to(type), mask, count);
    out.copy_(count);
  } else if (p == 1) {
    REDUCE2(norm1, as_norm_input, self, out, mask);
  } else if (p == 2) {
    REDUCE2(norm2, as_norm_input, self, out, mask);
  } else if (std::isinf(p)) {
    if (p > 0)
      REDUCE2(norm_max, as_norm_input, self, out, mask);
    else
      REDUCE2(norm_min, as_norm_input, self, out, mask);
  } else {
    REDUCE2(normp, as_norm_input, self, out, mask, ReductionOptions{.parameter = p});
  }
}

// As upstream's norm: the other operator with all its checks.
void norm_ScalarOpt_dim(const at::Tensor& self, at::OptionalScalarRef p, at::IntArrayRef dim, bool keepdim,
                        const at::Tensor& out) {
  at::Tensor result = out;
  at::linalg_vector_norm_out(result, self, p.has_value() ? p.get() : at::Scalar(2.0), dim, keepdim);
}

void norm_ScalarOpt_dim_dtype(const at::Tensor& self, at::OptionalScalarRef p, at::IntArrayRef dim, bool keepdim,
                              at::ScalarType dtype, const at::Tensor& out) {
  at::Tensor result = out;
  at::linalg_vector_norm_out(result, self, p.has_value() ? p.get() : at::Scalar(2.0), dim, keepdim, dtype);
}

// ---- logsumexp
at::Tensor& logsumexp_out(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, at::Tensor& out) {
  check_same_device(out, self);
  TORCH_CHECK(at::isFloatingType(out.scalar_type()) || at::isComplexType(out.scalar_type()),
              "logsumexp(): Expected floating point type for result tensor, but got: ", out.scalar_type());
  if (self.is_complex() || at::isComplexType(out.scalar_type()))
    return at::native::logsumexp_out(self, dim, keepdim, out);
  const DimMask mask = dim_mask(dim, self.dim());
  const at::Tensor in =
      at::isFloatingType(self.scalar_type()) ? self : self.to(at::typeMetaToScalarType(c10::get_default_dtype()));
  at::native::resize_output(out, reduced_sizes(self, mask, keepdim));
  at::assert_no_internal_overlap(out);
  if (in.scalar_type() == out.scalar_type()) {
    REDUCE(logsumexp, in, mask, out, at::Tensor());
    return out;
  }
  const at::Tensor result = new_empty(out.sizes(), in.scalar_type());
  REDUCE(logsumexp, in, mask, result, at::Tensor());
  return out.copy_(result);
}

at::Tensor logsumexp(const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  at::Tensor out = new_empty({0}, integral ? at::typeMetaToScalarType(c10::get_default_dtype()) : self.scalar_type());
  return logsumexp_out(self, dim, keepdim, out);
}

}  // namespace xpu_ops::aten
