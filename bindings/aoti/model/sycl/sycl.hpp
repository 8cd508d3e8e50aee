// Stands for SYCL's header in the sources of a model: the few members that torch's runtime of compiled models calls,
// on streams of this library. No SYCL is needed to compile a model.
//
// Memory of a model is used in the order of streams and freed after a wait, so no event is needed to know when a run is
// over.
#pragma once
#include <cstddef>
#include <new>
#include <stdexcept>

#include "xpu_ops_model.h"

namespace sycl {

namespace info {
enum class event_command_status { complete };
namespace event {
struct command_execution_status {};
}  // namespace event
}  // namespace info

class event {
 public:
  void wait() {}
  void wait_and_throw() {}
  template <class> info::event_command_status get_info() const { return info::event_command_status::complete; }
};

// Never made: the address of a stream of this library.
class queue {
 public:
  queue() = delete;
  event memcpy(void* to, const void* from, size_t bytes) {
    if (xpu_ops_copy(this, to, from, bytes) != AOTI_TORCH_SUCCESS)
      throw std::runtime_error("a constant of the model could not be copied to the device");
    return {};
  }
  event ext_oneapi_submit_barrier() { return {}; }
};

inline void* malloc_device(size_t bytes, queue& stream) {
  void* data = nullptr;
  if (xpu_ops_allocate(bytes, &stream, &data) != AOTI_TORCH_SUCCESS) throw std::bad_alloc();
  return data;
}

inline void free(void* data, queue&) { xpu_ops_free(data); }

}  // namespace sycl
