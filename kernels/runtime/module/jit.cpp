#include "kernels/runtime/module/jit.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include <sycl/ext/oneapi/experimental/enqueue_functions.hpp>
#include <sycl/ext/oneapi/experimental/raw_kernel_arg.hpp>
#include <sycl/ext/oneapi/experimental/syclbin_kernel_bundle.hpp>

#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/device/emulated.hpp"
#include "kernels/runtime/module/module_cache.hpp"
#include "kernels/runtime/module/native_code.hpp"
#include "kernels/runtime/module/target_key.hpp"
#include "kernels/runtime/profile/recording.hpp"
#include "kernels/runtime/queue/call_size.hpp"

namespace xpu_ops::runtime {
namespace syclexp = sycl::ext::oneapi::experimental;
namespace {

using Bytes = JitModule::Bytes;
constexpr const char* kSchema = "schema=1 ";

std::atomic<int64_t> g_cached, g_linked, g_added;

sycl::span<char> span(const Bytes& bytes) { return {const_cast<char*>(bytes.data()), bytes.size()}; }

ModuleCacheFile native_file(const std::string& digest, int device) {
  return {"jit-" + digest, kSchema + digest + " " + target_key(sycl_device(device))};
}
ModuleCacheFile portable_file(const std::string& digest) { return {"jit-" + digest, kSchema + digest + " spirv"}; }

// The linked bundle points into what the object bundle owns (libsycl 2026.2): only bytes leave.
Bytes link(const Bytes& spirv, int device) {
  const auto object =
      syclexp::get_kernel_bundle<sycl::bundle_state::object>(sycl_context(device), {sycl_device(device)}, span(spirv));
  ++g_linked;
  return without_ir(sycl::link(object).ext_oneapi_get_content());
}

// The capabilities stand first in SPIR-V, behind five words of header.
bool computes_in_double(const Bytes& spirv) {
  constexpr uint32_t kMagic = 0x07230203, kCapability = (2 << 16) | 17, kFloat64 = 10;
  const auto word = [&](size_t at) {
    uint32_t w = 0;
    if (at + 4 <= spirv.size()) std::memcpy(&w, spirv.data() + at, 4);
    return w;
  };
  for (size_t at = 0; at + 4 <= spirv.size(); ++at) {
    if (word(at) != kMagic) continue;
    for (size_t i = at + 20; word(i) == kCapability; i += 8)
      if (word(i + 4) == kFloat64) return true;
  }
  return false;
}

void check_double(const Bytes& spirv, int device) {
  if (!device_info(device).has_fp64 && computes_in_double(spirv)) require_fp64(device);
}

}  // namespace

JitModule::JitModule(const std::string& digest, int device, const Bytes& native)
    : digest_(digest),
      device_(device),
      bundle_(syclexp::get_kernel_bundle<sycl::bundle_state::executable>(sycl_context(device), {sycl_device(device)},
                                                                         span(native))) {}

// libsycl 2026.2 keeps about 450 KB of every bundle that it has loaded: code is loaded once, and stays.
std::shared_ptr<JitModule> JitModule::loaded(const std::string& digest, int device, const Bytes& native) {
  static std::mutex mutex;
  static std::map<std::pair<int, Bytes>, std::shared_ptr<JitModule>>& modules =
      *new std::map<std::pair<int, Bytes>, std::shared_ptr<JitModule>>;  // never destroyed: libsycl may end before
  const std::lock_guard lock(mutex);
  const auto at = modules.try_emplace({device, native}).first;
  std::shared_ptr<JitModule>& module = at->second;
  if (!module) {
    module.reset(new JitModule(digest, device, native));
    module->native_ = &at->first.second;
  }
  return module;
}

std::shared_ptr<JitModule> JitModule::find(const std::string& digest, int device) {
  const ModuleCacheFile cache = native_file(digest, device);
  const ModuleCacheFile portable = portable_file(digest);
  if (!device_info(device).has_fp64)
    if (const auto spirv = portable.load()) check_double(*spirv, device);
  if (const auto native = cache.load()) {
    try {
      auto module = loaded(digest, device, *native);
      ++g_cached;
      return module;
    } catch (const sycl::exception& e) { cache.discard(e.what()); }
  }
  const auto spirv = portable.load();
  if (!spirv) return nullptr;
  try {
    const Bytes native = link(*spirv, device);
    auto module = loaded(digest, device, native);
    cache.store(native);
    return module;
  } catch (const sycl::exception& e) {
    portable.discard(e.what());
    return nullptr;
  }
}

std::shared_ptr<JitModule> JitModule::add(const std::string& digest, int device, const Bytes& spirv,
                                          const Bytes& native, const std::string& target) {
  check_double(spirv, device);
  try {
    Bytes code = native;
    std::shared_ptr<JitModule> module;
    if (!native.empty() && target == target_key(sycl_device(device))) {
      try {
        module = loaded(digest, device, code);
      } catch (const sycl::exception&) {}  // a driver that refuses what it made in the compiler's process
    }
    if (!module) {
      code = link(spirv, device);
      module = loaded(digest, device, code);
    }
    portable_file(digest).store(spirv);
    native_file(digest, device).store(code);
    ++g_added;
    return module;
  } catch (const sycl::exception& e) {
    throw Error(ErrorKind::runtime, std::string("a compiled kernel module cannot be loaded: ") + e.what());
  }
}

std::unique_ptr<sycl::kernel> JitModule::kernel(const std::string& name) {
  if (!bundle_.ext_oneapi_has_kernel(name))
    throw Error(ErrorKind::runtime, "the compiled module has no kernel '" + name + "'");
  auto kernel = std::make_unique<sycl::kernel>(bundle_.ext_oneapi_get_kernel(name));
  if (LaunchRecorder* recorder = launch_recorder()) recorder->compiled(*kernel, digest_);
  return kernel;
}

HostFunction* JitModule::here(const std::string& name) {
  std::call_once(here_once_, [&] {
    if (sycl_device(device_).is_cpu()) here_ = HostCode::load(*native_);
  });
  return here_ ? here_->find(name) : nullptr;
}

JitStats jit_stats() { return {g_cached, g_linked, g_added}; }

std::vector<uint64_t> error_fields(int device, const std::vector<std::string>& messages) {
  std::vector<uint64_t> fields{std::bit_cast<uint64_t>(error_flag(device))};
  for (const std::string& text : messages) fields.push_back(static_cast<uint64_t>(register_error_message(text)));
  return fields;
}

namespace {

// As HostLaunch, of a number of fields that the call knows.
template <size_t kFields>
bool call_here(Queue& queue, const char* name, HostFunction* here, size_t groups, size_t local, const uint64_t* fields,
               size_t count) {
  struct Fields {
    HostFunction* function;
    uint32_t count;
    uint64_t call[kFields + sizeof(HostRange) / sizeof(uint64_t)];
    void operator()() const { function->call(call, *reinterpret_cast<const HostRange*>(call + count)); }
  };
  Fields f;
  f.function = here;
  f.count = static_cast<uint32_t>(count);
  std::copy_n(fields, count, f.call);
  new (f.call + count) HostRange(1, groups, local, 1, 1);
  return queue.small().run_taken(f, Label{.kernel = name});
}

}  // namespace

void launch_packed(Queue& queue, const char* name, const sycl::kernel& kernel, HostFunction* here, size_t groups,
                   size_t local, const uint64_t* fields, size_t count) {
  // A compiled kernel stands for several calls that would each be small, and HostFunction sees what it costs.
  constexpr int64_t kSmall = 256 << 10;
  if (groups == 0) return;
  if (here && CallSize::small(kSmall) && here->pays(groups) && queue.small().takes(1) &&
      (count <= 16 ? call_here<16>(queue, name, here, groups, local, fields, count)
                   : call_here<kMaxFields>(queue, name, here, groups, local, fields, count)))
    return;
  const sycl::nd_range<1> range(groups * local, local);
  const size_t bytes = sizeof(uint64_t) * count;
  if (profiling()) [[unlikely]]
    return launch_profiled(queue, name, kernel, range, fields, bytes);
  queue.submit([&](sycl::queue& q) {
    syclexp::submit(q, [&](sycl::handler& h) {
      h.set_arg(0, syclexp::raw_kernel_arg(fields, bytes));
      h.parallel_for(range, kernel);
    });
  });
}

}  // namespace xpu_ops::runtime
