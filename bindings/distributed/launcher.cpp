#include "bindings/distributed/launcher.hpp"

#include <pthread.h>

namespace xpu_ops::distributed {

void Launcher::push(std::function<void()> task) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.fetch_add(1, std::memory_order_release);
    tasks_.push_back(std::move(task));
    if (!thread_.joinable()) {
      stopping_ = false;
      thread_ = std::thread([this] { loop(); });
    }
  }
  changed_.notify_one();
}

void Launcher::stop() {
  std::thread thread;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  changed_.notify_one();
  if (thread.joinable()) thread.join();
}

void Launcher::loop() {
  pthread_setname_np(pthread_self(), "xpu_ops_c10d");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is freed without the lock
    waiting_.fetch_sub(1, std::memory_order_release);
    lock.lock();
  }
}

}  // namespace xpu_ops::distributed
