#include "kernels/mkl/fft.hpp"

#include "kernels/mkl/host.hpp"
#include "kernels/mkl/plan_cache.hpp"
#include "kernels/runtime/device/emulated.hpp"

namespace xpu_ops::mkl {
namespace {

std::string name(const FftShape& shape) {
  const PlanCacheEntry e = describe(shape);
  return "fft " + e.kind + " " + e.shape;
}

}  // namespace

void fft(runtime::Queue& queue, FftShape shape, const void* in, void* out) {
  if (shape.batch == 0) return;
  if (shape.real == DType::f64) runtime::require_fp64(queue.device);
  const bool on_host = runtime::host_accessible(queue.device);
  if (on_host) shape.threads = threads_of(queue);
  const auto cached = PlanCache::instance().get(shape, on_host ? nullptr : &queue);
  std::lock_guard lock(cached->mutex);
  void* const source = const_cast<void*>(in);
  if (on_host) {
    finish(queue);
    run_on_host(queue, [&] { return name(shape); }, [&] { cached->plan->run(source, out); });
    return;
  }
  const auto run = [&](sycl::queue& q) {
    sycl::queue& theirs = *cached->queue;
    const bool away = theirs != q;  // a profile began or ended
    if (away) theirs.ext_oneapi_submit_barrier({q.ext_oneapi_submit_barrier()});
    cached->plan->run(source, out);
    if (away) q.ext_oneapi_submit_barrier({theirs.ext_oneapi_submit_barrier()});
    return sycl::event();
  };
  const std::string text = runtime::profiling() ? name(shape) : std::string();
  runtime::submit_named(queue, {text.c_str(), runtime::CommandKind::kernel, 0, false}, run);
}

}  // namespace xpu_ops::mkl
