#include "kernels/mkl/lib/workers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace xpu_ops::mkl {
namespace {

// A thread looks for so long before it sleeps: passes of one transform follow each other closer, and to sleep and to
// wake takes longer (docs/notes/fft.md).
constexpr std::chrono::microseconds kLook{10};

template <class F>
void look(const F& there) {
  const auto end = std::chrono::steady_clock::now() + kLook;
  while (!there() && std::chrono::steady_clock::now() < end) __builtin_ia32_pause();
}

struct Job {
  const std::function<void(int64_t)>& f;
  const int64_t parts;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;

  void work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < parts;) {
      try {
        f(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    }
  }
};

class Pool {
 public:
  void run(Job& job, int helpers) {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) {
      job.work();
      return;
    }
    {
      std::lock_guard lock(mutex_);
      try {
        for (; threads_ < helpers; ++threads_) std::thread(&Pool::serve, this).detach();
      } catch (const std::system_error&) {  // no more threads: those that are there do it
      }
      job_ = &job;
      places_ = helpers;
    }
    wake_.notify_all();
    job.work();
    look([&] { return busy_ == 0; });
    std::unique_lock lock(mutex_);
    places_ = 0;  // who comes now comes too late
    done_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  void serve() {
    for (;;) {
      look([&] { return places_ > 0; });
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return places_ > 0; });
      --places_;
      ++busy_;
      Job& job = *job_;
      lock.unlock();
      job.work();
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_;   // held by the caller that has the threads
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  int threads_ = 0;
  std::atomic<int> places_ = 0, busy_ = 0;  // changed under the mutex, looked at without it
};

}  // namespace

void run_parts(int64_t parts, int threads, const std::function<void(int64_t)>& f) {
  if (threads <= 1) {  // also inside of a part
    for (int64_t i = 0; i < parts; ++i) f(i);
    return;
  }
  static auto* pool = new Pool;  // never destroyed: its threads wait until the process ends
  Job job{f, parts};
  pool->run(job, static_cast<int>(std::min<int64_t>(parts, threads)) - 1);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace xpu_ops::mkl
