// copy_ and its kin. Bytes move by queue memcpy; what also changes layout or dtype across the bus is rearranged on the
// side that has a dense copy anyway.
#include "bindings/aten/memory/transfer.hpp"

#include <ATen/Dispatch_v2.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

#include "bindings/aten/memory/allocator.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "bindings/aten/memory/storage.hpp"
#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/event.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::aten {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

bool is_dense(const at::Tensor& t) { return t.is_non_overlapping_and_dense(); }

// A plain run of bytes means the same in both.
bool same_image(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && same_bits(a, b) && is_dense(a) && is_dense(b) &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

void take_bits(const at::Tensor& to, const at::Tensor& from) {
  to._set_conj(from.is_conj());
  to._set_neg(from.is_neg());
}

c10::Stream stream_of(const runtime::Queue& q) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(q.device)), q.id);
}

// The lowest data address of a dense tensor is data_ptr(): strides are never negative.
void host_to_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (!is_dense(dst)) {
    at::Tensor staged = empty_strided(src.sizes(), at::infer_dense_strides(src.sizes(), src.strides()),
                                      dst.scalar_type(), dst.device());
    take_bits(staged, dst);
    host_to_device(staged, src, non_blocking);
    copy_device_to_device(dst, staged, non_blocking);
    return;
  }
  at::Tensor image = src;
  if (!same_image(dst, src)) {
    image = at::empty_strided(dst.sizes(), dst.strides(), src.options().dtype(dst.scalar_type()));
    take_bits(image, dst);
    image.copy_(src);
  }
  auto& q = queue_of(dst);
  const bool wait = !(non_blocking && is_pinned(image.const_data_ptr()));
  runtime::copy_bytes(q, dst.mutable_data_ptr(), image.const_data_ptr(), dst.nbytes(), wait);
  if (!wait) record_pinned(image.storage().data_ptr(), stream_of(q));
}

void device_to_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (!is_dense(src)) {
    at::Tensor staged = empty_strided(src.sizes(), at::infer_dense_strides(src.sizes(), src.strides()),
                                      src.scalar_type(), src.device());
    take_bits(staged, src);
    copy_device_to_device(staged, src, non_blocking);
    device_to_host(dst, staged, non_blocking);
    return;
  }
  auto& q = queue_of(src);
  if (same_image(dst, src)) {
    const bool wait = !(non_blocking && is_pinned(dst.const_data_ptr()));
    runtime::copy_bytes(q, dst.mutable_data_ptr(), src.const_data_ptr(), src.nbytes(), wait);
    if (!wait) record_pinned(dst.storage().data_ptr(), stream_of(q));
    return;
  }
  at::Tensor image =
      at::empty_strided(src.sizes(), src.strides(), dst.options().dtype(src.scalar_type()).pinned_memory(false));
  take_bits(image, src);
  runtime::copy_bytes(q, image.mutable_data_ptr(), src.const_data_ptr(), src.nbytes(), true);
  dst.copy_(image);
}

// Between two indices of one device: a copy on the stream of dst, and the stream of src waits for it.
void between_indices(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (!is_dense(src)) {
    const c10::DeviceGuard guard(src.device());
    at::Tensor staged = empty_strided(src.sizes(), at::infer_dense_strides(src.sizes(), src.strides()),
                                      src.scalar_type(), src.device());
    take_bits(staged, src);
    copy_device_to_device(staged, src, non_blocking);
    return between_indices(dst, staged, non_blocking);
  }
  const c10::DeviceGuard guard(dst.device());
  if (!same_image(dst, src)) {
    at::Tensor image = empty_strided(src.sizes(), src.strides(), src.scalar_type(), dst.device());
    take_bits(image, src);
    between_indices(image, src, non_blocking);
    return copy_device_to_device(dst, image, non_blocking);
  }
  auto &from = queue_of(src), &to = queue_of(dst);
  runtime::Event written, read;
  written.record(from);
  written.block(to);
  runtime::copy_bytes(to, dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), false);
  read.record(to);
  read.block(from);
}

// Devices of different contexts share no memory here: the bytes pass through the host.
void between_devices(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (runtime::sycl_device(dst.device().index()) == runtime::sycl_device(src.device().index()))
    return between_indices(dst, src, non_blocking);
  at::Tensor host = at::empty_strided(src.sizes(), at::infer_dense_strides(src.sizes(), src.strides()),
                                      src.options().device(at::kCPU));
  device_to_host(host, src, false);
  host_to_device(dst, host, false);
}

}  // namespace

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.defined(), "self is undefined");
  TORCH_CHECK(src.defined(), "src is undefined");
  if (src._is_zerotensor()) return self.zero_();
  if (self.is_same(src)) return self;
  const auto shape = at::infer_size_dimvector(self.sizes(), src.sizes());
  TORCH_CHECK(self.sizes() == at::IntArrayRef(shape), "output with shape ", self.sizes(),
              " doesn't match the broadcast shape ", at::IntArrayRef(shape));
  const at::Tensor from = src.sizes() == self.sizes() ? src : src.expand(self.sizes());
  at::assert_no_internal_overlap(self);
  at::assert_no_partial_overlap(self, src);  // as the iterator does: an expanded source has overlap of its own
  if (src.is_complex() && !self.is_complex()) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
  if (self.numel() != 0) copy_dense(self, from, non_blocking);
  return self;
}

at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor to = dst;
  copy_(to, self, non_blocking);
  return dst;
}

at::Tensor _copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (self.sizes() != dst.sizes()) dst.resize_(self.sizes());
  return aten::_copy_from(self, dst, false);
}

at::Scalar _local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  alignas(16) char bytes[16];
  auto& q = queue_of(self);
  runtime::copy_bytes(q, bytes, self.const_data_ptr(), self.itemsize(), true);
  at::Scalar value;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense", AT_WRAP([&] {
                   scalar_t v;
                   std::memcpy(&v, bytes, sizeof v);
                   value = at::Scalar(v);
                 }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16,
                 AT_EXPAND(AT_FLOAT8_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
  return value;
}

void copy_dense(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (!dst.is_xpu()) return device_to_host(dst, src, non_blocking);
  if (!src.is_xpu()) return host_to_device(dst, src, non_blocking);
  if (dst.device() != src.device()) return between_devices(dst, src, non_blocking);
  copy_device_to_device(dst, src, non_blocking);
}

}  // namespace xpu_ops::aten
