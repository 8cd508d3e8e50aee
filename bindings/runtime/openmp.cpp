// torch's OpenMP threads spin after a parallel region and take the cores from the SYCL runtime's workers where the
// device is the CPU: an alternating pair of CPU and XPU operators then costs milliseconds. OMP_WAIT_POLICY=passive
// cures it but is read when torch is loaded, before us. libgomp spins only briefly once it manages more threads than
// there are cores, so a second, idle team is made here. It costs sleeping threads and nothing else.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <thread>

#include "bindings/runtime/openmp.hpp"

namespace xpu_ops {

bool calm_openmp() {
  static const bool done = [] {
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return false;  // the user has decided
    void* gomp = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!gomp) return false;
    using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
    auto parallel = reinterpret_cast<Parallel>(dlsym(gomp, "GOMP_parallel"));
    const unsigned cores = std::thread::hardware_concurrency();
    if (!parallel || cores < 2) return false;
    std::thread([parallel, cores] {
      parallel([](void*) {}, nullptr, cores, 0);
      for (;;) pause();  // the team lasts as long as its first thread
    }).detach();
    return true;
  }();
  return done;
}

}  // namespace xpu_ops
