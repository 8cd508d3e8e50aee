// Work of the host in order with the kernels of an OpenCL CPU device: native kernels of OpenCL, which a worker of the
// device runs. A host task of SYCL needs a thread of its own and holds back what follows.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "kernels/runtime/queue/native_tasks.hpp"

#include <cstddef>
#include <cstring>
#include <utility>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/opencl_symbol.hpp"
#include "kernels/runtime/environment.hpp"

namespace xpu_ops::runtime {
namespace {

struct Enqueued {
  NativeTasks* queue;
  NativeTask* task;
};

}  // namespace

bool native_tasks(int device) {
  static const bool on = env_flag("XPU_OPS_NATIVE_TASKS", true);
  const sycl::device& d = sycl_device(device);
  if (!on || d.get_backend() != sycl::backend::opencl) return false;
  static const auto info = opencl_symbol<decltype(clGetDeviceInfo)>("clGetDeviceInfo");
  cl_device_exec_capabilities able = 0;
  return info && opencl_symbol<decltype(clEnqueueNativeKernel)>("clEnqueueNativeKernel") &&
         info(sycl::get_native<sycl::backend::opencl>(d), CL_DEVICE_EXECUTION_CAPABILITIES, sizeof able, &able,
              nullptr) == CL_SUCCESS &&
         (able & CL_EXEC_NATIVE_KERNEL);
}

// Host work that stands side by side in a queue. The queue appends under its lock, the worker reads without one. A
// piece is a `Head` and the bytes of its function.
class NativeBatch {
 public:
  std::shared_ptr<NativeBatch> self;  // from the enqueuing until the worker leaves
  // False where there is no room left, or the worker has run all and left.
  bool append(void (*run)(const void*), const void* f, uint32_t bytes) {
    const uint32_t size = (sizeof(Head) + bytes + alignof(Head) - 1) / alignof(Head) * alignof(Head);
    uint32_t at = filled_.load(std::memory_order_relaxed);
    if (at == kLeft || at + size > kBytes) return false;
    new (pieces_ + at) Head{run, size};
    std::memcpy(pieces_ + at + sizeof(Head), f, bytes);
    return filled_.compare_exchange_strong(at, at + size, std::memory_order_release, std::memory_order_relaxed);
  }
  void run() {
    for (uint32_t done = 0;;) {
      uint32_t end = done;
      if (filled_.compare_exchange_strong(end, kLeft, std::memory_order_acquire)) return;
      while (done < end) {
        const Head& head = *reinterpret_cast<const Head*>(pieces_ + done);
        head.run(&head + 1);
        done += head.size;
      }
    }
  }

 private:
  struct alignas(std::max_align_t) Head {
    void (*run)(const void*);
    uint32_t size;
  };
  static constexpr uint32_t kBytes = 16384, kLeft = ~uint32_t{0};
  std::atomic<uint32_t> filled_{0};  // bytes
  alignas(Head) unsigned char pieces_[kBytes];
};

namespace {

struct EnqueuedBatch {
  NativeTasks* queue;
  NativeBatch* batch;
};

}  // namespace

void NativeTasks::run_batch(void* args) {
  const EnqueuedBatch e = *static_cast<const EnqueuedBatch*>(args);
  const std::shared_ptr<NativeBatch> batch = std::move(e.batch->self);
  batch->run();
  e.queue->ended_.fetch_add(1, std::memory_order_release);
}

void NativeTasks::run_task(const void* args) {
  const Enqueued e = *static_cast<const Enqueued*>(args);
  try {
    e.task->run();
  } catch (...) {
    const std::lock_guard<std::mutex> lock(e.queue->error_lock_);
    if (!e.queue->error_) e.queue->error_ = std::current_exception();
    e.queue->failed_.store(true, std::memory_order_release);
  }
  delete e.task;
  e.queue->ended_.fetch_add(1, std::memory_order_release);
}

bool NativeTasks::ask() {
  allowed_.store(native_tasks(stream_.device) ? Allowed::yes : Allowed::no, std::memory_order_relaxed);
  return true;
}

// Commands go to the queue with profiling until the profile has ended here, too. A queue that has joined a graph by an
// event records: nobody closed it.
QueueFacts NativeTasks::facts() const {
  return {.mode = stream_.mode(),
          .idle = stream_.settled(),
          .batching = batch_ != nullptr,
          .held = held(),
          .profiled = profiling() || &stream_.active() != &stream_.own(),
          .recording = graphs_recording() > 0 && stream_.recording()};
}

bool NativeTasks::put(Way way, void (*run)(const void*), const void* f, uint32_t bytes) {
  static const auto enqueue = opencl_symbol<decltype(clEnqueueNativeKernel)>("clEnqueueNativeKernel");
  if (!takes(way, facts())) return false;
  if (!batch_ || !batch_->append(run, f, bytes)) {
    auto made = std::make_shared_for_overwrite<NativeBatch>();
    if (!made->append(run, f, bytes)) return false;
    if (!native_queue_) native_queue_ = sycl::get_native<sycl::backend::opencl>(stream_.own());
    made->self = made;
    EnqueuedBatch args{this, made.get()};  // OpenCL copies them
    count(1);
    if (enqueue(static_cast<cl_command_queue>(native_queue_), run_batch, &args, sizeof args, 0, nullptr, nullptr, 0,
                nullptr, nullptr) != CL_SUCCESS) {
      count(-1);
      made->self.reset();
      allowed_.store(Allowed::no, std::memory_order_relaxed);
      return false;
    }
    batch_ = std::move(made);
  }
  stream_.count();
  return true;
}

bool NativeTasks::submit(std::unique_ptr<NativeTask>& task) {
  if (!able(Way::native)) return false;
  // The wait is for all of them: only in clFinish does the waiting thread work with the device's.
  if (full()) {
    stream_.wait();
    throw_error();
  }
  const std::lock_guard<QueueLock> turn(stream_.lock());
  const Enqueued piece{this, task.get()};
  count(1);
  if (put(Way::native, run_task, &piece, sizeof piece)) {
    task.release();
    return true;
  }
  count(-1);
  return false;
}

// sycl::queue takes its last own command for the last of all.
void NativeTasks::catch_up(sycl::queue& q) {
  if (done() || stream_.recording()) return;  // what a graph records begins behind a mark
  if (!mark_) mark_ = sycl::malloc_device<char>(1, q);
  q.memset(mark_, 0, 1);
}

void NativeTasks::throw_first() {
  std::exception_ptr error;
  {
    const std::lock_guard<std::mutex> lock(error_lock_);
    error = std::exchange(error_, nullptr);
    failed_.store(false, std::memory_order_relaxed);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace xpu_ops::runtime
