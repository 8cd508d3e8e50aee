// The thread that starts the collectives whose stream is still busy, in their order. Begins with the first of them.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace xpu_ops::distributed {

class Launcher {
 public:
  Launcher() = default;
  ~Launcher() { stop(); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void push(std::function<void()> task);  // that throws nothing
  // Whether none is waiting or being started.
  bool idle() const { return waiting_.load(std::memory_order_acquire) == 0; }
  void stop();  // after what was pushed has run

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::atomic<size_t> waiting_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace xpu_ops::distributed
