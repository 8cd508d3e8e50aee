// Work of the host in order with the commands of a queue, run by a worker of an OpenCL CPU device: tasks, and batches
// of small pieces that share one.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

#include <sycl/sycl.hpp>

#include "kernels/runtime/profile/profiling.hpp"
#include "kernels/runtime/queue/stream.hpp"

namespace xpu_ops::runtime {

// Work of the host that a queue runs on a worker of the device.
struct NativeTask {
  virtual ~NativeTask() = default;
  virtual void run() = 0;
};

// Whether queues of the device take native tasks. A GPU's say no.
bool native_tasks(int device);

class NativeBatch;

class NativeTasks {
 public:
  explicit NativeTasks(Stream& stream) : stream_(stream) {}

  // A worker of the device calls run() and deletes the task. Nobody waits for it. False where the queue takes none (not
  // an OpenCL CPU device, or its state forbids it); the task is untouched then.
  bool submit(std::unique_ptr<NativeTask>& task);
  bool takes(Way way = Way::native) const {
    return takes(way, {.mode = stream_.mode(), .held = held(), .profiled = profiling()});
  }
  // No native tasks until what is on the queue now has been waited for: SYCL holds back what follows a host task, and
  // they would overtake it.
  void hold() { after_.store(stream_.submitted(), std::memory_order_release); }

  // For the other parts of the queue. takes(), and the device is asked with the first one.
  bool able(Way way) { return (allowed_.load(std::memory_order_relaxed) != Allowed::unknown || ask()) && takes(way); }
  // So that the host does not run ahead by minutes.
  bool full() const { return in_flight() >= kInFlight; }
  bool held() const { return !stream_.done_up_to(after_.load(std::memory_order_acquire)); }
  void throw_error() {
    if (failed_.load(std::memory_order_acquire)) [[unlikely]]
      throw_first();
  }

  // The same, under the lock. put() counts one command: behind the pieces of the last batch, if nothing has come since,
  // or in a new one. `run` gets a copy of the bytes at f.
  bool put(Way way, void (*run)(const void*), const void* f, uint32_t bytes);
  void end_batch() { batch_.reset(); }
  QueueFacts facts() const;
  bool done() const { return put_.load(std::memory_order_relaxed) == ended_.load(std::memory_order_acquire); }
  // Puts a command of SYCL behind the native tasks.
  void catch_up(sycl::queue& q);

 private:
  static constexpr uint64_t kInFlight = 128;
  bool takes(Way way, const QueueFacts& facts) const {
    return allowed_.load(std::memory_order_relaxed) != Allowed::no &&
           (way == Way::native ? may<Way::native>(facts) : may<Way::later>(facts));
  }
  bool ask();  // once; true
  uint64_t in_flight() const { return put_.load(std::memory_order_relaxed) - ended_.load(std::memory_order_relaxed); }
  void count(int change) {  // under the lock
    put_.store(put_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  static void run_batch(void* args);
  static void run_task(const void* args);
  void throw_first();

  Stream& stream_;
  enum class Allowed : uint8_t { unknown, yes, no };
  std::atomic<Allowed> allowed_{Allowed::unknown};
  void* native_queue_ = nullptr;  // cl_command_queue of the stream; under the lock
  char* mark_ = nullptr;          // one byte on the device, written by catch_up
  std::atomic<uint64_t> put_{0}, ended_{0}, after_{0};
  std::shared_ptr<NativeBatch> batch_;  // the last command, where that is one; under the lock
  std::mutex error_lock_;
  std::exception_ptr error_;  // the first, raised by the next wait
  std::atomic<bool> failed_{false};
};

}  // namespace xpu_ops::runtime
