#include "kernels/mkl/lib/workers.hpp"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

namespace xpu_ops::mkl {

void run_parts(int64_t parts, int threads, const std::function<void(int64_t)>& f) {
  if (threads <= 1) {  // also inside of a part
    for (int64_t i = 0; i < parts; ++i) f(i);
    return;
  }
  // The caller may be a thread of the OpenCL runtime: while it waits it takes no work but this.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, parts),
        [&](const tbb::blocked_range<int64_t>& range) {
          for (int64_t i = range.begin(); i < range.end(); ++i) f(i);
        },
        tbb::simple_partitioner());
  });
}

}  // namespace xpu_ops::mkl
