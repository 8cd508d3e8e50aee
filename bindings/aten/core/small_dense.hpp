// Small dense pointwise work on the calling thread without a TensorIterator, which takes longer than such work does.
#pragma once
#include <initializer_list>

#include "bindings/aten/core/pointwise.hpp"

namespace xpu_ops::aten {

// Takes a call where nothing is left to decide: contiguous operands of one shape and floating type, beside at most one
// number, and a queue with nothing to do. Everything else, errors too, is the iterator's. Where another thread puts
// work on the queue while the result is allocated, run() launches the kernel.
class SmallDense {
 public:
  // `out`: where the result goes, nullptr for a new tensor.
  SmallDense(const PointwiseOp& op, const at::Tensor* out, std::initializer_list<const at::Tensor*> inputs);
  explicit operator bool() const { return taken_; }
  // Returns `out`, or the new tensor.
  at::Tensor run(std::initializer_list<ScalarArg> scalars) const;
  void run(const at::Tensor& out, std::initializer_list<ScalarArg> scalars) const;

 private:
  at::ScalarType operand_type(int k) const;

  const PointwiseOp& op_;
  const at::Tensor* inputs_[kPointwiseOperands];
  const at::Tensor* shape_ = nullptr;
  at::ScalarType common_ = at::ScalarType::Undefined;
  int number_ = -1;  // the input that is a number
  bool taken_ = false;
};

// A factor that no meta refuses beside floating operands.
inline bool real_number(const at::Scalar& s) { return s.isFloatingPoint() || s.isIntegral(false); }

}  // namespace xpu_ops::aten
