// How much memory the control groups of this process allow.
#pragma once
#include <cstdint>
#include <string>

namespace xpu_ops::runtime {

// The least of limit - use over the process's memory group and all groups above it, of version 1 or 2; UINT64_MAX
// without a limit. File pages that the kernel would drop first do not count as used. `groups` is /proc/self/cgroup,
// `mount` is /sys/fs/cgroup.
uint64_t free_memory_of_groups(const std::string& groups, const std::string& mount);
// The least limit of the same groups.
uint64_t memory_limit_of_groups(const std::string& groups, const std::string& mount);

}  // namespace xpu_ops::runtime
