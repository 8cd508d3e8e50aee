#include "bindings/distributed/launcher.hpp"

#include <pthread.h>

#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::distributed {

void Launcher::push(std::function<void()> task) {
  {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->waiting.fetch_add(1, std::memory_order_release);
    shared_->tasks.push_back(std::move(task));
    if (!thread_.joinable()) {
      shared_->stopping = false;
      thread_ = std::thread([shared = shared_] { loop(shared); });
    }
  }
  shared_->changed.notify_one();
}

void Launcher::stop() {
  if (runtime::in_bad_fork()) {
    new std::shared_ptr<Shared>(shared_);  // a thread that is not there waits on it, or has locked it: kept
    if (thread_.joinable()) thread_.detach();
    return;
  }
  std::thread thread;
  {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->stopping = true;
    thread.swap(thread_);
  }
  shared_->changed.notify_one();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) return thread.detach();
  thread.join();
}

void Launcher::loop(const std::shared_ptr<Shared>& shared) {
  pthread_setname_np(pthread_self(), "xpu_ops_c10d");
  std::unique_lock<std::mutex> lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->stopping || !shared->tasks.empty(); });
    if (shared->tasks.empty()) return;
    std::function<void()> task = std::move(shared->tasks.front());
    shared->tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is freed without the lock
    shared->waiting.fetch_sub(1, std::memory_order_release);
    lock.lock();
  }
}

}  // namespace xpu_ops::distributed
