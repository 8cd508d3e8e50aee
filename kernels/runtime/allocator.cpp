#include "kernels/runtime/allocator.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/runtime/allocator_state.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/queue.hpp"
#include "kernels/runtime/reclaim.hpp"
#include "kernels/runtime/redzone.hpp"

namespace xpu_ops::runtime {
namespace allocator {

State& state() {
  static State* s = new State;
  return *s;
}

Device& checked_device(State& s, int device) {
  device_info(device);
  return s.devices[device];
}

}  // namespace allocator

using namespace allocator;
namespace {

constexpr size_t kUnit = 512;                   // every block is a multiple of this
constexpr size_t kSmallSize = size_t{1} << 20;  // up to here requests come from the small pool
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMinLargeAlloc = size_t{10} << 20;  // from here on a request gets a segment of its own size
constexpr size_t kRoundLarge = size_t{2} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCheckFreeAbove = size_t{64} << 20;  // smaller segments do not ask the system for its free memory

struct {
  std::atomic<void (*)()> tidy{nullptr};
  std::atomic<size_t (*)(int)> reclaim{nullptr};
} g_reclaimer;

template <class Fn>
void both(const Pool& pool, Fn&& fn) {
  fn(0);
  fn(pool.small ? 1 : 2);
}

std::string format_size(uint64_t bytes) {
  char out[48];
  if (bytes <= 1024) {
    std::snprintf(out, sizeof out, "%llu bytes", static_cast<unsigned long long>(bytes));
  } else if (bytes <= 1048576) {
    std::snprintf(out, sizeof out, "%.2f KiB", static_cast<double>(bytes) / 1024.0);
  } else if (bytes <= 1073741824ull) {
    std::snprintf(out, sizeof out, "%.2f MiB", static_cast<double>(bytes) / 1048576.0);
  } else {
    std::snprintf(out, sizeof out, "%.2f GiB", static_cast<double>(bytes) / 1073741824.0);
  }
  return out;
}

class Allocator {
 public:
  explicit Allocator(State& s, int device) : s_(s), d_(s.devices[device]), device_(device) {}

  void trace(TraceAction action, size_t address, size_t size, StreamId stream, PoolId pool, TraceContext context) {
    if (s_.history.enabled) [[unlikely]]
      allocator::trace(s_, device_, action, address, size, stream, pool, std::move(context));
  }

  Block* allocate(StreamId stream, size_t bytes, TraceContext context) {
    if (!d_.pending.empty() && d_.captures.empty()) [[unlikely]]
      reclaim(context);
    const size_t size = round(bytes);
    Pool& pool = choose(size, stream);
    if (Block* b = pool.held; b && b->size == size && b->stream == stream) [[likely]] {
      pool.held = nullptr;
      return mark(b, bytes, std::move(context));
    }
    Block* block = take(pool, stream, size);
    if (!block) [[unlikely]] {
      const size_t segment = segment_size(size);
      if (s_.config.collect_above > 0 && !pool.owner) collect(context);
      block = grow(pool, stream, size, segment, context);
      if (!block && s_.config.max_split != SIZE_MAX && release_oversize(pool, size, context))
        block = grow(pool, stream, size, segment, context);
      if (!block) {
        release_cached(context, {0, 0});
        d_.stats.num_alloc_retries++;
        block = grow(pool, stream, size, segment, context);
      }
      if (!block && !over_limit(segment)) {
        if (auto* reclaim = g_reclaimer.reclaim.load(); reclaim && reclaim(device_) > 0)
          block = grow(pool, stream, size, segment, context);
      }
      if (!block) block = take_from_spare_pools(stream, size);
      if (!block) out_of_memory(size, segment, stream, pool, std::move(context));
    }
    return hand_out(block, size, bytes, std::move(context));
  }

