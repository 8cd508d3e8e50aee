// The epilogue of a product in the form in which one attempt takes it.
#pragma once
#include <list>
#include <optional>

#include "kernels/products/problem.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::products {

// Strides of dims of size 1 as a dense operand has them: primitives compare them.
void settle(View& v);

// The operand of a post-op for a result like `out`; without memory where that is a copy. `wide`: 16-bit operands become
// float32, as slopes of a prelu always do. An operand of the result's size has to lie as the result does. `matrices`:
// batched products take one that broadcasts over rows, but not over rows and batch.
View wanted_operand(const PostOp& op, const View& out, bool wide, bool matrices);

// A post-op as what the depthwise kernel knows.
DepthwiseActivation activation_of(const PostOp& op);
// The cheap ones as one expression.
std::optional<ConvGate> gate_of(const DepthwiseActivation& activation);

class PreparedEpilogue {
 public:
  PreparedEpilogue(const Epilogue& given, const View& out, bool wide, bool matrices);
  bool copies() const { return copies_; }
  void copy(runtime::Queue& queue);  // what copies() told of
  const PostOps& post() const { return own_ ? *own_ : given_.post; }
  const View* bias() const { return given_.bias ? &bias_ : nullptr; }

 private:
  void* memory(const View& v);

  const Epilogue& given_;
  View bias_;
  std::optional<PostOps> own_;  // where operands differ
  std::list<runtime::Scratch> memory_;
  bool copies_ = false;
};

}  // namespace xpu_ops::products
