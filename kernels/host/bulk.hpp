// Loops over elements that lie side by side, on the calling thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace xpu_ops::host {

constexpr bool is_short_float(DType t) { return t == DType::f16 || t == DType::bf16; }

struct Bytes16 { uint64_t half[2]; };

// f(a type of that many bytes)
template <class F>
[[gnu::always_inline]] inline void by_width(size_t element, F&& f) {
  switch (element) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(Bytes16{});
  }
}

// Between a 16-bit float and float, as the device converts.
void widen(DType type, const void* from, float* to, size_t n);
void narrow(DType type, const float* from, void* to, size_t n);

// The same `element` bytes n times.
void repeat(size_t element, const void* value, void* to, size_t n);

// n elements of so many bytes, whose neighbours are so many elements apart.
struct Steps { ptrdiff_t to, from; };
void move(size_t element, void* to, const void* from, Steps steps, size_t n);

}  // namespace xpu_ops::host
