// Elements side by side as one vector, at any address.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

template <class T, int N> using lane_row = T __attribute__((ext_vector_type(N)));
template <class, int... I> struct LaneList {};
template <int N> using lane_list = __make_integer_seq<LaneList, int, N>;

template <class V, class T> inline V load_row(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V, class T> inline void store_row(T* p, V v) { __builtin_memcpy(p, &v, sizeof v); }

}  // namespace xpu
