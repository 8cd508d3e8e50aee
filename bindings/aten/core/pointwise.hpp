// From a TensorIterator to one pointwise launch.
#pragma once
#include <initializer_list>

#include <ATen/TensorIterator.h>
#include <c10/core/Scalar.h>

#include "kernels/host/table.hpp"
#include "kernels/ops/problem/pointwise.hpp"
#include "kernels/runtime/module/module.hpp"

namespace xpu_ops::aten {

// Element type of one operand relative to the op's common type.
constexpr int8_t kCommon = -1;   // the common type
constexpr int8_t kReal = -2;     // the real type of a complex common type
constexpr int8_t kComplex = -3;  // the complex type of a real common type

// The generated table of each expression of a pointwise row.
struct PointwiseOp {
  const char* name;
  int8_t outputs, inputs;
  int8_t types[kPointwiseOperands];  // kCommon, kReal or an element type; outputs first
  const runtime::KernelTable& rows;
  host::Table small;
  bool exact;  // a number as second operand is not rounded to the common type
};

struct ScalarArg {
  // highest, lowest: of the common type; lower, upper: a bound of clamp
  enum Kind : uint8_t { compute, int64, boolean, highest, lowest, lower, upper };
  at::Scalar value;
  Kind kind = compute;
};

// A scalar in the compute type of `common`, as kernels read it.
Value to_value(const at::Scalar& s, DType common, ScalarArg::Kind kind);

// The same of a number that is the input `k` of `op`, of the type `want`: a CPU tensor without dimensions, or what
// torch wraps in one.
Value number_value(const PointwiseOp& op, int k, const at::Tensor& t, DType want);
Value number_value(const PointwiseOp& op, int k, const at::Scalar& s, DType want);

// Cost of an element on the calling thread, in units of SmallWork::run.
inline int64_t cost_of(const host::Kernel& kernel, DType common) {
  return kernel.cost * (common == DType::f16 || common == DType::bf16 ? host::kConvertedShare : 1);
}

// Runs `op` over an iterator that a structured meta or make_iterator has built. Inputs of another dtype, or that step
// through the memory of a row, are copied first, outputs after. Throws NotImplementedError, worded as torch, for a
// dtype without kernels.
void pointwise(at::TensorIteratorBase& it, const PointwiseOp& op, std::initializer_list<ScalarArg> scalars = {});

// How an operator that upstream does not describe by a structured meta promotes its inputs.
enum class Promotion { unary, unary_float, unary_bool, binary, binary_float, comparison, nary, where, same };

// `outputs` may hold undefined tensors, which the iterator allocates in the types of `op`; it.output(i) has them
// afterwards. where: the inputs are a condition and two operands, as torch.where takes them.
at::TensorIterator make_iterator(Promotion promotion, const PointwiseOp& op, std::initializer_list<at::Tensor> outputs,
                                 std::initializer_list<at::Tensor> inputs);

// Gives `out` the broadcast shape of the operands, and where it has another one, the strides of an iterator's result.
void resize_as_iterator(const at::Tensor& out, std::initializer_list<at::Tensor> operands);

// A Scalar as an operand that promotes like a Python number.
at::Tensor number(const at::Scalar& value);

}  // namespace xpu_ops::aten
