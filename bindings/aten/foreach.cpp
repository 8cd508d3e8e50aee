#include "bindings/aten/foreach.hpp"

#include <ATen/NativeFunctions.h>
#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/empty_like.h>

#include "bindings/aten/core/pointwise.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "gen/kernels/foreach_kernels.hpp"
#include "kernels/ops/foreach.hpp"

namespace xpu_ops::aten {

using ops::kForeachLimit;

namespace {

template <int OPERANDS>
void run_pointwise(const ForeachOp& op, at::TensorList outputs, std::initializer_list<ForeachInput> inputs,
                   const ForeachInput& scalar, at::ArrayRef<at::Scalar> scalar_list) {
  const DType type = dtype_of(outputs[0]);
  ops::ForeachProblem p{};
  // A scalar operand lives in the tensor's entry; then the expression's own scalar is shared by all.
  const ForeachInput* immediate = nullptr;
  int k = 0;
  for (const ForeachInput& in : inputs) {
    const bool value = in.kind == ForeachInput::scalar || in.kind == ForeachInput::scalars;
    p.mode[k++] = value ? kImmediate : in.kind == ForeachInput::tensor ? kBroadcast : kElement;
    if (value) immediate = &in;
  }
  p.own_scalar = immediate == nullptr;
  if (immediate) p.shared = to_value(*scalar.value, type, ScalarArg::compute);
  const ForeachInput& own = immediate ? *immediate : scalar;
  Value shared{};
  if (own.kind == ForeachInput::scalar) shared = to_value(*own.value, type, ScalarArg::compute);
  if (own.kind == ForeachInput::scalars) scalar_list = own.values;
  ops::ForeachOperands<OPERANDS> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].numel() == 0) continue;
    auto& t = tensors.add(outputs[i].numel());
    t.ptr[0] = outputs[i].mutable_data_ptr();
    int operand = 1;
    for (const ForeachInput& in : inputs) {
      if (in.kind == ForeachInput::tensors) t.ptr[operand] = const_cast<void*>(in.list[i].const_data_ptr());
      if (in.kind == ForeachInput::tensor) t.ptr[operand] = const_cast<void*>(in.one->const_data_ptr());
      ++operand;
    }
    t.scalar = scalar_list.empty() ? shared : to_value(scalar_list[i], type, ScalarArg::compute);
  }
  ops::foreach_elements(tensors, op.table[type], p);
}

bool small(at::TensorList tensors) {
  for (const at::Tensor& t : tensors)
    if (t.numel() >= kForeachLimit || t.is_neg() || t.is_conj()) return false;
  return true;
}

// Whether the expression computes with the number as the operator of one tensor does: there sums wrap integers that
// their type has not, maxima refuse them, and powers of 16 bits round numbers to these.
bool takes(const ForeachOp& op, DType type, const at::Scalar& s) {
  if (s.isBoolean()) return false;  // sub refuses it
  if (type == DType::f16 || type == DType::bf16) return &op.table != &kernels::foreach_pow_Tensor_Tensor;
  if (!s.isIntegral(/*includeBool=*/false) || (type != DType::i32 && type != DType::i64)) return true;
  if (s.type() == at::kUInt64) return false;  // from 2^63 on
  return type == DType::i64 || s.toLong() == static_cast<int32_t>(s.toLong());
}

// Autograd counts writes of tensors that the schema returns, and a list in place returns nothing: its kernel counts.
void bump_versions(at::TensorList written) {
  for (const at::Tensor& t : written) t.unsafeGetTensorImpl()->bump_version();
}

// Results of a reduction of each tensor, 0-d and of `type`; Value: its accumulator.
template <class Value>
std::vector<at::Tensor> reduce_each(at::TensorList self, at::ScalarType type, runtime::KernelSlot& kernel,
                                    runtime::KernelSlot& final_kernel) {
  std::vector<at::Tensor> result;
  result.reserve(self.size());
  for (size_t i = 0; i < self.size(); ++i) result.push_back(new_empty({}, type));
  ops::ForeachTensors<ForeachTensor<2>> tensors;
  for (size_t i = 0; i < self.size(); ++i) {
    auto& t = tensors.add(self[i].numel());
    t.ptr[0] = result[i].mutable_data_ptr();
    t.ptr[1] = const_cast<void*>(self[i].const_data_ptr());
  }
  ops::reduce_each(tensors, kernel, final_kernel, sizeof(Value));
  return result;
}

}  // namespace

