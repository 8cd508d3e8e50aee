#include "bindings/aten/core/pointwise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ScalarOps.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <c10/core/DynamicCast.h>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/torch_compat.hpp"
#include "kernels/ops/pointwise.hpp"

namespace xpu_ops::aten {
namespace {

// An infinite bound becomes the limit of the integer type.
int64_t saturate(double v, DType t) {
  if (std::isfinite(v)) return static_cast<int64_t>(v);
  const int bits = static_cast<int>(dtype_size(t)) * 8;
  const bool is_unsigned = t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::b8;
  const int64_t high = is_unsigned ? (int64_t{1} << bits) - 1 : static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return v > 0 ? high : is_unsigned ? 0 : -high - 1;
}

// An error where an integer element type cannot hold the number, as from c10::Scalar::to of that type. Infinity is the
// bound that is not there, and becomes the limit of the type.
void check_scalar(const at::Scalar& s, DType t) {
  if (s.isFloatingPoint() && std::isinf(s.toDouble())) return;
  switch (t) {
    case DType::u8: (void)s.to<uint8_t>(); break;
    case DType::i8: (void)s.to<int8_t>(); break;
    case DType::i16: (void)s.to<int16_t>(); break;
    case DType::i32: (void)s.to<int32_t>(); break;
    case DType::i64: (void)s.to<int64_t>(); break;
    case DType::u16: (void)s.to<uint16_t>(); break;
    case DType::u32: (void)s.to<uint32_t>(); break;
    case DType::u64: (void)s.to<uint64_t>(); break;
    default: break;
  }
}

at::Scalar bound(const at::Scalar& s, DType t, bool lower) {
  switch (t) {
    case DType::u8: return clamp_bound<uint8_t>(s, at::kByte, lower);
    case DType::i8: return clamp_bound<int8_t>(s, at::kChar, lower);
    case DType::i16: return clamp_bound<int16_t>(s, at::kShort, lower);
    case DType::i32: return clamp_bound<int32_t>(s, at::kInt, lower);
    case DType::i64: return clamp_bound<int64_t>(s, at::kLong, lower);
    case DType::u16: return clamp_bound<uint16_t>(s, at::kUInt16, lower);
    case DType::u32: return clamp_bound<uint32_t>(s, at::kUInt32, lower);
    case DType::u64: return clamp_bound<uint64_t>(s, at::kUInt64, lower);
    default: return s;
  }
}

Value convert(const at::Scalar& s, DType common, ScalarArg::Kind kind) {
  Value v{};
  if (kind == ScalarArg::highest || kind == ScalarArg::lowest) {
    double limit = std::numeric_limits<double>::infinity();
    switch (common) {
      case DType::f16: limit = 65504.0; break;
      case DType::bf16: limit = 0x1.fep127; break;
      case DType::f32:
      case DType::c64: limit = std::numeric_limits<float>::max(); break;
      case DType::f64:
      case DType::c128: limit = std::numeric_limits<double>::max(); break;
      default: break;
    }
    return convert(at::Scalar(kind == ScalarArg::highest ? limit : -limit), common, ScalarArg::compute);
  }
  if (kind == ScalarArg::boolean) {
    v.i64 = s.to<bool>();
  } else if (kind == ScalarArg::int64) {
    v.i64 = s.to<int64_t>();
  } else {
    switch (common) {
      case DType::f16:
      case DType::bf16:
      case DType::f8e5m2:
      case DType::f8e4m3fn:
      case DType::f8e5m2fnuz:
      case DType::f8e4m3fnuz:
      case DType::f8e8m0fnu:
      case DType::f32: v.f32 = static_cast<float>(s.to<double>()); break;
      case DType::f64: v.f64 = s.to<double>(); break;
      case DType::c32:
      case DType::c64: {
        const auto c = s.to<c10::complex<double>>();
        v.c64[0] = static_cast<float>(c.real());
        v.c64[1] = static_cast<float>(c.imag());
        break;
      }
      case DType::c128: {
        const auto c = s.to<c10::complex<double>>();
        v.c128[0] = c.real();
        v.c128[1] = c.imag();
        break;
      }
      case DType::u64:
        v.i64 = s.isFloatingPoint() && !std::isfinite(s.toDouble()) ? (s.toDouble() > 0 ? -1 : 0)
                                                                    : static_cast<int64_t>(s.to<uint64_t>());
        break;
      default: v.i64 = s.isFloatingPoint() ? saturate(s.toDouble(), common) : s.to<int64_t>();
    }
  }
  return v;
}

}  // namespace

Value to_value(const at::Scalar& s, DType common, ScalarArg::Kind kind) {
  if (kind == ScalarArg::lower || kind == ScalarArg::upper)
    return to_value(bound(s, common, kind == ScalarArg::lower), common, ScalarArg::compute);
  if (kind == ScalarArg::compute) check_scalar(s, common);
  return convert(s, common, kind);
}

namespace {

at::Scalar cpu_scalar(const at::Tensor& t) {
  // A zero-dim CPU tensor: reading it touches no device.
  const at::ScalarType dtype = t.scalar_type();
  const void* p = t.const_data_ptr();
  if (at::isComplexType(dtype)) return c10::fetch_and_cast<c10::complex<double>>(dtype, p);
  if (at::isFloatingType(dtype)) return c10::fetch_and_cast<double>(dtype, p);
  if (dtype == at::kUInt64) return c10::fetch_and_cast<uint64_t>(dtype, p);
  return c10::fetch_and_cast<int64_t>(dtype, p);
}

// A number from 2^63 on beside integers, such as a hash's constant: its bits, as torch's iterators cast it.
at::Scalar wrapped(const at::Scalar& s, DType want) {
  if (s.type() != at::kUInt64 || !at::isIntegralType(static_cast<at::ScalarType>(want), true)) return s;
  return static_cast<int64_t>(s.toUInt64());
}

}  // namespace

Value number_value(const PointwiseOp& op, int k, const at::Tensor& t, DType want) {
  return number_value(op, k, cpu_scalar(t), want);
}

Value number_value(const PointwiseOp& op, int k, const at::Scalar& s, DType want) {
  Value v = convert(wrapped(s, want), want, ScalarArg::compute);
  const bool exact = op.exact && k == 1;
  switch (want) {
    case DType::f16:
      if (!exact) v.f32 = static_cast<at::Half>(v.f32);
      break;
    case DType::bf16:
      if (!exact) v.f32 = static_cast<at::BFloat16>(v.f32);
      break;
    case DType::f8e5m2: v.f32 = static_cast<at::Float8_e5m2>(v.f32); break;
    case DType::f8e4m3fn: v.f32 = static_cast<at::Float8_e4m3fn>(v.f32); break;
    case DType::f8e5m2fnuz: v.f32 = static_cast<at::Float8_e5m2fnuz>(v.f32); break;
    case DType::f8e4m3fnuz: v.f32 = static_cast<at::Float8_e4m3fnuz>(v.f32); break;
    case DType::f8e8m0fnu: v.f32 = static_cast<at::Float8_e8m0fnu>(v.f32); break;
    default: break;
  }
  return v;
}

namespace {

at::ScalarType expected(int8_t type, at::ScalarType common) {
  if (type == kCommon) return common;
  if (type == kReal) return at::isComplexType(common) ? c10::toRealValueType(common) : common;
  if (type == kComplex) return c10::toComplexType(common);
  return static_cast<at::ScalarType>(type);
}

at::ScalarType common_type(at::TensorIteratorBase& it, const PointwiseOp& op) {
  // With an input of a type of its own (where's condition) the iterator does not promote, and what it calls common is
  // the type of whichever operand comes first.
  bool own = false;
  int first = -1;
  for (int k = op.outputs; k < op.outputs + op.inputs; ++k) {
    own = own || op.types[k] >= 0;
    if (op.types[k] == kCommon && first < 0) first = k;
  }
  if (!own || first < 0)
    if (auto t = it.maybe_common_dtype()) return *t;
  return it.dtype(first < 0 ? 0 : first);
}

struct Prepared {
  const PointwiseOp& op;
  at::ScalarType common;
  ops::PointwiseValues values;
  bool immediate[kPointwiseOperands] = {};
};

ops::PointwiseShape shape_of(const Prepared& p, at::TensorIteratorBase& it) {
  const PointwiseOp& op = p.op;
  const int operands = op.outputs + op.inputs;
  ops::PointwiseShape shape;
  shape.ndim = it.ndim();
  shape.operands = operands;
  for (int d = 0; d < shape.ndim; ++d) shape.sizes[d] = static_cast<uint32_t>(it.shape()[d]);
  for (int k = 0; k < operands; ++k) {
    const bool imm = k >= op.outputs && p.immediate[k - op.outputs];
    const auto strides = it.strides(k);
    // An immediate value takes the place of an element of the type that the kernel expects.
    const auto size = static_cast<int64_t>(c10::elementSize(imm ? expected(op.types[k], p.common) : it.dtype(k)));
    shape.element[k] = static_cast<uint8_t>(size);
    shape.immediate[k] = imm;
    for (int d = 0; d < shape.ndim; ++d) shape.strides[d][k] = imm ? 0 : strides[d] / size;
  }
  ops::collapse(shape);
  return shape;
}

// False, and nothing is done, where operands step through the memory of a row and the operator has no kernel for that.
bool launch(const Prepared& p, at::TensorIteratorBase& it, const ops::PointwiseShape& shape) {
  const PointwiseOp& op = p.op;
  const DType t = to_dtype(p.common);
  void* ptr[kPointwiseOperands];
  DType types[kPointwiseOperands];
  for (int k = 0; k < shape.operands; ++k) {
    ptr[k] = it.data_ptr(k);
    types[k] = to_dtype(expected(op.types[k], p.common));
  }
  const host::Kernel& small = op.small[static_cast<int>(t)];
  return ops::pointwise(runtime::current_queue(),
                        {shape, p.values, ptr, types, op.outputs, op.rows, t, small, cost_of(small, t)});
}

void run(at::TensorIteratorBase& it, Prepared& p, bool dense = false);

// The dimension that must not be copied to rows: dimension `inner` of the result, along which its elements are
// neighbours.
struct RowsOf {
  explicit RowsOf(const at::Tensor& result) : like(result) {
    for (int64_t d = 0; d < result.dim(); ++d)
      if (result.size(d) > 1 && result.stride(d) == 1) inner = d;
  }
  bool same(const at::Tensor& t) const {
    for (int64_t d = 0; d < like.dim(); ++d)
      if (like.size(d) > 1 && t.stride(d) != like.stride(d)) return false;
    return true;
  }
  // Rows of any place, or that repeat one element. A smaller element of the result cannot stand in for it.
  bool rows(const at::Tensor& t) const {
    return inner >= 0 && like.size(inner) >= ops::kMinRow && t.stride(inner) <= 1 &&
           t.element_size() <= like.element_size();
  }
  at::Tensor copy(const at::Tensor& t) const {
    return new_strided(like.sizes(), like.strides(), t.scalar_type()).copy_(t);
  }
  at::Tensor like;
  int64_t inner = -1;
};

// A few operators (threshold_) write to memory that elements share, where a copy would raise: the last of them stays.
void store(at::Tensor to, at::Tensor from) {
  for (int64_t d = 0; d < to.dim(); ++d) {
    if (to.stride(d) != 0 || to.size(d) < 2) continue;
    from = from.narrow(d, to.size(d) - 1, 1);
    to = to.narrow(d, 0, 1);
  }
  to.copy_(from);
}

// Builds the iterator again over operands of the expected types and, where `dense`, of rows; of more dims than a launch
// takes, all of the result's layout.
void run_converted(at::TensorIteratorBase& it, Prepared& p, bool dense) {
  const PointwiseOp& op = p.op;
  const bool deep = it.ndim() > kPointwiseDims;
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false).allow_cpu_scalars(true);
  std::vector<at::Tensor> finals(op.outputs), temps(op.outputs);
  for (int k = 0; k < op.outputs; ++k) {
    const at::Tensor out = finals[k] = it.tensor(k);
    const at::ScalarType want = expected(op.types[k], p.common);
    const bool fits = !dense || (k == 0 ? out.is_non_overlapping_and_dense() : RowsOf(temps[0]).same(out));
    temps[k] = fits && out.scalar_type() == want ? out
               : k == 0 || !dense                ? at::empty_like(out, out.options().dtype(want))
                                                 : new_strided(out.sizes(), temps[0].strides(), want);
    config.add_output(temps[k]);
  }
  const RowsOf result(temps[0]);
  for (int k = 0; k < op.inputs; ++k) {
    at::Tensor in = it.tensor(op.outputs + k);
    if (!p.immediate[k]) {
      const at::ScalarType want = expected(op.types[op.outputs + k], p.common);
      if (in.scalar_type() != want) in = in.to(want);
      if (dense) {
        in = in.expand(finals[0].sizes());
        if (!result.same(in) && (deep || !result.rows(in))) in = result.copy(in);
      }
    }
    config.add_owned_const_input(in);
  }
  auto again = config.build();
  run(again, p, dense);
  for (int k = 0; k < op.outputs; ++k)
    if (!temps[k].is_same(finals[k])) store(finals[k], temps[k]);
}

void run(at::TensorIteratorBase& it, Prepared& p, bool dense) {
  ops::PointwiseShape shape = shape_of(p, it);
  const bool small = it.can_use_32bit_indexing();
  if (small ? launch(p, it, shape) : ops::classify(shape) == ops::Layout::rows) {
    if (small) return;
    for (auto& part : it.with_32bit_indexing()) {
      shape = shape_of(p, part);
      TORCH_INTERNAL_ASSERT(launch(p, part, shape), p.op.name, ": a part of rows is not of rows");
    }
  } else {
    TORCH_INTERNAL_ASSERT(!dense, p.op.name, ": operands cannot be laid out as rows");
    run_converted(it, p, true);
  }
}

}  // namespace

