// State that the allocator's source files share. Nothing outside them includes it; every field is read under
// State::mutex.
#pragma once
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/memory/pointer_map.hpp"

namespace xpu_ops::runtime::allocator {

struct Pool;

struct Block {
  char* ptr = nullptr;
  size_t size = 0, requested = 0;
  StreamId stream = 0;
  Pool* pool = nullptr;
  Block *prev = nullptr, *next = nullptr;  // neighbours in the segment
  int device = 0;
  int events = 0;  // outstanding markers of other streams
  bool allocated = false;
  uint32_t age = 0;  // allocations since the block was last free-listed, for collection
  std::vector<StreamId> uses;
  TraceContext context, segment_context;

  bool split() const { return prev || next; }
  bool active() const { return allocated || events || !uses.empty(); }
};

// The first block of at least a size.
struct Wanted {
  StreamId stream;
  size_t size;
};

struct Less {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    return a->ptr < b->ptr;
  }
  bool operator()(const Block* a, const Wanted& b) const {
    return a->stream != b.stream ? a->stream < b.stream : a->size < b.size;
  }
  bool operator()(const Wanted& a, const Block* b) const {
    return a.stream != b->stream ? a.stream < b->stream : a.size <= b->size;
  }
};

// Free blocks, by stream and size. Keeps a few nodes: most calls take one block out and put another one in.
class FreeBlocks : public std::set<Block*, Less> {
 public:
  void insert(Block* b) {
    if (spares_.empty()) {
      set::insert(b);
      return;
    }
    node_type node = std::move(spares_.back());
    spares_.pop_back();
    node.value() = b;
    set::insert(std::move(node));
  }
  void erase(iterator it) {
    node_type node = extract(it);
    if (spares_.size() < spares_.capacity()) spares_.push_back(std::move(node));
  }
  void erase(Block* b) { erase(find(b)); }
  FreeBlocks() { spares_.reserve(8); }

 private:
  std::vector<node_type> spares_;
};

struct PrivatePool;

struct Pool {
  bool small;
  PrivatePool* owner;
  FreeBlocks free = {};
  // The block that came back last, not yet merged with its neighbours nor among the free ones: most often the next
  // request is of its size. settled_device() and the allocator make a free block of it before they look at the pool.
  Block* held = nullptr;
};

struct PrivatePool {
  PrivatePool(PoolId id, PoolFunctions functions, bool use_on_oom)
      : id(id), functions(std::move(functions)), use_on_oom(use_on_oom), small{true, this}, large{false, this} {}
  PoolId id;
  PoolFunctions functions;
  bool use_on_oom;
  int use_count = 1;
  int segments = 0;
  Pool small, large;
};

struct Capture {
  PoolId id;
  PoolFilter filter;
  bool takes(StreamId stream) const {
    return (!filter.thread || *filter.thread == std::this_thread::get_id()) &&
           (!filter.stream || *filter.stream == stream);
  }
};

struct Device {
  DeviceStats stats;
  Pool small{true, nullptr}, large{false, nullptr};
  std::deque<std::pair<sycl::event, Block*>> pending;
  double fraction = 1.0;
  bool limited = false;
  std::map<PoolId, std::unique_ptr<PrivatePool>> pools;
  std::vector<Capture> captures;
  std::deque<TraceEntry> trace;
};

struct History {
  bool enabled = false;
  size_t max_entries = 1;
  std::set<TraceAction> skip;
};

// One lock for all devices: a call takes it once. Never destroyed.
struct State {
  std::mutex mutex;
  std::array<Device, kMaxDevices> devices;
  PointerMap<Block> blocks;  // allocated ones only
  AllocatorConfig config;
  History history;
  PluggedAllocator plugged;
  bool used = false;
};

State& state();
Device& checked_device(State& s, int device);
// With complete statistics and lists of free blocks.
Device& settled_device(State& s, int device);

inline PoolId pool_id(const Pool& p) { return p.owner ? p.owner->id : PoolId{0, 0}; }

// The history's level is read without the lock.
extern std::atomic<TraceLevel> g_level;
TraceContext caller_context();
// The caller's context if the history wants it at this level. Outside the lock: the recorder may take the GIL.
inline TraceContext gather(TraceLevel level) {
  if (g_level.load(std::memory_order_relaxed) < level) [[likely]]
    return nullptr;
  return caller_context();
}
void trace(State& s, int device, TraceAction action, size_t address, size_t size, StreamId stream, PoolId pool,
           TraceContext context);

}  // namespace xpu_ops::runtime::allocator
