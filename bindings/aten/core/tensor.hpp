// Small helpers every adapter needs: types, the current queue, fast allocation, the device of a call.
#pragma once
#include <ATen/EmptyTensor.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <tuple>

#include "bindings/errors.hpp"
#include "kernels/dtype.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/call_size.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::aten {

inline DType to_dtype(at::ScalarType t) { return static_cast<DType>(t); }
inline DType dtype_of(const at::Tensor& t) { return to_dtype(t.scalar_type()); }

using MaybeTensor = std::optional<at::Tensor>;
inline bool is_given(const MaybeTensor& t) { return t.has_value() && t->defined(); }

// The types whose kernels compute in float.
inline bool is_single_or_half(at::ScalarType t) { return t == at::kFloat || t == at::kHalf || t == at::kBFloat16; }
// Whether the elements of each row lie side by side.
inline bool has_dense_rows(const at::Tensor& t) { return t.size(-1) < 2 || t.stride(-1) == 1; }

// For kernels that read `t` as elements of `type`.
inline void check_scalar_type(const at::Tensor& t, at::ScalarType type) {
  TORCH_CHECK(t.scalar_type() == type, "expected scalar type ", type, " but found ", t.scalar_type());
}

// For results that are given.
inline void check_out_type(const at::Tensor& out, caffe2::TypeMeta dtype) {
  TORCH_CHECK(dtype == out.dtype(), "Expected out tensor to have dtype ", dtype, ", but got ", out.dtype(), " instead");
}

// For operators that write an argument which torch's code does not count as written.
inline void mark_written(const at::Tensor& t) {
  if (!t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
}

inline const runtime::Policy& current_policy() { return runtime::device_info(runtime::current_queue().device).policy; }

// New tensors on the current device without a trip through the dispatcher.
inline at::Tensor new_empty(at::IntArrayRef sizes, at::ScalarType dtype,
                            std::optional<at::MemoryFormat> format = std::nullopt) {
  return at::Tensor(at::detail::empty_generic(sizes, c10::GetAllocator(c10::kXPU),
                                              c10::DispatchKeySet(c10::DispatchKey::XPU), dtype, format));
}
inline at::Tensor new_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(c10::kXPU),
                                                      c10::DispatchKeySet(c10::DispatchKey::XPU), dtype));
}

// For operators that torch's own code for this device does not check.
inline void check_same_device(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.device() == b.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", a.device(), " and ",
              b.device(), "!");
}

// For operators that a generator of this device may have brought here with a tensor of another one.
inline void check_generator_device(const at::Tensor& t) {
  TORCH_CHECK(t.is_xpu(), "Expected a '", t.device().type(), "' device type for generator but found 'xpu'");
}

// Of an operand of a call (CallSize).
inline int64_t bytes_of(const at::Tensor& t) {
  if (!t.defined()) return 0;
  if (t.is_nested() || t.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) [[unlikely]]
    return runtime::CallSize::kUnknown;
  return t.numel() * static_cast<int64_t>(t.itemsize());
}
inline int64_t bytes_of(const std::optional<at::Tensor>& t) { return t.has_value() ? bytes_of(*t) : 0; }
inline int64_t bytes_of(const std::optional<at::Device>&) { return 0; }
inline int64_t bytes_of(at::Device) { return 0; }
template <class List>
  requires requires(const List& l) { l.begin(); }
int64_t bytes_of(const List& list) {
  int64_t sum = 0;
  for (const auto& t : list) {
    if (sum >= runtime::CallSize::kUnknown) break;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(t)>, at::Tensor>)
      sum += bytes_of(t);
    else
      sum += bytes_of(static_cast<const MaybeTensor&>(t));
  }
  return sum;
}

// Makes the device of the first XPU tensor among the arguments current for the scope of one operator, and tells the
// launches how much the call touches. The arguments outlive it.
template <class... T> class CallGuard {
 public:
  explicit CallGuard(const T&... args) : args_(&args...), size_(&measure, &args_) {
    int device = -1;
    (void)(found(args, device) || ...);
    if (device >= 0 && device != runtime::current_device()) [[unlikely]]
      previous_ = runtime::exchange_device(device);
  }
  ~CallGuard() {
    if (previous_ >= 0) [[unlikely]]
      runtime::set_current_device(previous_);
  }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  static bool found(const at::Tensor& t, int& device) {
    if (!t.defined() || !t.is_xpu()) return false;
    device = t.device().index();
    return true;
  }
  static bool found(const std::optional<at::Tensor>& t, int& device) { return t.has_value() && found(*t, device); }
  static bool found(at::TensorList list, int& device) {
    for (const at::Tensor& t : list)
      if (found(t, device)) return true;
    return false;
  }
  static bool found(const at::ITensorListRef& list, int& device) {
    for (const at::Tensor& t : list)
      if (found(t, device)) return true;
    return false;
  }
  template <class List>
    requires requires(const List& l) { l.begin(); }
  static bool found(const List& list, int& device) {
    for (const auto& t : list)
      if (found(static_cast<const std::optional<at::Tensor>&>(t), device)) return true;
    return false;
  }
  static bool found(const std::optional<at::Device>& d, int& device) {
    if (!d.has_value() || !d->is_xpu()) return false;
    device = d->has_index() ? d->index() : runtime::current_device();
    return true;
  }

  using Args = std::tuple<const T*...>;
  static int64_t measure(const void* args) {
    return std::apply([](const T*... each) { return (bytes_of(*each) + ... + int64_t{0}); },
                      *static_cast<const Args*>(args));
  }

  const Args args_;
  const runtime::CallSize size_;
  int previous_ = -1;
};

}  // namespace xpu_ops::aten
