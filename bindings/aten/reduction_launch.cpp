#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/ReduceOpsUtils.h>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/reduction.hpp"
#include "kernels/ops/reduction.hpp"
#include "kernels/runtime/allocator.hpp"
#include "kernels/runtime/launch.hpp"

#include <bit>

namespace xpu_ops::aten {

DimMask dim_mask(at::OptionalIntArrayRef dim, int64_t ndim) { return at::native::make_dim_mask(dim, ndim); }

std::vector<int64_t> reduced_sizes(const at::Tensor& self, DimMask mask, bool keepdim) {
  const auto shape = at::native::shape_from_dim_mask(self, mask, keepdim);
  return {shape.begin(), shape.end()};
}

namespace {

// Cost of a reduction on the calling thread, in units of Queue::may_run_inline: indices and 16-bit floats do not
// vectorise there, and every result has lanes to combine.
int64_t host_cost(int64_t elements, at::ScalarType type, int64_t results, const ReductionOptions& options) {
  constexpr int64_t kOrdered = 6, kShort = 4, kResult = 64;
  const int64_t element = (options.ordered ? kOrdered : 1) * (type == at::kHalf ? kShort : 1);
  return elements * element + results * kResult;
}

constexpr size_t kHostPartial = 1 << 14;  // room for the results of splits

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
bool run(const plan::ReductionShape& shape, const void* in, const at::Tensor& out0, const at::Tensor& out1,
         const ReductionSlots& kernels, const ReductionOptions& options, int64_t cost) {
  runtime::Queue& queue = runtime::current_queue();
  const uint32_t units = runtime::device_info(queue.device).policy.units;
  plan::ReductionPlan plan;
  if (plan::plan_reduction(shape, options.ordered, units, plan) == plan::ReductionFit::too_many_dims) return false;
  ReductionArgs& args = plan.args;
  args.in = in;
  if (out0.defined()) args.out0 = out0.mutable_data_ptr();
  if (out1.defined()) args.out1 = out1.mutable_data_ptr();
  args.f = static_cast<float>(options.parameter);
  args.f64 = std::bit_cast<int64_t>(options.parameter);
  if (options.bits) args.f64 = static_cast<int64_t>(options.bits);
  args.flags = options.flags;
  runtime::KernelSlot& first = plan.kernel == plan::ReductionPlan::Kernel::row ? kernels.row : kernels.col;
  if (first.host() && queue.may_run_inline(cost)) {
    // Small inputs have few splits; many outputs have one.
    alignas(16) char partial[kHostPartial];
    const size_t bytes = args.splits == 1 ? 0 : size_t{args.splits} * args.kept_count * kMaxAccBytes;
    if (bytes <= sizeof partial) {
      args.partial = bytes ? partial : nullptr;
      const runtime::HostKernel final = bytes ? kernels.final.host() : nullptr;
      const auto here = [&] {
        first.host()(&args, 0);
        if (final) final(&args, 0);
      };
      if (queue.run_inline(here)) return true;
    }
  }
  if (args.splits == 1) {
    runtime::launch(queue, first, plan.groups, plan.local, args);
    return true;
  }
  const runtime::Scratch partial(size_t{args.splits} * args.kept_count * kMaxAccBytes);
  args.partial = partial.get();
  runtime::launch(queue, first, plan.groups, plan.local, args);
  runtime::launch(queue, kernels.final, plan.final_groups, plan.final_local, args);
  return true;
}

}  // namespace

void reduce(const at::Tensor& in, DimMask mask, const at::Tensor& out0, const at::Tensor& out1, ReductionSlots kernels,
            const ReductionOptions& options) {
  const at::Tensor& some = out0.defined() ? out0 : out1;
  if (some.numel() == 0) return;
  plan::ReductionShape shape;
  shape.ndim = static_cast<int>(in.dim());
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
  plan::ReductionShape shape;
  shape.ndim = 1;
  shape.size[0] = count;
  shape.in[0] = stride;
  shape.out0[0] = shape.out1[0] = 0;
  shape.reduced[0] = true;
  const ReductionOptions options;
  (void)run(shape, in.const_data_ptr(), out, at::Tensor(), kernels, options,
            host_cost(count, in.scalar_type(), 1, options));
}

}  // namespace xpu_ops::aten
