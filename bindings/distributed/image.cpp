#include "bindings/distributed/image.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/SmallVector.h>

#include <limits>

#include "bindings/aten/memory/alias.hpp"
#include "bindings/aten/memory/allocator.hpp"

namespace xpu_ops::distributed {
namespace {

using How = Encoding::How;

at::Tensor turn_sign(const at::Tensor& t) { return t.bitwise_xor(std::numeric_limits<int64_t>::min()); }

}  // namespace

Image::Image(const at::Tensor& xpu, Use use, Encoding encoding, Order order)
    : xpu_(xpu), encoding_(encoding), use_(use), order_(order) {}

void Image::open(runtime::Queue* fetches, const std::shared_ptr<void>& held) {
  c10::SmallVector<int64_t, 2> shape{xpu_.numel()};
  if (order_ == Order::rows && xpu_.dim() > 0) {
    int64_t row = 1;
    for (int64_t d = 1; d < xpu_.dim(); ++d) row *= xpu_.size(d);
    shape = {xpu_.size(0), row};
  }
  if (!fetches) {
    memory_ = alias_as_cpu(xpu_, held);
    if (gathered()) {
      strided_ = memory_;
      memory_ = use_ == Use::write ? at::empty(shape, strided_.options()) : strided_.contiguous().view(shape);
      return;
    }
    memory_.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
    return;
  }
  memory_ = at::detail::empty_generic(shape, pinned_allocator(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                      xpu_.scalar_type(), std::nullopt);
  if (use_ == Use::write || xpu_.numel() == 0) return;
  const at::AutoDispatchBelowADInplaceOrView plain;
  const at::Tensor from = gathered() ? xpu_.contiguous() : xpu_;
  runtime::copy_bytes(*fetches, memory_.mutable_data_ptr(), from.const_data_ptr(), memory_.nbytes(), false);
}

void Image::encode() {
  switch (encoding_.how) {
    case How::same: cpu_ = memory_; break;
    case How::bytes: cpu_ = memory_.unsqueeze(-1).view(at::kByte); break;
    case How::view: cpu_ = memory_.view(encoding_.type); break;
    case How::widen:
      cpu_ = use_ == Use::write ? at::empty_like(memory_, memory_.options().dtype(encoding_.type))
                                : memory_.to(encoding_.type);
      break;
    case How::flipped: cpu_ = turn_sign(memory_.view(at::kLong)); break;
  }
  if (!encoding_.factor || use_ == Use::write) return;
  const bool own = encoding_.how == How::widen || use_ == Use::both;
  cpu_ = own ? cpu_.mul_(*encoding_.factor) : cpu_.mul(*encoding_.factor);
}

void Image::decode(int ranks) {
  if (!writes()) return;
  if (encoding_.divide) cpu_.div_(ranks, "trunc");
  if (encoding_.how == How::widen) memory_.copy_(cpu_);
  if (encoding_.how == How::flipped) memory_.view(at::kLong).copy_(turn_sign(cpu_));
  if (strided_.defined()) strided_.copy_(memory_.view(strided_.sizes()));
}

void Image::deliver(runtime::Queue& queue) {
  if (!writes()) return;
  const at::AutoDispatchBelowADInplaceOrView plain;  // the caller's tensor may be of inference mode
  const at::Tensor to = gathered() ? at::empty(xpu_.sizes(), xpu_.options()) : xpu_;
  runtime::copy_bytes(queue, to.mutable_data_ptr(), memory_.const_data_ptr(), memory_.nbytes(), false);
  if (gathered()) xpu_.copy_(to);
  const c10::Stream stream(c10::Stream::UNSAFE, xpu_.device(), queue.id);
  record_pinned(memory_.storage().data_ptr(), stream);
  xpu_allocator()->recordStream(xpu_.storage().data_ptr(), stream);
}

}  // namespace xpu_ops::distributed
