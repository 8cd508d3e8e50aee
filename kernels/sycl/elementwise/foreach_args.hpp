// Launch structs of the multi-tensor kernels: one launch walks the tensors of a table in device memory. Not in the
// struct: the CPU device copies a struct for every item if it is indexed by what is known only at run time.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/ops/problem/foreach.hpp"

namespace xpu_ops {

// Writes a part of a table.
struct ForeachTableArgs {
  static constexpr uint32_t kWords = 224;  // a GPU takes about 2 KB of arguments
  uint64_t* dst;
  uint32_t words;
  uint64_t word[kWords];
};

// The tensors of a launch, in device memory.
template <class T>
struct ForeachTable {
  using Tensor = T;
  const Tensor* table;
  uint32_t count;
};

template <int OPERANDS>
struct ForeachArgs : ForeachTable<ForeachValueTensor<OPERANDS>>, ops::ForeachProblem {};

// Norms and maxima: partial results of every work-group, then one work-group per tensor.
struct ForeachReduceArgs : ForeachTable<ForeachTensor<2>> { void* partial; };

struct OptimizerArgs : ForeachTable<ForeachTensor<6>>, ops::OptimizerProblem {};

struct UnscaleArgs : ForeachTable<ForeachTensor<1>>, ops::UnscaleProblem {};

using UpdateScaleArgs = ops::UpdateScaleProblem;  // nothing is planned

}  // namespace xpu_ops
