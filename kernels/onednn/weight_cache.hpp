// Weights in the layout a primitive wants, kept between calls.
//
// An entry is found by (storage, offset, packing_id: strides of the source, layout of the result) and is used only if
// its version equals the caller's. Two things keep it from ever being stale:
//  - `storage` is a name that its owner does not give to other memory while the cache holds entries for it. The owner
//    installs StorageHooks: pin() when the first entry of a storage appears, unpin() when its last one goes, watch()
//    before each packing, alive() to sweep entries whose memory is gone. The torch binding pins a StorageImpl by a weak
//    reference, so its address cannot be recycled.
//  - every write either changes the version or calls invalidate(storage).
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/queue/queue.hpp"
#include "kernels/view.hpp"

namespace xpu_ops::onednn {

// Called under the cache's lock: they must not call the cache.
struct StorageHooks {
  void (*pin)(uint64_t storage) = nullptr;
  void (*unpin)(uint64_t storage) = nullptr;
  void (*watch)(uint64_t storage) = nullptr;  // from now on a write calls invalidate, once
  bool (*alive)(uint64_t storage) = nullptr;
};

// Kept ones lie outside the caching allocator, so that its statistics show the user's tensors only; those for one call
// come from it.
struct PackedWeight {
  PackedWeight(runtime::Queue& queue, size_t bytes, bool kept);  // throws Error{out_of_memory}
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;
  // Packing was submitted to the queue `stream`, in order with its later work. Another queue's waits for it here, once.
  void reach(const runtime::Queue& queue);
  int device;
  runtime::StreamId stream;  // that packed it
  size_t bytes;
  bool kept;
  uint64_t serial = 0;                // another after each packing
  bool elsewhere = false;             // read by another queue; written under the cache's lock
  std::atomic<bool> settled = false;  // known to be packed, not only submitted
  void* data;
};

struct WeightCacheStats { uint64_t budget, bytes, size, hits, misses, packs, evictions, invalidations; };
struct WeightCacheEntry {
  uint64_t storage, version, packing, bytes, uses;
  int64_t offset;
  int device;
};

class WeightCache {
 public:
  static WeightCache& instance();

  // The packed form of `ref`, packed by `pack(dst)` if it is not there. Never null; not kept if it exceeds the budget
  // or ref.storage is 0. `packs` counts every call of pack.
  std::shared_ptr<PackedWeight> get(runtime::Queue& queue, const WeightRef& ref, uint64_t packing, size_t bytes,
                                    const std::function<void(void*)>& pack);
  // A number that is another one when the tensor has changed: the name of its contents, of which something is made.
  uint64_t contents(runtime::Queue& queue, const WeightRef& ref);
  // Whether to pack a weight that a primitive takes as it lies, too: not where it changes before each second use, as in
  // compiled training, until it comes by unchanged. To be asked once per use, before get().
  bool pays(const WeightRef& ref);
  // Counts the writes to storages of which it has packed weights, or a graph.
  uint64_t writes() const;
  // Forgets what was packed from the storage; the memory stays for the next packing.
  void invalidate(uint64_t storage);
  void sweep();              // drops entries of storages that are gone; torch.xpu.empty_cache() calls it
  size_t evict(int device);  // drops all entries of a device and returns their bytes; before an allocation fails
  void set_hooks(StorageHooks hooks);
  void set_budget(uint64_t bytes);
  WeightCacheStats stats() const;
  std::vector<WeightCacheEntry> entries() const;
  void clear();  // drops all entries and sets the counters to zero

 private:
  WeightCache();
  struct Impl;
  Impl* impl_;
};

}  // namespace xpu_ops::onednn
