#include "bindings/runtime/late_threads.hpp"

#include <Python.h>
#include <pthread.h>
#include <torch/csrc/utils/pythoncapi_compat.h>
#include <unistd.h>

#include <atomic>

#include "kernels/runtime/device/redirect.hpp"

namespace xpu_ops {

#if PY_VERSION_HEX < 0x030E0000
namespace {

std::atomic<void*> end_of_thread{nullptr};

void end_or_sleep(void* result) {
  while (Py_IsFinalizing()) pause();
  reinterpret_cast<decltype(&pthread_exit)>(end_of_thread.load())(result);
}

}  // namespace

void keep_late_threads() noexcept {
  [[maybe_unused]] static const bool kept =
      runtime::redirect(reinterpret_cast<const void*>(&PyThread_exit_thread), "pthread_exit",
                        reinterpret_cast<void*>(&end_or_sleep), end_of_thread);
}
#else
void keep_late_threads() noexcept {}
#endif

}  // namespace xpu_ops
