// <sycl/...> and the standard headers as far as the device headers of this folder use them, on the compiler's own
// SPIR-V functions: a kernel compiles where no C++ library is installed, and its front end takes a fifth of the time.
// The files beside this one have the names of those headers and only include this one. Device code only.
#pragma once

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using size_t = unsigned long;
using ptrdiff_t = long;
using intptr_t = long;
using uintptr_t = unsigned long;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32767 - 1)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807L - 1)
#define INT64_MAX 9223372036854775807L
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ul

namespace std {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
struct true_type { static constexpr bool value = true; };
struct false_type { static constexpr bool value = false; };
template <class A, class B> inline constexpr bool is_same_v = __is_same(A, B);
}  // namespace std

#define XPU_SHIM inline __attribute__((always_inline))
#define XPU_BUILTIN extern "C++" __attribute__((sycl_device, const))
XPU_BUILTIN size_t __spirv_BuiltInGlobalInvocationId(int);
XPU_BUILTIN size_t __spirv_BuiltInGlobalSize(int);
XPU_BUILTIN size_t __spirv_BuiltInNumWorkgroups(int);
XPU_BUILTIN size_t __spirv_BuiltInWorkgroupSize(int);
XPU_BUILTIN size_t __spirv_BuiltInWorkgroupId(int);
XPU_BUILTIN size_t __spirv_BuiltInLocalInvocationId(int);
XPU_BUILTIN uint32_t __spirv_BuiltInSubgroupLocalInvocationId();
XPU_BUILTIN uint32_t __spirv_BuiltInSubgroupSize();
XPU_BUILTIN uint32_t __spirv_BuiltInSubgroupId();

// The index within the work-group. The bound lets int32_t(2 * i) be 2 * i: the CPU device's compiler (2026.22) takes
// the sign extension (i << 33) >> 32 for i where i << 1 is in use as well, such as for an address. A small bound would
// make `row * length + i` an `or` where the length is a multiple of it, and what `or` makes is gathered item by item.
XPU_SHIM size_t xpu_local_id(int dimension) {
  const size_t i = __spirv_BuiltInLocalInvocationId(dimension);
  __builtin_assume(i < 1u << 27);
  return i;
}