  void deallocate(Block* b, const TraceContext& context) {
    b->allocated = false;
    both(*b->pool, [&](int i) {
      d_.stats.allocation[i].down(1);
      d_.stats.allocated_bytes[i].down(static_cast<int64_t>(b->size));
    });
    if (b->size >= s_.config.max_split) d_.stats.oversize_allocations.down(1);
    trace(TraceAction::free_requested, reinterpret_cast<size_t>(b->ptr), b->requested, b->stream, pool_id(*b->pool),
          context ? context : b->context);
    if (b->uses.empty()) [[likely]] {
      give_back(b, context);
      return;
    }
    for (StreamId stream : b->uses) {
      d_.pending.emplace_back(
          runtime::queue(device_, stream).submit([](sycl::queue& q) { return q.ext_oneapi_submit_barrier(); }), b);
      b->events++;
    }
    b->uses.clear();
  }

  void release_cached(const TraceContext& context, PoolId only) {
    bool synced = false;
    auto sync = [&] {
      // Queued work may still touch blocks of the pools: nothing goes back to the driver before it has run.
      if (!synced) runtime::wait(device_);
      synced = true;
    };
    if (only == PoolId{0, 0} && d_.captures.empty()) {
      wait_pending(context, nullptr);
      sync();
      release_segments(d_.large, context);
      release_segments(d_.small, context);
    }
    for (auto it = d_.pools.begin(); it != d_.pools.end();) {
      PrivatePool* p = it->second.get();
      if (p->use_count > 0 || (only != PoolId{0, 0} && p->id != only)) {
        ++it;
        continue;
      }
      wait_pending(context, p);
      sync();
      release_segments(p->small, context);
      release_segments(p->large, context);
      if (p->segments == 0) {
        for (auto& stat : d_.stats.reserved_by_pool[p->id]) stat.current = 0;
        it = d_.pools.erase(it);
      } else {
        ++it;
      }
    }
  }

  // The pools' statistics and lists are complete afterwards.
  void settle() {
    settle(d_.small);
    settle(d_.large);
    for (auto& [id, p] : d_.pools) {
      settle(p->small);
      settle(p->large);
    }
  }

  // Blocks whose other streams have passed their marker become free.
  void reclaim(const TraceContext& context) {
    for (auto it = d_.pending.begin(); it != d_.pending.end();) {
      auto status = it->first.get_info<sycl::info::event::command_execution_status>();
      if (status != sycl::info::event_command_status::complete) {
        ++it;
        continue;
      }
      Block* b = it->second;
      it = d_.pending.erase(it);
      if (--b->events == 0) give_back(b, context);
    }
  }

 private:
  size_t round(size_t bytes) const {
    if (bytes < kUnit) return kUnit;
    if (s_.config.power2_divisions) [[unlikely]] {
      size_t divisions = s_.config.power2_divisions(bytes);
      if (divisions > 1 && bytes > kUnit * divisions) {
        size_t power = std::bit_floor(bytes);
        if (power == bytes) return bytes;
        size_t step = power / divisions;
        if (step) return (bytes + step - 1) / step * step;
      }
    }
    return (bytes + kUnit - 1) / kUnit * kUnit;
  }

