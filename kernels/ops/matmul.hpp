// Matrix products and dot products with own kernels: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/matmul.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/products/matmul_args.hpp"

namespace xpu_ops::ops {

// How the operands of float types lie, for a CPU device: dots: rows of a and columns of b are contiguous; across: rows
// of b.
enum class MatmulForm { any, dots, across };
// pairs: dots with pairs of bf16. bytes: dots of bytes with a result in int32. rows8, rows1: rows of the result that an
// item computes.
struct MatmulPlan {
  enum class Kernel { dots, pairs, bytes, across, rows8, rows1 } kernel = Kernel::dots;
  uint32_t row_blocks = 0, blocks = 0, dot_columns = 0;
  size_t groups0 = 0, groups1 = 1, local = 1;
};
// Of the arguments m and n are read.
MatmulPlan plan_matmul(DType type, const MatmulArgs& args, uint32_t batch, MatmulForm form,
                       const runtime::Policy& policy);
// All of the arguments but the blocks and dot_columns are given.
void matmul(runtime::Queue& queue, DType type, MatmulArgs args, uint32_t batch, MatmulForm form);
// Whether a product of float types costs less here than as a oneDNN primitive. By shape alone, so that equal calls give
// equal results.
bool plan_small_matmul(int64_t results, int64_t inner, const runtime::Policy& policy);
// Whether a product of a type that oneDNN has not costs less in oneMKL, which reads and writes it as it lies or copies.
// By shape and strides alone, too.
bool plan_blas_product(DType type, int64_t results, int64_t inner, bool as_it_lies, const runtime::Policy& policy);
// Whether matmul_dot or matmul_across, which the host does not wait for, reads b as fast as oneDNN or faster. Where the
// processor has no instructions for 16 bits, oneDNN turns all of b into float32.
bool plan_few_rows(DType type, int64_t rows, int64_t columns, MatmulForm form, const runtime::Policy& policy);

// The same of bytes with a result in int32, where oneDNN refuses them.
bool plan_few_rows_of_bytes(int64_t rows, int64_t columns, const runtime::Policy& policy);

// Whether a product's operand of the result's size, `bytes`, is read by a pass behind oneDNN's primitive. In float32
// the primitive itself reads it slower where the result leaves the second cache.
bool plan_operand_behind(DType type, int64_t bytes, const runtime::Policy& policy);
// Whether relu is a pass behind a product of so many bytes: as plan_relu_behind() of convolutions, where the pass finds
// the result in the cache.
bool plan_relu_behind_product(int64_t bytes, const runtime::Policy& policy);

// Inner elements of which a float32 product of 8-bit integers is exact: every sum of theirs is a whole number up to
// 2^24. `unsigned_operands`: how many of both are of type u8.
int64_t plan_whole_inner(int unsigned_operands);
// out[i] (+)= parts[i], which are whole numbers.
void whole_sum(runtime::Queue& queue, const WholeArgs& args);

struct DotPlan { uint32_t chunk = 1, items = 0; };
DotPlan plan_dot(uint32_t n);
void dot(runtime::Queue& queue, DType type, const DotProblem& problem);

}  // namespace xpu_ops::ops
