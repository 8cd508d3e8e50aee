// Executes the attempts of a plan on a queue: the only place where a product meets oneDNN and the own kernels.
#pragma once
#include "kernels/onednn/convolution.hpp"
#include "kernels/products/problem.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::products {

// no: nothing serves, the caller composes. without_tail: the caller applies the activation, or the rest of the chain.
enum class Served : uint8_t { no, whole, without_tail };

// Neither the result nor the inner dimension is empty.
Served run(runtime::Queue& queue, const MatmulProblem& problem);
bool run(runtime::Queue& queue, const FusedProblem& problem);

Served run(runtime::Queue& queue, const ConvProblem& problem);
// The same with folded weights, of channels-last images: Served::no where they are not, or nothing serves.
Served run(runtime::Queue& queue, const ConvProblem& problem, const Folded& folded);
// Copies of operands in other layouts, for the two gradients of one convolution to share.
using SharedCopies = onednn::LayoutCopies;
// The gradient of a convolution's source, into problem.src; of its weights, into problem.weights, and of the bias,
// which is the tail.
void run_backward_data(runtime::Queue& queue, const ConvProblem& problem, SharedCopies& copies);
Served run_backward_weights(runtime::Queue& queue, const ConvProblem& problem, SharedCopies& copies);
// The depthwise kernel. False where it does not take the operands as they lie.
bool run_depthwise(runtime::Queue& queue, const ConvProblem& problem);
// Whether primitives compute in this type, and not more slowly than in float32.
bool has_type(const runtime::Queue& queue, DType type);

// to = x @ y, or to += x @ y, of operands that primitives take as they lie, up to four dimensions each.
bool multiply(runtime::Queue& queue, const View& x, const View& y, const View& to, bool add = false);

}  // namespace xpu_ops::products
