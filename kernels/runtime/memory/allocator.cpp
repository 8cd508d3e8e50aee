#include "kernels/runtime/memory/allocator.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/memory/block_allocator.hpp"
#include "kernels/runtime/memory/reclaim.hpp"
#include "kernels/runtime/memory/redzone.hpp"
#include "kernels/runtime/queue/call_size.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {
namespace allocator {
namespace {

constexpr size_t kMinLargeAlloc = size_t{10} << 20;  // from here on a request gets a segment of its own size
constexpr size_t kRoundLarge = size_t{2} << 20;

struct {
  std::atomic<void (*)()> tidy{nullptr};
  std::atomic<size_t (*)(int)> reclaim{nullptr};
} g_reclaimer;

}  // namespace

State& state() {
  static State* s = new State;
  return *s;
}

Device& checked_device(State& s, int device) {
  device_info(device);
  return s.devices[device];
}

Block* Allocator::allocate(StreamId stream, size_t bytes, TraceContext context) {
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

void Allocator::deallocate(Block* b, const TraceContext& context) {
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
        runtime::queue(device_, stream).submit_marker([](sycl::queue& q) { return q.ext_oneapi_submit_barrier(); }), b);
    b->events++;
  }
  b->uses.clear();
}

size_t Allocator::round(size_t bytes) const {
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

size_t Allocator::segment_size(size_t size) const {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLargeAlloc && size <= s_.config.large_segment) return s_.config.large_segment;
  return (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
}

Pool& Allocator::choose(size_t size, StreamId stream) {
  for (auto& c : d_.captures) {
    if (c.takes(stream)) {
      PrivatePool& p = *d_.pools.at(c.id);
      return size <= kSmallSize ? p.small : p.large;
    }
  }
  return size <= kSmallSize ? d_.small : d_.large;
}

Block* Allocator::take(Pool& pool, StreamId stream, size_t size) {
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

bool Allocator::splits(const Block* b, size_t size) const {
  size_t rest = b->size - size;
  if (b->pool->small) return rest >= kUnit;
  return size < s_.config.max_split && rest > kSmallSize;
}

Block* Allocator::hand_out(Block* b, size_t size, size_t requested, TraceContext context) {
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

Block* Allocator::mark(Block* b, size_t requested, TraceContext context) {
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

size_t Allocator::merge(Block* into, Block* other, Pool& pool) {
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

void Allocator::give_back(Block* b, const TraceContext& context) {
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

void Allocator::settle(Pool& pool) {
  if (Block* b = std::exchange(pool.held, nullptr)) list(b);
}

void Allocator::list(Block* b) {
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

}  // namespace allocator

using namespace allocator;
namespace {

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
  CallSize::allocated(bytes);
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
