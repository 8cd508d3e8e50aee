#include "kernels/runtime/device/device.hpp"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/runtime/device/emulated.hpp"
#include "kernels/runtime/device/platforms.hpp"
#include "kernels/runtime/memory/driver_pages.hpp"
#include "kernels/runtime/memory/memory_budget.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {
namespace {

struct Entry {
  sycl::device device;
  sycl::context context;
  DeviceInfo info;
  uint64_t memory = 0;  // that there is, which is less than an emulated GPU may report
};

// Never destroyed: kernels may still be referenced while the process exits, after SYCL's own globals are gone.
struct Registry {
  std::mutex mutex;
  std::vector<Entry> entries;
  std::string mapping;
  std::string failure;  // why there is no device, for the message of the first use
  std::vector<SeenDevice> seen;
  std::array<std::atomic<int64_t>, kMaxDevices> reserved{};
  std::atomic<bool> ready{false};
};

Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

std::atomic<bool> g_bad_fork{false};
thread_local int t_device = 0;

template <class T, class Fn>
T query(T otherwise, Fn&& fn) {
  try {
    return static_cast<T>(fn());
  } catch (const sycl::exception&) { return otherwise; }
}

std::string to_uuid(const std::array<unsigned char, 16>& b) {
  char out[37];
  std::snprintf(out, sizeof out, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return out;
}

// The driver of a CPU device reports the second cache. 0 where the system does not say.
uint64_t host_cache_size() {
  uint64_t largest = 0;
  for (int index = 0; index < 5; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    uint64_t size = 0;
    char unit = 0;
    if (file >> size >> unit) largest = std::max(largest, unit == 'M' ? size << 20 : unit == 'K' ? size << 10 : size);
  }
  return largest;
}

DeviceInfo describe(const sycl::device& d) {
  namespace info = sycl::info::device;
  namespace intel = sycl::ext::intel::info::device;
  DeviceInfo i;
  i.name = d.get_info<info::name>();
  i.vendor = d.get_info<info::vendor>();
  i.platform_name = d.get_platform().get_info<sycl::info::platform::name>();
  i.driver_version = d.get_info<info::driver_version>();
  i.version = d.get_info<info::version>();
  i.is_cpu = d.is_cpu();
  i.type = d.is_gpu() ? "gpu" : d.is_cpu() ? "cpu" : "accelerator";
  i.total_memory = d.get_info<info::global_mem_size>();
  i.max_alloc_size = d.get_info<info::max_mem_alloc_size>();
  i.local_mem_size = d.get_info<info::local_mem_size>();
  i.last_level_cache_size = d.get_info<info::global_mem_cache_size>();
  if (i.is_cpu) i.last_level_cache_size = std::max(i.last_level_cache_size, host_cache_size());
  i.vendor_id = d.get_info<info::vendor_id>();
  i.max_compute_units = d.get_info<info::max_compute_units>();
  i.max_work_group_size = d.get_info<info::max_work_group_size>();
  i.max_num_sub_groups = d.get_info<info::max_num_sub_groups>();
  for (size_t s : d.get_info<info::sub_group_sizes>()) i.sub_group_sizes.push_back(static_cast<uint32_t>(s));
  i.has_fp16 = d.has(sycl::aspect::fp16);
  i.has_fp64 = d.has(sycl::aspect::fp64);
  i.has_atomic64 = d.has(sycl::aspect::atomic64);
  i.has_matrix = d.has(sycl::aspect::ext_intel_matrix);
  // Plain integer code on a CPU; the GPUs with matrix engines have the instruction.
  i.has_bf16_conversions = i.is_cpu || i.has_matrix;
  i.host_unified = i.is_cpu || (d.is_gpu() && query(false, [&] { return d.get_info<info::host_unified_memory>(); }));
  std::array<unsigned char, 16> uuid{};
  if (d.has(sycl::aspect::ext_intel_device_info_uuid)) {
    uuid = query(uuid, [&] { return d.get_info<intel::uuid>(); });
  } else {
    // No driver identity: derive a stable one from what names the device.
    uint64_t h = 1469598103934665603ull;
    for (char c : i.platform_name + i.name + i.driver_version)
      h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    std::memcpy(uuid.data(), &h, sizeof h);
    h = h * 6364136223846793005ull + 1442695040888963407ull;
    std::memcpy(uuid.data() + 8, &h, sizeof h);
  }
  i.uuid = to_uuid(uuid);
  if (d.has(sycl::aspect::ext_intel_device_id)) i.device_id = query(0u, [&] { return d.get_info<intel::device_id>(); });
  if (d.has(sycl::aspect::ext_intel_gpu_eu_count))
    i.gpu_eu_count = query(0u, [&] { return d.get_info<intel::gpu_eu_count>(); });
  if (d.has(sycl::aspect::ext_intel_gpu_hw_threads_per_eu))
    i.gpu_hw_threads_per_eu = query(0u, [&] { return d.get_info<intel::gpu_hw_threads_per_eu>(); });
  if (d.has(sycl::aspect::ext_intel_gpu_eu_count_per_subslice) && i.gpu_eu_count) {
    uint32_t per = query(0u, [&] { return d.get_info<intel::gpu_eu_count_per_subslice>(); });
    if (per) i.gpu_subslice_count = i.gpu_eu_count / per;
  }
  // Programs divide by these. A CPU's compute unit is both; so is that of a driver that does not say.
  if (!i.gpu_eu_count) i.gpu_eu_count = i.max_compute_units;
  if (!i.gpu_subslice_count) i.gpu_subslice_count = i.max_compute_units;
  if (d.has(sycl::aspect::ext_intel_memory_clock_rate))
    i.memory_clock_rate = query(0u, [&] { return d.get_info<intel::memory_clock_rate>(); });
  if (d.has(sycl::aspect::ext_intel_memory_bus_width))
    i.memory_bus_width = query(0u, [&] { return d.get_info<intel::memory_bus_width>(); });
  i.architecture = query(int64_t{0}, [&] {
    return static_cast<int64_t>(d.get_info<sycl::ext::oneapi::experimental::info::device::architecture>());
  });
  i.has_free_memory = d.has(sycl::aspect::ext_intel_free_memory);
  i.policy = make_policy(i);
  return i;
}

bool valid_mapping(const std::string& m) { return m == "auto" || m == "gpu" || m == "cpu" || m == "explicit"; }

std::string wanted_mapping(Registry& r) {
  if (!r.mapping.empty()) return r.mapping;
  const char* env = std::getenv("XPU_OPS_DEVICE_MAPPING");
  std::string m = env && *env ? env : emulating() ? "cpu" : "auto";
  if (!valid_mapping(m))
    throw Error(ErrorKind::value, "XPU_OPS_DEVICE_MAPPING is '" + m + "', expected auto, gpu, cpu or explicit.");
  return m;
}

// XPU_OPS_CPU_DEVICES: indices that name the CPU device, so that programs for several devices run on any machine.
// Unset, there are as many as an emulated GPU has tiles.
int cpu_indices() {
  const char* env = std::getenv("XPU_OPS_CPU_DEVICES");
  if (!env || !*env) return emulated_tiles();
  char* end = nullptr;
  const long n = std::strtol(env, &end, 10);
  if (*end || n < 1 || n > kMaxDevices)
    throw Error(ErrorKind::value, std::string("XPU_OPS_CPU_DEVICES is '") + env + "', expected a number from 1 to " +
                                      std::to_string(kMaxDevices) + ".");
  return static_cast<int>(n);
}

// The modules are for the runtimes of one vendor. The platform is asked: the devices of others call themselves by the
// processor's vendor.
bool runs_modules(const sycl::platform& platform) {
  return platform.get_info<sycl::info::platform::vendor>().starts_with("Intel");
}

// GPUs of one backend only, or the same device would show up twice.
std::vector<sycl::device> pick(const std::string& mapping, std::vector<SeenDevice>& seen) {
  name_driver_target();  // the driver reads it when it starts
  std::vector<sycl::device> level_zero, opencl_gpus, cpus;
  for (const auto& platform : sycl::platform::get_platforms()) {
    for (const auto& d : platform.get_devices()) {
      const bool runs = runs_modules(platform);
      seen.push_back({platform.get_info<sycl::info::platform::name>(),
                      platform.get_info<sycl::info::platform::vendor>(), d.get_info<sycl::info::device::name>(), runs});
      if (!runs) continue;
      if (d.is_gpu()) {
        if (platform.get_backend() == sycl::backend::ext_oneapi_level_zero) {
          level_zero.push_back(d);
        } else if (platform.get_backend() == sycl::backend::opencl) {
          opencl_gpus.push_back(d);
        }
      } else if (d.is_cpu()) {
        cpus.push_back(d);
      }
    }
  }
  std::vector<sycl::device> gpus = level_zero.empty() ? opencl_gpus : level_zero;
  auto integrated = [](const sycl::device& d) {
    return query(false, [&] { return d.get_info<sycl::info::device::host_unified_memory>(); });
  };
  // As upstream: integrated GPUs count only where there is no discrete one. "explicit" exposes them all.
  if (mapping != "explicit" && std::any_of(gpus.begin(), gpus.end(), [&](auto& d) { return !integrated(d); }))
    gpus.erase(std::remove_if(gpus.begin(), gpus.end(), integrated), gpus.end());
  if (cpus.size() > 1 && mapping != "explicit") cpus.resize(1);
  if (!cpus.empty()) cpus.resize(cpus.size() + cpu_indices() - 1, cpus.back());
  if (mapping == "gpu") return gpus;
  if (mapping == "cpu") return cpus;
  if (mapping == "explicit") {
    gpus.insert(gpus.end(), cpus.begin(), cpus.end());
    return gpus;
  }
  return gpus.empty() ? cpus : gpus;
}

std::string left_out(const std::vector<SeenDevice>& seen) {
  std::string text;
  for (const SeenDevice& d : seen)
    if (!d.runs_modules) text += (text.empty() ? "; left out: " : ", ") + d.device + " of " + d.platform;
  return text.empty() ? text : text + ", since the kernels are compiled for Intel's runtimes";
}

void child_after_fork() {
  g_bad_fork.store(true, std::memory_order_relaxed);
  detail::g_profiling.store(false, std::memory_order_relaxed);
  detail::forget_current_queues();
}

// A forked child lacks the driver's threads, for which the driver's own end would wait where work was under way.
void leave_forked_child(int status, void*) {
  if (!g_bad_fork.load(std::memory_order_relaxed)) return;
  std::fflush(nullptr);
  _exit(status);
}

void enumerate(Registry& r) {
  std::lock_guard<std::mutex> lock(r.mutex);
  if (r.ready.load(std::memory_order_acquire)) return;
  r.mapping = wanted_mapping(r);
  try {
    for (auto& d : pick(r.mapping, r.seen)) {
      if (r.entries.size() == kMaxDevices) break;
      r.entries.push_back({d, d.get_platform().khr_get_default_context(), describe(d)});
      Entry& added = r.entries.back();
      added.memory = added.info.total_memory;
      if (added.info.is_cpu) {
        added.info.total_memory = added.memory = cpu_memory().bytes / static_cast<uint64_t>(cpu_indices());
        emulate(added.info);
      }
      const auto same = std::count_if(r.entries.begin(), r.entries.end(), [&](auto& e) { return e.device == d; });
      constexpr std::string_view digits = "0123456789abcdef";
      char& last = r.entries.back().info.uuid.back();
      last = digits[(digits.find(last) + same - 1) % digits.size()];
    }
    if (r.entries.empty()) r.failure = "SYCL finds no device for the mapping '" + r.mapping + "'" + left_out(r.seen);
  } catch (const std::exception& e) {
    r.entries.clear();
    r.failure = std::string("SYCL cannot list its devices: ") + e.what();
  }
  if (!r.entries.empty()) {
    pthread_atfork(nullptr, nullptr, child_after_fork);
    on_exit(leave_forked_child, nullptr);
  }
  release_driver_pages();
  r.ready.store(true, std::memory_order_release);
}

Registry& ready_registry() {
  Registry& r = registry();
  if (!r.ready.load(std::memory_order_acquire)) [[unlikely]]
    enumerate(r);
  return r;
}

Entry& entry(int device) {
  Registry& r = ready_registry();
  if (device < 0 || device >= static_cast<int>(r.entries.size())) [[unlikely]] {
    if (r.entries.empty())
      throw Error(ErrorKind::runtime, "No XPU devices are available: " + r.failure +
                                          ". Install intel-opencl-rt for the CPU device or a GPU driver, and check "
                                          "ONEAPI_DEVICE_SELECTOR and XPU_OPS_DEVICE_MAPPING.");
    throw Error(ErrorKind::runtime, "The device index is out of range. It must be in [0, " +
                                        std::to_string(r.entries.size()) + "), but got " + std::to_string(device) +
                                        ".");
  }
  return r.entries[device];
}

bool has_render_node() {
  DIR* dir = opendir("/dev/dri");
  if (!dir) return false;
  bool found = false;
  while (dirent* e = readdir(dir)) found |= std::strncmp(e->d_name, "renderD", 7) == 0;
  closedir(dir);
  return found;
}

}  // namespace

void set_device_mapping(const std::string& mapping) {
  if (!valid_mapping(mapping))
    throw Error(ErrorKind::value, "Unknown device mapping '" + mapping + "', expected auto, gpu, cpu or explicit.");
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  if (r.ready.load(std::memory_order_acquire))
    throw Error(ErrorKind::runtime,
                "set_device_mapping('" + mapping + "') came after the devices were first used; call it before that.");
  r.mapping = mapping;
}

std::string device_mapping() {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  return wanted_mapping(r);
}

int device_count() noexcept {
  try {
    return static_cast<int>(ready_registry().entries.size());
  } catch (const std::exception&) { return 0; }
}

int device_count_hint() noexcept {
  Registry& r = registry();
  if (r.ready.load(std::memory_order_acquire)) return static_cast<int>(r.entries.size());
  try {
    std::string m = device_mapping();
    // The CPU device is all there can be here; a runtime that is missing shows on first use.
    if (m == "cpu" || (m == "auto" && !has_render_node())) return cpu_indices();
  } catch (const std::exception&) { return 0; }
  return device_count();
}

std::string unavailable_reason() {
  try {
    Registry& r = ready_registry();
    return r.failure;
  } catch (const std::exception& e) { return e.what(); }
}

bool initialized() noexcept { return registry().ready.load(std::memory_order_acquire); }

const DeviceInfo& device_info(int device) { return entry(device).info; }
sycl::device& sycl_device(int device) { return entry(device).device; }
sycl::context& sycl_context(int device) { return entry(device).context; }

int current_device() noexcept { return t_device; }

void set_current_device(int device) {
  if (device != t_device) {
    entry(device);
    t_device = device;
    detail::forget_current_queue();
  }
}

void set_current_device_unchecked(int device) noexcept {
  if (device != t_device) {
    t_device = device;
    detail::forget_current_queue();
  }
}

int exchange_device(int device) {
  int before = t_device;
  set_current_device(device);
  return before;
}

bool host_accessible(int device) { return entry(device).info.policy.host_memory; }

uint64_t free_memory(int device) {
  Entry& e = entry(device);
  if (e.info.has_free_memory) {
    uint64_t free =
        query(uint64_t{0}, [&] { return e.device.get_info<sycl::ext::intel::info::device::free_memory>(); });
    if (free) return free;
  }
  if (!e.info.is_cpu) return UINT64_MAX;
  const auto reserved = static_cast<uint64_t>(registry().reserved[device].load(std::memory_order_relaxed));
  return std::min(host_free_memory(), memory_limit(device) - std::min(memory_limit(device), reserved));
}

uint64_t memory_limit(int device) {
  const Entry& e = entry(device);
  return std::min(e.memory, e.info.total_memory);
}

void note_reserved(int device, int64_t bytes) {
  registry().reserved[device].fetch_add(bytes, std::memory_order_relaxed);
}

MemoryBudget cpu_memory() { return memory_budget(std::getenv("XPU_OPS_CPU_MEMORY"), host_memory_limit()); }

std::vector<SeenDevice> seen_devices() { return ready_registry().seen; }

bool can_access_peer(int device, int peer) {
  Entry &a = entry(device), &b = entry(peer);
  if (device == peer) return true;
  if (a.device == b.device) return true;  // XPU_OPS_CPU_DEVICES
  if (a.info.is_cpu || b.info.is_cpu) return false;
  return query(false, [&] {
    return a.device.ext_oneapi_can_access_peer(b.device, sycl::ext::oneapi::peer_access::access_supported);
  });
}

bool in_bad_fork() noexcept { return g_bad_fork.load(std::memory_order_relaxed); }

void check_fork() {
  if (in_bad_fork()) [[unlikely]]
    throw Error(ErrorKind::runtime,
                "Cannot re-initialize XPU in forked subprocess. To use XPU with multiprocessing, you must use the "
                "'spawn' start method");
}

}  // namespace xpu_ops::runtime
