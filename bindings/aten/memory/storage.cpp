// empty, empty_strided, resize_, set_: tensors of the XPU device and their storages. Nothing here falls back.
#include "bindings/aten/memory/storage.hpp"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/zeros_like_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "bindings/aten/memory/allocator.hpp"
#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::aten {

at::Tensor& zero_(at::Tensor& self);

namespace {

constexpr c10::DispatchKeySet kXpuKeys(c10::DispatchKey::XPU);

// Cheaper than c10::DeviceGuard in the usual case, where the device is the current one already.
class OnDevice {
 public:
  explicit OnDevice(c10::Device device) : before_(runtime::current_device()) {
    if (device.has_index() && device.index() != before_) {
      translate([&] { runtime::set_current_device(device.index()); });
      changed_ = true;
    }
  }
  ~OnDevice() {
    if (changed_) runtime::set_current_device_unchecked(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
  bool changed_ = false;
};

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided, "Expected a strided layout, got ",
              c10::layout_or_default(layout));
}

c10::Device device_or_current(std::optional<c10::Device> device) {
  c10::Device d = device.value_or(c10::Device(c10::kXPU));
  TORCH_INTERNAL_ASSERT(d.is_xpu());
  return d;
}

// torch.use_deterministic_algorithms fills new memory so that reading it is reproducible: NaN, or the largest integer.
const at::Tensor& fill_if_deterministic(const at::Tensor& t) {
  auto& context = at::globalContext();
  if (!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory()) [[likely]]
    return t;
  if (t.numel() == 0) return t;
  if (t.is_floating_point() || t.is_complex()) {
    t.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    AT_DISPATCH_V2(t.scalar_type(), "empty",
                   AT_WRAP([&] { t.fill_(static_cast<int64_t>(std::numeric_limits<scalar_t>::max())); }), at::kBool,
                   AT_EXPAND(AT_INTEGRAL_TYPES_V2));
  }
  return t;
}

void resize_impl(c10::TensorImpl* self, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
  if (self->generic_sizes<int64_t>() == size && (!stride || self->generic_strides<int64_t>() == *stride)) return;
  const auto itemsize = self->dtype().itemsize();
  const auto offset = self->generic_storage_offset<int64_t>();
  size_t bytes;
  if (stride) {
    self->set_sizes_and_strides(size, *stride);
    bytes = at::detail::computeStorageNbytes(size, *stride, itemsize, offset);
  } else {
    self->generic_set_sizes_contiguous(size);
    bytes = at::detail::computeStorageNbytesContiguous(size, itemsize, offset);
  }
  if (self->numel() == 0) return;
  const c10::Storage& storage = self->unsafe_storage();
  TORCH_CHECK(storage, "Tensor: invalid null storage");
  if (bytes > storage.nbytes()) resize_storage(storage.unsafeGetStorageImpl(), bytes, self->device());
}

}  // namespace

at::Tensor empty_memory_format(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  at::Tensor t = empty(size, c10::dtype_or_default(dtype), device_or_current(device), format);
  fill_if_deterministic(t);
  return t;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  at::Tensor t = empty_strided(size, stride, c10::dtype_or_default(dtype), device_or_current(device));
  fill_if_deterministic(t);
  return t;
}

namespace {

// A dense tensor in the layout of self, where nothing else is asked for: what torch's composites would arrive at.
bool plain_like(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                std::optional<at::Device> device, std::optional<bool> pin_memory,
                std::optional<at::MemoryFormat> format) {
  return (!dtype || *dtype == self.scalar_type()) && c10::layout_or_default(layout) == c10::kStrided &&
         (!device || *device == self.device()) && !pin_memory.value_or(false) &&
         (!format || *format == at::MemoryFormat::Preserve) && self.is_non_overlapping_and_dense() &&
         !self._is_zerotensor();
}

}  // namespace

at::Tensor empty_like(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin_memory,
                      std::optional<at::MemoryFormat> format) {
  if (!plain_like(self, dtype, layout, device, pin_memory, format))
    return at::native::empty_like(self, dtype, layout, device, pin_memory, format);
  at::Tensor t = empty_strided(self.sizes(), self.strides(), self.scalar_type(), self.device());
  fill_if_deterministic(t);
  return t;
}

