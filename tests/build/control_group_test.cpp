// Limits of control groups, read from folders that look like the kernel's.
#include "kernels/runtime/device/control_group.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

void test_control_groups() {
  const fs::path root = fs::temp_directory_path() / ("xpu_ops_groups_" + std::to_string(getpid()));
  const fs::path groups = root / "cgroup", mount = root / "mount";
  const auto free = [&] { return runtime::free_memory_of_groups(groups, mount); };

  at("control groups: none");
  CHECK(free() == UINT64_MAX);

  at("control groups: version 2");
  write(groups, "0::/user/job\n");
  write(mount / "user/job/memory.max", "max\n");
  write(mount / "user/job/memory.current", "100\n");
  CHECK(free() == UINT64_MAX);
  write(mount / "user/job/memory.max", "1000\n");
  CHECK(free() == 900);
  write(mount / "user/job/memory.stat", "anon 1\ninactive_file 60\n");
  CHECK(free() == 960);
  at("control groups: the group above");
  write(mount / "user/memory.max", "500\n");
  write(mount / "user/memory.current", "450\n");
  CHECK(free() == 50);
  write(mount / "user/memory.current", "600\n");
  CHECK(free() == 0);

  at("control groups: a container sees its own group as the root");
  write(groups, "0::/somewhere/else\n");
  write(mount / "memory.max", "300\n");
  write(mount / "memory.current", "100\n");
  CHECK(free() == 200);

  at("control groups: version 1 beside version 2");
  fs::remove_all(mount);
  write(groups, "4:cpu,memory:/api/job\n3:cpuset:/\n0::/\n");
  write(mount / "memory/api/job/memory.limit_in_bytes", "2000\n");
  write(mount / "memory/api/job/memory.usage_in_bytes", "500\n");
  write(mount / "memory/api/job/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
  CHECK(free() == 1600);
  write(groups, "4:cpu,memory:/\n0::/\n");
  write(mount / "memory/memory.limit_in_bytes", "9223372036854771712\n");
  write(mount / "memory/memory.usage_in_bytes", "0\n");
  CHECK(free() == 9223372036854771712u);
  fs::remove_all(root);
}

}  // namespace plan_test
