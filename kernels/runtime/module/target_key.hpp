// The key of native kernel code: device, driver, instruction set, runtime. kernelc records it at build time and
// the module loader compares it, so both must make it from this header.
#pragma once
#include <cpuid.h>

#include <cstdlib>
#include <string>

#include <sycl/sycl.hpp>

#include "kernels/runtime/module/native_target.hpp"

namespace xpu_ops::runtime {

// The instruction sets by which Intel's CPU runtime chooses code. A name per bit rather than the model name: two CPUs
// of one family share native modules.
inline std::string cpu_isa() {
  // The CPU runtime's own switch for another target: what its code may use.
  const char* forced = std::getenv("CL_CONFIG_CPU_TARGET_ARCH");
  if (forced)
    if (const std::string_view sets = isa_of_target(forced); !sets.empty()) return std::string(sets);
  std::string isa;
  auto add = [&](bool has, const char* name) {
    if (has) isa += (isa.empty() ? "" : "+") + std::string(name);
  };
  add(__builtin_cpu_supports("sse4.2"), "sse42");
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512dq"), "avx512dq");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    add(edx >> 23 & 1, "avx512fp16");
    add(edx >> 24 & 1, "amx");
  }
  if (forced) isa += std::string(" forced=") + forced;
  return isa;
}

inline std::string target_key(const sycl::device& device) {
  namespace info = sycl::info::device;
  std::string key = std::string(device.is_cpu() ? "cpu" : device.is_gpu() ? "gpu" : "accelerator");
  key += " backend=" + std::to_string(static_cast<int>(device.get_backend()));
  key += " driver=" + device.get_info<info::driver_version>();
  key += " sycl=" + std::to_string(__SYCL_COMPILER_VERSION);
  // A GPU's native code is bound to the device; its name and vendor stand for the architecture.
  key += device.is_cpu()
             ? " isa=" + cpu_isa()
             : " device=" + device.get_info<info::name>() + "/" + std::to_string(device.get_info<info::vendor_id>());
  for (char& c : key)
    if (c == '\t' || c == '\n') c = ' ';
  return key;
}

}  // namespace xpu_ops::runtime
