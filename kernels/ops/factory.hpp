// Sequences, triangles, complex numbers from parts: launches, which split what 32 bits do not number.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/factory_args.hpp"

namespace xpu_ops::plan::inline factory_family {

constexpr int64_t kFactoryLaunch = int64_t{1} << 30;  // elements of one launch

// n < 2^32 elements of arange, range, linspace or logspace; `args` has the ends.
void sequence(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, SequenceArgs args);

// Elements of a launch of whole matrices of `matrix` elements.
int64_t plan_triangle(int64_t matrix);
// tril or triu of n elements of so many bytes; `args` has the matrix and the diagonal.
void triangle(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t element, TriangleArgs args);
// One work-group per row of the matrix.
void triangle_indices(runtime::Queue& queue, bool upper, DType type, int64_t rows, const TriangleIndexArgs& args);

// complex or polar: n numbers of two parts of so many bytes each.
void complex_from(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t part, ComplexArgs args);

void repeat_indices(runtime::Queue& queue, DType type, RepeatArgs args);

}  // namespace xpu_ops::plan::inline factory_family
