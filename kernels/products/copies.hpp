// Operands in another type or layout: the shapes of their copies, and the copies.
#pragma once
#include "kernels/products/problem.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::products {

View view_of(const Operand& t);
void set_dense(View& v);                         // strides of a row-major one without gaps
bool same_layout(const View& a, const View& b);  // of equal sizes: strides are, up to dims of size 1

// A view of `type` without memory: with t's strides where t fills its memory, else in their order without gaps.
View like(const View& t, DType type);
Operand like(const Operand& t, DType type);
// The same, row-major.
Operand row_major(const Operand& t, DType type);

// dst = src, converted as Tensor.to does; sizes are equal.
void convert(runtime::Queue& queue, const View& dst, const View& src);
void convert(runtime::Queue& queue, const Operand& dst, const Operand& src);

}  // namespace xpu_ops::products
