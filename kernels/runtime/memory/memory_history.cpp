// The allocator's records: statistics, snapshot, history.
#include <algorithm>
#include <chrono>

#include "kernels/error.hpp"
#include "kernels/runtime/memory/allocator_state.hpp"

namespace xpu_ops::runtime {
namespace allocator {

namespace {
std::atomic<TraceContext (*)()> g_recorder{nullptr};
}
std::atomic<TraceLevel> g_level{TraceLevel::never};

TraceContext caller_context() {
  auto recorder = g_recorder.load();
  return recorder ? recorder() : nullptr;
}

void trace(State& s, int device, TraceAction action, size_t address, size_t size, StreamId stream, PoolId pool,
           TraceContext context) {
  if (!s.history.enabled || s.history.skip.count(action)) return;
  using namespace std::chrono;
  auto now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  if (g_level.load(std::memory_order_relaxed) < TraceLevel::alloc) context = nullptr;
  auto& entries = s.devices[device].trace;
  while (entries.size() >= s.history.max_entries) entries.pop_front();
  entries.push_back({action, device, address, size, stream, pool, now, std::move(context)});
}

}  // namespace allocator

using namespace allocator;

DeviceStats memory_stats(int device) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  return settled_device(s, device).stats;
}

namespace {
template <class Fn>
void for_each_stat(DeviceStats& d, Fn&& fn) {
  for (StatArray* a : {&d.allocation, &d.segment, &d.active, &d.inactive_split, &d.allocated_bytes, &d.reserved_bytes,
                       &d.active_bytes, &d.inactive_split_bytes, &d.requested_bytes}) {
    for (Stat& x : *a) fn(x);
  }
  for (auto& [id, a] : d.reserved_by_pool) {
    for (Stat& x : a) fn(x);
  }
  fn(d.oversize_allocations);
  fn(d.oversize_segments);
}
}  // namespace

void reset_peak_stats(int device) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  for_each_stat(settled_device(s, device).stats, [](Stat& x) { x.peak = x.current; });
}

void reset_accumulated_stats(int device) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  DeviceStats& d = settled_device(s, device).stats;
  for_each_stat(d, [](Stat& x) { x.allocated = x.freed = 0; });
  d.num_alloc_retries = d.num_ooms = d.num_sync_all_streams = d.num_device_alloc = d.num_device_free = 0;
}

const char* to_string(TraceAction action) {
  static constexpr const char* names[] = {"alloc",         "free_requested", "free_completed",
                                          "segment_alloc", "segment_free",   "segment_map",
                                          "segment_unmap", "snapshot",       "oom"};
  return names[static_cast<int>(action)];
}

std::vector<SegmentInfo> memory_snapshot(PoolId only) {
  State& s = state();
  std::vector<SegmentInfo> out;
  if (!initialized()) return out;
  std::lock_guard<std::mutex> lock(s.mutex);
  for (int device = 0, n = device_count(); device < n; ++device) {
    Device& d = settled_device(s, device);
    std::set<Block*> heads;
    auto head = [&](Block* b) {
      while (b->prev) b = b->prev;
      if (only == PoolId{0, 0} || pool_id(*b->pool) == only) heads.insert(b);
    };
    s.blocks.for_each([&](Block* b) {
      if (b->device == device && b->pool) head(b);
    });
    for (auto& [event, b] : d.pending) head(b);
    auto heads_of = [&](Pool& p) {
      for (Block* b : p.free) head(b);
    };
    heads_of(d.small);
    heads_of(d.large);
    for (auto& [id, p] : d.pools) {
      heads_of(p->small);
      heads_of(p->large);
    }
    size_t active = 0, first = out.size();
    for (Block* h : heads) {
      SegmentInfo& seg = out.emplace_back();
      seg.device = device;
      seg.address = reinterpret_cast<size_t>(h->ptr);
      seg.stream = h->stream;
      seg.large = !h->pool->small;
      seg.pool = pool_id(*h->pool);
      seg.context = h->segment_context;
      for (Block* b = h; b; b = b->next) {
        seg.blocks.push_back(
            {reinterpret_cast<size_t>(b->ptr), b->size, b->requested, b->allocated, b->active(), b->context});
        seg.total += b->size;
        if (b->allocated) seg.allocated += b->size;
        if (b->active()) {
          seg.active += b->size;
          seg.requested += b->requested;
        }
      }
      active += seg.active;
    }
    std::sort(out.begin() + static_cast<ptrdiff_t>(first), out.end(),
              [](const SegmentInfo& a, const SegmentInfo& b) { return a.address < b.address; });
    trace(s, device, TraceAction::snapshot, 0, active, 0, only, nullptr);
  }
  return out;
}

std::vector<TraceEntry> memory_trace(int device) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  auto& t = checked_device(s, device).trace;
  return {t.begin(), t.end()};
}

void record_memory_history(bool enabled, TraceContext (*recorder)(), size_t max_entries, TraceLevel level, bool clear,
                           const std::vector<std::string>& skip_actions) {
  State& s = state();
  std::set<TraceAction> skip;
  for (const auto& name : skip_actions) {
    int i = 0;
    while (i <= static_cast<int>(TraceAction::oom) && name != to_string(static_cast<TraceAction>(i))) ++i;
    if (i > static_cast<int>(TraceAction::oom)) throw Error(ErrorKind::runtime, "Unknown skip action: " + name);
    skip.insert(static_cast<TraceAction>(i));
  }
  std::lock_guard<std::mutex> lock(s.mutex);
  s.history.enabled = enabled;
  s.history.max_entries = std::max<size_t>(1, max_entries);
  s.history.skip = std::move(skip);
  g_recorder.store(enabled ? recorder : nullptr);
  g_level.store(enabled ? level : TraceLevel::never);
  for (Device& d : s.devices) {
    if (!enabled || clear) d.trace.clear();
    while (d.trace.size() > s.history.max_entries) d.trace.pop_front();
  }
}

}  // namespace xpu_ops::runtime
