#include "kernels/runtime/device/control_group.hpp"

#include <algorithm>
#include <fstream>

namespace xpu_ops::runtime {
namespace {

struct Names { const char *limit, *used, *inactive; };

constexpr Names kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kVersion2{"/memory.max", "/memory.current", "inactive_file"};

// UINT64_MAX where there is no such file, or no number in it ("max").
uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : UINT64_MAX;
}

uint64_t read_statistic(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string key;
  uint64_t number = 0;
  while (file >> key >> number)
    if (key == name) return number;
  return 0;
}

uint64_t free_of(const std::string& folder, const Names& names) {
  const uint64_t limit = read_number(folder + names.limit), used = read_number(folder + names.used);
  if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
  const uint64_t kept = used - std::min(used, read_statistic(folder + "/memory.stat", names.inactive));
  return limit > kept ? limit - kept : 0;
}

uint64_t limit_of(const std::string& folder, const Names& names) { return read_number(folder + names.limit); }

using Measure = uint64_t(const std::string& folder, const Names& names);

// In a container the group's own path may not be mounted; the root of the mount is its group then.
uint64_t least_upwards(Measure& measure, const std::string& mount, std::string group, const Names& names) {
  uint64_t least = measure(mount, names);
  while (group.size() > 1) {
    least = std::min(least, measure(mount + group, names));
    group.resize(group.rfind('/'));
  }
  return least;
}

uint64_t least_of_groups(Measure& measure, const std::string& groups, const std::string& mount) {
  uint64_t least = least_upwards(measure, mount, "", kVersion2);
  std::ifstream file(groups);
  // <number>:<controllers>:<path>; version 2 has the number 0 and no controllers.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",",
                      group = line.substr(second + 1);
    if (controllers == ",,")
      for (const char* folder : {"", "/unified"})
        least = std::min(least, least_upwards(measure, mount + folder, group, kVersion2));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, least_upwards(measure, mount + "/memory", group, kVersion1));
  }
  return least;
}

}  // namespace

uint64_t free_memory_of_groups(const std::string& groups, const std::string& mount) {
  return least_of_groups(free_of, groups, mount);
}
uint64_t memory_limit_of_groups(const std::string& groups, const std::string& mount) {
  return least_of_groups(limit_of, groups, mount);
}

}  // namespace xpu_ops::runtime