  size_t segment_size(size_t size) const {
    if (size <= kSmallSize) return kSmallSegment;
    if (size < kMinLargeAlloc && size <= s_.config.large_segment) return s_.config.large_segment;
    return (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
  }

  Pool& choose(size_t size, StreamId stream) {
    for (auto& c : d_.captures) {
      if (c.takes(stream)) {
        PrivatePool& p = *d_.pools.at(c.id);
        return size <= kSmallSize ? p.small : p.large;
      }
    }
    return size <= kSmallSize ? d_.small : d_.large;
  }

  Block* take(Pool& pool, StreamId stream, size_t size) {
    settle(pool);
    auto it = pool.free.lower_bound(Wanted{stream, size});
    if (it == pool.free.end() || (*it)->stream != stream) return nullptr;
    Block* b = *it;
    // A block too large to split serves only requests of about its size.
    if (size < s_.config.max_split && b->size >= s_.config.max_split) return nullptr;
    if (size >= s_.config.max_split && b->size >= size + s_.config.max_non_split_rounding) return nullptr;
    pool.free.erase(it);
    return b;
  }

  Block* take_from_spare_pools(StreamId stream, size_t size) {
    for (auto& [id, p] : d_.pools) {
      if (!p->use_on_oom) continue;
      if (Block* b = take(size <= kSmallSize ? p->small : p->large, stream, size)) return b;
    }
    return nullptr;
  }

  int64_t reserved() const { return d_.stats.reserved_bytes[0].current; }

  uint64_t allowed() const {
    return static_cast<uint64_t>(d_.fraction * static_cast<double>(device_info(device_).total_memory));
  }

  void* driver_alloc(Pool& pool, size_t size) {
    if (pool.owner && pool.owner->functions.alloc) return pool.owner->functions.alloc(size);
    const DeviceInfo& info = device_info(device_);
    // The driver of a CPU device promises memory the machine does not have; refuse what would end in the OOM killer.
    if (info.is_cpu && (static_cast<uint64_t>(reserved()) + size > info.total_memory ||
                        (size >= kCheckFreeAbove && size > free_memory(device_))))
      return nullptr;
    try {
      const bool huge = info.is_cpu && size > kSmallSegment;
      void* p = sycl::aligned_alloc_device(huge ? kHugePage : kUnit, size, sycl_device(device_), sycl_context(device_));
      // Fewer page faults and address translations, which random reads wait for. Where it is refused all is as before.
      if (p && huge) (void)madvise(p, size / kHugePage * kHugePage, MADV_HUGEPAGE);
      return p;
    } catch (const sycl::exception&) { return nullptr; }
  }

  bool over_limit(size_t segment) const {
    return d_.limited && static_cast<uint64_t>(reserved()) + segment > allowed();
  }

  Block* grow(Pool& pool, StreamId stream, size_t size, size_t segment, const TraceContext& context) {
    if (over_limit(segment)) return nullptr;
    void* ptr = driver_alloc(pool, segment);
    if (!ptr) return nullptr;
    d_.stats.num_device_alloc++;
    if (pool.owner) {
      pool.owner->segments++;
      both(pool, [&](int i) { d_.stats.reserved_by_pool[pool.owner->id][i].up(static_cast<int64_t>(segment)); });
    }
    auto* b = new Block;
    b->ptr = static_cast<char*>(ptr);
    b->size = segment;
    b->stream = stream;
    b->pool = &pool;
    b->device = device_;
    b->segment_context = context;
    both(pool, [&](int i) {
      d_.stats.segment[i].up(1);
      d_.stats.reserved_bytes[i].up(static_cast<int64_t>(segment));
    });
    if (size >= s_.config.max_split) d_.stats.oversize_segments.up(1);
    trace(TraceAction::segment_alloc, reinterpret_cast<size_t>(ptr), segment, stream, pool_id(pool), context);
    return b;
  }

  bool splits(const Block* b, size_t size) const {
    size_t rest = b->size - size;
    if (b->pool->small) return rest >= kUnit;
    return size < s_.config.max_split && rest > kSmallSize;
  }

  Block* hand_out(Block* b, size_t size, size_t requested, TraceContext context) {
    Pool& pool = *b->pool;
    const bool was_split = b->split();
    if (splits(b, size)) {
      Block* rest = b;
      b = new Block;
      b->ptr = rest->ptr;
      b->size = size;
      b->stream = rest->stream;
      b->pool = &pool;
      b->device = device_;
      b->segment_context = std::move(rest->segment_context);
      b->prev = rest->prev;
      if (b->prev) b->prev->next = b;
      b->next = rest;
      rest->prev = b;
      rest->ptr += size;
      rest->size -= size;
      pool.free.insert(rest);
      if (was_split) {
        both(pool, [&](int i) { d_.stats.inactive_split_bytes[i].down(static_cast<int64_t>(size)); });
      } else {
        both(pool, [&](int i) {
          d_.stats.inactive_split[i].up(1);
          d_.stats.inactive_split_bytes[i].up(static_cast<int64_t>(rest->size));
        });
      }
    } else if (was_split) {
      both(pool, [&](int i) {
        d_.stats.inactive_split[i].down(1);
        d_.stats.inactive_split_bytes[i].down(static_cast<int64_t>(b->size));
      });
    }
    return mark(b, requested, std::move(context));
  }

  Block* mark(Block* b, size_t requested, TraceContext context) {
    Pool& pool = *b->pool;
    b->allocated = true;
    b->requested = requested;
    b->context = std::move(context);
    trace(TraceAction::alloc, reinterpret_cast<size_t>(b->ptr), requested, b->stream, pool_id(pool), b->context);
    const auto bytes = static_cast<int64_t>(b->size);
    both(pool, [&](int i) {
      d_.stats.allocation[i].up(1);
      d_.stats.active[i].up(1);
      d_.stats.allocated_bytes[i].up(bytes);
      d_.stats.active_bytes[i].up(bytes);
      d_.stats.requested_bytes[i].up(static_cast<int64_t>(requested));
    });
    if (b->size >= s_.config.max_split) d_.stats.oversize_allocations.up(1);
    return b;
  }

  // Absorbs a free neighbour. Returns its size.
  size_t merge(Block* into, Block* other, Pool& pool) {
    if (!other || other->active() || other == pool.held) return 0;
    pool.free.erase(other);
    if (into->prev == other) {
      into->ptr = other->ptr;
      into->prev = other->prev;
      if (into->prev) into->prev->next = into;
      into->segment_context = std::move(other->segment_context);
    } else {
      into->next = other->next;
      if (into->next) into->next->prev = into;
    }
    size_t absorbed = other->size;
    into->size += absorbed;
    delete other;
    return absorbed;
  }

  void give_back(Block* b, const TraceContext& context) {
    Pool& pool = *b->pool;
    trace(TraceAction::free_completed, reinterpret_cast<size_t>(b->ptr), b->requested, b->stream, pool_id(pool),
          context ? context : b->context);
    b->context = nullptr;
    const auto size = static_cast<int64_t>(b->size), requested = static_cast<int64_t>(b->requested);
    both(pool, [&](int i) {
      d_.stats.active[i].down(1);
      d_.stats.active_bytes[i].down(size);
      d_.stats.requested_bytes[i].down(requested);
    });
    if (Block* before = std::exchange(pool.held, b)) list(before);
  }

  void settle(Pool& pool) {
    if (Block* b = std::exchange(pool.held, nullptr)) list(b);
  }

  // Makes a free block of one that came back, and of its free neighbours.
  void list(Block* b) {
    Pool& pool = *b->pool;
    int64_t blocks = 0, bytes = 0;
    for (Block* neighbour : {b->prev, b->next}) {
      if (size_t n = merge(b, neighbour, pool)) {
        blocks--;
        bytes -= static_cast<int64_t>(n);
      }
    }
    b->age = 0;
    pool.free.insert(b);
    if (b->split()) {
      blocks++;
      bytes += static_cast<int64_t>(b->size);
    }
    auto move = [](Stat& s, int64_t n) { n >= 0 ? s.up(n) : s.down(-n); };
    both(pool, [&](int i) {
      move(d_.stats.inactive_split[i], blocks);
      move(d_.stats.inactive_split_bytes[i], bytes);
    });
  }

  void wait_pending(const TraceContext& context, PrivatePool* only) {
    if (!only && !d_.pending.empty()) d_.stats.num_sync_all_streams++;
    for (auto it = d_.pending.begin(); it != d_.pending.end();) {
      Block* b = it->second;
      if (only && b->pool->owner != only) {
        ++it;
        continue;
      }
      it->first.wait();
      it = d_.pending.erase(it);
      if (--b->events == 0) give_back(b, context);
    }
  }

  void release_segment(Block* b, const TraceContext& context) {
    Pool& pool = *b->pool;
    trace(TraceAction::segment_free, reinterpret_cast<size_t>(b->ptr), b->size, b->stream, pool_id(pool),
          context ? context : b->segment_context);
    if (pool.owner && pool.owner->functions.free) {
      pool.owner->functions.free(b->ptr);
    } else {
      sycl::free(b->ptr, sycl_context(device_));
    }
    d_.stats.num_device_free++;
    const auto size = static_cast<int64_t>(b->size);
    if (pool.owner) {
      pool.owner->segments--;
      both(pool, [&](int i) { d_.stats.reserved_by_pool[pool.owner->id][i].down(size); });
    }
    both(pool, [&](int i) {
      d_.stats.segment[i].down(1);
      d_.stats.reserved_bytes[i].down(size);
    });
    if (b->size >= s_.config.max_split) d_.stats.oversize_segments.down(1);
    pool.free.erase(b);
    delete b;
  }

  void release_segments(Pool& pool, const TraceContext& context) {
    settle(pool);
    for (auto it = pool.free.begin(); it != pool.free.end();) {
      Block* b = *it++;
      if (!b->split()) release_segment(b, context);
    }
  }

  // Frees the smallest unsplittable segments that together make room for the request.
  bool release_oversize(Pool& pool, size_t size, const TraceContext& context) {
    if (size < s_.config.max_split) return false;
    size_t freed = 0;
    runtime::wait(device_);
    settle(pool);
    for (auto it = pool.free.begin(); it != pool.free.end() && freed < size;) {
      Block* b = *it++;
      if (b->size < s_.config.max_split || b->split()) continue;
      freed += b->size;
      release_segment(b, context);
    }
    return freed >= size;
  }

  // garbage_collection_threshold: unused segments older than the average go back, oldest first.
  void collect(const TraceContext& context) {
    const auto limit = static_cast<int64_t>(s_.config.collect_above * static_cast<double>(allowed()));
    if (!d_.limited || reserved() <= limit) return;
    settle(d_.large);
    std::vector<Block*> idle;
    for (Block* b : d_.large.free) {
      b->age++;
      if (!b->split()) idle.push_back(b);
    }
    if (idle.empty()) return;
    std::sort(idle.begin(), idle.end(), [](Block* a, Block* b) { return a->age > b->age; });
    runtime::wait(device_);
    for (Block* b : idle) {
      if (reserved() <= limit) return;
      release_segment(b, context);
    }
  }

  [[noreturn]] void out_of_memory(size_t size, size_t segment, StreamId stream, Pool& pool, TraceContext context) {
    d_.stats.num_ooms++;
    const uint64_t total = device_info(device_).total_memory;
    uint64_t free = free_memory(device_);
    if (free == UINT64_MAX) free = total - static_cast<uint64_t>(reserved());
    trace(TraceAction::oom, free, size, stream, pool_id(pool), std::move(context));
    const auto allocated = static_cast<uint64_t>(d_.stats.allocated_bytes[0].current);
    std::string limit = d_.limited ? format_size(allowed()) + " allowed; " : "";
    throw Error(ErrorKind::out_of_memory,
                "XPU out of memory. Tried to allocate " + format_size(segment) + ". GPU " + std::to_string(device_) +
                    " has a total capacity of " + format_size(total) + " of which " + format_size(free) + " is free. " +
                    limit + "Of the allocated memory " + format_size(allocated) + " is allocated by PyTorch, and " +
                    format_size(static_cast<uint64_t>(reserved()) - allocated) +
                    " is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied "
                    "cached memory.");
  }

  State& s_;
  Device& d_;
  int device_;
};

// A user's allocator does its own caching; the block only remembers what free needs.
Block* plugged_block(State& s, int device, StreamId stream, size_t bytes) {
  void* p = s.plugged.alloc(bytes, device, &queue(device, stream).share());
  if (!p)
    throw Error(ErrorKind::out_of_memory,
                "XPU out of memory. The pluggable allocator cannot give " + format_size(bytes) + ".");
  auto* b = new Block;
  b->ptr = static_cast<char*>(p);
  b->size = b->requested = bytes;
  b->stream = stream;
  b->device = device;
  return b;
}

void plugged_free(State& s, Block* b) {
  for (StreamId other : b->uses) queue(b->device, other).wait();
  s.plugged.free(b->ptr, b->size, b->device, &queue(b->device, b->stream).share());
  delete b;
}

// XPU_OPS_POISON=1: what is handed out holds NaN (all bits set), so that a read of what nothing wrote shows.
bool poisons() noexcept {
  static const bool on = env_flag("XPU_OPS_POISON");
  return on;
}

void poison(Queue& q, void* ptr, size_t bytes) {
  if (recording(q)) return;
  submit_named(q, {"fill", CommandKind::fill, bytes}, [&](sycl::queue& s) { return s.memset(ptr, 0xff, bytes); });
  q.wait();
}

}  // namespace

void plug_allocator(PluggedAllocator allocator) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.used) throw Error(ErrorKind::runtime, "Can't swap an already initialized allocator");
  s.plugged = std::move(allocator);
}

