#include "bindings/aten/core/small_dense.hpp"

#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/pointwise.hpp"

namespace xpu_ops::aten {
namespace {

// is_contiguous() says nothing about the strides of dimensions of size 1, which an iterator keeps beside a number.
bool plain_strides(const at::Tensor& t) {
  int64_t expected = 1;
  for (int64_t d = t.dim() - 1; d >= 0; --d) {
    if (t.stride(d) != expected) return false;
    expected *= t.size(d);
  }
  return true;
}

}  // namespace

at::ScalarType SmallDense::operand_type(int k) const {
  return op_.types[k] < 0 ? common_ : static_cast<at::ScalarType>(op_.types[k]);
}

// Unsigned types of more than 8 bits promote beside nothing else.
bool SmallDense::takes(at::ScalarType number) const {
  if (at::isIntegralType(number, /*includeBool=*/false))
    return common_ != at::kBool && !at::isBarebonesUnsignedType(number);
  return at::isFloatingType(number) && at::isFloatingType(common_);
}

SmallDense::SmallDense(const PointwiseOp& op, const at::Tensor* out, std::initializer_list<const at::Tensor*> inputs,
                       const at::Scalar* number)
    : op_(op), scalar_(number) {
  if (op.outputs != 1 || op.types[0] == kComplex || static_cast<size_t>(op.inputs) != inputs.size()) return;
  // Of three operands one may be a number beside a condition; iterators of others refuse it.
  const bool takes_number = op.inputs == 2 || (op.inputs == 3 && op.types[1] >= 0);
  int k = 0;
  for (const at::Tensor* t : inputs) {
    inputs_[k] = t;
    if (!t) {
      number_ = k++;
      continue;
    }
    if (!t->defined()) return;
    if (t->is_xpu()) {
      const int8_t type = op.types[k + 1];
      if (type >= 0 ? t->scalar_type() != static_cast<at::ScalarType>(type) : type != kCommon) return;
      if (type < 0) {
        if (common_ != at::ScalarType::Undefined && common_ != t->scalar_type()) return;
        common_ = t->scalar_type();
      }
      if (!t->is_contiguous()) return;
      if (!shape_)
        shape_ = t;
      else if (t->sizes() != shape_->sizes() || t->device() != shape_->device())
        return;
    } else if (t->is_cpu() && t->dim() == 0 && takes_number && number_ < 0 && op.types[k + 1] == kCommon) {
      number_ = k;
    } else {
      return;
    }
    ++k;
  }
  if (!shape_ || common_ == at::ScalarType::Undefined) return;
  const host::Kernel& kernel = op.small[static_cast<int>(common_)];
  const int64_t n = shape_->numel();
  if (!kernel.run || n == 0 || !runtime::current_queue().small().takes(n * cost_of(kernel, to_dtype(common_)))) return;
  if (number_ >= 0) {
    const at::Tensor* tensor = inputs_[number_];
    if (!takes(tensor ? tensor->scalar_type() : scalar_->type())) return;
    // Of two tensors without dimensions both take part in promotion.
    if (tensor && shape_->dim() == 0 && !tensor->unsafeGetTensorImpl()->is_wrapped_number()) return;
    if (!plain_strides(*shape_)) return;
  }
  if (out) {
    if (!out->defined() || !out->is_xpu() || out->scalar_type() != operand_type(0) || out->sizes() != shape_->sizes() ||
        out->device() != shape_->device() || !out->is_contiguous())
      return;
    // An operand that overlaps with the result must be the result.
    for (k = 0; k < op.inputs; ++k)
      if (k != number_ && inputs_[k]->storage().is_alias_of(out->storage()) &&
          inputs_[k]->const_data_ptr() != out->const_data_ptr())
        return;
  }
  taken_ = true;
}

at::Tensor SmallDense::run(std::initializer_list<ScalarArg> scalars) const {
  at::Tensor out = new_empty(shape_->sizes(), operand_type(0));
  run(out, scalars);
  return out;
}

void SmallDense::run(const at::Tensor& out, std::initializer_list<ScalarArg> scalars) const {
  const DType common = to_dtype(common_);
  ops::DenseCall call(op_.rows, common, op_.small[static_cast<int>(common_)].run, static_cast<uint32_t>(out.numel()));
  int n = 0;
  for (const ScalarArg& s : scalars) call.scalar(n++) = to_value(s.value, common, s.kind);
  call.output(out.mutable_data_ptr(), to_dtype(operand_type(0)));
  for (int k = 0; k < op_.inputs; ++k) {
    const DType type = to_dtype(operand_type(k + 1));
    if (k == number_)
      call.number(inputs_[k] ? number_value(op_, k, *inputs_[k], common) : number_value(op_, k, *scalar_, common),
                  type);
    else
      call.input(inputs_[k]->const_data_ptr(), type);
  }
  call.run(runtime::current_queue());
}

}  // namespace xpu_ops::aten
