// Devices as torch.xpu numbers them: enumeration, mapping, properties, the current device of a thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <sycl/sycl.hpp>

#include "kernels/runtime/device/policy.hpp"

namespace xpu_ops::runtime {

constexpr int kMaxDevices = 16;

struct DeviceInfo {
  std::string name, vendor, platform_name, driver_version, version;
  std::string type;  // "gpu" | "cpu" | "accelerator"
  bool is_cpu = false;
  uint64_t total_memory = 0, local_mem_size = 0, last_level_cache_size = 0;
  uint64_t max_alloc_size = 0;
  uint32_t vendor_id = 0, device_id = 0;
  uint32_t max_compute_units = 0, gpu_eu_count = 0, gpu_subslice_count = 0;
  uint32_t max_work_group_size = 0, max_num_sub_groups = 0, gpu_hw_threads_per_eu = 0;
  uint32_t memory_clock_rate = 0, memory_bus_width = 0;  // MHz, bits; 0 where the driver does not say
  int64_t architecture = 0;                              // sycl::ext::oneapi::experimental::architecture
  bool host_unified = false, has_free_memory = false, has_matrix = false;
  std::vector<uint32_t> sub_group_sizes;
  bool has_fp16 = false, has_fp64 = false, has_atomic64 = false, has_bf16_conversions = false;
  std::string uuid;
  Policy policy;
};

// Mapping: "auto" | "gpu" | "cpu" | "explicit". Throws Error{runtime} once devices have been enumerated.
void set_device_mapping(const std::string& mapping);
std::string device_mapping();

int device_count() noexcept;       // enumerates on first use; 0 where no runtime is found
int device_count_hint() noexcept;  // the same, but does not start SYCL where the answer can only be one CPU device
std::string unavailable_reason();  // why device_count() is 0; empty where there is a device
bool initialized() noexcept;       // true once devices have been enumerated
const DeviceInfo& device_info(int device);
sycl::device& sycl_device(int device);
sycl::context& sycl_context(int device);

int current_device() noexcept;
void set_current_device(int device);  // throws Error{runtime} on a bad index
int exchange_device(int device);
void set_current_device_unchecked(int device) noexcept;  // for destructors: the index was valid before

// True where the host may dereference device memory: Policy::host_memory.
bool host_accessible(int device);
// Bytes that an allocation could still get; UINT64_MAX where the driver cannot tell.
uint64_t free_memory(int device);
bool can_access_peer(int device, int peer);
// True in a child forked after the device was used.
bool in_bad_fork() noexcept;
void check_fork();  // throws Error{runtime}, worded as torch.xpu words it, in such a child

}  // namespace xpu_ops::runtime
