#include "bindings/distributed/outstanding.hpp"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <vector>

#include "bindings/distributed/process_group.hpp"
#include "bindings/distributed/work.hpp"
#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::distributed {
namespace {

struct Entry {
  c10::weak_intrusive_ptr<ProcessGroupXCCL> group;
  c10::weak_intrusive_ptr<XcclWork> work;
  std::chrono::milliseconds timeout;
};

struct Registry {
  std::mutex mutex;
  std::condition_variable empty;
  std::list<Entry> entries;
};

// Never destroyed: threads of engines outlive the process's static objects.
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

}  // namespace

Ticket outstanding(c10::weak_intrusive_ptr<ProcessGroupXCCL> group, c10::weak_intrusive_ptr<XcclWork> work,
                   std::chrono::milliseconds timeout) {
  Registry& r = registry();
  std::list<Entry> one;
  one.push_back({std::move(group), std::move(work), timeout});
  const auto entry = one.begin();
  {
    std::lock_guard<std::mutex> lock(r.mutex);
    r.entries.splice(r.entries.end(), one);
  }
  return {&*entry, [entry](void*) {
            Registry& r = registry();
            std::list<Entry> gone;  // freed without the mutex
            std::lock_guard<std::mutex> lock(r.mutex);
            gone.splice(gone.end(), r.entries, entry);
            if (r.entries.empty()) r.empty.notify_all();
          }};
}

void settle(std::optional<std::chrono::milliseconds> limit) {
  if (runtime::in_bad_fork()) return;  // the threads are the parent's
  Registry& r = registry();
  std::unique_lock<std::mutex> lock(r.mutex);
  if (!limit) {
    limit = std::chrono::milliseconds(0);
    for (const Entry& entry : r.entries) limit = std::max(*limit, entry.timeout);
  }
  if (r.empty.wait_for(lock, *limit, [&] { return r.entries.empty(); })) return;
  auto* groups = new std::vector<c10::intrusive_ptr<ProcessGroupXCCL>>;
  auto* works = new std::vector<c10::intrusive_ptr<XcclWork>>;
  for (const Entry& entry : r.entries) {
    if (auto work = entry.work.lock()) works->push_back(std::move(work));
    if (auto group = entry.group.lock()) groups->push_back(std::move(group));
  }
  lock.unlock();
  for (const auto& group : *groups) group->abort();
}

}  // namespace xpu_ops::distributed
