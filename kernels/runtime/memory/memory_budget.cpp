#include "kernels/runtime/memory/memory_budget.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/runtime/device/control_group.hpp"

namespace xpu_ops::runtime {
namespace {

constexpr double kShare = 0.75;
constexpr const char *kGroups = "/proc/self/cgroup", *kMount = "/sys/fs/cgroup";

uint64_t meminfo(std::string_view wanted) {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  uint64_t kib = 0;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == wanted) return kib * 1024;
  }
  return UINT64_MAX;
}

[[noreturn]] void refuse(const std::string& setting, uint64_t limit) {
  throw Error(ErrorKind::value, "XPU_OPS_CPU_MEMORY is '" + setting + "', expected bytes up to " +
                                    std::to_string(limit) + ", such as 8G, or a share such as 0.5.");
}

}  // namespace

MemoryBudget memory_budget(const char* setting, uint64_t limit) {
  if (!setting || !*setting)
    return {static_cast<uint64_t>(kShare * static_cast<double>(limit)), "three quarters of the host's"};
  char* end = nullptr;
  const double number = std::strtod(setting, &end);
  const std::string_view rest = end;
  constexpr std::string_view kUnits = "KMGT";
  const size_t unit = rest.empty() ? std::string_view::npos : kUnits.find(rest[0]);
  if (end == setting || !(number > 0) || (!rest.empty() && (unit == std::string_view::npos || rest.size() > 1)))
    refuse(setting, limit);
  double bytes = rest.empty() ? number : number * static_cast<double>(uint64_t{1} << (10 * (unit + 1)));
  if (rest.empty() && number < 1) bytes = number * static_cast<double>(limit);
  if (bytes > static_cast<double>(limit)) refuse(setting, limit);
  return {static_cast<uint64_t>(bytes), std::string("XPU_OPS_CPU_MEMORY=") + setting};
}

uint64_t host_memory_limit() { return std::min(meminfo("MemTotal:"), memory_limit_of_groups(kGroups, kMount)); }
uint64_t host_free_memory() { return std::min(meminfo("MemAvailable:"), free_memory_of_groups(kGroups, kMount)); }

}  // namespace xpu_ops::runtime
