// Loops over elements that lie side by side, on the calling thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace xpu_ops::host {

constexpr bool is_short_float(DType t) { return t == DType::f16 || t == DType::bf16; }

// Between a 16-bit float and float, as the device converts.
void widen(DType type, const void* from, float* to, size_t n);
void narrow(DType type, const float* from, void* to, size_t n);

// The same `element` bytes n times.
void repeat(size_t element, const void* value, void* to, size_t n);

// n elements of so many bytes, whose neighbours are so many elements apart.
struct Steps { ptrdiff_t to, from; };
void move(size_t element, void* to, const void* from, Steps steps, size_t n);

}  // namespace xpu_ops::host