void pointwise(at::TensorIteratorBase& it, const PointwiseOp& op, std::initializer_list<ScalarArg> scalars) {
  Prepared p{op, common_type(it, op)};
  const DType t = to_dtype(p.common);
  // As on the CPU, also where there is no element to compute.
  TORCH_CHECK_NOT_IMPLEMENTED(op.rows.has(t), "\"", op.name, "\" not implemented for '", c10::toString(p.common), "'");
  int n = 0;
  for (const ScalarArg& s : scalars) p.values.s[n++] = to_value(s.value, t, s.kind);
  if (it.numel() == 0) return;
  bool convert = false;
  for (int k = 0; k < op.outputs + op.inputs; ++k) {
    const at::ScalarType want = expected(op.types[k], p.common);
    const int i = k - op.outputs;
    if (i >= 0 && i < kPointwiseImmediates && it.is_cpu_scalar(k)) {
      p.immediate[i] = true;
      p.values.imm[i] = number_value(op, i, it.tensor(k), to_dtype(want));
    } else if (it.dtype(k) != want) {
      convert = true;
    }
  }
  const bool deep = it.ndim() > kPointwiseDims;
  if (convert || deep) [[unlikely]]
    run_converted(it, p, deep);
  else
    run(it, p);
}

void resize_as_iterator(const at::Tensor& out, std::initializer_list<at::Tensor> operands) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).set_check_mem_overlap(true).add_owned_output(out);
  for (const at::Tensor& t : operands) config.add_owned_const_input(t);
  config.build();
}

