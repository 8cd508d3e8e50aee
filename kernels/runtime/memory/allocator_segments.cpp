// Segments: memory of the driver, what goes back to it and when.
#include <sys/mman.h>

#include <cstdio>

#include "kernels/error.hpp"
#include "kernels/runtime/memory/block_allocator.hpp"
#include "kernels/runtime/memory/memory_budget.hpp"

namespace xpu_ops::runtime::allocator {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCheckFreeAbove = size_t{64} << 20;  // smaller segments do not ask the system for its free memory

}  // namespace

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

void Allocator::release_cached(const TraceContext& context, PoolId only) {
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

void Allocator::settle() {
  settle(d_.small);
  settle(d_.large);
  for (auto& [id, p] : d_.pools) {
    settle(p->small);
    settle(p->large);
  }
}

void Allocator::reclaim(const TraceContext& context) {
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

Block* Allocator::take_from_spare_pools(StreamId stream, size_t size) {
  for (auto& [id, p] : d_.pools) {
    if (!p->use_on_oom) continue;
    if (Block* b = take(size <= kSmallSize ? p->small : p->large, stream, size)) return b;
  }
  return nullptr;
}

void* Allocator::driver_alloc(Pool& pool, size_t size) {
  if (pool.owner && pool.owner->functions.alloc) return pool.owner->functions.alloc(size);
  const DeviceInfo& info = device_info(device_);
  // The driver of a CPU device promises memory the machine does not have; refuse what would end in the OOM killer.
  if (info.is_cpu && (static_cast<uint64_t>(reserved()) + size > memory_limit(device_) ||
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

Block* Allocator::grow(Pool& pool, StreamId stream, size_t size, size_t segment, const TraceContext& context) {
  if (over_limit(segment)) return nullptr;
  void* ptr = driver_alloc(pool, segment);
  if (!ptr) return nullptr;
  d_.stats.num_device_alloc++;
  note_reserved(device_, static_cast<int64_t>(segment));
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

void Allocator::wait_pending(const TraceContext& context, PrivatePool* only) {
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

void Allocator::release_segment(Block* b, const TraceContext& context) {
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
  note_reserved(device_, -size);
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

void Allocator::release_segments(Pool& pool, const TraceContext& context) {
  settle(pool);
  for (auto it = pool.free.begin(); it != pool.free.end();) {
    Block* b = *it++;
    if (!b->split()) release_segment(b, context);
  }
}

bool Allocator::release_oversize(Pool& pool, size_t size, const TraceContext& context) {
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

void Allocator::collect(const TraceContext& context) {
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

void Allocator::out_of_memory(size_t size, size_t segment, StreamId stream, Pool& pool, TraceContext context) {
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

}  // namespace xpu_ops::runtime::allocator
