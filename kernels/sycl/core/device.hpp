// The header of every device module: element types, the kernel attribute, work-item queries.
// Device code only sees this header, its family's header and the headers they name; the few SYCL headers below keep the
// front end at 0.3 s a module.
#pragma once
#include <cstdint>
#include <sycl/bit_cast.hpp>
#include <sycl/builtins.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/ext/oneapi/kernel_properties/properties.hpp>
#include <sycl/half_type.hpp>

#include "kernels/sycl/core/complex.hpp"
#include "kernels/sycl/core/tile_args.hpp"
#ifndef __SYCL_DEVICE_ONLY__
#include "kernels/host/half.hpp"
#endif

namespace syclex = sycl::ext::oneapi;
namespace syclexp = sycl::ext::oneapi::experimental;

// extern "C" gives the kernel the plain name that the module index and KernelSlot use.
#define XPU_KERNEL(DIMS) extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<DIMS>)) void
// The same for a kernel written for one sub-group size.
#define XPU_KERNEL_SG(DIMS, LANES)                                               \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<DIMS>)) \
      SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::sub_group_size<LANES>)) void

namespace xpu {

#ifdef __SYCL_DEVICE_ONLY__
using half = sycl::half;
#else
using half = xpu_ops::host::half;
#endif

// sycl::ext::oneapi::bfloat16 needs a device library that the ahead-of-time link does not have.
struct bf16 {
  uint16_t bits;
  bf16() = default;
  bf16(float f) {
    uint32_t u = sycl::bit_cast<uint32_t>(f);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
  operator float() const { return sycl::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// Sixteen bytes that are only moved.
struct raw16 { uint64_t lo, hi; };

// The type an element is computed in.
template <class T> struct opmath { using type = T; };
template <> struct opmath<half> { using type = float; };
template <> struct opmath<bf16> { using type = float; };
template <> struct opmath<cplx<half>> { using type = cplx<float>; };
template <class T> using opmath_t = typename opmath<T>::type;

template <class T> struct is_complex { static constexpr bool value = false; };
template <class T> struct is_complex<cplx<T>> { static constexpr bool value = true; };
template <class T> inline constexpr bool is_complex_v = is_complex<T>::value;
// T, or the component type of a complex T.
template <class T> struct real_of { using type = T; };
template <class T> struct real_of<cplx<T>> { using type = T; };
template <class T> using real_t = typename real_of<T>::type;
template <class T> inline constexpr bool is_float_v = false;
template <> inline constexpr bool is_float_v<float> = true;
template <> inline constexpr bool is_float_v<double> = true;
template <> inline constexpr bool is_float_v<half> = true;
template <> inline constexpr bool is_float_v<bf16> = true;

inline uint32_t global_id() { return syclex::this_work_item::get_nd_item<1>().get_global_linear_id(); }
inline uint32_t local_id() { return syclex::this_work_item::get_nd_item<1>().get_local_linear_id(); }
inline uint32_t group_id() { return syclex::this_work_item::get_nd_item<1>().get_group_linear_id(); }

using xpu_ops::kTileElements;

// Calls f(i) for the elements c0 .. c1 - 1, the items of a work-group side by side. All items or some: a loop that only
// some items leave costs the CPU device masks at every step, which take half of its memory bandwidth.
template <class F> inline void for_columns(size_t c0, size_t c1, size_t lane, size_t lanes, F f) {
  size_t k = c0;
  for (; k + lanes <= c1; k += lanes) f(k + lane);
  if (k + lane < c1) f(k + lane);
}

// 1-D: the part of n elements that belongs to this work-group.
template <class F> inline void for_tile(uint32_t n, F f) {
  auto it = syclex::this_work_item::get_nd_item<1>();
  const size_t c0 = it.get_group(0) * size_t{kTileElements}, c1 = c0 + kTileElements < n ? c0 + kTileElements : n;
  for_columns(c0, c1, it.get_local_id(0), it.get_local_range(0), f);
}

}  // namespace xpu
