// A process without Python, in which nothing else finds the runtime libraries: xpu_ops/_autoload.py does it elsewhere.
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "kernels/runtime/module/module.hpp"

namespace xpu_ops {
namespace {

namespace fs = std::filesystem;

// The folder of this library.
fs::path here() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&here), &info) || !info.dli_fname) return {};
  std::error_code unknown;
  return fs::canonical(info.dli_fname, unknown).parent_path();
}

// The folder that libsycl was loaded from: pip puts what it needs beside it.
fs::path runtime_folder() {
  fs::path found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        const fs::path path(info->dlpi_name);
        if (path.filename().string().rfind("libsycl.so", 0) != 0) return 0;
        *static_cast<fs::path*>(result) = path.parent_path();
        return 1;
      },
      &found);
  return found;
}

// Before main: environment and libraries are read at the first use of SYCL.
__attribute__((constructor)) void start() {
  const fs::path folder = here();
  std::error_code unknown;
  if (const fs::path modules = folder.parent_path() / "modules"; fs::is_directory(modules, unknown))
    runtime::set_module_dir(modules.string());
  const char* listed = std::getenv("OCL_ICD_FILENAMES");
  if (listed && std::strstr(listed, "libintelocl")) return;
  const fs::path libraries = runtime_folder(), driver = libraries / "libintelocl.so";
  if (!fs::exists(driver, unknown)) return;
  const std::string drivers = driver.string() + (listed && *listed ? ":" + std::string(listed) : std::string());
  setenv("OCL_ICD_FILENAMES", drivers.c_str(), 1);
  // The driver refuses blocks of more than half of the memory.
  const long long memory = 1LL * sysconf(_SC_PAGESIZE) * sysconf(_SC_PHYS_PAGES);
  setenv("CL_CONFIG_CPU_FORCE_MAX_MEM_ALLOC_SIZE", (std::to_string(memory) + "B").c_str(), 0);
  // As _schedule of xpu_ops/_autoload.py.
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) >= 8)
    setenv("DPCPP_CPU_SCHEDULE", "affinity", 0);
  // The driver carries no search path: what it needs is loaded first, dependencies before dependents.
  for (const char* name : {"libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so", "libtbb.so.12"})
    dlopen((libraries / name).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

}  // namespace
}  // namespace xpu_ops
