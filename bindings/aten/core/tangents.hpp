// Whether a call carries forward derivatives, which kernels and autograd functions do not have.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

namespace xpu_ops::aten {

inline bool has_tangent(const at::Tensor& t) { return t.defined() && t._fw_grad(0).defined(); }
inline bool has_tangent(const std::optional<at::Tensor>& t) { return t && has_tangent(*t); }
inline bool has_tangent(at::TensorList list) {
  return std::any_of(list.begin(), list.end(), [](const at::Tensor& t) { return has_tangent(t); });
}
template <class... T>
bool have_tangents(const T&... args) {
  return (has_tangent(args) || ...);
}

}  // namespace xpu_ops::aten
