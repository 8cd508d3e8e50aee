// Rows of some hundred bytes, moved by one item each, one after the other: a sub-group would spend more on finding each
// row than on its elements.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/cpu/scalar_loop.hpp"

namespace xpu {

// At any address.
template <class V> XPU_INLINE void copy_as(char* to, const char* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  __builtin_memcpy(to, &v, sizeof v);
}

// `bytes`, at least one V of them: the last V may overlap the one before.
template <class V> XPU_INLINE void copy_overlapping(char* to, const char* from, uint32_t bytes) {
  const uint32_t last = bytes - sizeof(V);
  for (uint32_t i = 0; i < last; i += sizeof(V)) copy_as<V>(to + i, from + i);
  copy_as<V>(to + last, from + last);
}

// Rows of a tensor, and those that an index names. Distances are in bytes, but those of the index.
struct ShortRows {
  char* near;
  char* far;
  int64_t near_step, far_step, index_step;  // from one row to the next
  int64_t size, stride;                     // rows that the index may name, their distance
  uint32_t bytes;
  uint8_t wrap;  // negative indices count from the end
};

// Moves rows while indices are good; returns how many were moved.
template <class V, bool Write, class Index>
XPU_SCALAR_LOOP uint32_t short_rows(ShortRows r, const Index* index, uint32_t count) {
  for (uint32_t k = 0; k < count; ++k, r.near += r.near_step, r.far += r.far_step, index += r.index_step) {
    const int64_t given = static_cast<int64_t>(*index), id = r.wrap && given < 0 ? given + r.size : given;
    if (static_cast<uint64_t>(id) >= static_cast<uint64_t>(r.size)) return k;
    char* const far = r.far + id * r.stride;
    if constexpr (Write)
      copy_overlapping<V>(far, r.near, r.bytes);
    else
      copy_overlapping<V>(r.near, far, r.bytes);
  }
  return count;
}

}  // namespace xpu