Device& allocator::settled_device(State& s, int device) {
  Device& d = checked_device(s, device);
  Allocator(s, device).settle();
  return d;
}

void* allocate(int device, StreamId stream, size_t bytes) {
  if (bytes == 0) return nullptr;
  if (static_cast<unsigned>(device) >= kMaxDevices) [[unlikely]]
    device_info(device);
  if (stream == 0) stream = kDefaultStream;
  TraceContext context = gather(TraceLevel::state);
  void* ptr = nullptr;
  const size_t wanted = bytes;
  const bool enclosed = redzones();
  if (enclosed && __builtin_add_overflow(bytes, 2 * kRedzone, &bytes)) [[unlikely]]
    bytes = SIZE_MAX;
  {
    State& s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    s.used = true;
    Block* b = s.plugged.alloc ? plugged_block(s, device, stream, bytes)
                               : Allocator(s, device).allocate(stream, bytes, std::move(context));
    s.blocks.insert(b->ptr, b);
    ptr = b->ptr;
  }
  if (enclosed) [[unlikely]]
    ptr = enclose(queue(device, stream), ptr, wanted);
  if (poisons()) [[unlikely]]
    poison(queue(device, stream), ptr, wanted);
  return ptr;
}

void deallocate(void* ptr) noexcept {
  if (!ptr || in_bad_fork()) return;
  if (redzones()) [[unlikely]]
    ptr = disclose(ptr);
  TraceContext context = gather(TraceLevel::all);
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Block* b = s.blocks.remove(ptr);
  if (!b) return;
  try {
    if (!b->pool) return plugged_free(s, b);
    Allocator(s, b->device).deallocate(b, context);
  } catch (const std::exception& e) {
    // A marker could not be queued on another stream: the block is lost rather than reused too early.
    std::fprintf(stderr, "xpu_ops: a block of %zu bytes leaks: %s\n", b->size, e.what());
  }
}

