#include "bindings/distributed/encoding.hpp"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace xpu_ops::distributed {
namespace {

using c10d::ReduceOp;
using How = Encoding::How;

// ProcessGroupGloo has these in every collective.
bool plain(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return true;
    default: return false;
  }
}

bool bitwise(ReduceOp::RedOpType op) { return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR; }

// As ProcessGroupNCCL: a sum of truth values is "any", their product "all".
ReduceOp of_truth_values(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM: return ReduceOp::MAX;
    case ReduceOp::PRODUCT: return ReduceOp::MIN;
    default: return op;
  }
}

double factor_of(const ReduceOp& op) {
  const auto* supplement = static_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(supplement, "ReduceOp.PREMUL_SUM needs a factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>() : supplement->double_factor;
}

}  // namespace

Encoding encode_moves(at::ScalarType type) {
  if (plain(type)) return {How::same, type};
  return {How::bytes, at::kByte};
}

Reduction encode_reduction(at::ScalarType type, const ReduceOp& op) {
  const ReduceOp::RedOpType kind = op;
  if (kind == ReduceOp::PREMUL_SUM) {
    TORCH_CHECK_TYPE(at::isFloatingType(type), "Cannot use ReduceOp.PREMUL_SUM with the dtype ", type,
                     ", which is not a floating one");
    Reduction sum = encode_reduction(type, ReduceOp::SUM);
    sum.encoding.factor = factor_of(op);
    return sum;
  }
  TORCH_CHECK_VALUE(kind < ReduceOp::PREMUL_SUM, "Unhandled ReduceOp");
  const bool average = kind == ReduceOp::AVG;
  TORCH_CHECK_TYPE(!bitwise(kind) || at::isIntegralType(type, /*includeBool=*/true),
                   "Cannot use a bitwise ReduceOp with the dtype ", type, ", which is not integral");
  const auto integers = [&](How how, at::ScalarType wide) {
    return Reduction{{how, wide, average}, average ? ReduceOp(ReduceOp::SUM) : op};
  };
  switch (type) {
    case at::kBool:
      TORCH_CHECK_TYPE(!average, "Cannot use ReduceOp.AVG with Boolean inputs");
      return {{How::view, at::kByte}, of_truth_values(kind)};
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return integers(How::same, type);
    case at::kShort:
    case at::kUInt16: return integers(How::widen, at::kInt);
    case at::kUInt32: return integers(How::widen, at::kLong);
    case at::kUInt64:
      TORCH_CHECK_TYPE(!average, "Cannot use ReduceOp.AVG with the dtype UInt64");
      if (kind == ReduceOp::MIN || kind == ReduceOp::MAX) return {{How::flipped, at::kLong}, op};
      return {{How::view, at::kLong}, op};
    case at::kComplexFloat:
    case at::kComplexDouble: return {{How::same, type}, op};
    case at::kComplexHalf: return {{How::widen, at::kComplexFloat}, op};
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2:
    case at::kFloat8_e5m2fnuz:
    case at::kFloat8_e8m0fnu: return {{How::widen, at::kFloat}, op};
    default: return {{How::same, type}, op};
  }
}

}  // namespace xpu_ops::distributed
