// Sequences, triangles, complex numbers from parts: launches, which split what 32 bits do not number.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/factory.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/module/module.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

constexpr int64_t kFactoryLaunch = int64_t{1} << 30;  // elements of one launch

// n < 2^32 elements of arange, range, linspace or logspace.
void sequence(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, const SequenceProblem& problem);

// Elements of a launch of whole matrices of `matrix` elements.
int64_t plan_triangle(int64_t matrix);
// tril or triu of n elements of so many bytes.
void triangle(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t element,
              const TriangleProblem& problem);
// One work-group per row of the matrix.
void triangle_indices(runtime::Queue& queue, bool upper, DType type, int64_t rows, const TriangleIndexProblem& problem);

// complex or polar: n numbers of two parts of so many bytes each.
void complex_from(runtime::Queue& queue, runtime::KernelSlot& kernel, int64_t n, size_t part,
                  const ComplexProblem& problem);

void repeat_indices(runtime::Queue& queue, DType type, const RepeatProblem& problem);

}  // namespace xpu_ops::ops
