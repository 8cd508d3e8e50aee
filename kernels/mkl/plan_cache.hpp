// Committed transforms, least recently used first out: committing costs what a short transform does many times over.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernels/mkl/table.hpp"
#include "kernels/runtime/queue.hpp"

namespace xpu_ops::mkl {

struct CachedPlan {
  std::unique_ptr<FftPlan> plan;
  std::optional<sycl::queue> queue;  // to which run() submits
  std::mutex mutex;                  // held while the plan runs
};

struct PlanCacheStats { uint64_t capacity, size, hits, misses, evictions; };
struct PlanCacheEntry {
  std::string kind, shape;  // "r2c f32", "16 x 1024"
  uint64_t uses;
};

PlanCacheEntry describe(const FftShape& shape);

class PlanCache {
 public:
  static PlanCache& instance();
  // The plan of a shape for the calling thread (`queue` null) or for a queue.
  std::shared_ptr<CachedPlan> get(const FftShape& shape, runtime::Queue* queue);
  void set_capacity(uint64_t n);
  PlanCacheStats stats() const;
  std::vector<PlanCacheEntry> entries() const;  // most recently used first
  void clear();                                 // drops all entries and sets the counters to zero

 private:
  PlanCache();
  struct Impl;
  Impl* impl_;
};

}  // namespace xpu_ops::mkl
