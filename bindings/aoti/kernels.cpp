// The C functions behind generated kernels of a model compiled ahead of time: load, launch, memory.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/utils.h>

#include "bindings/aoti/model/xpu_ops_model.h"
#include "bindings/aoti/package.hpp"
#include "bindings/aten/memory/allocator.hpp"
#include "bindings/errors.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/module/jit.hpp"
#include "kernels/runtime/queue/call_size.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::aoti {
namespace {

using runtime::JitModule;
using runtime::kMaxFields;

struct Kernel {
  std::string name, signature;
  size_t items = 0;
  std::unique_ptr<sycl::kernel> kernel;
  runtime::HostFunction* here = nullptr;
  std::vector<uint64_t> bound;  // fields behind those of the call: the error record, the numbers of the texts
};

struct Kernels {
  std::shared_ptr<JitModule> module;
  std::vector<Kernel> kernels;
};

Kernel make_kernel(JitModule& module, const XpuOpsKernel& spec) {
  Kernel k{spec.name, spec.signature, static_cast<size_t>(spec.items), module.kernel(spec.name), module.here(spec.name),
           {}};
  if (spec.texts) k.bound = runtime::error_fields(module.device(), {spec.texts, spec.texts + spec.text_count});
  TORCH_CHECK_VALUE(k.signature.size() + k.bound.size() <= kMaxFields, k.name, ": a kernel takes at most ", kMaxFields,
                    " arguments");
  return k;
}

std::unique_ptr<Kernels> load(const char* folder, const char* module, int device, const XpuOpsKernel* specs,
                              int64_t count) {
  KernelFile file = read_kernel_file(folder, module);
  auto kernels = std::make_unique<Kernels>();
  kernels->module = JitModule::find(file.digest, device);
  if (!kernels->module) kernels->module = JitModule::add(file.digest, device, file.spirv, file.native, file.target);
  for (int64_t i = 0; i < count; ++i) kernels->kernels.push_back(make_kernel(*kernels->module, specs[i]));
  return kernels;
}

// `bytes`: of the tensors.
void launch(Kernels& kernels, const Kernel& k, size_t groups, const uint64_t* fields, int64_t bytes) {
  uint64_t values[kMaxFields];
  const size_t n = k.signature.size();
  std::copy_n(fields, n, values);
  std::copy(k.bound.begin(), k.bound.end(), values + n);
  if (!k.bound.empty()) {
    // A kernel that finds an index out of range reads element 0 instead, of an empty tensor the error record.
    for (size_t i = 0; i < n; ++i)
      if (values[i] == 0 && k.signature[i] == 'p') values[i] = k.bound.front();
  }
  runtime::Queue& queue = runtime::current_queue(kernels.module->device());
  const runtime::CallSize size(bytes);
  runtime::launch_packed(queue, k.name.c_str(), *k.kernel, k.here, groups, k.items, values, n + k.bound.size());
  if (!k.bound.empty()) runtime::check_kernel_errors(queue);
}

// Memory of constants, from the caching allocator.
struct Blocks {
  std::mutex mutex;
  std::map<void*, c10::DataPtr> blocks;
  static Blocks& instance() {
    static Blocks& blocks = *new Blocks;  // models may be freed after static objects
    return blocks;
  }
};

runtime::Queue& queue_of(void* stream) { return *static_cast<runtime::Queue*>(stream); }

void* allocate(size_t bytes, int device) {
  const int before = runtime::exchange_device(device);
  c10::DataPtr block = xpu_allocator()->allocate(bytes);
  runtime::set_current_device_unchecked(before);
  void* data = block.get();
  Blocks& all = Blocks::instance();
  const std::lock_guard lock(all.mutex);
  all.blocks[data] = std::move(block);
  return data;
}

void release(void* data) {
  if (!data) return;
  Blocks& all = Blocks::instance();
  c10::DataPtr block;
  {
    const std::lock_guard lock(all.mutex);
    const auto at = all.blocks.find(data);
    if (at == all.blocks.end()) return;
    block = std::move(at->second);
    all.blocks.erase(at);
  }
  runtime::settle(block.device().index());  // runs on any stream may read it
}

}  // namespace

// Declared in the global namespace, which a declaration here does not inherit its visibility from.
#pragma GCC visibility push(default)
extern "C" {

AOTITorchError xpu_ops_load_kernels(const char* folder, const char* module, int32_t device, const XpuOpsKernel* specs,
                                    int64_t count, void** ret) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { *ret = translate([&] { return load(folder, module, device, specs, count); }).release(); });
}

AOTITorchError xpu_ops_launch_sized(void* kernels, int64_t index, int64_t groups, const uint64_t* fields,
                                    int64_t bytes) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    if (groups > 0) {
      auto& all = *static_cast<Kernels*>(kernels);
      translate([&] { launch(all, all.kernels[index], static_cast<size_t>(groups), fields, bytes); });
    }
  });
}

// Of models that were exported before xpu_ops_launch_sized.
AOTITorchError xpu_ops_launch(void* kernels, int64_t index, int64_t groups, const uint64_t* fields) {
  return xpu_ops_launch_sized(kernels, index, groups, fields, runtime::CallSize::kUnknown);
}

AOTITorchError xpu_ops_allocate(uint64_t bytes, void* stream, void** ret) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { *ret = translate([&] { return allocate(bytes, queue_of(stream).device); }); });
}

void xpu_ops_free(void* data) { release(data); }

AOTITorchError xpu_ops_copy(void* stream, void* to, const void* from, uint64_t bytes) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE(
      { translate([&] { runtime::copy_bytes(queue_of(stream), to, from, bytes, true); }); });
}

AOTITorchError xpu_ops_wait(void* stream) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ translate([&] { runtime::synchronize(queue_of(stream)); }); });
}

}  // extern "C"
#pragma GCC visibility pop
}  // namespace xpu_ops::aoti