bool foreach_pointwise(const ForeachOp& op, std::initializer_list<ForeachInput> inputs, const ForeachInput& scalar,
                       std::vector<at::Tensor>* result) {
  std::vector<at::TensorList> lists;
  std::vector<at::Scalar> from_tensor, shared;
  at::ArrayRef<at::Scalar> per_tensor;
  bool listed = scalar.kind == ForeachInput::scalars || scalar.kind == ForeachInput::tensor;
  for (const ForeachInput& in : inputs) {
    if (in.kind == ForeachInput::tensors) lists.push_back(in.list);
    if (in.kind == ForeachInput::scalars) per_tensor = in.values;
    listed = listed || in.kind == ForeachInput::scalars;
    if (in.kind == ForeachInput::scalar) shared.push_back(*in.value);
  }
  const at::TensorList first = lists[0];
  if (first.empty() || !first[0].is_xpu()) return false;
  for (const at::TensorList& l : lists)
    if (l.size() != first.size() || !small(l)) return false;
  if (!op.table.has(dtype_of(first[0]))) return false;
  if (scalar.kind == ForeachInput::scalars) per_tensor = scalar.values;
  if (scalar.kind == ForeachInput::scalar) shared.push_back(*scalar.value);
  if (scalar.kind == ForeachInput::tensor) {
    from_tensor = at::native::convert_tensor_to_scalar_list(*scalar.one, static_cast<int64_t>(first.size()));
    per_tensor = from_tensor;
  }
  if (listed && per_tensor.size() != first.size()) return false;
  for (const ForeachInput& in : inputs)
    if (in.kind == ForeachInput::tensor &&
        (!in.one->is_xpu() || in.one->dim() != 0 || in.one->scalar_type() != first[0].scalar_type() ||
         in.one->is_neg() || in.one->is_conj()))
      return false;
  // One list at a time: a list of several is read as a scalar for each tensor.
  if (!at::native::can_use_fast_route(lists, per_tensor, op.promotes)) return false;
  const DType type = dtype_of(first[0]);
  for (const at::Scalar& s : shared)
    if (!takes(op, type, s) || !at::native::can_use_fast_route(lists, s, op.promotes)) return false;
  for (const at::Scalar& s : per_tensor)
    if (!takes(op, type, s)) return false;
  std::vector<at::Tensor> outputs;
  at::TensorList targets = first;
  if (result) {
    outputs.reserve(first.size());
    for (const at::Tensor& t : first) outputs.push_back(at::empty_like(t));
    targets = outputs;
  }
  switch (op.inputs) {
    case 1: run_pointwise<2>(op, targets, inputs, scalar, from_tensor); break;
    case 2: run_pointwise<3>(op, targets, inputs, scalar, from_tensor); break;
    default: run_pointwise<4>(op, targets, inputs, scalar, from_tensor); break;
  }
  if (result)
    *result = std::move(outputs);
  else
    bump_versions(first);
  return true;
}

void _foreach_copy_(at::TensorList self, at::TensorList src, bool non_blocking) {
  at::native::check_foreach_api_restrictions(self, src);
  const bool fused = self[0].is_xpu() && at::native::can_use_fast_route(self, src) && small(self) && small(src);
  if (!fused) return at::native::foreach_tensor_copy_list_kernel_slow_(self, src, non_blocking);
  ops::ForeachOperands<2> tensors;
  for (size_t i = 0; i < self.size(); ++i) {
    if (self[i].numel() == 0 || self[i].is_same(src[i])) continue;
    auto& t = tensors.add(self[i].numel());
    t.ptr[0] = self[i].mutable_data_ptr();
    t.ptr[1] = const_cast<void*>(src[i].const_data_ptr());
  }
  ops::foreach_elements(tensors, kernels::foreach_copy[raw_dtype(self[0].element_size())], {});
  bump_versions(self);
}

std::vector<at::Tensor> _foreach_clone(at::TensorList self, std::optional<at::MemoryFormat> memory_format) {
  at::native::check_foreach_api_restrictions(self);
  const bool same = !memory_format || *memory_format == at::MemoryFormat::Preserve;
  if (!same || !at::native::can_use_fast_route(self) || !small(self))
    return at::native::foreach_tensor_clone_slow(self, memory_format);
  std::vector<at::Tensor> out;
  out.reserve(self.size());
  ops::ForeachOperands<2> tensors;
  for (const at::Tensor& t : self) {
    out.push_back(at::empty_like(t));
    if (t.numel() == 0) continue;
    auto& pair = tensors.add(t.numel());
    pair.ptr[0] = out.back().mutable_data_ptr();
    pair.ptr[1] = const_cast<void*>(t.const_data_ptr());
  }
  ops::foreach_elements(tensors, kernels::foreach_copy[raw_dtype(self[0].element_size())], {});
  return out;
}

void _foreach_zero_(at::TensorList self) {
  at::native::check_foreach_api_restrictions(self);
  if (!at::native::can_use_fast_route(self) || !small(self)) return at::native::foreach_tensor_zero_slow_(self);
  ops::ForeachOperands<1> tensors;
  for (const at::Tensor& t : self)
    if (t.numel() > 0) tensors.add(t.numel()).ptr[0] = t.mutable_data_ptr();
  ops::foreach_elements(tensors, kernels::foreach_zero[raw_dtype(self[0].element_size())], {});
  bump_versions(self);
}

