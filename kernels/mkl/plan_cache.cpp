#include "kernels/mkl/plan_cache.hpp"

#include <cstring>

#include "kernels/mkl/library.hpp"
#include "kernels/runtime/environment.hpp"

namespace xpu_ops::mkl {
namespace {

PlanKey key_of(const FftShape& s, const runtime::Queue* queue) {
  PlanKey key{static_cast<int64_t>(s.real),
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

size_t PlanHash::operator()(const PlanKey& key) const {
  uint64_t h = 0x9e3779b97f4a7c15ull;
  for (const int64_t word : key) h = (h ^ static_cast<uint64_t>(word)) * 0xd6e8feb86659fd93ull, h ^= h >> 32;
  return h;
}

PlanCache::PlanCache() : LruCache(runtime::env_number("XPU_OPS_PLAN_CACHE_CAPACITY", 1024)) {}

PlanCache& PlanCache::instance() {
  static auto* cache = new PlanCache;  // never destroyed: plans may need libraries that are gone at exit
  return *cache;
}

std::shared_ptr<CachedPlan> PlanCache::get(const FftShape& shape, runtime::Queue* queue) {
  return LruCache::get(key_of(shape, queue), [&] {
    auto made = std::make_shared<CachedPlan>();
    made->shape = shape;
    if (queue) {
      QueuePlan& plan_for = queue_plan();  // loaded outside the queue's lock
      queue->submit([&](sycl::queue& q) {
        made->queue = q;
        made->plan.reset(plan_for(shape, &q));
      });
    } else {
      made->plan.reset(table().fft_host_plan(shape));
    }
    return made;
  });
}

std::vector<PlanCacheEntry> PlanCache::entries() const {
  std::vector<PlanCacheEntry> out;
  each([&](const CachedPlan& plan, uint64_t uses) {
    out.push_back(describe(plan.shape));
    out.back().uses = uses;
  });
  return out;
}

}  // namespace xpu_ops::mkl
