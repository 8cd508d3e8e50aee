#include "kernels/mkl/plan_cache.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>

#include "kernels/mkl/library.hpp"

namespace xpu_ops::mkl {
namespace {

constexpr uint64_t kDefaultCapacity = 1024;
constexpr size_t kKeyWords = 9 + 3 * kFftRank;
using Key = std::array<int64_t, kKeyWords>;

Key key_of(const FftShape& s, const runtime::Queue* queue) {
  Key key{static_cast<int64_t>(s.real),
          static_cast<int64_t>(s.kind) << 1 | s.forward,
          s.rank,
          s.batch,
          s.in_distance,
          s.out_distance,
          0,
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(queue)),
          s.threads};
  static_assert(sizeof s.scale == sizeof(int64_t));
  std::memcpy(&key[6], &s.scale, sizeof s.scale);
  for (int d = 0; d < s.rank; ++d) {
    key[9 + 3 * d] = s.lengths[d];
    key[10 + 3 * d] = s.in_strides[d];
    key[11 + 3 * d] = s.out_strides[d];
  }
  return key;
}

}  // namespace

PlanCacheEntry describe(const FftShape& s) {
  static constexpr const char* kKinds[] = {"c2c", "r2c", "c2r"};
  PlanCacheEntry e;
  e.kind =
      std::string(kKinds[static_cast<int>(s.kind)]) + (s.forward ? " forward " : " backward ") + dtype_suffix(s.real);
  e.shape = std::to_string(s.batch);
  for (int d = 0; d < s.rank; ++d) e.shape += " x " + std::to_string(s.lengths[d]);
  return e;
}

struct PlanCache::Impl {
  struct Node {
    Key key;
    PlanCacheEntry entry;
    std::shared_ptr<CachedPlan> plan;
  };
  mutable std::mutex mutex;
  std::list<Node> lru;  // most recently used first
  std::map<Key, std::list<Node>::iterator> index;
  uint64_t capacity = kDefaultCapacity, hits = 0, misses = 0, evictions = 0;

  void shrink() {
    while (lru.size() > capacity) {
      index.erase(lru.back().key);
      lru.pop_back();
      ++evictions;
    }
  }
};

PlanCache::PlanCache() : impl_(new Impl) {
  if (const char* env = std::getenv("XPU_OPS_PLAN_CACHE_CAPACITY")) impl_->capacity = std::strtoull(env, nullptr, 10);
}

PlanCache& PlanCache::instance() {
  static auto* cache = new PlanCache;  // never destroyed: plans may need libraries that are gone at exit
  return *cache;
}

std::shared_ptr<CachedPlan> PlanCache::get(const FftShape& shape, runtime::Queue* queue) {
  const Key key = key_of(shape, queue);
  {
    std::lock_guard lock(impl_->mutex);
    if (auto it = impl_->index.find(key); it != impl_->index.end()) {
      ++impl_->hits;
      ++it->second->entry.uses;
      impl_->lru.splice(impl_->lru.begin(), impl_->lru, it->second);
      return it->second->plan;
    }
    ++impl_->misses;
  }
  auto made = std::make_shared<CachedPlan>();
  if (queue) {
    QueuePlan& plan_for = queue_plan();  // loaded outside the queue's lock
    queue->submit([&](sycl::queue& q) {
      made->queue = q;
      made->plan.reset(plan_for(shape, &q));
    });
  } else {
    made->plan.reset(table().fft_host_plan(shape));
  }
  std::lock_guard lock(impl_->mutex);
  if (auto it = impl_->index.find(key); it != impl_->index.end()) return it->second->plan;  // another thread was first
  if (!impl_->capacity) return made;
  impl_->lru.push_front({key, describe(shape), made});
  impl_->lru.front().entry.uses = 1;
  impl_->index.emplace(key, impl_->lru.begin());
  impl_->shrink();
  return made;
}

void PlanCache::set_capacity(uint64_t n) {
  std::lock_guard lock(impl_->mutex);
  impl_->capacity = n;
  impl_->shrink();
}

PlanCacheStats PlanCache::stats() const {
  std::lock_guard lock(impl_->mutex);
  return {impl_->capacity, impl_->lru.size(), impl_->hits, impl_->misses, impl_->evictions};
}

std::vector<PlanCacheEntry> PlanCache::entries() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<PlanCacheEntry> out;
  for (const auto& node : impl_->lru) out.push_back(node.entry);
  return out;
}

void PlanCache::clear() {
  std::lock_guard lock(impl_->mutex);
  impl_->index.clear();
  impl_->lru.clear();
  impl_->hits = impl_->misses = impl_->evictions = 0;
}

}  // namespace xpu_ops::mkl
