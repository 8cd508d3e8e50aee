// How a work-group deals with its edge.
#pragma once
#include <cstddef>

#define XPU_INLINE inline __attribute__((always_inline))

namespace xpu {

// Runs f in groups that are full without, in others with the branch that differs between items (`inside`): behind such
// a branch the CPU device masks every access, and does real divisions and uniform loads item by item. `once` is 1 in a
// way that the compiler cannot know, such as the size of a launch dimension; otherwise it makes one masked path of the
// two.
// f is inlined in both: a call would take the arguments' address, and they would be copied for every item.
template <class F> XPU_INLINE void whole_or_part(bool full, bool inside, size_t once, F f) {
  if (full) {
    [[clang::always_inline]] f();
  } else if (inside) {
    for (size_t i = 0; i < once; ++i) { [[clang::always_inline]] f(); }
  }
}

}  // namespace xpu
