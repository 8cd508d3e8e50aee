// The devices of all platforms that SYCL lists, and which of them can serve.
#pragma once
#include <string>
#include <vector>

namespace xpu_ops::runtime {

// Those that do not run the modules are never taken.
struct SeenDevice {
  std::string platform, vendor, device;
  bool runs_modules;
};
std::vector<SeenDevice> seen_devices();

}  // namespace xpu_ops::runtime
