// The caching device allocator: per-stream pools, upstream's segment sizes, flush and retry when out of memory.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

// Both run in under 0.5 us from the cache. allocate throws Error{out_of_memory} with upstream's text.
void* allocate(int device, StreamId stream, size_t bytes);
void deallocate(void* ptr) noexcept;
// A block used on another stream is not reused before that stream has passed this point.
void record_stream(void* ptr, StreamId stream);

// Device memory for one launch; freed into the pool of the current queue when it leaves scope, which in-order
// execution makes safe.
class Scratch {
 public:
  explicit Scratch(size_t bytes);  // on the current device and queue
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T = void>
  T* get() const {
    return static_cast<T*>(ptr_);
  }

 private:
  void* ptr_ = nullptr;
};

// Statistics, equal in meaning to c10's DeviceStats. Index 0: all, 1: small pool, 2: large pool.
struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void up(int64_t n) {
    current += n;
    if (current > peak) peak = current;
    allocated += n;
  }
  void down(int64_t n) {
    current -= n;
    freed += n;
  }
};
using StatArray = std::array<Stat, 3>;

using PoolId = std::pair<unsigned long long, unsigned long long>;  // {0, 0}: the default pools

struct DeviceStats {
  StatArray allocation, segment, active, inactive_split;                                           // counts
  StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;  // bytes
  std::map<PoolId, StatArray> reserved_by_pool;
  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;
  Stat oversize_allocations, oversize_segments;
};

DeviceStats memory_stats(int device);
void reset_peak_stats(int device);
void reset_accumulated_stats(int device);
void empty_cache(PoolId pool = {0, 0});  // returns unused segments of all devices to the driver
double memory_fraction(int device);
void set_memory_fraction(int device, double fraction);
struct BlockOf {
  size_t size = 0;  // 0: no block that allocate() returned starts here
  int device = -1;
  StreamId stream = 0;
};
BlockOf block_of(void* ptr);

// PYTORCH_ALLOC_CONF, as far as it applies here.
struct AllocatorConfig {
  size_t large_segment = size_t{20} << 20;
  size_t max_split = SIZE_MAX;  // larger blocks are never split
  size_t max_non_split_rounding = size_t{20} << 20;
  double collect_above = 0;  // share of the allowed memory above which old segments are given back
  std::function<size_t(size_t)> power2_divisions;  // 0 or 1: round to 512 B only
};
void configure_allocator(AllocatorConfig config);

// Private pools. alloc and free stand in for the driver's where given.
struct PoolFunctions {
  std::function<void*(size_t)> alloc;
  std::function<void(void*)> free;
};
PoolId new_pool_id(bool user_created);
void create_pool(int device, PoolId id, PoolFunctions functions = {}, bool use_on_oom = false);  // or adds a reference
// Which allocations go to the pool: those of a thread, those on a stream, or with neither given all of the device.
struct PoolFilter {
  std::optional<std::thread::id> thread;
  std::optional<StreamId> stream;
  bool operator==(const PoolFilter&) const = default;
};
void begin_allocate_to_pool(int device, PoolId id, PoolFilter filter);
void end_allocate_to_pool(int device, PoolId id);
void release_pool(int device, PoolId id);
int pool_use_count(int device, PoolId id);

// Replaces the caching allocator by a user's functions. Throws Error{runtime} once memory has been allocated.
struct PluggedAllocator {
  std::function<void*(size_t bytes, int device, sycl::queue* queue)> alloc;
  std::function<void(void* ptr, size_t bytes, int device, sycl::queue* queue)> free;
};
void plug_allocator(PluggedAllocator allocator);

// Introspection.
using TraceContext = std::shared_ptr<void>;
struct BlockInfo {
  size_t address = 0, size = 0, requested = 0;
  bool allocated = false, active = false;
  TraceContext context;
};
struct SegmentInfo {
  int device = 0;
  size_t address = 0, total = 0, requested = 0, allocated = 0, active = 0;
  StreamId stream = 0;
  bool large = false;
  PoolId pool{0, 0};
  std::vector<BlockInfo> blocks;
  TraceContext context;
};
enum class TraceAction {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom
};
const char* to_string(TraceAction action);
struct TraceEntry {
  TraceAction action;
  int device;
  size_t address;  // for oom: bytes the device had free
  size_t size;
  StreamId stream;
  PoolId pool;
  int64_t time_us;  // since the epoch
  TraceContext context;
};
enum class TraceLevel { never = 0, state = 1, alloc = 2, all = 3 };
std::vector<SegmentInfo> memory_snapshot(PoolId pool = {0, 0});
std::vector<TraceEntry> memory_trace(int device);
void record_memory_history(bool enabled, TraceContext (*recorder)(), size_t max_entries, TraceLevel level, bool clear,
                           const std::vector<std::string>& skip_actions);

}  // namespace xpu_ops::runtime
