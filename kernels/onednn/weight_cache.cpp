#include "kernels/onednn/weight_cache.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "kernels/error.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/lru.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/memory/reclaim.hpp"
#include "kernels/runtime/queue/command_graph.hpp"

namespace xpu_ops::onednn {
namespace {
std::atomic<uint64_t> serials = 0;
}  // namespace

PackedWeight::PackedWeight(runtime::Queue& queue, size_t bytes, bool kept)
    : device(queue.device), stream(queue.id), bytes(bytes), kept(kept) {
  data = kept ? sycl::aligned_alloc_device(64, bytes, runtime::sycl_device(device), runtime::sycl_context(device))
              : runtime::allocate(device, queue.id, bytes);
  if (!data)
    throw Error(ErrorKind::out_of_memory,
                "XPU out of memory. Tried to allocate " + std::to_string(bytes) + " bytes for a packed oneDNN weight.");
}

PackedWeight::~PackedWeight() {
  if (!kept) {
    runtime::deallocate(data);
    return;
  }
  runtime::settle(device);  // a primitive may still read it
  sycl::free(data, runtime::sycl_context(device));
}

void PackedWeight::reach(const runtime::Queue& queue) {
  if (stream == queue.id || settled) return;
  runtime::settle(device);
  settled = true;
}

struct WeightCache::Impl {
  struct Name {
    uint64_t storage, packing;
    int64_t offset;
    int device;
    bool operator==(const Name&) const = default;
  };
  struct Hash {
    size_t operator()(const Name& n) const {
      uint64_t h = n.storage * 0x9e3779b97f4a7c15ull;
      h = (h ^ n.packing ^ static_cast<uint64_t>(n.offset) << 20 ^ static_cast<uint64_t>(n.device) << 56) *
          0xd6e8feb86659fd93ull;
      return h ^ h >> 31;
    }
  };
  struct Held {
    uint64_t version;
    std::shared_ptr<PackedWeight> packed;
    bool stale = false;
  };
  using Lru = runtime::LruMap<Name, Held, Hash>;

  mutable std::mutex mutex;
  Lru lru;
  struct Weight {
    uint64_t version;
    bool written;
    int unused;  // changes in a row that came before a second use
  };
  struct Storage {
    int entries = 0;
    std::unordered_map<int64_t, Weight> weights;  // by offset
  };
  std::unordered_map<uint64_t, Storage> storages;
  StorageHooks hooks;
  uint64_t budget = 0, bytes = 0, hits = 0, misses = 0, packs = 0, evictions = 0, invalidations = 0;
  uint64_t writes = 0;  // calls of invalidate that named a pinned storage

