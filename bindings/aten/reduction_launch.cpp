#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/ReduceOpsUtils.h>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/reduction.hpp"
#include "kernels/ops/reduction.hpp"

namespace xpu_ops::aten {

DimMask dim_mask(at::OptionalIntArrayRef dim, int64_t ndim) { return at::native::make_dim_mask(dim, ndim); }

std::vector<int64_t> reduced_sizes(const at::Tensor& self, DimMask mask, bool keepdim) {
  const auto shape = at::native::shape_from_dim_mask(self, mask, keepdim);
  return {shape.begin(), shape.end()};
}

namespace {

// Cost of a reduction on the calling thread, in units of SmallWork::run: indices and 16-bit floats do not
// vectorise there, and every result has lanes to combine.
int64_t host_cost(int64_t elements, at::ScalarType type, int64_t results, const ReductionOptions& options) {
  constexpr int64_t kOrdered = 6, kShort = 4, kResult = 64;
  const int64_t element = (options.ordered ? kOrdered : 1) * (type == at::kHalf ? kShort : 1);
  return elements * element + results * kResult;
}

// Strides of an output laid over the dimensions of the input.
void lay_output(const at::Tensor& out, const at::Tensor& in, DimMask mask, int64_t* strides) {
  const bool keepdim = out.defined() && out.dim() == in.dim();
  int64_t k = 0;
  for (int64_t d = 0; d < in.dim(); ++d) {
    strides[d] = out.defined() && !mask[d] ? out.stride(keepdim ? d : k) : 0;
    if (keepdim || !mask[d]) ++k;
  }
}

// Kept dimensions first, the reduced ones merged into one last dimension; outputs over fresh contiguous memory.
void reduce_contiguous(const at::Tensor& in, DimMask mask, const at::Tensor& out0, const at::Tensor& out1,
                       const ReductionSlots& kernels, const ReductionOptions& options) {
  std::vector<int64_t> order;
  int64_t outputs = 1, count = 1;
  for (int64_t d = 0; d < in.dim(); ++d)
    if (!mask[d]) order.push_back(d), outputs *= in.size(d);
  for (int64_t d = 0; d < in.dim(); ++d)
    if (mask[d]) order.push_back(d), count *= in.size(d);
  const at::Tensor flat = in.permute(order).contiguous().view({outputs, count});
  const at::Tensor outs[] = {out0, out1};
  at::Tensor temps[2];
  for (int i = 0; i < 2; ++i)
    if (outs[i].defined()) temps[i] = new_empty({outputs}, outs[i].scalar_type());
  reduce(flat, DimMask(2), temps[0], temps[1], kernels, options);
  for (int i = 0; i < 2; ++i)
    if (outs[i].defined()) outs[i].copy_(temps[i].view(outs[i].sizes()));
}

// Runs a reduction of this shape, of this cost on the calling thread. False if it has too many dimensions.
bool run(const ops::ReductionShape& shape, const void* in, const at::Tensor& out0, const at::Tensor& out1,
         const ReductionSlots& kernels, const ReductionOptions& options, int64_t cost) {
  return ops::reduce(runtime::current_queue(),
                     {.shape = shape,
                      .in = in,
                      .out0 = out0.defined() ? out0.mutable_data_ptr() : nullptr,
                      .out1 = out1.defined() ? out1.mutable_data_ptr() : nullptr,
                      .ordered = options.ordered,
                      .parameter = options.parameter,
                      .bits = options.bits,
                      .flags = options.flags,
                      .cost = cost},
                     kernels);
}

}  // namespace

void reduce(const at::Tensor& in, DimMask mask, const at::Tensor& out0, const at::Tensor& out1, ReductionSlots kernels,
            const ReductionOptions& options) {
  const at::Tensor& some = out0.defined() ? out0 : out1;
  if (some.numel() == 0) return;
  if (in.dim() > static_cast<int64_t>(DimMask().size())) {  // only over all of its dimensions; few are longer than one
    const auto one = [](const at::Tensor& out) { return out.defined() ? out.view(at::IntArrayRef{}) : out; };
    return reduce(in.squeeze(), DimMask().set(), one(out0), one(out1), kernels, options);
  }
  ops::ReductionShape shape;
  shape.ndim = static_cast<int>(in.dim());
  shape.element = static_cast<uint32_t>(in.element_size());
  for (int d = 0; d < shape.ndim; ++d) {
    shape.size[d] = in.size(d);
    shape.in[d] = in.stride(d);
    shape.reduced[d] = mask[d];
  }
  lay_output(out0, in, mask, shape.out0);
  lay_output(out1, in, mask, shape.out1);
  if (!run(shape, in.const_data_ptr(), out0, out1, kernels, options,
           host_cost(in.numel(), in.scalar_type(), some.numel(), options)))
    reduce_contiguous(in, mask, out0, out1, kernels, options);
}

void reduce_line(const at::Tensor& in, int64_t count, int64_t stride, const at::Tensor& out, ReductionSlots kernels) {
  ops::ReductionShape shape;
  shape.ndim = 1;
  shape.element = static_cast<uint32_t>(in.element_size());
  shape.size[0] = count;
  shape.in[0] = stride;
  shape.out0[0] = shape.out1[0] = 0;
  shape.reduced[0] = true;
  const ReductionOptions options;
  (void)run(shape, in.const_data_ptr(), out, at::Tensor(), kernels, options,
            host_cost(count, in.scalar_type(), 1, options));
}

}  // namespace xpu_ops::aten
