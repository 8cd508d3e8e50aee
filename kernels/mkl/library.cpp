#include "kernels/mkl/library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <sycl/sycl.hpp>

#include "kernels/error.hpp"
#include "kernels/runtime/environment.hpp"

namespace xpu_ops::mkl {
namespace {

constexpr const char *kLibrary = "libxpu_ops_mkl.so", *kQueueLibrary = "libxpu_ops_mkl_queue.so";
// Libraries that they are linked to, beside libsycl.so in pip's folder of libraries.
constexpr const char* kNeeded[] = {"libmkl_core.so.3", "libmkl_intel_ilp64.so.3", "libmkl_tbb_thread.so.3",
                                   "libmkl_sycl_dft.so.6"};

template <class F>
std::string folder_of(F* function) {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(function), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

std::string own_path(const char* library) { return folder_of(&installed) + library; }

std::string find_missing() {
  if (!runtime::env_flag("XPU_OPS_MKL", true)) return "XPU_OPS_MKL=0";
  for (const char* library : {kLibrary, kQueueLibrary})
    if (access(own_path(library).c_str(), R_OK) != 0) return std::string("built without ") + library;
  using Free = void(void*, const sycl::queue&, const sycl::detail::code_location&);  // any function of libsycl
  const std::string folder = folder_of(static_cast<Free*>(&sycl::free));
  for (const char* name : kNeeded) {
    if (access((folder + name).c_str(), R_OK) != 0) return std::string("no ") + name;
  }
  return {};
}

void* symbol_of(const char* name, const char* symbol) {
  if (const std::string why = missing(); !why.empty())
    throw Error(ErrorKind::not_implemented, "oneMKL is not there (" + why + "); pip install 'xpu-ops[mkl]' brings it.");
  // Never closed. Its own oneMKL comes before any other that the process has loaded. oneMKL binds its calls when it
  // makes them, which saves 20 ms; the library's own are bound now (`-z now`), so that one that is missing is an error
  // here.
  void* library = dlopen(own_path(name).c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) throw Error(ErrorKind::runtime, std::string("oneMKL does not load: ") + dlerror());
  return dlsym(library, symbol);
}

[[noreturn]] void refuse(const char* library) {
  throw Error(ErrorKind::runtime, own_path(library) + " is of another build; install xpu_ops again.");
}

const Table& load_table() {
  using Get = const Table*();
  const auto get = reinterpret_cast<Get*>(symbol_of(kLibrary, kTableSymbol));
  const Table* table = get ? get() : nullptr;
  if (!table || table->version != kTableVersion) refuse(kLibrary);
  return *table;
}

QueuePlan& load_queue_plan() {
  const auto plan = reinterpret_cast<QueuePlan*>(symbol_of(kQueueLibrary, kQueueSymbol));
  if (!plan) refuse(kQueueLibrary);
  return *plan;
}

}  // namespace

std::string missing() {
  static const std::string why = find_missing();
  return why;
}

bool installed() noexcept {
  static const bool there = missing().empty();
  return there;
}

const Table& table() {
  static const Table& loaded = load_table();
  return loaded;
}

QueuePlan& queue_plan() {
  static QueuePlan& loaded = load_queue_plan();
  return loaded;
}

}  // namespace xpu_ops::mkl
