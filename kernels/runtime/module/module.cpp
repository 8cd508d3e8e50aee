#include "kernels/runtime/module/module.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sycl/sycl.hpp>
#include <sycl/ext/oneapi/experimental/syclbin_kernel_bundle.hpp>

#include "kernels/error.hpp"
#include "kernels/runtime/device/emulated.hpp"
#include "kernels/runtime/module/kernel_index.hpp"
#include "kernels/runtime/module/link_ahead.hpp"
#include "kernels/runtime/module/load_time.hpp"
#include "kernels/runtime/module/module_cache.hpp"
#include "kernels/runtime/module/native_code.hpp"
#include "kernels/runtime/module/native_target.hpp"
#include "kernels/runtime/module/prelink.hpp"
#include "kernels/runtime/module/target_key.hpp"
#include "kernels/runtime/profile/profiler.hpp"

namespace xpu_ops::runtime {
namespace syclexp = sycl::ext::oneapi::experimental;
namespace {

using Bytes = std::vector<char>;
using Executable = sycl::kernel_bundle<sycl::bundle_state::executable>;
constexpr const char* kCacheSchema = "1";

// Native files: what they were made for, and their folder below that of the modules, empty for a build's own. The
// folder has the name of the class of processors (tools/kernelc/classes.py).
struct NativeFiles { std::string target, folder; };

// Contents of modules.tsv; kernelc writes it last, so that a module in it is complete.
struct ModuleFolder {
  std::string dir;
  std::vector<NativeFiles> natives;
  std::unordered_map<std::string, std::string> digest;  // module -> digest of its portable file

  explicit ModuleFolder(const std::string& path) : dir(path) {
    std::ifstream in(dir + "/modules.tsv");
    if (!in)
      throw Error(ErrorKind::runtime,
                  "xpu_ops: no kernel modules in " + dir +
                      "; the installation is incomplete. Reinstall xpu_ops, or run `make build` in a "
                      "source tree.");
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string kind, name, value;
      std::getline(fields, kind, '\t');
      std::getline(fields, name, '\t');
      std::getline(fields, value, '\t');
      if (kind == "target") natives.push_back({name, value});
      if (kind == "module") digest[name] = value;
    }
  }

  std::string native_path(const NativeFiles& files, const std::string& module) const {
    return dir + "/" + (files.folder.empty() ? "" : files.folder + "/") + module + ".native.syclbin";
  }
  // Those that the device takes, the nearest to it first.
  std::vector<const NativeFiles*> natives_for(const std::string& device) const {
    std::multimap<size_t, const NativeFiles*> found;
    for (const NativeFiles& n : natives)
      if (const auto spare = spare_sets(n.target, device); spare && same_width(n.target, device))
        found.emplace(*spare, &n);
    std::vector<const NativeFiles*> sorted;
    for (const auto& [spare, n] : found) sorted.push_back(n);
    return sorted;
  }
};

// A module on one device.
struct LoadedModule {
  std::mutex mutex;
  std::optional<Executable> bundle;
  std::map<std::string, std::unique_ptr<sycl::kernel>, std::less<>> kernels;
  std::optional<std::unique_ptr<HostCode>> here;  // once it was asked for
};

// Never destroyed: kernels must outlive every static that may still launch at exit.
struct Modules {
  std::mutex mutex;
  std::string dir;
  std::unique_ptr<ModuleFolder> folder;
  std::map<std::pair<std::string_view, int>, std::unique_ptr<LoadedModule>> modules;
  ModuleStats stats;
};
Modules& loaded() {
  static auto* s = new Modules;
  return *s;
}

void count(int64_t ModuleStats::* field) {
  std::lock_guard lock(loaded().mutex);
  ++(loaded().stats.*field);
}

thread_local bool t_quiet = false;  // the caller reports progress

// Says on stderr what is going on once it has lasted a second.
class Progress {
 public:
  explicit Progress(std::string text) : text_(std::move(text)), start_(Clock::now()) {
    if (t_quiet) return;
    thread_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) return;
      std::fprintf(stderr, "xpu_ops: %s ...\n", text_.c_str());
      shown_ = true;
    });
  }
  ~Progress() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
    if (shown_)
      std::fprintf(stderr, "xpu_ops: %s: done in %.1f s\n", text_.c_str(),
                   std::chrono::duration<double>(Clock::now() - start_).count());
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  std::string text_;
  Clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false, shown_ = false;
  std::thread thread_;
};

