// Private pools: memory of graphs and of torch.xpu.MemPool.
#include <algorithm>
#include <atomic>

#include "kernels/error.hpp"
#include "kernels/runtime/memory/allocator_state.hpp"

namespace xpu_ops::runtime {

using namespace allocator;

PoolId new_pool_id(bool user_created) {
  static std::atomic<unsigned long long> next{1};
  unsigned long long n = next.fetch_add(1);
  return user_created ? PoolId{0, n} : PoolId{n, 0};
}

void create_pool(int device, PoolId id, PoolFunctions functions, bool use_on_oom) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Device& d = checked_device(s, device);
  auto it = d.pools.find(id);
  if (it == d.pools.end()) {
    d.pools.emplace(id, std::make_unique<PrivatePool>(id, std::move(functions), use_on_oom));
  } else {
    it->second->use_count++;
  }
}

void begin_allocate_to_pool(int device, PoolId id, PoolFilter filter) {
  create_pool(device, id);
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Device& d = s.devices[device];
  for (auto& c : d.captures) {
    if (c.id == id && c.filter == filter)
      throw Error(ErrorKind::runtime, "beginAllocateToPool: already recording to mempool_id");
  }
  d.captures.push_back({id, filter});
}

void end_allocate_to_pool(int device, PoolId id) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Device& d = checked_device(s, device);
  // Innermost first, and of this thread where several record to the same pool.
  auto mine = [&](const Capture& c) {
    return c.id == id && (!c.filter.thread || *c.filter.thread == std::this_thread::get_id());
  };
  auto it = std::find_if(d.captures.rbegin(), d.captures.rend(), mine);
  if (it == d.captures.rend())
    throw Error(ErrorKind::runtime, "endAllocatePool: not currently recording to mempool_id");
  d.captures.erase(std::next(it).base());
}

void release_pool(int device, PoolId id) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Device& d = checked_device(s, device);
  auto it = d.pools.find(id);
  if (it == d.pools.end() || it->second->use_count == 0)
    throw Error(ErrorKind::runtime, "releasePool: there is no such memory pool");
  it->second->use_count--;
}

int pool_use_count(int device, PoolId id) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  Device& d = checked_device(s, device);
  auto it = d.pools.find(id);
  return it == d.pools.end() ? 0 : it->second->use_count;
}

}  // namespace xpu_ops::runtime