namespace sycl {
using half = _Float16;

template <class To, class From> XPU_SHIM constexpr To bit_cast(const From& v) { return __builtin_bit_cast(To, v); }

// ---- mathematics
#define XPU_SHIM_1(NAME)                                         \
  XPU_SHIM float NAME(float a) { return __spirv_ocl_##NAME(a); } \
  XPU_SHIM double NAME(double a) { return __spirv_ocl_##NAME(a); }
#define XPU_SHIM_2(NAME)                                                     \
  XPU_SHIM float NAME(float a, float b) { return __spirv_ocl_##NAME(a, b); } \
  XPU_SHIM double NAME(double a, double b) { return __spirv_ocl_##NAME(a, b); }
XPU_SHIM_1(exp)
XPU_SHIM_1(exp2)
XPU_SHIM_1(expm1)
XPU_SHIM_1(log)
XPU_SHIM_1(log2)
XPU_SHIM_1(log10)
XPU_SHIM_1(log1p)
XPU_SHIM_1(sqrt)
XPU_SHIM_1(rsqrt)
XPU_SHIM_1(cbrt)
XPU_SHIM_1(sin)
XPU_SHIM_1(cos)
XPU_SHIM_1(tan)
XPU_SHIM_1(sinpi)
XPU_SHIM_1(cospi)
XPU_SHIM_1(sinh)
XPU_SHIM_1(cosh)
XPU_SHIM_1(tanh)
XPU_SHIM_1(asin)
XPU_SHIM_1(acos)
XPU_SHIM_1(atan)
XPU_SHIM_1(asinh)
XPU_SHIM_1(acosh)
XPU_SHIM_1(atanh)
XPU_SHIM_1(erf)
XPU_SHIM_1(erfc)
XPU_SHIM_1(lgamma)
XPU_SHIM_1(tgamma)
XPU_SHIM_1(floor)
XPU_SHIM_1(ceil)
XPU_SHIM_1(trunc)
XPU_SHIM_1(rint)
XPU_SHIM_1(fabs)
XPU_SHIM_2(pow)
XPU_SHIM_2(atan2)
XPU_SHIM_2(hypot)
XPU_SHIM_2(copysign)
XPU_SHIM_2(fmod)
XPU_SHIM_2(remainder)
XPU_SHIM_2(fmin)
XPU_SHIM_2(fmax)
XPU_SHIM_2(nextafter)
XPU_SHIM float fma(float a, float b, float c) { return __spirv_ocl_fma(a, b, c); }
XPU_SHIM double fma(double a, double b, double c) { return __spirv_ocl_fma(a, b, c); }

// Of 0: the number of bits.
template <class T> XPU_SHIM T ctz(T a) { return __spirv_ocl_ctz(a); }
template <class T> XPU_SHIM T clz(T a) { return __spirv_ocl_clz(a); }
template <class T> XPU_SHIM T min(T a, T b) { return b < a ? b : a; }
template <class T> XPU_SHIM T max(T a, T b) { return a < b ? b : a; }

// ---- work-items
constexpr int kShimWorkGroup = 2, kShimSubGroup = 3;  // spv::Scope

template <int D> struct nd_item {
  XPU_SHIM size_t get_group(int d) const { return __spirv_BuiltInWorkgroupId(D - 1 - d); }
  XPU_SHIM size_t get_group_range(int d) const { return __spirv_BuiltInNumWorkgroups(D - 1 - d); }
  XPU_SHIM size_t get_local_id(int d) const { return xpu_local_id(D - 1 - d); }
  XPU_SHIM size_t get_local_range(int d) const { return __spirv_BuiltInWorkgroupSize(D - 1 - d); }
  XPU_SHIM size_t get_global_linear_id() const {
    static_assert(D == 1);
    return __spirv_BuiltInGlobalInvocationId(0);
  }
  XPU_SHIM size_t get_local_linear_id() const {
    static_assert(D == 1);
    return xpu_local_id(0);
  }
  XPU_SHIM size_t get_group_linear_id() const {
    static_assert(D == 1);
    return __spirv_BuiltInWorkgroupId(0);
  }
};

struct sub_group {
  XPU_SHIM size_t get_local_linear_id() const { return __spirv_BuiltInSubgroupLocalInvocationId(); }
  XPU_SHIM size_t get_group_linear_id() const { return __spirv_BuiltInSubgroupId(); }
};
// Lanes exchange 32 or 64 bits: f of a value, or of its bits in 32.
template <class T, class F> XPU_SHIM T exchange_bits(T v, F f) {
  if constexpr (sizeof(T) == 1)
    return __builtin_bit_cast(T, static_cast<uint8_t>(f(static_cast<uint32_t>(__builtin_bit_cast(uint8_t, v)))));
  else if constexpr (sizeof(T) == 2)
    return __builtin_bit_cast(T, static_cast<uint16_t>(f(static_cast<uint32_t>(__builtin_bit_cast(uint16_t, v)))));
  else
    return f(v);
}
template <class T> XPU_SHIM T permute_group_by_xor(sub_group, T v, uint32_t mask) {
  return exchange_bits(v, [=](auto x) { return __spirv_GroupNonUniformShuffleXor(kShimSubGroup, x, mask); });
}
template <class T> XPU_SHIM T select_from_group(sub_group, T v, uint32_t lane) {
  return exchange_bits(v, [=](auto x) { return __spirv_GroupNonUniformShuffle(kShimSubGroup, x, lane); });
}
template <class T> XPU_SHIM T group_broadcast(sub_group, T v, uint32_t lane) {
  return exchange_bits(v, [=](auto x) { return __spirv_GroupBroadcast(kShimSubGroup, x, lane); });
}

struct work_group {};
XPU_SHIM void group_barrier(work_group) {
  constexpr int kOrder = 0x10 | 0x80 | 0x100 | 0x200;  // sequentially consistent, for all memory of the work-group
  __spirv_ControlBarrier(kShimWorkGroup, kShimWorkGroup, kOrder);
}

// ---- atomics: relaxed, of the device, on global memory
enum class memory_order { relaxed };
enum class memory_scope { device };
template <class T, memory_order, memory_scope> class atomic_ref {
  static constexpr int kDevice = 1, kRelaxed = 0;
  using Global = __attribute__((opencl_global)) T;

 public:
  XPU_SHIM explicit atomic_ref(T& v) : p_((Global*)&v) {}  // a C cast: none other changes the address space
  XPU_SHIM bool compare_exchange_strong(T& expected, T desired) {
    const T found = __spirv_AtomicCompareExchange(p_, kDevice, kRelaxed, kRelaxed, desired, expected);
    const bool same = found == expected;
    expected = found;
    return same;
  }
  XPU_SHIM T fetch_add(T v) { return __spirv_AtomicIAdd(p_, kDevice, kRelaxed, v); }

 private:
  Global* p_;
};

namespace ext::oneapi {
namespace this_work_item {
template <int D> XPU_SHIM nd_item<D> get_nd_item() { return {}; }
XPU_SHIM sub_group get_sub_group() { return {}; }
template <int D> XPU_SHIM work_group get_work_group() { return {}; }
}  // namespace this_work_item
namespace experimental {
template <auto V> struct ShimDims {
  static constexpr const char* name = "sycl-nd-range-kernel";
  static constexpr int value = V;
};
template <auto V> struct ShimSubGroupSize {
  static constexpr const char* name = "sycl-sub-group-size";
  static constexpr unsigned value = V;
};
template <int V> inline constexpr ShimDims<V> nd_range_kernel{};
template <unsigned V> inline constexpr ShimSubGroupSize<V> sub_group_size{};

// Memory that the items of a work-group share; static by nature.
template <class T> class [[__sycl_detail__::wg_scope]] work_group_static final {
 public:
  XPU_SHIM work_group_static() = default;
  work_group_static(const work_group_static&) = delete;
  work_group_static& operator=(const work_group_static&) = delete;
  operator T&() noexcept { return data; }
  T* operator&() noexcept { return &data; }

 private:
  T data;
};
}  // namespace experimental
}  // namespace ext::oneapi
}  // namespace sycl

#ifdef __SYCL_DEVICE_ONLY__
namespace sycl {
template <class T> struct ShimBare { using type = T; };
template <class T> struct ShimBare<const T> { using type = T; };
template <class T> struct ShimBare<const T&> { using type = T; };
}  // namespace sycl
#define SYCL_EXT_ONEAPI_FUNCTION_PROPERTY(PROPERTY)                                             \
  [[__sycl_detail__::add_ir_attributes_function(sycl::ShimBare<decltype(PROPERTY)>::type::name, \
                                                sycl::ShimBare<decltype(PROPERTY)>::type::value)]]
#else
#define SYCL_EXT_ONEAPI_FUNCTION_PROPERTY(PROPERTY)
#endif