// Holds other processes off the same module, so that one of them links it and the others find it in the cache. Locks
// the installed file, which leaves no lock files about; goes on without a lock where the file system has none.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ >= 0)
      while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {}
  }
  ~FileLock() {
    if (fd_ >= 0) close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

Executable load_native(const Bytes& bytes, int device) {
  return syclexp::get_kernel_bundle<sycl::bundle_state::executable>(
      sycl_context(device), {sycl_device(device)}, sycl::span<char>(const_cast<char*>(bytes.data()), bytes.size()));
}

// Portable to native. The linked bundle points into what the object bundle owns (libsycl 2026.2), so neither leaves
// here: the caller loads the bytes.
Bytes link_spirv(const std::string& name, const Bytes& bytes, int device) {
  Progress progress("linking kernel module " + name + " for " + device_info(device).name +
                    " (once, then cached; `xpu-ops prelink` links all)");
  const auto object = syclexp::get_kernel_bundle<sycl::bundle_state::object>(
      sycl_context(device), {sycl_device(device)}, sycl::span<char>(const_cast<char*>(bytes.data()), bytes.size()));
  const Executable linked = sycl::link(object);
  return without_ir(linked.ext_oneapi_get_content());
}

// The others of the module's family, in the order in which they are worth linking.
std::vector<std::string> rest_of_family(const ModuleFolder& folder, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [other, digest] : folder.digest)
    if (other != name && family_of(other) == family_of(name)) names.push_back(other);
  std::ranges::sort(names, {}, [](const std::string& n) { return std::pair(n.ends_with("_fp64"), n); });
  return names;
}

// Once per family and device: a program that wants one of its modules will want others.
void link_family_ahead(const ModuleFolder& folder, const std::string& name, int device) {
  {
    static auto* asked = new std::set<std::pair<std::string, int>>;
    std::lock_guard lock(loaded().mutex);
    if (!asked->emplace(family_of(name), device).second) return;
  }
  link_ahead(folder.dir, rest_of_family(folder, name), device);
}

// The installed native code of the nearest class that has the module and that the driver takes.
std::optional<Executable> load_installed(const ModuleFolder& folder, const std::string& name, const std::string& target,
                                         int device) {
  std::string refused;
  for (const NativeFiles* n : folder.natives_for(target)) {
    const std::string path = folder.native_path(*n, name);
    const auto bytes = read_file(path);
    if (!bytes || bytes->empty()) continue;  // the target lacks an instruction of the module
    try {
      Executable bundle = load_native(*bytes, device);
      count(&ModuleStats::native);
      return bundle;
    } catch (const sycl::exception& e) {
      if (refused.empty()) refused = path + " cannot be loaded (" + e.what() + ")";
    }
  }
  if (!refused.empty())
    warn_once("native " + name, "the installed native kernel module " + refused + "; its portable form is used.");
  return std::nullopt;
}

// The file of a module that was linked for this device.
ModuleCacheFile cache_file(const ModuleFolder& folder, const std::string& name, const std::string& target) {
  std::string key = "schema=";  // not one sum: g++ 12 warns of bounds in its own header there
  key.append(kCacheSchema).append(" module=").append(folder.digest.at(name)).append(" ").append(target);
  return {name, key};
}

Executable load_module(const ModuleFolder& folder, const std::string& name, int device) {
  if (!folder.digest.contains(name))
    throw Error(ErrorKind::runtime, "xpu_ops: kernel module " + name + " is not in " + folder.dir +
                                        "; the installation is incomplete. Reinstall xpu_ops.");
  if (name.ends_with("_fp64")) require_fp64(device);  // kernelc keeps double to these
  const std::string target = target_key(sycl_device(device));
  if (auto bundle = load_installed(folder, name, target, device)) return *bundle;

  const std::string spirv_path = folder.dir + "/" + name + ".spv.syclbin";
  const ModuleCacheFile cache = cache_file(folder, name, target);
  auto from_cache = [&]() -> std::optional<Executable> {
    const auto bytes = cache.load();
    if (!bytes) return std::nullopt;
    try {
      Executable bundle = load_native(*bytes, device);
      count(&ModuleStats::cached);
      return bundle;
    } catch (const sycl::exception& e) {
      cache.discard(e.what());
      return std::nullopt;
    }
  };
  if (auto bundle = from_cache()) return *bundle;
  if (!t_quiet) link_family_ahead(folder, name, device);
  const FileLock lock(spirv_path);
  if (auto bundle = from_cache()) return *bundle;  // another process may have linked it meanwhile
  const auto spirv = read_file(spirv_path);
  if (!spirv)
    throw Error(ErrorKind::runtime,
                "xpu_ops: cannot read " + spirv_path + "; the installation is incomplete. Reinstall xpu_ops.");
  const Bytes native = link_spirv(name, *spirv, device);
  Executable bundle = load_native(native, device);
  count(&ModuleStats::linked);
  cache.store(native);
  return bundle;
}

// The code that load_module would load, if it is there already.
std::unique_ptr<HostCode> load_here(const ModuleFolder& folder, const std::string& name, int device) {
  if (name.ends_with("_fp64")) require_fp64(device);
  const std::string target = target_key(sycl_device(device));
  for (const NativeFiles* n : folder.natives_for(target))
    if (const auto bytes = read_file(folder.native_path(*n, name)); bytes && !bytes->empty())
      return HostCode::load(*bytes);
  if (!folder.digest.contains(name)) return nullptr;
  const auto cached = cache_file(folder, name, target).load();
  return cached ? HostCode::load(*cached) : nullptr;
}

