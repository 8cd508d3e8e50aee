// The runner of packages for xpu, in torch's registry: torch._inductor.aoti_load_package and C++ programs find it
// there.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bindings/aoti/package.hpp"
#include "bindings/errors.hpp"
#include "bindings/runtime/guard.hpp"
#include "bindings/runtime/openmp.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::aoti {
namespace {

using torch::inductor::AOTIModelContainerRunner;

// As torch.xpu.init() in Python.
void start_devices() {
  [[maybe_unused]] static const bool started = [] {
    if (runtime::device_count() == 0) runtime::device_info(0);  // throws, saying why
    for (int i = 0; i < runtime::device_count(); ++i)
      if (runtime::device_info(i).is_cpu) calm_openmp();
    std::atexit([] {  // no queued work may outlive the program
      runtime::drain();
      settle_workers();
    });
    return true;
  }();
}

int device_of(const std::string& name) {
  const c10::Device device(name);
  return device.has_index() ? device.index() : runtime::current_device();
}

class Runner final : public AOTIModelContainerRunner {
 public:
  Runner(const std::string& library, size_t models, int device, const std::string& folder, bool single_threaded)
      : AOTIModelContainerRunner(library, models, "xpu:" + std::to_string(device), folder, single_threaded),
        device_(device) {}

 protected:
  // `stream`: the sycl::queue of a stream, or nothing for the current one.
  std::vector<at::Tensor> run_impl(std::vector<AtenTensorHandle>& inputs, void* stream) override {
    // A model records nothing for a gradient. Packed weights are kept only where none is.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::NoGradGuard no_grad;
    runtime::Queue& queue = translate([&]() -> runtime::Queue& {
      if (!stream) return runtime::current_queue(device_);
      return runtime::queue(device_, runtime::stream_from_external(device_, static_cast<sycl::queue*>(stream)));
    });
    return AOTIModelContainerRunner::run_impl(inputs, &queue);
  }

 private:
  int device_;
};

std::unique_ptr<AOTIModelContainerRunner> make(const std::string& library, size_t models, const std::string& device,
                                               const std::string& folder, bool single_threaded) {
  const int index = translate([&] {
    check_package(std::filesystem::path(library).parent_path().string());
    start_devices();
    return device_of(device);
  });
  // The model takes the current device for its constants.
  const int before = translate([&] { return runtime::exchange_device(index); });
  struct Restore {
    int device;
    ~Restore() { runtime::set_current_device_unchecked(device); }
  } restore{before};
  return std::make_unique<Runner>(library, models, index, folder, single_threaded);
}

[[maybe_unused]] const bool g_registered = [] {
  torch::inductor::getAOTIModelRunnerRegistry()["xpu"] = &make;
  return true;
}();

}  // namespace
}  // namespace xpu_ops::aoti
