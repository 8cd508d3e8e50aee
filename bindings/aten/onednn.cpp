#include "bindings/aten/onednn.hpp"

#include <array>
#include <mutex>
#include <unordered_set>

#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>

#include "bindings/aten/memory/alias.hpp"
#include "kernels/onednn/weight_cache.hpp"

namespace xpu_ops::aten {
namespace {

constexpr int64_t kPackedRows = 8, kPackedWeight = 1 << 14;  // rows of a product and elements of b, at least

c10::StorageImpl* storage_of(uint64_t name) { return reinterpret_cast<c10::StorageImpl*>(name); }

// Storages that carry our hook; another owner's hook (copy on write) is never replaced.
struct Watched {
  std::mutex mutex;
  std::unordered_set<uint64_t> storages;
};
Watched& watched() {
  static auto* w = new Watched;
  return *w;
}

void on_write(c10::StorageImpl* storage) {
  {
    std::lock_guard lock(watched().mutex);
    watched().storages.erase(reinterpret_cast<uint64_t>(storage));  // torch clears the hook after this call
  }
  onednn::WeightCache::instance().invalidate(reinterpret_cast<uint64_t>(storage));
}

void pin(uint64_t name) { c10::raw::weak_intrusive_ptr::incref(storage_of(name)); }

void watch(uint64_t name) {
  c10::StorageImpl* s = storage_of(name);
  std::lock_guard lock(watched().mutex);
  if (s->has_materializer()) return;  // ours, or one that came since weight_ref looked: versions still guard that
  s->set_materializer(&on_write);
  watched().storages.insert(name);
}

void unpin(uint64_t name) {
  c10::StorageImpl* s = storage_of(name);
  {
    std::lock_guard lock(watched().mutex);
    if (watched().storages.erase(name)) s->clear_materializer();
  }
  c10::raw::weak_intrusive_ptr::decref(s);
}

bool alive(uint64_t name) { return c10::raw::weak_intrusive_ptr::use_count(storage_of(name)) > 0; }

View view_at(const at::Tensor& t, void* data) {
  TORCH_CHECK(t.dim() <= kViewDims, "tensors of more than ", kViewDims, " dimensions are not supported");
  View v;
  v.data = data;
  v.type = dtype_of(t);
  for (int64_t i = 0; i < t.dim(); ++i) v.push(t.size(i), t.stride(i));
  return v;
}

products::Operand operand_at(const at::Tensor& t, void* data) {
  const int64_t d = t.dim();
  products::Operand o;
  o.data = data;
  o.type = dtype_of(t);
  if (d == 3) {
    o.batched = true;
    o.batch = t.size(0);
    o.batch_stride = t.stride(0);
  }
  o.rows = t.size(d - 2);
  o.cols = t.size(d - 1);
  o.row_stride = t.stride(d - 2);
  o.col_stride = t.stride(d - 1);
  return o;
}

}  // namespace

View view(const at::Tensor& t) { return view_at(t, const_cast<void*>(t.const_data_ptr())); }
View out_view(const at::Tensor& t) { return view_at(t, t.mutable_data_ptr()); }
products::Operand operand(const at::Tensor& t) { return operand_at(t, const_cast<void*>(t.const_data_ptr())); }
products::Operand out_operand(const at::Tensor& t) { return operand_at(t, t.mutable_data_ptr()); }

namespace {

// The storages that came by last, each by its use. It holds them, so that a new tensor never has the address of one
// that is gone.
struct LastStorages {
  struct Entry { uint64_t storage = 0, version = 0; };
  std::mutex mutex;
  std::array<Entry, 1024> entries;
  Entry& at(uint64_t storage, WeightUse use) {
    return entries[(storage + static_cast<uint64_t>(use)) * 0x9e3779b97f4a7c15ull >> 54];
  }
};

// Whether a packed copy is likely to be used again: parameters at once, other leaves without gradients when their
// memory comes by a second time unchanged for the same use. Not what autocast makes of a parameter, or activations, and
// not what a compiled training step makes for its forward and its backward pass.
bool stays(const at::Tensor& t, const WeightRef& ref, WeightUse use) {
  const at::TensorBase base = t.is_view() ? t._base() : at::TensorBase(t);
  if (!base.is_leaf()) return false;
  if (base.requires_grad()) return true;
  static auto* last = new LastStorages;  // never destroyed: torch may be gone before static destructors end
  std::lock_guard lock(last->mutex);
  LastStorages::Entry& entry = last->at(ref.storage, use);
  if (entry.storage == ref.storage && entry.version == ref.version) return true;
  if (entry.storage != ref.storage) {
    c10::raw::weak_intrusive_ptr::incref(storage_of(ref.storage));
    if (entry.storage) c10::raw::weak_intrusive_ptr::decref(storage_of(entry.storage));
  }
  entry = {ref.storage, ref.version};
  return false;
}

}  // namespace

namespace {

// As weight_ref, without asking whether it stays.
WeightRef name_of(const at::Tensor& t) {
  static const bool hooked = [] {
    onednn::WeightCache::instance().set_hooks({&pin, &unpin, &watch, &alive});
    return true;
  }();
  (void)hooked;
  c10::StorageImpl* s = t.storage().unsafeGetStorageImpl();
  const auto name = reinterpret_cast<uint64_t>(s);
  if (has_alias(s) || is_alias(s)) return {};
  if (s->has_materializer()) {
    std::lock_guard lock(watched().mutex);
    if (!watched().storages.count(name)) return {};
  }
  return {name, t.is_inference() ? 0 : static_cast<uint64_t>(t._version()),
          static_cast<int64_t>(t.storage_offset() * t.itemsize())};
}

}  // namespace

WeightRef weight_ref(const at::Tensor& t, WeightUse use) {
  const WeightRef ref = name_of(t);
  if (!ref.storage) return {};
  return stays(t, ref, use) ? ref : WeightRef{};
}

WeightRef weight_ref(const at::Tensor& t, at::ArrayRef<at::Tensor> others) {
  WeightRef ref = weight_ref(t);
  if (!ref.storage) return {};
  runtime::Queue& queue = runtime::current_queue();
  for (const at::Tensor& other : others) {
    uint64_t contents = 0;
    if (other.defined()) {
      const WeightRef name = name_of(other);
      if (!name.storage) return {};
      contents = onednn::WeightCache::instance().contents(queue, name);
    }
    ref.version = (ref.version ^ contents) * 0x9e3779b97f4a7c15ull + 1;
  }
  return ref;
}

uint64_t packed_weight_writes() { return onednn::WeightCache::instance().writes(); }

products::Weight weight_of(const at::Tensor& b, int64_t rows) {
  // Packing costs about one pass over it, which training, where weights change at each step, would pay each time.
  if (b.dim() != 2 || rows < kPackedRows || b.numel() < kPackedWeight || c10::GradMode::is_enabled() ||
      static_cast<size_t>(b.numel()) * b.itemsize() != b.storage().nbytes())
    return {};
  const auto name = [](const void* owner) {
    const at::Tensor& t = *static_cast<const at::Tensor*>(owner);
    return weight_ref(t, t.stride(-1) == 1 ? WeightUse::as_it_is : WeightUse::transposed);
  };
  return {name, &b};
}

}  // namespace xpu_ops::aten
