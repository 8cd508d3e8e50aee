// Small dense pointwise work on the calling thread without a TensorIterator, which takes longer than such work does.
#pragma once
#include <initializer_list>

#include "bindings/aten/core/pointwise.hpp"

namespace xpu_ops::aten {

// Takes a call where nothing is left to decide: contiguous operands of one shape and type, beside at most one number
// that leaves the type as it is, and a queue with nothing to do. Everything else, errors too, is the iterator's. Where
// another thread puts work on the queue while the result is allocated, run() launches the kernel.
class SmallDense {
 public:
  // `out`: where the result goes, nullptr for a new tensor. An input that is nullptr stands for `number`.
  SmallDense(const PointwiseOp& op, const at::Tensor* out, std::initializer_list<const at::Tensor*> inputs,
             const at::Scalar* number = nullptr);
  explicit operator bool() const { return taken_; }
  // Whether a number leaves the operands' type as it is. No meta refuses one that does.
  bool takes(const at::Scalar& s) const { return takes(s.type()); }
  bool takes(const std::optional<at::Scalar>& s) const { return !s.has_value() || takes(*s); }
  // Returns `out`, or the new tensor.
  at::Tensor run(std::initializer_list<ScalarArg> scalars) const;
  void run(const at::Tensor& out, std::initializer_list<ScalarArg> scalars) const;

 private:
  at::ScalarType operand_type(int k) const;
  bool takes(at::ScalarType number) const;

  const PointwiseOp& op_;
  const at::Tensor* inputs_[kPointwiseOperands];
  const at::Scalar* scalar_;  // the number, if it is no tensor
  const at::Tensor* shape_ = nullptr;
  at::ScalarType common_ = at::ScalarType::Undefined;
  int number_ = -1;  // the input that is a number
  bool taken_ = false;
};

}  // namespace xpu_ops::aten
