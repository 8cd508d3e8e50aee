// The only place for differences between the releases of torch that one source is built against. Operators that a
// release lacks are rows of the manifest with `torch:`.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <vector>

namespace xpu_ops {

// A list of tensors as rows with `meta: false` take it: torch passes another type since it has a structured meta.
inline std::vector<at::Tensor> listed(const at::ITensorListRef& list) { return {list.begin(), list.end()}; }

}  // namespace xpu_ops