  // Packed memory to be let go when the lock is released: that may wait for the device.
  struct Dropped { std::vector<std::shared_ptr<PackedWeight>> packed; };
  // Unpins under the lock, so that it cannot undo another thread's pin and watch of the same storage.
  void release(uint64_t storage) {
    if (auto s = storages.find(storage); --s->second.entries == 0) {
      storages.erase(s);
      if (hooks.unpin) hooks.unpin(storage);
    }
  }
  Lru::iterator drop(Lru::iterator it, Dropped& out) {
    bytes -= it->value.packed->bytes;
    out.packed.push_back(std::move(it->value.packed));
    const uint64_t storage = it->key.storage;
    const auto next = lru.erase(it);
    release(storage);
    return next;
  }
  void sweep(Dropped& out) {
    if (!hooks.alive) return;
    for (auto it = lru.begin(); it != lru.end();) it = hooks.alive(it->key.storage) ? std::next(it) : drop(it, out);
  }
  // A weight that is packed already, for as long as the graph lives. Its storage stays pinned and watched as long.
  std::shared_ptr<PackedWeight> hold(const Name& name, uint64_t version, runtime::CommandGraph& graph) {
    struct Hold {
      Impl& cache;
      std::shared_ptr<PackedWeight> packed;
      uint64_t storage;
      ~Hold() {
        const std::lock_guard lock(cache.mutex);
        cache.release(storage);
      }
    };
    std::shared_ptr<Hold> hold;
    {
      const std::lock_guard lock(mutex);
      const auto it = lru.find(name);
      if (it == lru.end() || it->value.version != version || it->value.stale) return nullptr;
      ++storages[name.storage].entries;
      hold = std::make_shared<Hold>(*this, it->value.packed, name.storage);
      hold->packed->elsewhere = true;
      if (hooks.watch) hooks.watch(name.storage);
    }
    graph.hold(hold);
    return hold->packed;
  }
  void shrink(Dropped& out) {
    while (bytes > budget && !lru.empty()) {
      drop(std::prev(lru.end()), out);
      ++evictions;
    }
  }
};

WeightCache& WeightCache::instance() {
  static auto* cache = new WeightCache;  // never destroyed: the SYCL runtime may be gone before static destructors end
  return *cache;
}

WeightCache::WeightCache() : impl_(new Impl) {
  impl_->budget = runtime::env_number("XPU_OPS_WEIGHT_CACHE_BYTES",
                                      std::min<uint64_t>(uint64_t{4} << 30, runtime::device_info(0).total_memory / 4));
  runtime::set_reclaimer({[] { instance().sweep(); }, [](int device) { return instance().evict(device); }});
}

std::shared_ptr<PackedWeight> WeightCache::get(runtime::Queue& queue, const WeightRef& ref, uint64_t packing,
                                               size_t bytes, const std::function<void(void*)>& pack) {
  if (runtime::CommandGraph* graph = runtime::graph_of(queue)) {
    if (std::shared_ptr<PackedWeight> kept =
            graph->weights_stay && ref.storage
                ? impl_->hold({ref.storage, packing, ref.offset, queue.device}, ref.version, *graph)
                : nullptr)
      return kept;
    // Nobody sees what is written between replays, so each packs anew.
    auto packed = std::make_shared<PackedWeight>(queue, bytes, false);
    pack(packed->data);
    packed->serial = ++serials;
    return packed;
  }
  const Impl::Name name{ref.storage, packing, ref.offset, queue.device};
  uint64_t writes = 0;
  std::shared_ptr<PackedWeight> reuse;
  if (ref.storage) {
    Impl::Dropped dropped;
    std::unique_lock lock(impl_->mutex);
    bool counted = false;  // the entry we replace holds its storage's place
    if (auto it = impl_->lru.find(name); it != impl_->lru.end()) {
      if (it->value.version == ref.version && !it->value.stale) {
        ++impl_->hits;
        impl_->lru.use(it);
        const std::shared_ptr<PackedWeight> packed = it->value.packed;
        if (packed->stream != queue.id) packed->elsewhere = true;
        lock.unlock();
        packed->reach(queue);
        return packed;
      }
      if (!it->value.stale) ++impl_->invalidations;
      reuse = std::move(it->value.packed);
      impl_->bytes -= reuse->bytes;
      impl_->lru.erase(it);
      counted = true;
      // Another thread or queue may still read it.
      if (reuse.use_count() > 1 || reuse->bytes != bytes || reuse->stream != queue.id || reuse->elsewhere)
        reuse = nullptr;
    }
    ++impl_->misses;
    impl_->sweep(dropped);
    // Pinned before packing; a write that comes meanwhile changes `writes`, and what we packed is not kept.
    writes = impl_->writes;
    if (!counted && impl_->storages[ref.storage].entries++ == 0 && impl_->hooks.pin) impl_->hooks.pin(ref.storage);
    if (impl_->hooks.watch) impl_->hooks.watch(ref.storage);
  }
  std::shared_ptr<PackedWeight> packed;
  try {
    packed = reuse ? std::move(reuse) : std::make_shared<PackedWeight>(queue, bytes, ref.storage != 0);
    pack(packed->data);
    packed->serial = ++serials;
  } catch (...) {
    std::lock_guard lock(impl_->mutex);
    if (ref.storage) impl_->release(ref.storage);
    throw;
  }

  Impl::Dropped dropped;
  std::lock_guard lock(impl_->mutex);
  ++impl_->packs;
  if (!ref.storage) return packed;
  if (bytes <= impl_->budget && writes == impl_->writes && impl_->lru.find(name) == impl_->lru.end()) {
    impl_->lru.add(name, {ref.version, packed});
    impl_->bytes += bytes;
    impl_->shrink(dropped);
  } else {
    impl_->release(ref.storage);
  }
  return packed;
}

uint64_t WeightCache::contents(runtime::Queue& queue, const WeightRef& ref) {
  constexpr uint64_t kContents = 0x636f6e74656e7473;
  return get(queue, ref, kContents, 1, [](void*) {})->serial;
}

bool WeightCache::pays(const WeightRef& ref) {
  constexpr int kUnused = 2;
  std::lock_guard lock(impl_->mutex);
  const auto s = impl_->storages.find(ref.storage);
  if (s == impl_->storages.end()) return true;
  const auto [it, first] = s->second.weights.try_emplace(ref.offset, Impl::Weight{ref.version, false, 0});
  Impl::Weight& w = it->second;
  if (first) return true;
  if (w.version == ref.version && !w.written) {
    w.unused = 0;
    return true;
  }
  w = {ref.version, false, std::min(w.unused + 1, kUnused)};
  if (w.unused < kUnused) return true;
  if (impl_->hooks.watch) impl_->hooks.watch(ref.storage);
  return false;
}

void WeightCache::invalidate(uint64_t storage) {
  std::lock_guard lock(impl_->mutex);
  const auto s = impl_->storages.find(storage);
  if (s == impl_->storages.end()) return;
  for (auto& [offset, weight] : s->second.weights) weight.written = true;
  ++impl_->writes;
  for (auto& node : impl_->lru)
    if (node.key.storage == storage && !node.value.stale) {
      node.value.stale = true;
      ++impl_->invalidations;
    }
}

void WeightCache::sweep() {
  Impl::Dropped dropped;
  std::lock_guard lock(impl_->mutex);
  impl_->sweep(dropped);
}

size_t WeightCache::evict(int device) {
  Impl::Dropped dropped;
  std::lock_guard lock(impl_->mutex);
  const uint64_t before = impl_->bytes;
  for (auto it = impl_->lru.begin(); it != impl_->lru.end();) {
    if (it->key.device != device) {
      ++it;
      continue;
    }
    it = impl_->drop(it, dropped);
    ++impl_->evictions;
  }
  return before - impl_->bytes;
}

void WeightCache::set_hooks(StorageHooks hooks) {
  clear();
  std::lock_guard lock(impl_->mutex);
  impl_->hooks = hooks;
}

void WeightCache::set_budget(uint64_t bytes) {
  Impl::Dropped dropped;
  std::lock_guard lock(impl_->mutex);
  impl_->budget = bytes;
  impl_->shrink(dropped);
}

uint64_t WeightCache::writes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->writes;
}

WeightCacheStats WeightCache::stats() const {
  std::lock_guard lock(impl_->mutex);
  return {impl_->budget, impl_->bytes, impl_->lru.size(), impl_->hits,
          impl_->misses, impl_->packs, impl_->evictions,  impl_->invalidations};
}

std::vector<WeightCacheEntry> WeightCache::entries() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<WeightCacheEntry> out;
  for (const auto& n : impl_->lru)
    out.push_back(
        {n.key.storage, n.value.version, n.key.packing, n.value.packed->bytes, n.uses, n.key.offset, n.key.device});
  return out;
}

void WeightCache::clear() {
  Impl::Dropped dropped;
  std::lock_guard lock(impl_->mutex);
  while (!impl_->lru.empty()) impl_->drop(impl_->lru.begin(), dropped);
  impl_->hits = impl_->misses = impl_->packs = impl_->evictions = impl_->invalidations = 0;
}

}  // namespace xpu_ops::onednn