// Read at first use. The caller holds the lock.
const ModuleFolder& module_folder(Modules& s) {
  if (s.dir.empty()) throw Error(ErrorKind::runtime, "xpu_ops: the folder of kernel modules was not set.");
  if (!s.folder) s.folder = std::make_unique<ModuleFolder>(s.dir);
  return *s.folder;
}
const ModuleFolder& module_folder() {
  std::lock_guard lock(loaded().mutex);
  return module_folder(loaded());
}

thread_local int64_t t_load_ns = 0;
struct LoadTimer {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  ~LoadTimer() { t_load_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count(); }
};

const char* find_module(const char* kernel) {
  const KernelIndexEntry* end = kKernelIndex + kKernelIndexSize;
  const KernelIndexEntry* at = std::lower_bound(
      kKernelIndex, end, kernel, [](const KernelIndexEntry& e, const char* n) { return std::strcmp(e.name, n) < 0; });
  return at != end && std::strcmp(at->name, kernel) == 0 ? at->module : nullptr;
}

}  // namespace

void set_module_dir(const std::string& dir) {
  Modules& s = loaded();
  std::lock_guard lock(s.mutex);
  if (s.folder && s.dir != dir)
    throw Error(ErrorKind::runtime, "xpu_ops: the folder of kernel modules cannot change after a kernel was loaded.");
  s.dir = dir;
}

ModuleStats module_stats() {
  std::lock_guard lock(loaded().mutex);
  return loaded().stats;
}

void prelink_module(const std::string& name, int device) {
  struct Quiet {
    Quiet() { t_quiet = true; }
    ~Quiet() { t_quiet = false; }
  } const quiet;
  (void)load_module(module_folder(), name, device);
}

std::optional<std::string> native_class(int device) {
  const auto natives = module_folder().natives_for(target_key(sycl_device(device)));
  if (natives.empty()) return std::nullopt;
  return natives.front()->folder;
}

std::string name_driver_target() {
  constexpr const char* variable = "CL_CONFIG_CPU_TARGET_ARCH";
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv(variable)) return;
    try {
      std::vector<NativeClass> classes;
      for (const NativeFiles& n : module_folder().natives) classes.push_back({n.target, n.folder});
      if (const auto name = target_to_name(classes, cpu_isa()); !name.empty())
        setenv(variable, std::string(name).c_str(), 0);
    } catch (const Error&) {}  // without modules: the first kernel says so
  });
  const char* named = std::getenv(variable);
  return named ? named : "";
}

int64_t module_load_ns() { return t_load_ns; }

namespace {

// The module of a kernel, loaded or not; empty where no module has the kernel.
struct Found {
  const char* name;
  LoadedModule* module;
  const ModuleFolder* folder;
};
std::optional<Found> module_of(const char* kernel, int device) {
  const char* name = find_module(kernel);
  if (!name) return std::nullopt;
  Modules& s = loaded();
  std::lock_guard lock(s.mutex);
  const ModuleFolder* folder = &module_folder(s);
  auto& slot = s.modules[{name, device}];
  if (!slot) slot = std::make_unique<LoadedModule>();
  return Found{name, slot.get(), folder};
}

}  // namespace

const sycl::kernel& load_kernel(const char* name, int device) {
  const auto found = module_of(name, device);
  if (!found)
    throw Error(ErrorKind::not_implemented, std::string("xpu_ops: no module holds the kernel '") + name + "'.");
  LoadedModule* module = found->module;
  // Two threads may load two modules at once; the second thread to want the same one waits here.
  std::lock_guard lock(module->mutex);
  if (const auto it = module->kernels.find(name); it != module->kernels.end()) return *it->second;
  if (!module->bundle) {
    const LoadTimer timer;
    const int64_t begin = profiling() ? detail::profile_clock() : 0;
    module->bundle.emplace(load_module(*found->folder, found->name, device));
    if (begin) [[unlikely]]
      profile_call(std::string("load module ") + found->name, device, begin);
  }
  if (!module->bundle->ext_oneapi_has_kernel(name))
    throw Error(ErrorKind::runtime, std::string("xpu_ops: kernel module ") + found->name + " lacks the kernel '" +
                                        name + "'; the build is inconsistent. Run `make clean build`.");
  auto kernel = std::make_unique<sycl::kernel>(module->bundle->ext_oneapi_get_kernel(name));
  return *module->kernels.emplace(name, std::move(kernel)).first->second;
}

HostFunction* load_host_kernel(const char* name, int device) {
  const auto found = module_of(name, device);
  if (!found || !sycl_device(device).is_cpu()) return nullptr;
  std::lock_guard lock(found->module->mutex);
  auto& here = found->module->here;
  if (!here) {
    const LoadTimer timer;
    here = load_here(*found->folder, found->name, device);
  }
  return *here ? (*here)->find(name) : nullptr;
}

void KernelTable::missing(DType t) const {
  throw Error(ErrorKind::not_implemented,
              std::string("\"") + label_ + "\" not implemented for '" + scalar_type_name(t) + "'");
}

void KernelTable2::missing(DType first, DType second) const {
  throw Error(ErrorKind::not_implemented, std::string("\"") + label_ + "\" not implemented for '" +
                                              scalar_type_name(first) + "' and '" + scalar_type_name(second) + "'");
}

}  // namespace xpu_ops::runtime
