// Which implementation serves a product: pure functions from a problem and a policy to a list of attempts, in the order
// in which they are tried. The first that the oracle grants serves.
#pragma once
#include <array>

#include "kernels/ops/convolution.hpp"
#include "kernels/ops/matmul.hpp"
#include "kernels/products/problem.hpp"
#include "kernels/runtime/device/policy.hpp"

namespace xpu_ops::products {

// direct: the own kernels that compute any convolution, an item per element. bytes: the own kernel for few rows. whole:
// 8-bit integers by float32 primitives, of as many inner elements at a time as are exact. blas: oneMKL. columns: a
// convolution as products by oneMKL.
enum class Engine : uint8_t { own, primitive, direct, bytes, whole, blas, columns };
// as_it_is; plain: an operand in a layout that primitives do not take is copied; dense: each that is not row-major is.
enum class Layout : uint8_t { as_it_is, plain, dense };
// How c is added: not, as an operand of the primitive, or from the result, into which it is copied.
enum class Adding : uint8_t { nothing, operand, result };

struct Attempt {
  Engine engine = Engine::own;
  Layout layout = Layout::as_it_is;
  Adding adding = Adding::nothing;
  bool wide = false;    // in float32, 8-bit integers in int32: operands and result are converted
  bool packed = false;  // b is a weight that is kept packed; a wide one is converted when it is packed

  bool operator==(const Attempt&) const = default;
};

// At most: packed and not, for c as an operand, as the result and with copies; the same in float32; the own kernel.
constexpr int kMostAttempts = 13;

struct Plan {
  Attempt attempts[kMostAttempts];
  int count = 0;
  bool turned = false;                          // the attempts compute out^T = b^T @ a^T
  bool aside = false;                           // and into a row-major result that is copied afterwards
  bool activation_behind = false;               // a pass of its own follows a primitive, as it follows each own kernel
  ops::MatmulForm form = ops::MatmulForm::any;  // of an own kernel

  const Attempt* begin() const { return attempts; }
  const Attempt* end() const { return attempts + count; }
};

// Neither the result nor the inner dimension is empty.
Plan plan_matmul(const MatmulProblem& problem, const runtime::Policy& policy);
Plan plan_fused(const FusedProblem& problem, const runtime::Policy& policy);
// Whether the depthwise kernel for channels-last images takes the layer and the activation behind it: where that, or
// the bounds of what it reads, would be a pass around oneDNN's, which is as fast or faster.
bool plan_folded_depthwise(const ConvProblem& p, bool bounded, const runtime::Policy& policy);
Plan plan_convolution(const ConvProblem& problem, ops::ConvPass pass, const runtime::Policy& policy);

// The first attempt that `oracle(attempt)` grants; null: none serves, the caller composes.
template <class Oracle>
const Attempt* choose(const Plan& plan, Oracle&& oracle) {
  for (const Attempt& attempt : plan)
    if (oracle(attempt)) return &attempt;
  return nullptr;
}

// The problem of out^T = b^T @ a^T.
MatmulProblem turned(const MatmulProblem& problem);
// The type that a wide attempt converts this one to.
DType wide_type(DType type);
// One of the last two strides is 1 and rows do not overlap, up to dims of size 1.
bool is_plain(const Operand& t);
bool is_dense(const Operand& t);  // row-major without gaps

// The convolution that src, weights and dst of a problem make, without their memory.
ops::DirectProblem direct_problem(const View& src, const View& weights, const View& dst, const ConvGeometry& g);
// Whether the layer has a group per channel and the depthwise kernels take its operands as they lie.
bool is_depthwise(const View& src, const View& weights, const View& dst, const ConvGeometry& g,
                  const runtime::Policy& policy);
// Whether the layer has a group per channel, in sizes that the depthwise kernels count.
bool may_be_depthwise(const View& src, const View& dst, const ConvGeometry& g);

}  // namespace xpu_ops::products
