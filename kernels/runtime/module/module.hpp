// Ahead-of-time kernel modules: found by kernel name, loaded when first used, linked once on a device that has no
// native code for them.
#pragma once
#include <atomic>
#include <string>

#include <sycl/sycl.hpp>

#include "kernels/dtype.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/module/host_code.hpp"

namespace xpu_ops::runtime {

// Looks the name up in the generated index and loads its module on the device. Thread-safe; a kernel is never freed.
// Throws Error{not_implemented} for a name in no module, naming it.
const sycl::kernel& load_kernel(const char* name, int device);
// The kernel's native code for the calling thread; null where the module has none that can be called. `device` is a
// CPU.
HostFunction* load_host_kernel(const char* name, int device);
// Folder with the modules; set once by the Python package before first use.
void set_module_dir(const std::string& dir);
// Tells the CPU driver, before it starts, to make code of the class of the installed native code: target_to_name.
// Returns the target that is set now, by the user too; empty for the driver's own choice.
std::string name_driver_target();

// How modules came to be loaded in this process.
struct ModuleStats {
  int64_t native = 0;  // from the installed native file
  int64_t cached = 0;  // from the user's cache folder
  int64_t linked = 0;  // linked from SPIR-V
};
ModuleStats module_stats();

// The same kernel as a loop on the calling thread, with the same bits: its argument struct and number of work-groups.
using HostKernel = void (*)(const void* args, uint32_t groups);

// One kernel of one name; resolves on first use of each device, then costs one load.
class KernelSlot {
 public:
  constexpr explicit KernelSlot(const char* name, HostKernel host = nullptr) : name_(name), host_(host) {}
  const sycl::kernel& get(int device) {
    const sycl::kernel* k = slots_[device].load(std::memory_order_acquire);
    if (!k) [[unlikely]] {
      k = &load_kernel(name_, device);
      slots_[device].store(k, std::memory_order_release);
    }
    return *k;
  }
  // On the calling thread; null where that cannot be.
  HostFunction* here(int device) {
    HostFunction* function = here_.load(std::memory_order_acquire);
    if (!function && !asked_.load(std::memory_order_acquire)) [[unlikely]] {
      function = load_host_kernel(name_, device);
      here_.store(function, std::memory_order_release);
      asked_.store(true, std::memory_order_release);
    }
    return function;
  }
  const char* name() const { return name_; }
  // nullptr where only the device has it.
  HostKernel host() const { return host_; }

 private:
  const char* name_;
  std::atomic<const sycl::kernel*> slots_[kMaxDevices]{};
  HostKernel host_;
  std::atomic<HostFunction*> here_{nullptr};
  std::atomic<bool> asked_{false};  // for `here_`
};

// The instances of one kernel over element types; a missing type throws Error{not_implemented} worded as torch does:
//   "<label>" not implemented for 'Half'
class KernelTable {
 public:
  constexpr KernelTable(const char* label, KernelSlot* const (&slots)[kDTypeSlots], const KernelTable* steps = nullptr,
                        const KernelTable* fours = nullptr)
      : steps(steps), fours(fours), label_(label), slots_(slots) {}
  KernelSlot& operator[](DType t) const {
    KernelSlot* s = slots_[static_cast<int>(t)];
    if (!s) [[unlikely]]
      missing(t);
    return *s;
  }
  bool has(DType t) const { return slots_[static_cast<int>(t)] != nullptr; }

  // Of pointwise rows, the same expressions for operands that step through memory, and by fours; null where there are
  // none.
  const KernelTable* steps;
  const KernelTable* fours;

 private:
  [[noreturn]] void missing(DType t) const;
  const char* label_;
  KernelSlot* const (&slots_)[kDTypeSlots];
};

// The instances of one kernel over pairs of element types.
class KernelTable2 {
 public:
  struct Entry {
    DType first, second;
    KernelSlot* slot;
  };
  constexpr KernelTable2(const char* label, const Entry* entries, size_t count)
      : label_(label), entries_(entries), count_(count) {}
  KernelSlot& operator()(DType first, DType second) const {
    for (size_t i = 0; i < count_; ++i)
      if (entries_[i].first == first && entries_[i].second == second) return *entries_[i].slot;
    missing(first, second);
  }
  bool has(DType first, DType second) const {
    for (size_t i = 0; i < count_; ++i)
      if (entries_[i].first == first && entries_[i].second == second) return true;
    return false;
  }

 private:
  [[noreturn]] void missing(DType first, DType second) const;
  const char* label_;
  const Entry* entries_;
  size_t count_;
};

}  // namespace xpu_ops::runtime
