// Where tools/gpu takes the launches of all queues. Without a recorder nothing on the path of a launch knows of it: a
// launch looks for one where it looks for a profile.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <sycl/sycl.hpp>

#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

// One launch; the dimension that varies fastest first.
struct Launch {
  Queue& queue;
  const char* name;
  const sycl::kernel& kernel;
  uint32_t groups[2], local[2];
  const void* args;
  size_t bytes;
};

class LaunchRecorder {
 public:
  virtual ~LaunchRecorder() = default;
  // run() puts the launch on its queue; without it, nothing is executed.
  virtual void launch(const Launch& launch, const std::function<void()>& run) = 0;
  // A copy, a fill or another command that is no kernel of the library. False: it is not executed.
  virtual bool command(const Label& label) = 0;
  // A kernel was taken out of a module that was compiled at run time; `digest` names its source.
  virtual void compiled(const sycl::kernel& kernel, const std::string& digest) = 0;
};

// From here on; nullptr ends it. Throws Error{runtime} while a profile runs. The recorder lives until it was replaced
// and no thread launches.
void record_launches(LaunchRecorder* recorder);
LaunchRecorder* launch_recorder() noexcept;

}  // namespace xpu_ops::runtime
