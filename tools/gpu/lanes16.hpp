// Sub-groups of 16 on a device whose warps have 32 lanes: each half of a warp is one. tools/gpu/ptx.py includes this
// before every source. It defines the identity of a sub-group and overloads the functions of sycl::sub_group that
// kernels/sycl calls; kernels made by Triton and Inductor call the compiler's functions by name, and get macros.
#pragma once
#include <cstdint>
#include <sycl/bit_cast.hpp>
#include <sycl/builtins.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/ext/oneapi/kernel_properties/properties.hpp>
#include <sycl/ext/oneapi/work_group_static.hpp>
#include <sycl/group_algorithm.hpp>
#include <sycl/group_barrier.hpp>
#include <sycl/half_type.hpp>
#include <sycl/sub_group.hpp>

// A type of the shim (kernels/sycl/shim), which kernels made at run time are compiled with and PTX is not.
namespace sycl {
inline namespace _V1 {
struct work_group {};
inline void group_barrier(work_group) { group_barrier(ext::oneapi::this_work_item::get_work_group<1>()); }
}  // namespace _V1
}  // namespace sycl

#if defined(__SYCL_DEVICE_ONLY__) && defined(__NVPTX__)
#define LANES16 inline __attribute__((always_inline))

namespace lanes16 {

constexpr uint32_t kLanes = 16;
// Segments of 16 lanes, as shfl.sync takes them in its operand c; upward shifts are bounded from below.
constexpr int kSegment = (kLanes << 8) | 0x1f, kSegmentUp = kLanes << 8;

LANES16 uint32_t work_items() {
  return __nvvm_read_ptx_sreg_ntid_x() * __nvvm_read_ptx_sreg_ntid_y() * __nvvm_read_ptx_sreg_ntid_z();
}
LANES16 uint32_t work_item() {
  const uint32_t row = __nvvm_read_ptx_sreg_tid_y() + __nvvm_read_ptx_sreg_ntid_y() * __nvvm_read_ptx_sreg_tid_z();
  return __nvvm_read_ptx_sreg_tid_x() + __nvvm_read_ptx_sreg_ntid_x() * row;
}
LANES16 uint32_t lane() { return __nvvm_read_ptx_sreg_laneid() % kLanes; }
// The last sub-group of a work-group may be smaller.
LANES16 uint32_t size() {
  const uint32_t left = work_items() - work_item() / kLanes * kLanes;
  return left < kLanes ? left : kLanes;
}
LANES16 uint32_t mask() { return ((1u << size()) - 1) << (__nvvm_read_ptx_sreg_laneid() & kLanes); }

// A shuffle moves 32 bits: f for each word of v.
template <class T, class F> LANES16 T by_words(const T& v, F f) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  int32_t words[kWords] = {};
  __builtin_memcpy(words, &v, sizeof(T));
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = f(words[i]);
  T moved;
  __builtin_memcpy(&moved, words, sizeof(T));
  return moved;
}
template <class T> LANES16 T from_lane(const T& v, uint32_t other) {
  const int m = static_cast<int>(mask());
  return by_words(v, [=](int32_t w) { return __nvvm_shfl_sync_idx_i32(m, w, static_cast<int>(other), kSegment); });
}
template <class T> LANES16 T across(const T& v, uint32_t bits) {
  const int m = static_cast<int>(mask());
  return by_words(v, [=](int32_t w) { return __nvvm_shfl_sync_bfly_i32(m, w, static_cast<int>(bits), kSegment); });
}
template <class T> LANES16 T from_below(const T& v, uint32_t by) {
  const int m = static_cast<int>(mask());
  return by_words(v, [=](int32_t w) { return __nvvm_shfl_sync_up_i32(m, w, static_cast<int>(by), kSegmentUp); });
}
template <class T> LANES16 T from_above(const T& v, uint32_t by) {
  const int m = static_cast<int>(mask());
  return by_words(v, [=](int32_t w) { return __nvvm_shfl_sync_down_i32(m, w, static_cast<int>(by), kSegment); });
}
template <class T, class Op> LANES16 T reduce(T v, Op op) {
  const uint32_t n = size();
  if (n == kLanes) {
#pragma unroll
    for (uint32_t bits = kLanes / 2; bits; bits /= 2) v = op(v, across(v, bits));
    return v;
  }
  T all = from_lane(v, 0);
  for (uint32_t i = 1; i < n; ++i) all = op(all, from_lane(v, i));
  return all;
}
template <class T, class Op> LANES16 T inclusive_scan(T v, Op op) {
#pragma unroll
  for (uint32_t by = 1; by < kLanes; by *= 2) {
    const T other = from_below(v, by);
    if (lane() >= by) v = op(other, v);
  }
  return v;
}
LANES16 void barrier() { __nvvm_bar_warp_sync(mask()); }
// As __spirv_ControlBarrier: the scopes of SPIR-V are numbers, 3 is the sub-group.
LANES16 void control_barrier(int scope, int, int) {
  if (scope == 3)
    barrier();
  else
    __syncthreads();
}

}  // namespace lanes16

