// Convolutions as products of columns: the elements that each result reads, gathered by im2col.
#pragma once
#include "kernels/ops/convolution.hpp"
#include "kernels/products/problem.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::products {

// src, weights and dst of a convolution of one or two spatial dims that is not transposed; one of them is written.
// `bias`, if it is there, is added to the result, also to that of backward_data, a transposed convolution's forward.
void run_columns(runtime::Queue& queue, ops::ConvPass pass, const View& src, const View& weights, const View* bias,
                 const View& dst, const ConvGeometry& g);

}  // namespace xpu_ops::products
