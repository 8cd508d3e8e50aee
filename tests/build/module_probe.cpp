// Loads kernels as the library does and says how: a process of its own for the tests of the module loader.
//   module_probe MODULE_DIR THREADS KERNEL...
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/module/module.hpp"

namespace runtime = xpu_ops::runtime;

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int threads = std::atoi(argv[2]);
  std::mutex mutex;
  std::string error;
  std::vector<const sycl::kernel*> first;
  bool same = true;
  try {
    runtime::set_module_dir(argv[1]);
    (void)runtime::device_count();
    auto work = [&] {
      std::vector<const sycl::kernel*> got;
      try {
        for (int i = 3; i < argc; ++i) got.push_back(&runtime::load_kernel(argv[i], 0));
      } catch (const std::exception& e) {
        std::lock_guard lock(mutex);
        error = e.what();
        return;
      }
      std::lock_guard lock(mutex);
      if (first.empty()) first = got;
      same = same && first == got;
    };
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i) pool.emplace_back(work);
    for (std::thread& t : pool) t.join();
  } catch (const std::exception& e) { error = e.what(); }
  const runtime::ModuleStats stats = runtime::module_stats();
  std::printf("native=%d\ncached=%d\nlinked=%d\nsame=%d\nerror=%s\n", static_cast<int>(stats.native),
              static_cast<int>(stats.cached), static_cast<int>(stats.linked), same ? 1 : 0, error.c_str());
  return error.empty() ? 0 : 1;
}
