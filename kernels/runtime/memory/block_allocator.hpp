// The allocator of one device: blocks of segments, under the lock of State. For allocator.cpp and
// allocator_segments.cpp.
#pragma once
#include <algorithm>
#include <utility>

#include "kernels/runtime/memory/allocator_state.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime::allocator {

constexpr size_t kUnit = 512;                   // every block is a multiple of this
constexpr size_t kSmallSize = size_t{1} << 20;  // up to here requests come from the small pool
constexpr size_t kSmallSegment = size_t{2} << 20;

// Called with the index of the statistics of all pools, and with that of this kind of pool.
template <class Fn>
void both(const Pool& pool, Fn&& fn) {
  fn(0);
  fn(pool.small ? 1 : 2);
}

std::string format_size(uint64_t bytes);

class Allocator {
 public:
  explicit Allocator(State& s, int device) : s_(s), d_(s.devices[device]), device_(device) {}

  void trace(TraceAction action, size_t address, size_t size, StreamId stream, PoolId pool, TraceContext context) {
    if (s_.history.enabled) [[unlikely]]
      allocator::trace(s_, device_, action, address, size, stream, pool, std::move(context));
  }

  Block* allocate(StreamId stream, size_t bytes, TraceContext context);
  void deallocate(Block* b, const TraceContext& context);
  void release_cached(const TraceContext& context, PoolId only);
  // The pools' statistics and lists are complete afterwards.
  void settle();
  // Blocks whose other streams have passed their marker become free.
  void reclaim(const TraceContext& context);

 private:
  int64_t reserved() const { return d_.stats.reserved_bytes[0].current; }
  uint64_t allowed() const {
    return static_cast<uint64_t>(d_.fraction * static_cast<double>(device_info(device_).total_memory));
  }
  bool over_limit(size_t segment) const {
    return d_.limited && static_cast<uint64_t>(reserved()) + segment > allowed();
  }

  // Blocks: allocator.cpp.
  size_t round(size_t bytes) const;
  size_t segment_size(size_t size) const;
  Pool& choose(size_t size, StreamId stream);
  Block* take(Pool& pool, StreamId stream, size_t size);
  bool splits(const Block* b, size_t size) const;
  Block* hand_out(Block* b, size_t size, size_t requested, TraceContext context);
  Block* mark(Block* b, size_t requested, TraceContext context);
  size_t merge(Block* into, Block* other, Pool& pool);  // absorbs a free neighbour; its size
  void give_back(Block* b, const TraceContext& context);
  void settle(Pool& pool);
  void list(Block* b);  // makes a free block of one that came back, and of its free neighbours

  // Segments: allocator_segments.cpp.
  Block* take_from_spare_pools(StreamId stream, size_t size);
  void* driver_alloc(Pool& pool, size_t size);
  Block* grow(Pool& pool, StreamId stream, size_t size, size_t segment, const TraceContext& context);
  void wait_pending(const TraceContext& context, PrivatePool* only);
  void release_segment(Block* b, const TraceContext& context);
  void release_segments(Pool& pool, const TraceContext& context);
  // Frees the smallest unsplittable segments that together make room for the request.
  bool release_oversize(Pool& pool, size_t size, const TraceContext& context);
  // garbage_collection_threshold: unused segments older than the average go back, oldest first.
  void collect(const TraceContext& context);
  [[noreturn]] void out_of_memory(size_t size, size_t segment, StreamId stream, Pool& pool, TraceContext context);

  State& s_;
  Device& d_;
  int device_;
};

}  // namespace xpu_ops::runtime::allocator
