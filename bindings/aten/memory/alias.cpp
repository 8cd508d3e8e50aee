#include "bindings/aten/memory/alias.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include "bindings/aten/memory/allocator.hpp"
#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

// Storages that share memory across devices: the context owns the other storage.
struct Shared {
  std::shared_ptr<void> held;  // let go last
  c10::Storage owner;
  int device;              // to wait for before the owner goes; -1: none
  c10::DataPtr left = {};  // where the elements were: another thread may be launching on it, a graph may name it
};

// Storages that a tensor of another device writes to, by how many.
struct Aliased {
  std::atomic<int> total{0};
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, int> counts;
};
Aliased& aliased() {
  static auto* a = new Aliased;
  return *a;
}

void release(void* context) {
  auto* shared = static_cast<Shared*>(context);
  {
    std::lock_guard lock(aliased().mutex);
    const auto it = aliased().counts.find(shared->owner.unsafeGetStorageImpl());
    if (--it->second == 0) aliased().counts.erase(it);
    --aliased().total;
  }
  if (shared->device >= 0 && !runtime::in_bad_fork()) { runtime::settle(shared->device); }
  delete shared;
}

void count(const c10::Storage& storage) {
  std::lock_guard lock(aliased().mutex);
  ++aliased().counts[storage.unsafeGetStorageImpl()];
  ++aliased().total;
}

// A tensor with the view of `t` on another storage.
at::Tensor on_storage(const at::Tensor& t, c10::Storage storage, c10::DispatchKey key) {
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), t.dtype());
  out.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides());
  out._set_conj(t.is_conj());
  out._set_neg(t.is_neg());
  return out;
}

at::Tensor wrap(const at::Tensor& t, c10::Device device, c10::DispatchKey key, c10::Allocator* allocator, int wait,
                std::shared_ptr<void> held = {}) {
  const c10::Storage& storage = t.storage();
  count(storage);
  c10::DataPtr data(storage.mutable_data(), new Shared{std::move(held), storage, wait}, &release, device);
  auto impl = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
                                                    std::move(data), allocator, /*resizable=*/true);
  return on_storage(t, c10::Storage(std::move(impl)), key);
}

}  // namespace

bool has_alias(const c10::StorageImpl* storage) {
  if (aliased().total.load(std::memory_order_acquire) == 0) [[likely]]
    return false;
  std::lock_guard lock(aliased().mutex);
  return aliased().counts.count(storage) != 0;
}

bool is_alias(const c10::StorageImpl* storage) { return storage->data_ptr().get_deleter() == &release; }

std::optional<at::Tensor> owner_as_cpu(const at::Tensor& xpu) {
  const c10::StorageImpl* storage = xpu.storage().unsafeGetStorageImpl();
  if (!is_alias(storage)) return std::nullopt;
  const auto* shared = static_cast<const Shared*>(storage->data_ptr().get_context());
  at::Tensor out = at::detail::empty_cpu({0}, at::kByte);
  out.unsafeGetTensorImpl()->set_storage_keep_dtype(shared->owner);
  out.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(shared->owner.nbytes())});
  return out;
}

bool move_to_cpu_memory(const at::Tensor& xpu, const at::Tensor& cpu) {
  c10::StorageImpl* storage = xpu.storage().unsafeGetStorageImpl();
  const c10::Storage& target = cpu.storage();
  std::memcpy(target.mutable_data(), storage->data(), storage->nbytes());
  if (is_alias(storage) || has_alias(storage)) return false;
  count(target);
  auto* shared = new Shared{{}, target, xpu.device().index()};
  shared->left = storage->set_data_ptr(c10::DataPtr(target.mutable_data(), shared, &release, xpu.device()));
  storage->set_resizable(false);
  return true;
}

at::Tensor alias_as_cpu(const at::Tensor& xpu, std::shared_ptr<void> held) {
  return wrap(xpu, c10::Device(c10::kCPU), c10::DispatchKey::CPU, c10::GetCPUAllocator(), -1, std::move(held));
}

at::Tensor alias_as_xpu(const at::Tensor& cpu, c10::Device device) {
  // The alias of an alias is the tensor itself: chains of them would grow with each call.
  if (const c10::StorageImpl* storage = cpu.storage().unsafeGetStorageImpl(); is_alias(storage)) {
    const auto* shared = static_cast<const Shared*>(storage->data_ptr().get_context());
    if (shared->owner.device() == device && shared->owner.data() == storage->data())
      return on_storage(cpu, shared->owner, c10::DispatchKey::XPU);
  }
  return wrap(cpu, device, c10::DispatchKey::XPU, xpu_allocator(), device.index());
}

}  // namespace xpu_ops
