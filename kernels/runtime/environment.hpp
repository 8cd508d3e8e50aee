// Switches that the environment sets.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace xpu_ops::runtime {

// Unset or empty: `otherwise`. "0" is off, all else on.
inline bool env_flag(const char* name, bool otherwise = false) {
  const char* v = std::getenv(name);
  return v && *v ? std::strcmp(v, "0") != 0 : otherwise;
}

inline uint64_t env_number(const char* name, uint64_t otherwise) {
  const char* v = std::getenv(name);
  return v && *v ? std::strtoull(v, nullptr, 10) : otherwise;
}

}  // namespace xpu_ops::runtime