std::vector<at::Tensor> _foreach_norm_Scalar(at::TensorList self, const at::Scalar& ord,
                                             std::optional<at::ScalarType> dtype) {
  at::native::check_foreach_api_restrictions(self);
  TORCH_CHECK(ord.isIntegral(false) || ord.isFloatingPoint(), "foreach_tensor_norm expects ord to be integer or float");
  const double order = ord.isIntegral(false) ? static_cast<double>(ord.to<int64_t>()) : ord.to<double>();
  const bool known = order == 1.0 || order == 2.0 || order == std::numeric_limits<double>::infinity();
  const at::ScalarType type = self[0].scalar_type();
  bool fused = known && small(self) && at::native::can_use_fast_route(self) &&
               kernels::foreach_reduce_norm2.has(to_dtype(type)) && (!dtype.has_value() || *dtype == type);
  for (const at::Tensor& t : self) fused = fused && t.numel() > 0;
  if (!fused) return at::native::foreach_tensor_norm_slow(self, ord, dtype);
  const bool one = order == 1.0, two = order == 2.0;
  const auto& table = one   ? kernels::foreach_reduce_norm1
                      : two ? kernels::foreach_reduce_norm2
                            : kernels::foreach_reduce_norm_inf;
  const auto& last = one   ? kernels::foreach_reduce_final_norm1
                     : two ? kernels::foreach_reduce_final_norm2
                           : kernels::foreach_reduce_final_norm_inf;
  return reduce_each<double>(self, at::toRealValueType(type), table[to_dtype(type)], last[to_dtype(type)]);
}

std::vector<at::Tensor> _foreach_max(at::TensorList self) {
  at::native::check_foreach_api_restrictions(self);
  const at::ScalarType type = self[0].scalar_type();
  bool fused = small(self) && at::native::can_use_fast_route(self) && kernels::foreach_max.has(to_dtype(type));
  for (const at::Tensor& t : self) fused = fused && t.numel() > 0;
  if (!fused) return at::native::foreach_tensor_max_slow(self);
  return reduce_each<double>(self, type, kernels::foreach_max[to_dtype(type)],
                             kernels::foreach_max_final[to_dtype(type)]);
}

void _amp_foreach_non_finite_check_and_unscale_(at::TensorList self, at::Tensor& found_inf,
                                                const at::Tensor& inv_scale) {
  if (self.empty()) return;
  TORCH_CHECK(inv_scale.is_xpu(), "inv_scale must be an XPU tensor.");
  TORCH_CHECK(found_inf.is_xpu(), "found_inf must be an XPU tensor.");
  TORCH_CHECK(inv_scale.numel() == 1, "inv_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(inv_scale.scalar_type() == at::kFloat, "inv_scale must be a float tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
  for (const at::Tensor& t : self) {
    TORCH_CHECK(t.is_xpu(), "one of scaled_grads was not an XPU tensor.");
    TORCH_CHECK(t.layout() == at::kStrided, "one of scaled_grads was not a strided tensor.");
    TORCH_CHECK(at::isFloatingType(t.scalar_type()),
                "\"_amp_foreach_non_finite_check_and_unscale\" not implemented for '", t.scalar_type(), "'");
  }
  ops::UnscaleProblem p{};
  p.found_inf = found_inf.mutable_data_ptr<float>();
  p.inv_scale = inv_scale.const_data_ptr<float>();
  // One table for each dtype; tensors that are not dense are unscaled as a dense copy.
  for (at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;
    ops::ForeachTensors<ForeachTensor<1>> tensors;
    for (const at::Tensor& t : self) {
      if (t.scalar_type() != type || t.numel() == 0) continue;
      TORCH_CHECK(t.numel() < kForeachLimit, "gradients of 2^31 elements and more are not supported on XPU");
      at::Tensor dense = t;
      if (!t.is_non_overlapping_and_dense()) copies.emplace_back(t, dense = t.contiguous());
      tensors.add(t.numel()).ptr[0] = dense.mutable_data_ptr();
    }
    ops::unscale_each(tensors, kernels::amp_unscale[to_dtype(type)], p);
    for (auto& [t, dense] : copies) t.copy_(dense);
  }
}

at::Tensor& _amp_update_scale_(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf,
                               double scale_growth_factor, double scale_backoff_factor, int64_t growth_interval) {
  TORCH_CHECK(growth_tracker.is_xpu(), "growth_tracker must be an XPU tensor.");
  TORCH_CHECK(self.is_xpu(), "current_scale must be an XPU tensor.");
  TORCH_CHECK(found_inf.is_xpu(), "found_inf must be an XPU tensor.");
  TORCH_CHECK(growth_tracker.numel() == 1, "growth_tracker must be a 1-element tensor.");
  TORCH_CHECK(self.numel() == 1, "current_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(growth_tracker.scalar_type() == at::kInt, "growth_tracker must be an int tensor.");
  TORCH_CHECK(self.scalar_type() == at::kFloat, "current_scale must be a float tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
  const ops::UpdateScaleProblem p{self.mutable_data_ptr<float>(),           growth_tracker.mutable_data_ptr<int32_t>(),
                                  found_inf.const_data_ptr<float>(),        static_cast<float>(scale_growth_factor),
                                  static_cast<float>(scale_backoff_factor), static_cast<int32_t>(growth_interval)};
  ops::update_scale(runtime::current_queue(), p);
  return self;
}

}  // namespace xpu_ops::aten
