#include "kernels/mkl/fft.hpp"

#include "kernels/mkl/host.hpp"
#include "kernels/mkl/plan_cache.hpp"

namespace xpu_ops::mkl {

void fft(runtime::Queue& queue, const FftShape& shape, const void* in, void* out) {
  if (shape.batch == 0) return;
  const bool on_host = runtime::host_accessible(queue.device);
  const auto cached = PlanCache::instance().get(shape, on_host ? nullptr : &queue);
  std::lock_guard lock(cached->mutex);
  void* const source = const_cast<void*>(in);
  if (on_host) {
    finish(queue);
    cached->plan->run(source, out);
  } else {
    queue.submit([&](sycl::queue&) { cached->plan->run(source, out); });
  }
}

}  // namespace xpu_ops::mkl
