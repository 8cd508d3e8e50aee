// Device memory for routines that run on the calling thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/mkl/table.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/profile/profiler.hpp"
#include "kernels/runtime/queue/float_state.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::mkl {

// Returns when everything on the queue is done.
inline void finish(runtime::Queue& queue) {
  if (!queue.small().ready()) queue.wait();
}

// Threads that may share work of the host.
inline int threads_of(runtime::Queue& queue) {
  return static_cast<int>(runtime::device_info(queue.device).policy.units);
}

// f() computes on the calling thread; `name` is how a profile calls it.
template <class Name, class F>
void run_on_host(runtime::Queue& queue, Name&& name, F&& f) {
  const runtime::FloatState state;
  const int64_t begin = runtime::profiling() ? runtime::detail::profile_clock() : 0;
  f();
  if (begin) [[unlikely]]
    runtime::profile_on_host(queue, name(), begin);
}

// The arrays of one call. They are the device's own where the host reaches them, copies otherwise; what is written is
// copied back by done().
class HostArrays {
 public:
  explicit HostArrays(runtime::Queue& queue) : queue_(queue), direct_(runtime::host_accessible(queue.device)) {
    finish(queue);
  }

  template <class T>
  T* read(T* p, int64_t bytes) {
    return static_cast<T*>(image(const_cast<std::remove_const_t<T>*>(p), bytes, true, false));
  }
  template <class T>
  T* write(T* p, int64_t bytes) {
    return static_cast<T*>(image(p, bytes, false, true));
  }
  template <class T>
  T* change(T* p, int64_t bytes) {
    return static_cast<T*>(image(p, bytes, true, true));
  }
  // f() calls the routine for `batch` matrices of m x n.
  template <class F>
  void call(const char* routine, DType type, int64_t batch, int64_t m, int64_t n, F&& f) {
    run_on_host(
        queue_,
        [&] {
          std::string name = routine;  // not one sum: g++ 12 warns of bounds in its own header there
          name.append(" ").append(dtype_suffix(type)).append(" ");
          if (batch != 1) name.append(std::to_string(batch)).append("x");
          return name.append(std::to_string(m)).append("x").append(std::to_string(n));
        },
        f);
  }
  void done() {
    for (auto& c : copies_) {
      if (c.written) runtime::copy_bytes(queue_, c.device, c.bytes.get(), c.size, true);
    }
  }

 private:
  struct Copy {
    void* device;
    std::unique_ptr<char[]> bytes;
    size_t size;
    bool written;
  };

  void* image(void* p, int64_t bytes, bool read, bool written) {
    if (direct_ || !p || bytes <= 0) return p;
    const size_t size = static_cast<size_t>(bytes);
    copies_.push_back({p, std::make_unique<char[]>(size), size, written});
    if (read) runtime::copy_bytes(queue_, copies_.back().bytes.get(), p, size, true);
    return copies_.back().bytes.get();
  }

  runtime::Queue& queue_;
  const bool direct_;
  std::vector<Copy> copies_;
};

}  // namespace xpu_ops::mkl