at::Tensor number(const at::Scalar& value) { return at::native::wrapped_scalar_tensor(value); }

at::TensorIterator make_iterator(Promotion promotion, const PointwiseOp& op, std::initializer_list<at::Tensor> outputs,
                                 std::initializer_list<at::Tensor> inputs) {
  c10::SmallVector<at::Tensor, 4> ins(inputs.begin(), inputs.end()), outs(outputs.begin(), outputs.end());
  at::TensorIteratorConfig c;
  c.set_check_mem_overlap(true).allow_cpu_scalars(true);
  if (promotion == Promotion::where) {
    TORCH_CHECK(ins[0].scalar_type() == at::kBool || ins[0].scalar_type() == at::kByte,
                "where expected condition to be a boolean tensor, but got a tensor with dtype ", ins[0].scalar_type());
    if (ins[0].scalar_type() == at::kByte) {
      TORCH_WARN_ONCE(
          "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
          "version of "
          "PyTorch. Use a boolean condition instead.");
      ins[0] = ins[0].to(at::kBool);
    }
    const at::ScalarType common = at::result_type(ins[1], ins[2]);
    TORCH_CHECK(!outs[0].defined() || outs[0].scalar_type() == common, "Expected out type to be ", common, " but got ",
                outs[0].scalar_type());
    for (int k : {1, 2})
      if (ins[k].scalar_type() != common) ins[k] = ins[k].to(common);
    // the iterator takes one number of the CPU; torch.where takes any
    const auto on_device = std::find_if(ins.begin(), ins.end(), [](const at::Tensor& t) { return t.is_xpu(); });
    bool number = false;
    for (at::Tensor& t : ins) {
      if (on_device == ins.end() || !t.is_cpu() || t.dim() != 0) continue;
      if (number) t = t.to(on_device->device());
      number = true;
    }
    // an output without a tensor on the device would land on the CPU
    if (!outs[0].defined()) {
      c.check_all_same_dtype(false).declare_static_dtype(common);
      for (at::Tensor& t : ins)
        if (t.is_xpu()) c.declare_static_device(t.device());
    }
  }
  // Outputs that are not of the common type: the real part of a complex input, an exponent.
  bool other_types = false;
  if (promotion == Promotion::unary || promotion == Promotion::unary_float) {
    at::ScalarType common = ins[0].scalar_type();
    if (promotion == Promotion::unary_float && at::isIntegralType(common, true))
      common = c10::typeMetaToScalarType(at::get_default_dtype());
    for (size_t k = 0; k < outs.size(); ++k) {
      const at::ScalarType want = expected(op.types[k], common);
      if (want == common) continue;
      other_types = true;
      TORCH_CHECK(!outs[k].is_same(ins[0]), "In-place ", op.name, " is not supported for complex tensors.");
      if (!outs[k].defined())
        outs[k] = new_empty({0}, want);  // the iterator resizes it to the layout it would choose itself
      else
        TORCH_CHECK(at::canCast(want, outs[k].scalar_type()), "result type ", want,
                    " can't be cast to the desired output type ", outs[k].scalar_type());
    }
  }
  for (const at::Tensor& t : outs) c.add_owned_output(t);
  for (const at::Tensor& t : ins) c.add_owned_const_input(t);
  switch (promotion) {
    case Promotion::unary: c.check_all_same_dtype(!other_types); break;
    case Promotion::unary_float:
      c.promote_inputs_to_common_dtype(true).promote_integer_inputs_to_float(true);
      if (!other_types) c.cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
      break;
    case Promotion::unary_bool: c.check_all_same_dtype(false).declare_static_dtype(at::kBool); break;
    case Promotion::binary:
    case Promotion::nary:
      c.promote_inputs_to_common_dtype(true).cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
      break;
    case Promotion::binary_float:
      c.promote_inputs_to_common_dtype(true)
          .cast_common_dtype_to_outputs(true)
          .enforce_safe_casting_to_output(true)
          .promote_integer_inputs_to_float(true);
      break;
    case Promotion::comparison: c.promote_inputs_to_common_dtype(true).declare_static_dtype(at::kBool); break;
    case Promotion::where:
    case Promotion::same: c.check_all_same_dtype(false); break;
  }
  return c.build();
}

}  // namespace xpu_ops::aten
