// Memory outside the caching allocator that can be given back: packed weights.
#pragma once
#include <cstddef>

namespace xpu_ops::runtime {

// `tidy` drops what nothing can use any more: empty_cache() calls it. `reclaim` gives back all it can of a device and
// returns the bytes: called before an allocation fails, under the allocator's lock, which it must not need.
struct Reclaimer {
  void (*tidy)() = nullptr;
  size_t (*reclaim)(int device) = nullptr;
};
void set_reclaimer(Reclaimer reclaimer);

}  // namespace xpu_ops::runtime