__DPCPP_SYCL_EXTERNAL LANES16 uint32_t __spirv_BuiltInSubgroupLocalInvocationId() { return lanes16::lane(); }
__DPCPP_SYCL_EXTERNAL LANES16 uint32_t __spirv_BuiltInSubgroupId() { return lanes16::work_item() / lanes16::kLanes; }
__DPCPP_SYCL_EXTERNAL LANES16 uint32_t __spirv_BuiltInSubgroupSize() { return lanes16::size(); }
__DPCPP_SYCL_EXTERNAL LANES16 uint32_t __spirv_BuiltInSubgroupMaxSize() { return lanes16::kLanes; }
__DPCPP_SYCL_EXTERNAL LANES16 uint32_t __spirv_BuiltInNumSubgroups() {
  return (lanes16::work_items() + lanes16::kLanes - 1) / lanes16::kLanes;
}

namespace sycl {
inline namespace _V1 {
template <class T> LANES16 T group_broadcast(sub_group, T v, uint32_t lane) { return lanes16::from_lane(v, lane); }
template <class T> LANES16 T group_broadcast(sub_group, T v) { return lanes16::from_lane(v, 0); }
template <class T> LANES16 T select_from_group(sub_group, T v, sub_group::id_type lane) {
  return lanes16::from_lane(v, static_cast<uint32_t>(lane[0]));
}
template <class T> LANES16 T permute_group_by_xor(sub_group, T v, sub_group::linear_id_type bits) {
  return lanes16::across(v, bits);
}
template <class T> LANES16 T shift_group_right(sub_group, T v, sub_group::linear_id_type by = 1) {
  return lanes16::from_below(v, by);
}
template <class T> LANES16 T shift_group_left(sub_group, T v, sub_group::linear_id_type by = 1) {
  return lanes16::from_above(v, by);
}
template <class T, class Op> LANES16 T reduce_over_group(sub_group, T v, Op op) { return lanes16::reduce(v, op); }
template <class T, class Op> LANES16 T inclusive_scan_over_group(sub_group, T v, Op op) {
  return lanes16::inclusive_scan(v, op);
}
template <class T, class Op> LANES16 T exclusive_scan_over_group(sub_group, T v, Op op) {
  const T before = lanes16::from_below(lanes16::inclusive_scan(v, op), 1);
  return lanes16::lane() == 0 ? known_identity_v<Op, T> : before;
}
LANES16 bool any_of_group(sub_group, bool v) { return __nvvm_vote_any_sync(lanes16::mask(), v); }
LANES16 bool all_of_group(sub_group, bool v) { return __nvvm_vote_all_sync(lanes16::mask(), v); }
LANES16 bool none_of_group(sub_group group, bool v) { return !any_of_group(group, v); }
LANES16 void group_barrier(sub_group, memory_scope = memory_scope::sub_group) { lanes16::barrier(); }
}  // namespace _V1
}  // namespace sycl

#define __spirv_GroupNonUniformShuffle(scope, v, lane) lanes16::from_lane(v, lane)
#define __spirv_GroupNonUniformShuffleXor(scope, v, bits) lanes16::across(v, bits)
#define __spirv_GroupNonUniformShuffleUp(scope, v, by) lanes16::from_below(v, by)
#define __spirv_GroupNonUniformShuffleDown(scope, v, by) lanes16::from_above(v, by)
#define __spirv_GroupBroadcast(scope, v, lane) lanes16::from_lane(v, lane)
#define __spirv_ControlBarrier(scope, memory, order) lanes16::control_barrier(scope, memory, order)

// The compilers of Intel's GPUs inline what a kernel calls. This one keeps large bodies as functions, for which every
// item copies the struct that the kernel was launched with. So a kernel's calls are inlined, and the kernel where it is
// entered.
#undef SYCL_EXT_ONEAPI_FUNCTION_PROPERTY
#define SYCL_EXT_ONEAPI_FUNCTION_PROPERTY(PROPERTY)                                           \
  [[gnu::flatten, gnu::always_inline]] [[__sycl_detail__::add_ir_attributes_function(         \
      sycl::ext::oneapi::experimental::detail::PropertyMetaInfo<                              \
          sycl::ext::oneapi::experimental::detail::remove_cvref_t<decltype(PROPERTY)>>::name, \
      sycl::ext::oneapi::experimental::detail::PropertyMetaInfo<                              \
          sycl::ext::oneapi::experimental::detail::remove_cvref_t<decltype(PROPERTY)>>::value)]]

// The shim, which declares it elsewhere, is not used here.
LANES16 size_t xpu_local_id(int dimension) { return __spirv_BuiltInLocalInvocationId(dimension); }
#undef LANES16
#endif
