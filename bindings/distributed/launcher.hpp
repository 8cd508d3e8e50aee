// The thread that starts the collectives whose stream is still busy, in their order. Begins with the first of them.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
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
  bool idle() const { return shared_->waiting.load(std::memory_order_acquire) == 0; }
  // After what was pushed has run. At once where a task itself calls it, which may end the group, and in a forked
  // child, which has no such thread.
  void stop();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    std::atomic<size_t> waiting{0};
    bool stopping = false;
  };
  static void loop(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace xpu_ops::distributed