at::Tensor zeros_like(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin_memory,
                      std::optional<at::MemoryFormat> format) {
  if (!plain_like(self, dtype, layout, device, pin_memory, format))
    return at::native::zeros_like(self, dtype, layout, device, pin_memory, format);
  at::Tensor t = empty_strided(self.sizes(), self.strides(), self.scalar_type(), self.device());
  return aten::zero_(t);
}

at::Tensor _efficientzerotensor(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                                std::optional<at::Device> device, std::optional<bool>) {
  OnDevice guard(device_or_current(device));
  c10::DispatchKeySet keys = kXpuKeys.add(c10::DispatchKey::ZeroTensor);
  // Zero tensors have no memory: a null allocation carries the device.
  struct NoMemory final : c10::Allocator {
    c10::DataPtr allocate(size_t) override {
      return {nullptr, nullptr, [](void*) {},
              c10::Device(c10::kXPU, static_cast<c10::DeviceIndex>(runtime::current_device()))};
    }
    c10::DeleterFnPtr raw_deleter() const override {
      return [](void*) {};
    }
    void copy_data(void*, const void*, size_t) const override {}
  };
  static auto* none = new NoMemory;
  return at::detail::empty_generic(size, none, keys, c10::dtype_or_default(dtype), std::nullopt);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto old_bytes = impl->unsafe_storage() ? impl->unsafe_storage().nbytes() : 0;
  resize_impl(impl, size, std::nullopt);
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  auto& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) [[unlikely]] {
    const auto& storage = impl->unsafe_storage();
    auto first = static_cast<int64_t>(old_bytes / self.itemsize());
    auto last = static_cast<int64_t>(storage.nbytes() / self.itemsize());
    if (last > first) {
      at::Tensor rest = empty({0}, self.scalar_type(), self.device());
      rest.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
      rest.unsafeGetTensorImpl()->set_storage_offset(first);
      rest.unsafeGetTensorImpl()->set_sizes_contiguous({last - first});
      fill_if_deterministic(rest);
    }
  }
  return self;
}

at::Tensor& set__source_Storage_storage_offset(at::Tensor& self, at::Storage source, int64_t offset,
                                               c10::IntArrayRef size, c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  resize_impl(impl, size, stride.data() ? at::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

at::Tensor& set__source_Storage(at::Tensor& self, at::Storage source) {
  return set__source_Storage_storage_offset(self, source, 0, {static_cast<int64_t>(source.nbytes() / self.itemsize())},
                                            {});
}

at::Tensor& set__source_Tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set__source_Storage_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(),
                                            source.strides());
}

at::Tensor& set_(at::Tensor& self) {
  at::Storage storage(at::Storage::use_byte_size_t(), 0, xpu_allocator(), true);
  return set__source_Storage_storage_offset(self, storage, 0, {0}, {});
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.unsafeGetTensorImpl()->storage().unsafeGetStorageImpl() ==
             other.unsafeGetTensorImpl()->storage().unsafeGetStorageImpl() &&
         self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() &&
         self.strides() == other.strides();
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  xpu_allocator()->recordStream(self.storage().data_ptr(), stream);
}

at::Tensor empty(at::IntArrayRef size, at::ScalarType dtype, c10::Device device,
                 std::optional<at::MemoryFormat> format) {
  OnDevice guard(device);
  return at::detail::empty_generic(size, xpu_allocator(), kXpuKeys, dtype, format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype, c10::Device device) {
  OnDevice guard(device);
  return at::detail::empty_strided_generic(size, stride, xpu_allocator(), kXpuKeys, dtype);
}

void resize_storage(c10::StorageImpl* storage, size_t bytes, c10::Device device) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  OnDevice guard(device);
  c10::DataPtr fresh = xpu_allocator()->allocate(bytes);
  const c10::DataPtr& old = storage->data_ptr();
  if (size_t keep = std::min(bytes, storage->nbytes())) {
    translate([&] { runtime::copy_bytes(runtime::current_queue(), fresh.get(), old.get(), keep, false); });
  }
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(bytes);
}

}  // namespace xpu_ops::aten
