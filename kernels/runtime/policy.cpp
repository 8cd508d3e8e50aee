#include "kernels/runtime/policy.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "kernels/error.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/processor.hpp"

namespace xpu_ops::runtime {
namespace {

// Measured on the CPU device: smaller groups pay for their scheduling, larger ones leave threads idle.
constexpr uint32_t kCpuGroup = 1024;
constexpr uint32_t kGpuGroup = 256;
// Of Intel GPUs; a CPU device takes more.
constexpr uint32_t kGpuMostItems = 1024;

bool gpu_wanted(const DeviceInfo& info) {
  const char* wanted = std::getenv("XPU_OPS_POLICY");
  if (!wanted || !*wanted) return !info.is_cpu;
  const std::string name = wanted;
  if (name != "cpu" && name != "gpu")
    throw Error(ErrorKind::value, "XPU_OPS_POLICY is '" + name + "', expected cpu or gpu.");
  return name == "gpu" || !info.is_cpu;
}

Policy cpu_policy(const DeviceInfo& info) {
  Policy p;
  p.single_items = p.host_memory = true;
  p.most_items = info.max_work_group_size;
  p.elementwise_group = std::min(kCpuGroup, info.max_work_group_size);
  return p;
}

Policy gpu_policy(const DeviceInfo& info) {
  Policy p;
  p.most_items = std::min(kGpuMostItems, info.max_work_group_size);
  p.elementwise_group = std::min(kGpuGroup, info.max_work_group_size);
  return p;
}

}  // namespace

Policy policy_of(const DeviceInfo& info) {
  Policy p = gpu_wanted(info) ? gpu_policy(info) : cpu_policy(info);
  p.units = info.max_compute_units;
  p.cache = info.last_level_cache_size;
  p.matrices = info.has_matrix;
  p.products16 = !info.is_cpu || info.has_matrix || processor_has_dot16();
  p.dot16 = p.single_items && processor_has_dot16();
  if (env_flag("XPU_OPS_DISCRETE")) p.host_memory = false;
  return p;
}

}  // namespace xpu_ops::runtime
