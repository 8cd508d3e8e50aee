// Work of the host in order with the kernels of an OpenCL CPU device: native kernels of OpenCL, which a worker of the
// device runs. A host task of SYCL needs a thread of its own and holds back what follows.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "kernels/runtime/device.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/opencl_symbol.hpp"
#include "kernels/runtime/queue.hpp"

namespace xpu_ops::runtime {
namespace {

// Tasks of a queue between waits of the host, so that it does not run ahead by minutes. The wait is for all of them:
// only in clFinish does the waiting thread work with the device's.
constexpr uint64_t kInFlight = 128;

struct Enqueued {
  Queue* queue;
  NativeTask* task;
};

// Whether queues of the device take native tasks. A GPU's say no.
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

}  // namespace

void Queue::run_native(void* args) {
  const Enqueued e = *static_cast<const Enqueued*>(args);
  try {
    e.task->run();
  } catch (...) {
    const std::lock_guard<std::mutex> lock(e.queue->native_error_lock_);
    if (!e.queue->native_error_) e.queue->native_error_ = std::current_exception();
    e.queue->native_failed_.store(true, std::memory_order_release);
  }
  delete e.task;
  e.queue->natives_ended_.fetch_add(1, std::memory_order_release);
}

bool Queue::submit_native(std::unique_ptr<NativeTask>& task) {
  if (native_allowed_.load(std::memory_order_relaxed) == Natives::unknown) [[unlikely]]
    native_allowed_.store(native_tasks(device) ? Natives::yes : Natives::no, std::memory_order_relaxed);
  if (!takes_native()) return false;
  if (natives_.load(std::memory_order_relaxed) - natives_ended_.load(std::memory_order_relaxed) >= kInFlight) wait();
  static const auto enqueue = opencl_symbol<decltype(clEnqueueNativeKernel)>("clEnqueueNativeKernel");
  const Submission turn(*this);
  if (!takes_native() || active_.load(std::memory_order_relaxed) != &q_) return false;
  if (!native_queue_) native_queue_ = sycl::get_native<sycl::backend::opencl>(q_);
  // OpenCL copies the arguments.
  Enqueued args{this, task.get()};
  natives_.store(natives_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (enqueue(static_cast<cl_command_queue>(native_queue_), run_native, &args, sizeof args, 0, nullptr, nullptr, 0,
              nullptr, nullptr) != CL_SUCCESS) {
    natives_.store(natives_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    native_allowed_.store(Natives::no, std::memory_order_relaxed);
    return false;
  }
  task.release();
  return true;
}

// sycl::queue takes its last own command for the last of all.
void Queue::catch_up(sycl::queue& q) {
  if (natives_done() || recording(*this)) return;  // what a graph records begins behind a mark
  if (!native_mark_) native_mark_ = sycl::malloc_device<char>(1, q);
  q.memset(native_mark_, 0, 1);
}

void Queue::throw_native_error() {
  if (!native_failed_.load(std::memory_order_acquire)) [[likely]]
    return;
  std::exception_ptr error;
  {
    const std::lock_guard<std::mutex> lock(native_error_lock_);
    error = std::exchange(native_error_, nullptr);
    native_failed_.store(false, std::memory_order_relaxed);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace xpu_ops::runtime
