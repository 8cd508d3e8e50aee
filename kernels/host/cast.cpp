#include "kernels/host/cast.hpp"

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
  constexpr bool to_float = std::is_floating_point_v<To> || sizeof(To) == 2;
  return (std::is_same_v<From, int64_t> && to_float) || (std::is_same_v<To, int64_t> && std::is_floating_point_v<From>);
}

template <class To, class From>
XPU_OPS_VECTOR void run(const CopyArgs& args) {
  const CopyArgs p = args;
  if (p.flags == 0) {
    if constexpr (std::is_same_v<From, float> && sizeof(To) == 2)
      return narrow(std::is_same_v<To, xpu::half> ? DType::f16 : DType::bf16, static_cast<const float*>(p.src), p.dst,
                    p.n);
    if constexpr (std::is_same_v<To, float> && sizeof(From) == 2)
      return widen(std::is_same_v<From, xpu::half> ? DType::f16 : DType::bf16, p.src, static_cast<float*>(p.dst), p.n);
  }
  To* dst = static_cast<To*>(p.dst);
  const From* src = static_cast<const From*>(p.src);
  if constexpr (converts_itself<To, From>()) {
    if (p.flags == 0) {
      using Via = std::conditional_t<sizeof(To) == 2, float, To>;
      for (uint32_t i = 0; i < p.n; ++i) dst[i] = static_cast<To>(static_cast<Via>(src[i]));
      return;
    }
  }
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
