// Kernels that were compiled while the process runs: modules from bytes, kept in the user's cache folder, and launches
// whose argument is a packed struct of 8-byte fields.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sycl/sycl.hpp>

#include "kernels/runtime/module/host_code.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

// A loaded module on one device; its kernels live as long as it does.
class JitModule {
 public:
  using Bytes = std::vector<char>;
  // Looks in the cache folder: native code for this device, or SPIR-V that is linked and stored. Empty where neither
  // is. `digest` names everything the SPIR-V was made from.
  static std::shared_ptr<JitModule> find(const std::string& digest, int device);
  // Stores what the compiler made and loads it. `native` is code for the device that `target` names (target_key); on
  // any other device the SPIR-V is linked. Throws Error{runtime} where the bytes are no module.
  static std::shared_ptr<JitModule> add(const std::string& digest, int device, const Bytes& spirv, const Bytes& native,
                                        const std::string& target);

  // Throws Error{runtime} for a name that is not in the module.
  std::unique_ptr<sycl::kernel> kernel(const std::string& name);
  // The same for the calling thread; null where that cannot be.
  HostFunction* here(const std::string& name);
  int device() const { return device_; }

 private:
  using Executable = sycl::kernel_bundle<sycl::bundle_state::executable>;
  JitModule(const std::string& digest, int device, const Bytes& native);
  // Throws sycl::exception where the bytes are no code of the device.
  static std::shared_ptr<JitModule> loaded(const std::string& digest, int device, const Bytes& native);

  std::string digest_;  // of several with the same native code, the first
  int device_;
  Executable bundle_;
  const Bytes* native_ = nullptr;  // of the list of loaded modules
  std::once_flag here_once_;
  std::unique_ptr<HostCode> here_;
};

// How modules came to be loaded in this process.
struct JitStats {
  int64_t cached = 0;  // native code from the cache folder
  int64_t linked = 0;  // SPIR-V linked for the device
  int64_t added = 0;   // from the compiler
};
JitStats jit_stats();

constexpr size_t kMaxFields = 256;  // 8-byte fields of a launch

// Last fields of a kernel that may write the device's error record: its address and the numbers of the texts.
std::vector<uint64_t> error_fields(int device, const std::vector<std::string>& messages);

// 1-D launch of `groups` work-groups of `local` items with the fields as the kernel's only argument. A small call
// (CallSize) is a call of `here`, if that is given.
void launch_packed(Queue& queue, const char* name, const sycl::kernel& kernel, HostFunction* here, size_t groups,
                   size_t local, const uint64_t* fields, size_t count);

}  // namespace xpu_ops::runtime
