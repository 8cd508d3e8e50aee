#include "kernels/host/bulk.hpp"

#include <immintrin.h>

#include <cstring>

#include "kernels/host/math.hpp"
#include "kernels/sycl/core/device.hpp"

namespace xpu_ops::host {
namespace {

XPU_OPS_VECTOR void widen_bf16(const uint16_t* x, float* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = sycl::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
}
XPU_OPS_VECTOR void narrow_bf16(const float* from, uint16_t* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = xpu::bf16(from[i]).bits;
}

// Instructions for eight at a time, which round as kernels/host/half.hpp does.
[[gnu::target("avx2,f16c")]] void widen_f16(const xpu::half* x, float* to, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  for (; i < n; ++i) to[i] = x[i];
}
[[gnu::target("avx2,f16c")]] void narrow_f16(const float* from, xpu::half* to, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  for (; i < n; ++i) to[i] = xpu::half(from[i]);
}

template <class T>
XPU_OPS_VECTOR void repeat_as(const void* value, void* to, size_t n) {
  T v;
  std::memcpy(&v, value, sizeof v);
  T* x = static_cast<T*>(to);
  for (size_t i = 0; i < n; ++i) x[i] = v;
}

// The library's memmove by `rep movsb` takes ten times as long on some processors where the two lie a few
// bytes apart within their pages, as those of a roll do.
constexpr size_t kLibraryBytes = size_t{1} << 17;
[[gnu::target("avx2")]] void move_vectors(char* to, const char* from, size_t bytes) {
  size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    __m256i v[4];
    for (int k = 0; k < 4; ++k) v[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32 * k));
    for (int k = 0; k < 4; ++k) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i + 32 * k), v[k]);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

bool overlap(const char* a, const char* b, size_t bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + bytes && y < x + bytes;
}

template <class T> XPU_OPS_VECTOR void move_as(T* to, const T* from, Steps steps, size_t n) {
  // Steps that the compiler knows become vectors.
  if (steps.to == 1 && steps.from == -1)
    for (size_t i = 0; i < n; ++i) to[i] = from[-static_cast<ptrdiff_t>(i)];
  else if (steps.to == 1 && steps.from == 2)
    for (size_t i = 0; i < n; ++i) to[i] = from[2 * i];
  else if (steps.from == 0)
    for (const T v = *from; n > 0; --n, to += steps.to) *to = v;
  else
    for (size_t i = 0; i < n; ++i, to += steps.to, from += steps.from) *to = *from;
}

}  // namespace

void widen(DType type, const void* from, float* to, size_t n) {
  if (type == DType::f16)
    widen_f16(static_cast<const xpu::half*>(from), to, n);
  else
    widen_bf16(static_cast<const uint16_t*>(from), to, n);
}

void narrow(DType type, const float* from, void* to, size_t n) {
  if (type == DType::f16)
    narrow_f16(from, static_cast<xpu::half*>(to), n);
  else
    narrow_bf16(from, static_cast<uint16_t*>(to), n);
}

void repeat(size_t element, const void* value, void* to, size_t n) {
  static const char zero[16] = {};
  if (std::memcmp(value, zero, element) == 0) {
    std::memset(to, 0, n * element);
    return;
  }
  by_width(element, [&](auto type) { repeat_as<decltype(type)>(value, to, n); });
}

void move(size_t element, void* to, const void* from, Steps steps, size_t n) {
  if (steps.to == 1 && steps.from == 1) {
    auto* d = static_cast<char*>(to);
    const auto* s = static_cast<const char*>(from);
    const size_t bytes = n * element;
    if (bytes >= kLibraryBytes || overlap(d, s, bytes))
      std::memmove(d, s, bytes);
    else
      move_vectors(d, s, bytes);
    return;
  }
  if (steps.to == 1 && steps.from == 0) return repeat(element, from, to, n);
  by_width(element, [&](auto type) {
    using T = decltype(type);
    move_as(static_cast<T*>(to), static_cast<const T*>(from), steps, n);
  });
}

}  // namespace xpu_ops::host
