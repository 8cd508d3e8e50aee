// Committed transforms, least recently used first out: committing costs what a short transform does many times over.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernels/mkl/table.hpp"
#include "kernels/runtime/lru.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::mkl {

struct CachedPlan {
  std::unique_ptr<FftPlan> plan;
  std::optional<sycl::queue> queue;  // to which run() submits
  std::mutex mutex;                  // held while the plan runs
  FftShape shape;
};

struct PlanCacheEntry {
  std::string kind, shape;  // "r2c f32", "16 x 1024"
  uint64_t uses = 0;
};

PlanCacheEntry describe(const FftShape& shape);

using PlanKey = std::array<int64_t, 9 + 3 * kFftRank>;
struct PlanHash { size_t operator()(const PlanKey& key) const; };

class PlanCache : public runtime::LruCache<PlanKey, CachedPlan, PlanHash> {
 public:
  static PlanCache& instance();
  // The plan of a shape for the calling thread (`queue` null) or for a queue.
  std::shared_ptr<CachedPlan> get(const FftShape& shape, runtime::Queue* queue);
  std::vector<PlanCacheEntry> entries() const;  // most recently used first

 private:
  PlanCache();
};

}  // namespace xpu_ops::mkl
