// From a tensor and a set of dimensions to the launches of one reduction.
#pragma once
#include <bitset>

#include <ATen/core/Tensor.h>

#include "kernels/ops/reduction.hpp"

namespace xpu_ops::aten {

using DimMask = std::bitset<64>;

using ops::ReductionSlots;

struct ReductionOptions {
  double parameter = 0;
  uint64_t bits = 0;  // instead of the parameter
  uint32_t flags = 0;
  bool ordered = false;  // the kernels look at indices
};

// The dimensions of `dim`, wrapped; all of them where it is absent or empty. Raises IndexError as torch.
DimMask dim_mask(at::OptionalIntArrayRef dim, int64_t ndim);
// Sizes of the result.
std::vector<int64_t> reduced_sizes(const at::Tensor& self, DimMask mask, bool keepdim);

// Reduces `in` over the dimensions of `mask` into outputs of the right shape and any strides, each of which may be
// undefined if the kernels allow it. The element types are those of the kernels.
void reduce(const at::Tensor& in, DimMask mask, const at::Tensor& out0, const at::Tensor& out1, ReductionSlots kernels,
            const ReductionOptions& options = {});
// Reduces `count` elements of `in`, `stride` apart, to one.
void reduce_line(const at::Tensor& in, int64_t count, int64_t stride, const at::Tensor& out, ReductionSlots kernels);
// Their sum; false where the kernels would need them in another type.
bool sum_line(const at::Tensor& in, int64_t count, int64_t stride, const at::Tensor& out);

}  // namespace xpu_ops::aten

// The kernels of `reduce_<name>` for one element type, or for an element type and a result type.
#define XPU_OPS_REDUCTION(NAME, T)                                                                \
  ::xpu_ops::ops::ReductionSlots {                                                                \
    ::xpu_ops::kernels::reduce_##NAME##_row[T], ::xpu_ops::kernels::reduce_##NAME##_col[T],       \
        ::xpu_ops::kernels::reduce_##NAME##_final[T], ::xpu_ops::kernels::reduce_##NAME##_team[T] \
  }
#define XPU_OPS_REDUCTION2(NAME, I, O)                                                                  \
  ::xpu_ops::ops::ReductionSlots {                                                                      \
    ::xpu_ops::kernels::reduce_##NAME##_row(I, O), ::xpu_ops::kernels::reduce_##NAME##_col(I, O),       \
        ::xpu_ops::kernels::reduce_##NAME##_final(I, O), ::xpu_ops::kernels::reduce_##NAME##_team(I, O) \
  }