void record_stream(void* ptr, StreamId stream) {
  if (!ptr) return;
  if (stream == 0) stream = kDefaultStream;
  if (redzones()) [[unlikely]]
    ptr = base_of(ptr);
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Block* b = s.blocks.find(ptr);
  if (!b || b->stream == stream || std::find(b->uses.begin(), b->uses.end(), stream) != b->uses.end()) return;
  b->uses.push_back(stream);
}

BlockOf block_of(void* ptr) {
  if (redzones()) [[unlikely]]
    ptr = base_of(ptr);
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Block* b = s.blocks.find(ptr);
  return b ? BlockOf{b->size, b->device, b->stream} : BlockOf{};
}

Scratch::Scratch(size_t bytes) {
  Queue& q = current_queue();
  ptr_ = allocate(q.device, q.id, bytes);
}
Scratch::~Scratch() { deallocate(ptr_); }

void set_reclaimer(Reclaimer reclaimer) {
  g_reclaimer.tidy = reclaimer.tidy;
  g_reclaimer.reclaim = reclaimer.reclaim;
}

void empty_cache(PoolId pool) {
  if (!initialized()) return;
  check_fork();
  if (auto* tidy = g_reclaimer.tidy.load()) tidy();
  TraceContext context = gather(TraceLevel::all);
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  for (int i = 0, n = device_count(); i < n; ++i) Allocator(s, i).release_cached(context, pool);
}

double memory_fraction(int device) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Device& d = checked_device(s, device);
  return d.limited ? d.fraction : 1.0;
}

void set_memory_fraction(int device, double fraction) {
  if (!(fraction >= 0.0 && fraction <= 1.0))
    throw Error(ErrorKind::runtime, "invalid fraction:" + std::to_string(fraction) + ". Please set within [0, 1].");
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Device& d = checked_device(s, device);
  d.fraction = fraction;
  d.limited = true;
}

void configure_allocator(AllocatorConfig config) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.config = std::move(config);
}

}  // namespace xpu_ops::runtime
