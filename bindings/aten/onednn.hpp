// From tensors to operands of products, and the names under which packed weights are kept.
#pragma once
#include <ATen/core/Tensor.h>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/export.hpp"
#include "kernels/products/problem.hpp"
#include "kernels/view.hpp"

namespace xpu_ops::aten {

// For reading; `out_view` is for writing and counts as a write to whoever watches the storage.
View view(const at::Tensor& t);
View out_view(const at::Tensor& t);

// A matrix or a batch of them, likewise.
products::Operand operand(const at::Tensor& t);
products::Operand out_operand(const at::Tensor& t);

// Forward and backward passes read a weight in two forms.
enum class WeightUse : uint8_t { as_it_is, transposed };
// Names the storage of a weight for the packed-weight cache. Its writes are seen through the version counter and, where
// that is blind (.data, inference tensors), through the storage's materialization hook, which torch calls before it
// hands out a mutable pointer. storage is 0 where a cache would not be safe or would not pay.
WeightRef weight_ref(const at::Tensor& t, WeightUse use = WeightUse::as_it_is);

// Names what is made of a weight and further tensors (those that are defined) as weight_ref names a weight.
WeightRef weight_ref(const at::Tensor& t, at::ArrayRef<at::Tensor> others);

// Counts the writes that were seen to storages of packed weights.
XPU_OPS_EXPORT uint64_t packed_weight_writes();

// b as a weight, where a packed copy of it is worth its making; the tensor has to live as long.
products::Weight weight_of(const at::Tensor& b, int64_t rows);

inline bool onednn_float(at::ScalarType t) { return t == at::kFloat || t == at::kBFloat16 || t == at::kHalf; }

}  // namespace xpu_ops::aten
