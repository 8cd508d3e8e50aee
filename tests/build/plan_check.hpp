// Policies, sizes and checks that the parts of plan_test share.
#pragma once
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/runtime/device/policy.hpp"

namespace plan_test {

using namespace xpu_ops;
using runtime::Policy;

inline int g_checks = 0, g_failures = 0;
inline std::string g_case;

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    ++g_checks;                                                                            \
    if (!(condition) && ++g_failures < 50)                                                 \
      std::printf("%s:%d: %s: %s\n", __FILE_NAME__, __LINE__, g_case.c_str(), #condition); \
  } while (false)

template <class... T>
void at(const char* name, T... values) {
  g_case = name;
  ((g_case += " " + std::to_string(values)), ...);
}

inline Policy cpu_policy(uint32_t units) {
  Policy p;
  p.single_items = p.host_memory = true;
  p.units = units;
  p.elementwise_group = 1024;
  p.most_items = 8192;
  return p;
}
inline Policy gpu_policy(uint32_t units) {
  Policy p;
  p.units = units;
  p.elementwise_group = p.tile_items = p.team_items = 256;
  p.row_items = 128;
  p.most_items = units == 7 ? 512 : 1024;
  return p;
}
inline std::vector<Policy> policies() {
  std::vector<Policy> all;
  for (const uint32_t units : {1u, 2u, 7u, 64u, 512u, 4096u}) all.push_back(cpu_policy(units));
  for (const uint32_t units : {1u, 2u, 7u, 64u, 512u, 4096u}) all.push_back(gpu_policy(units));
  return all;
}

inline const std::vector<int64_t> kSizes = {1,     2,     3,      15,     16,      17,      63,     64,   65,
                                            255,   300,   1000,   2047,   2048,    2049,    4096,   5000, 16383,
                                            65536, 70000, 262144, 262145, 1048576, 1048577, 5000000};

// Parts of `each` elements, the last maybe shorter, none empty, none past the end.
inline bool parts_cover(int64_t n, int64_t parts, int64_t each) {
  return parts > 0 && each > 0 && (parts - 1) * each < n && parts * each >= n;
}

// Rows by teams: each in one, a team is a sub-group or the work-group.
inline void check_teams(int64_t rows, size_t groups, size_t local, size_t items, const Policy& policy) {
  CHECK(items % 16 == 0 && local % items == 0 && local <= policy.team_items && groups >= 1);
  CHECK(items == 16 ? local <= policy.row_items : local == items);
  CHECK(static_cast<int64_t>((groups - 1) * (local / items)) < rows);
}

// Whether every value of the enumeration up to `last` was seen.
template <class Kernel>
void check_all_seen(const char* name, const std::set<Kernel>& seen, Kernel last) {
  at(name);
  CHECK(seen.size() == static_cast<size_t>(last) + 1);
}

inline bool refuses(const std::function<void()>& plan) {
  try {
    plan();
  } catch (const Error&) { return true; }
  return false;
}

// Parts of the program beside plan_test.cpp.
void test_orders();
void test_indices();
void test_layers();
void test_serving();
void test_few_columns();
void test_short_indexed_rows();
void test_short_rows_of_a_table();
void test_short_copied_rows();
void test_resampling();
void test_pointwise();
void test_groups();
void test_products();
void test_sparse();
void test_control_groups();
void test_native_code();
void test_lru();
void test_native_target();
void test_queue_states();

}  // namespace plan_test
