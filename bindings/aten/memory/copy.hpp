// Device-side copies and fills for other adapters.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::aten {

// The current queue of the tensor's device.
inline runtime::Queue& queue_of(const at::Tensor& t) { return runtime::current_queue(t.device().index()); }

// dst and src on one XPU device and of one shape: any strides, any dtypes, conj and neg bits honoured. Runs on the
// current queue of that device.
void copy_device_to_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

// An element of `type` in its own bits; throws where the type cannot hold the value.
std::array<uint64_t, 2> element_of(const at::Scalar& value, at::ScalarType type);
// Sets the elements of `dst` to the value; throws where its dtype cannot hold it.
void fill_device(const at::Tensor& dst, const at::Scalar& value);

// `t` itself where it is contiguous without pending bits, else a contiguous copy.
inline at::Tensor plain(const at::Tensor& t) {
  return t.is_contiguous() && !t.is_conj() && !t.is_neg() ? t : t.contiguous().resolve_conj().resolve_neg();
}

// Gives a kernel a contiguous output: `out` itself or a temporary that finish() copies into it.
class ContiguousOut {
 public:
  explicit ContiguousOut(const at::Tensor& out);
  const at::Tensor& get() const { return temp_.defined() ? temp_ : out_; }
  void* data() const { return get().data_ptr(); }
  void finish() const;

 private:
  const at::Tensor& out_;
  at::Tensor temp_;
};

}  // namespace xpu_ops::aten
