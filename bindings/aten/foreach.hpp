// Multi-tensor operators: lists of tensors in one launch.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "kernels/runtime/module/module.hpp"

namespace xpu_ops::aten {

// The generated table of a `foreach` row.
struct ForeachOp {
  const char* name;
  int inputs;
  bool promotes;  // integers give floats
  const runtime::KernelTable& table;
};

// An operand or scalar of a multi-tensor operator: a list of tensors, one 0-d tensor for all, one scalar for all, a
// scalar for each tensor, or a 1-d CPU tensor of those.
struct ForeachInput {
  enum Kind { tensors, tensor, scalar, scalars } kind;
  at::TensorList list;
  const at::Tensor* one = nullptr;
  const at::Scalar* value = nullptr;
  at::ArrayRef<at::Scalar> values;
  ForeachInput(at::TensorList l) : kind(tensors), list(l) {}
  ForeachInput(const at::Tensor& t) : kind(tensor), one(&t) {}
  ForeachInput(const at::Scalar& s) : kind(scalar), value(&s) {}
  ForeachInput(at::ArrayRef<at::Scalar> s) : kind(scalars), values(s) {}
};

// Applies the operator where torch's conditions for a fused launch hold: one dtype, one device, dense tensors of equal
// layout, no promotion. `result` receives new tensors; null means in place, into the first list. False: nothing was
// done.
bool foreach_pointwise(const ForeachOp& op, std::initializer_list<ForeachInput> inputs, const ForeachInput& scalar,
                       std::vector<at::Tensor>* result);

}  // namespace xpu_ops::aten
