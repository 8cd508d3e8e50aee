#include "kernels/onednn/host_task.hpp"

#include <atomic>
#include <mutex>

#include <oneapi/dnnl/dnnl_sycl.hpp>

#include "kernels/error.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/per_device.hpp"
#include "kernels/runtime/device/redirect.hpp"

namespace xpu_ops::onednn {
namespace {

thread_local std::function<void()>* t_taken = nullptr;  // where the next host task of this thread goes

// sycl::handler::SetHostTask, as oneDNN calls it.
constexpr const char* kSetHostTask = "_ZN4sycl3_V17handler11SetHostTaskESt8functionIFvvEE";
using SetHostTask = void (*)(sycl::handler*, std::function<void()>);
std::atomic<void*> set_host_task{nullptr};

void take_or_set(sycl::handler* handler, std::function<void()> task) {
  if (t_taken)
    *t_taken = std::move(task);
  else
    reinterpret_cast<SetHostTask>(set_host_task.load())(handler, std::move(task));
}

// A queue that gets submissions without a command, and oneDNN's stream on it.
struct Side {
  std::mutex mutex;
  sycl::queue queue;
  dnnl::stream stream;
  explicit Side(int device)
      : queue(runtime::sycl_context(device), runtime::sycl_device(device), {sycl::property::queue::in_order()}),
        stream(dnnl::sycl_interop::make_stream(engine(device), queue)) {}
};

Side* new_side(int device) { return new Side(device); }

}  // namespace

bool takes_host_tasks() {
  static const bool takes = runtime::redirect(reinterpret_cast<const void*>(&dnnl_primitive_execute), kSetHostTask,
                                              reinterpret_cast<void*>(&take_or_set), set_host_task);
  return takes;
}

std::function<void()> host_task(int device, const Entry& entry, const std::vector<dnnl_exec_arg_t>& args) {
  Side& s = per_device<new_side>(device);
  std::function<void()> taken;
  dnnl_status_t status;
  {
    const std::lock_guard lock(s.mutex);
    t_taken = &taken;
    status = dnnl_primitive_execute(entry.primitive.get(), s.stream.get(), static_cast<int>(args.size()), args.data());
    t_taken = nullptr;
  }
  if (status == dnnl_success && !taken) status = dnnl_runtime_error;
  check(status, entry);
  return taken;
}

}  // namespace xpu_ops::onednn
