// Host memory that this process has mapped for a device index.
#include "bindings/runtime/mapped_memory.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace xpu_ops {
namespace {

struct Mappings {
  std::mutex mutex;
  std::map<const char*, std::pair<size_t, int>> sizes;  // by the first address: bytes, device
};
Mappings& mappings() {
  static auto* m = new Mappings;
  return *m;
}

}  // namespace

void name_mapping(void* begin, size_t bytes, int device) {
  std::lock_guard lock(mappings().mutex);
  mappings().sizes[static_cast<const char*>(begin)] = {bytes, device};
}

void forget_mapping(void* begin) noexcept {
  std::lock_guard lock(mappings().mutex);
  mappings().sizes.erase(static_cast<const char*>(begin));
}

std::optional<int> device_of_mapping(const void* ptr) {
  const char* at = static_cast<const char*>(ptr);
  std::lock_guard lock(mappings().mutex);
  auto it = mappings().sizes.upper_bound(at);
  if (it == mappings().sizes.begin()) return std::nullopt;
  --it;
  if (at >= it->first + it->second.first) return std::nullopt;
  return it->second.second;
}

}  // namespace xpu_ops
