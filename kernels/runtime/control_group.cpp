#include "kernels/runtime/control_group.hpp"

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

// In a container the group's own path may not be mounted; the root of the mount is its group then.
uint64_t free_upwards(const std::string& mount, std::string group, const Names& names) {
  uint64_t free = free_of(mount, names);
  while (group.size() > 1) {
    free = std::min(free, free_of(mount + group, names));
    group.resize(group.rfind('/'));
  }
  return free;
}

}  // namespace

uint64_t free_memory_of_groups(const std::string& groups, const std::string& mount) {
  uint64_t free = free_upwards(mount, "", kVersion2);
  std::ifstream file(groups);
  // <number>:<controllers>:<path>; version 2 has the number 0 and no controllers.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",",
                      group = line.substr(second + 1);
    if (controllers == ",,")
      for (const char* folder : {"", "/unified"}) free = std::min(free, free_upwards(mount + folder, group, kVersion2));
    else if (controllers.find(",memory,") != std::string::npos)
      free = std::min(free, free_upwards(mount + "/memory", group, kVersion1));
  }
  return free;
}

}  // namespace xpu_ops::runtime
