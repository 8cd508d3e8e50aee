#include "kernels/host/cast.hpp"

#include <algorithm>
#include <utility>

#include "kernels/host/bulk.hpp"
#include "kernels/host/math.hpp"
#include "kernels/sycl/elementwise/copy.hpp"

namespace xpu_ops::host {
namespace {

template <DType type, class T>
struct Entry {
  static constexpr DType dtype = type;
  using element = T;
};
template <class... T> struct Entries {};
using Types = Entries<Entry<DType::f32, float>, Entry<DType::f64, double>, Entry<DType::f16, xpu::half>,
                      Entry<DType::bf16, xpu::bf16>, Entry<DType::i64, int64_t>, Entry<DType::i32, int32_t>,
                      Entry<DType::u8, uint8_t>, Entry<DType::b8, bool>>;

// The processor's own conversions of 64-bit integers: what convert.hpp does by shifts gives the same.
template <class To, class From> constexpr bool converts_itself() {
  return (std::is_same_v<From, int64_t> && std::is_floating_point_v<To>) ||
         (std::is_same_v<To, int64_t> && std::is_floating_point_v<From>);
}

template <class T> constexpr bool is_narrow_float = std::is_same_v<T, xpu::half> || std::is_same_v<T, xpu::bf16>;
template <class T> constexpr DType narrow_type = std::is_same_v<T, xpu::half> ? DType::f16 : DType::bf16;

template <class To, class From> [[gnu::always_inline]] inline To convert_one(From v) {
  if constexpr (converts_itself<To, From>())
    return static_cast<To>(v);
  else
    return xpu::cast_element<To>(v, 0);
}

template <class To, class From> [[gnu::noinline]] XPU_OPS_VECTOR void convert_all(const From* src, To* dst,
                                                                                  uint32_t n) {
  if constexpr (std::is_same_v<From, bool>) {  // as bytes: a loop over bools does not vectorise
    const auto* bytes = reinterpret_cast<const uint8_t*>(src);
    for (uint32_t i = 0; i < n; ++i) dst[i] = convert_one<To>(static_cast<int32_t>(bytes[i] != 0));
  } else {
    for (uint32_t i = 0; i < n; ++i) dst[i] = convert_one<To>(src[i]);
  }
}

// Floats of 16 bits to and from all other types: by way of float32, as convert() does it, in blocks that are vectors.
constexpr uint32_t kCastBlock = 512;
template <class To, class From> void convert_blocks(const From* src, To* dst, uint32_t n) {
  float block[kCastBlock];
  for (uint32_t begin = 0; begin < n; begin += kCastBlock) {
    const uint32_t count = std::min(n - begin, kCastBlock);
    if constexpr (is_narrow_float<From>)
      widen(narrow_type<From>, src + begin, block, count);
    else
      convert_all(src + begin, block, count);
    if constexpr (is_narrow_float<To>)
      narrow(narrow_type<To>, block, dst + begin, count);
    else
      convert_all(block, dst + begin, count);
  }
}

template <class To, class From>
void run(const CopyArgs& args) {
  const CopyArgs p = args;
  if (p.flags == 0) {
    if constexpr (std::is_same_v<From, float> && is_narrow_float<To>)
      return narrow(narrow_type<To>, static_cast<const float*>(p.src), p.dst, p.n);
    if constexpr (std::is_same_v<To, float> && is_narrow_float<From>)
      return widen(narrow_type<From>, p.src, static_cast<float*>(p.dst), p.n);
    if constexpr ((is_narrow_float<To> || is_narrow_float<From>) && !std::is_same_v<To, From>)
      return convert_blocks(static_cast<const From*>(p.src), static_cast<To*>(p.dst), p.n);
    return convert_all(static_cast<const From*>(p.src), static_cast<To*>(p.dst), p.n);
  }
  To* dst = static_cast<To*>(p.dst);
  const From* src = static_cast<const From*>(p.src);
  for (uint32_t i = 0; i < p.n; ++i) dst[i] = xpu::cast_element<To>(src[i], p.flags);
}

template <class To, class... From>
Cast from_type(DType from, Entries<From...>) {
  Cast found = nullptr;
  ((found = from == From::dtype ? &run<typename To::element, typename From::element> : found), ...);
  return found;
}

template <class... To>
Cast to_type(DType to, DType from, Entries<To...>) {
  Cast found = nullptr;
  ((found = to == To::dtype ? from_type<To>(from, Types{}) : found), ...);
  return found;
}

}  // namespace

Cast cast(DType to, DType from) { return to_type(to, from, Types{}); }

}  // namespace xpu_ops::host
