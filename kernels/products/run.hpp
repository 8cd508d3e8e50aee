// Executes the attempts of a plan on a queue: the only place where a product meets oneDNN and the own kernels.
#pragma once
#include "kernels/products/problem.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::products {

// no: nothing serves, the caller composes. without_activation: the caller applies it to the result.
enum class Served : uint8_t { no, whole, without_activation };

// Neither the result nor the inner dimension is empty.
Served run(runtime::Queue& queue, const MatmulProblem& problem);
bool run(runtime::Queue& queue, const FusedProblem& problem);

// to = x @ y, or to += x @ y, of operands that primitives take as they lie, up to four dimensions each.
bool multiply(runtime::Queue& queue, const View& x, const View& y, const View& to, bool add = false);

}  // namespace xpu_ops::products
