#include "bindings/distributed/callbacks.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace xpu_ops::distributed {
namespace {

constexpr std::chrono::seconds kIdleLimit{5};

struct Threads {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  size_t idle = 0;
};

// Never destroyed: a callback may outlive the process's static objects.
Threads& threads() {
  static auto* t = new Threads;
  return *t;
}

void loop() {
  pthread_setname_np(pthread_self(), "xpu_ops_future");
  Threads& t = threads();
  std::unique_lock<std::mutex> lock(t.mutex);
  while (true) {
    ++t.idle;
    const bool found = t.changed.wait_for(lock, kIdleLimit, [&] { return !t.tasks.empty(); });
    --t.idle;
    if (!found) return;
    std::function<void()> task = std::move(t.tasks.front());
    t.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is freed without the lock
    lock.lock();
  }
}

}  // namespace

void run_apart(std::function<void()> task) {
  Threads& t = threads();
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    t.tasks.push_back(std::move(task));
    if (t.idle >= t.tasks.size()) return t.changed.notify_one();
    try {
      return std::thread(loop).detach();
    } catch (const std::system_error&) {  // no more threads: here
      task = std::move(t.tasks.back());
      t.tasks.pop_back();
    }
  }
  task();
}

}  // namespace xpu_ops::distributed
