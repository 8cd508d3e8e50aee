#include "kernels/runtime/device/emulated.hpp"

#include <array>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"

namespace xpu_ops::runtime {
namespace {

using sycl::ext::oneapi::experimental::architecture;

// As torch.xpu prints them on the GPU. Memory clocks and bus widths that no report named are 0: a driver may not say.
struct Gpu {
  std::string_view key, name, version, driver;
  uint64_t memory, local, cache;
  uint32_t device_id, units, subslices, sub_groups;
  std::array<uint32_t, 3> sub_group_sizes;
  bool fp64;
  architecture arch;
  uint32_t clock, bus;
  int tiles;
};

constexpr std::array<Gpu, 3> kGpus{{
    {"a770",
     "Intel(R) Arc(TM) A770 Graphics",
     "12.55.8",
     "1.3.33276",
     uint64_t{15473} << 20,
     64 << 10,
     16 << 20,
     0x56a0,
     512,
     32,
     128,
     {8, 16, 32},
     false,
     architecture::intel_gpu_acm_g10,
     0,
     0,
     1},
    {"b580",
     "Intel(R) Arc(TM) B580 Graphics",
     "20.1.0",
     "1.6.33578+13",
     12168933376,
     128 << 10,
     18 << 20,
     0xe20b,
     160,
     20,
     64,
     {16, 32, 0},
     true,
     architecture::intel_gpu_bmg_g21,
     0,
     0,
     1},
    {"max1550",
     "Intel(R) Data Center GPU Max 1550",
     "12.60.7",
     "1.6.33578+51",
     uint64_t{65520} << 20,
     128 << 10,
     192 << 20,
     0x0bd5,
     512,
     64,
     64,
     {16, 32, 0},
     true,
     architecture::intel_gpu_pvc,
     3200,
     64,
     2},
}};

// "Intel Arc A770" is a770.
std::string key_of(std::string_view text) {
  std::string key;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view brand : {"intel", "arc", "datacentergpu"})
    if (key.starts_with(brand)) key.erase(0, brand.size());
  return key;
}

// Read anew at each call, which are few: at the first use of a device.
const Gpu* wanted() {
  const char* env = std::getenv("XPU_OPS_EMULATE");
  if (!env || !*env) return nullptr;
  std::string known;
  for (const Gpu& gpu : kGpus) {
    if (gpu.key == key_of(env)) return &gpu;
    known.append(known.empty() ? "" : ", ").append(gpu.key);
  }
  throw Error(ErrorKind::value, std::string("XPU_OPS_EMULATE is '") + env + "', expected one of " + known + ".");
}

}  // namespace

bool emulating() { return wanted() != nullptr; }

int emulated_tiles() {
  const Gpu* gpu = wanted();
  return gpu ? gpu->tiles : 1;
}

void emulate(DeviceInfo& info) {
  const Gpu* gpu = wanted();
  if (!gpu) return;
  info.name = gpu->name;
  info.vendor = "Intel(R) Corporation";
  info.platform_name = "Intel(R) oneAPI Unified Runtime over Level-Zero";
  info.version = gpu->version;
  info.driver_version = gpu->driver;
  info.type = "gpu";
  info.total_memory = gpu->memory;
  info.local_mem_size = gpu->local;
  info.last_level_cache_size = gpu->cache;
  info.vendor_id = 0x8086;
  info.device_id = gpu->device_id;
  info.max_compute_units = info.gpu_eu_count = gpu->units;
  info.gpu_subslice_count = gpu->subslices;
  info.gpu_hw_threads_per_eu = 8;
  info.max_work_group_size = 1024;
  info.max_num_sub_groups = gpu->sub_groups;
  info.memory_clock_rate = gpu->clock;
  info.memory_bus_width = gpu->bus;
  info.architecture = static_cast<int64_t>(gpu->arch);
  info.host_unified = false;
  info.sub_group_sizes.clear();
  for (const uint32_t size : gpu->sub_group_sizes)
    if (size) info.sub_group_sizes.push_back(size);
  info.has_fp16 = info.has_atomic64 = info.has_matrix = info.has_bf16_conversions = true;
  info.has_fp64 = gpu->fp64;
}

void require_fp64(int device) {
  if (!device_info(device).has_fp64)
    throw Error(ErrorKind::runtime, "Required aspect fp64 is not supported on the device");
}

}  // namespace xpu_ops::runtime
