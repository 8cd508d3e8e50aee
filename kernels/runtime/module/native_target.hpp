// Which native code a processor takes, decided by keys alone: no device, no SYCL.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xpu_ops::runtime {

// A target of Intel's CPU runtime (CL_CONFIG_CPU_TARGET_ARCH) and its instruction sets, in the words and the order of
// cpu_isa.
struct CpuTarget { std::string_view name, isa; };
constexpr std::string_view kAllSets =
    "sse42+avx+avx2+fma+avx512f+avx512bw+avx512dq+avx512vl+avx512vnni+avx512bf16+avx512fp16+amx";
constexpr std::string_view sets_up_to(std::string_view last) {
  return kAllSets.substr(0, kAllSets.find(last) + last.size());
}
constexpr std::array kCpuTargets = {
    CpuTarget{"corei7", sets_up_to("sse42")},
    CpuTarget{"corei7-avx", sets_up_to("avx")},
    CpuTarget{"core-avx2", sets_up_to("fma")},
    CpuTarget{"skx", sets_up_to("avx512vl")},
    CpuTarget{"cascadelake", sets_up_to("avx512vnni")},
    CpuTarget{"icelake-client", sets_up_to("avx512vnni")},
    CpuTarget{"icelake-server", sets_up_to("avx512vnni")},
    CpuTarget{"sapphirerapids", kAllSets},
};

// Empty for a name that is not listed.
inline std::string_view isa_of_target(std::string_view name) {
  for (const CpuTarget& t : kCpuTargets)
    if (t.name == name) return t.isa;
  return {};
}

// A key (target_key.hpp) names instruction sets behind this, joined by +.
constexpr std::string_view kIsa = " isa=";

inline std::vector<std::string_view> isa_of_key(std::string_view key) {
  std::vector<std::string_view> names;
  const size_t at = key.find(kIsa);
  for (key.remove_prefix(at == key.npos ? key.size() : at + kIsa.size()); !key.empty();) {
    const size_t end = std::min(key.find('+'), key.size());
    names.push_back(key.substr(0, end));
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return names;
}

inline bool isa_has(std::string_view key, std::string_view set) {
  const auto sets = isa_of_key(key);
  return std::ranges::find(sets, set) != sets.end();
}

// Whether both have AVX-512 or neither has. Code with it computes wrong results in a process that has loaded code
// without (2026.2: erf of negative numbers is 0, float64 softmax is off).
inline bool same_width(std::string_view made, std::string_view here) {
  return isa_has(made, "avx512f") == isa_has(here, "avx512f");
}

// How many instruction sets the processor `here` has beyond those that the code was made for; 0 where the keys are
// equal, nothing where the code cannot run. The CPU runtime loads code of a lower target and refuses a higher one.
inline std::optional<size_t> spare_sets(std::string_view made, std::string_view here) {
  if (made == here) return 0;
  const size_t at = made.find(kIsa);
  if (at == made.npos || here.substr(0, at + kIsa.size()) != made.substr(0, at + kIsa.size())) return std::nullopt;
  const auto wanted = isa_of_key(made), had = isa_of_key(here);
  // A target that is not listed may be lower than the processor.
  if (wanted.empty() || here.find(" forced=") != here.npos) return std::nullopt;
  for (const std::string_view name : wanted)
    if (std::ranges::find(had, name) == had.end()) return std::nullopt;
  return had.size() - wanted.size();
}

// Installed native code: its key, and its class, which is a target's name; empty where the build has no classes.
struct NativeClass { std::string_view key, name; };

// The target that the runtime is told to make code for, on a processor with these instruction sets; empty for none.
// Unless it is told, it takes the class of the lowest code that a process has loaded, and refuses the code of a higher
// one that the kernel compiler, a process of its own, makes for the processor.
inline std::string_view target_to_name(std::span<const NativeClass> natives, std::string_view isa) {
  const NativeClass* nearest = nullptr;
  std::string_view made;  // the instruction sets of its key
  size_t spare = 0;
  const std::string here = std::string(kIsa) + std::string(isa);
  for (const NativeClass& n : natives) {
    const size_t at = n.key.find(kIsa);
    const auto more = at == n.key.npos ? std::nullopt : spare_sets(n.key.substr(at), here);
    if (!more || (nearest && *more >= spare)) continue;
    nearest = &n;
    made = n.key.substr(at);
    spare = *more;
  }
  if (!nearest) return {};
  if (!nearest->name.empty() || spare == 0) return nearest->name;
  // Code of an unnamed lower class. With AVX-512 the highest target takes it, without it its own.
  const CpuTarget& highest = kCpuTargets.back();
  if (same_width(made, here)) return isa == highest.isa ? highest.name : std::string_view();
  const auto own = std::ranges::find_if(kCpuTargets.rbegin(), kCpuTargets.rend(), [&](const CpuTarget& t) {
    return spare_sets(std::string(kIsa).append(t.isa), made).has_value();
  });
  return own == kCpuTargets.rend() ? std::string_view() : own->name;
}

}  // namespace xpu_ops::runtime
