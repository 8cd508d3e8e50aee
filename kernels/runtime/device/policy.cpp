#include "kernels/runtime/device/policy.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/emulated.hpp"
#include "kernels/runtime/device/processor.hpp"
#include "kernels/runtime/environment.hpp"
#include "kernels/runtime/module/target_key.hpp"

namespace xpu_ops::runtime {
namespace {

// Measured on the CPU device: smaller groups pay for their scheduling, larger ones leave threads idle.
constexpr uint32_t kCpuGroup = 1024;
// Measured on an NVIDIA H100 (docs/gpu.md): 128 to 256 items reach twice the bandwidth of 16.
constexpr uint32_t kGpuGroup = 256, kGpuRows = 128;
// Of Intel GPUs; a CPU device takes more.
constexpr uint32_t kGpuMostItems = 1024;

[[noreturn]] void refuse(const std::string& wanted) {
  throw Error(ErrorKind::value, "XPU_OPS_POLICY is '" + wanted + "', expected cpu or gpu.");
}

// "cpu", "cpu,units=16": the plans of a CPU of more cores; "gpu", "gpu,units=132,cache_mb=50,local_kb=48": the sizes of
// a GPU for plans that tools/gpu records.
bool gpu_wanted(DeviceInfo& info) {
  const char* wanted = std::getenv("XPU_OPS_POLICY");
  if (!wanted || !*wanted) return !info.is_cpu || emulating();
  std::istringstream fields(wanted);
  std::string name, field;
  std::getline(fields, name, ',');
  if (name != "cpu" && name != "gpu") refuse(wanted);
  while (std::getline(fields, field, ',')) {
    const size_t at = field.find('=');
    const std::string key = field.substr(0, at);
    const uint64_t value = at == std::string::npos ? 0 : std::strtoull(field.c_str() + at + 1, nullptr, 10);
    if (value == 0 || (name != "gpu" && key != "units")) refuse(wanted);
    if (key == "units")
      info.max_compute_units = static_cast<uint32_t>(value);
    else if (key == "cache_mb")
      info.last_level_cache_size = value << 20;
    else if (key == "local_kb")
      info.local_mem_size = value << 10;
    else
      refuse(wanted);
  }
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
  p.elementwise_group = p.tile_items = p.team_items = std::min(kGpuGroup, info.max_work_group_size);
  p.row_items = std::min(kGpuRows, info.max_work_group_size);
  return p;
}

}  // namespace

Policy make_policy(const DeviceInfo& device) {
  DeviceInfo info = device;
  Policy p = gpu_wanted(info) ? gpu_policy(info) : cpu_policy(info);
  p.units = info.max_compute_units;
  p.cache = info.last_level_cache_size;
  p.matrices = info.has_matrix;
  const std::string isa = std::string(kIsa) + cpu_isa();
  p.narrow = p.single_items && !isa_has(isa, "avx512f");
  p.products16 = !info.is_cpu || info.has_matrix || (!p.narrow && processor_has_dot16());
  p.dot16 = p.single_items && !p.narrow && processor_has_dot16();
  p.dots8 = p.single_items && !p.narrow && processor_has_dots8();
  p.dots_narrow = p.narrow && isa_has(isa, "avx2");
  p.amx = p.single_items && info.is_cpu && isa_has(isa, "amx") && permit_tiles();
  if (env_flag("XPU_OPS_DISCRETE") || (info.is_cpu && emulating())) p.host_memory = false;
  return p;
}

}  // namespace xpu_ops::runtime
