// torchvision's operators: checks worded as there, tensors to problems, and the products of deformable convolution.
#include <ATen/OpMathType.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/memory/copy.hpp"
#include "kernels/ops/vision.hpp"
#include "kernels/runtime/device/device_error.hpp"

namespace xpu_ops::aten {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

uint32_t narrowed(int64_t n, const char* what) {
  TORCH_CHECK(n >= 0, what, ": a negative size");
  TORCH_CHECK_NOT_IMPLEMENTED(n < kMost, what, " of 2^31 and more elements of one dimension");
  return static_cast<uint32_t>(n);
}

struct RoiWindow {
  double scale;
  int64_t rows, columns, sampling = 0;
  bool aligned = false;
};

void check_same_type(const char* kernel, const at::Tensor& first, const char* name, const at::Tensor& rois) {
  at::checkAllSameType(kernel, {at::TensorArg{first, name, 1}, at::TensorArg{rois, "rois", 2}});
}

// `map`: what a kernel reads; sizes are those of the input.
ops::RoiProblem roi_problem(const char* what, const at::Tensor& map, const at::Tensor& rois, at::IntArrayRef input,
                            const RoiWindow& window) {
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, "rois must have shape as Tensor[K, 5]");
  ops::RoiProblem problem{};
  problem.map = map.const_data_ptr();
  problem.rois = rois.const_data_ptr();
  for (int d = 0; d < 4; ++d) problem.stride[d] = map.stride(d);
  problem.roi_count = narrowed(rois.size(0), what);
  problem.images = narrowed(input[0], what), problem.channels = narrowed(input[1], what);
  problem.height = narrowed(input[2], what), problem.width = narrowed(input[3], what);
  narrowed(input[2] * input[3], what);
  problem.pooled[0] = narrowed(window.rows, what), problem.pooled[1] = narrowed(window.columns, what);
  narrowed(rois.size(0) * window.rows, what);
  problem.sampling = static_cast<int32_t>(std::clamp<int64_t>(window.sampling, 0, kMost - 1));
  problem.scale = Real(window.scale);
  problem.aligned = window.aligned;
  return problem;
}

void check_map(const at::Tensor& input) {
  // Worded as input.size(3) of a tensor of fewer dims.
  for (int64_t d = 0; d < 4; ++d) (void)input.size(d);
  TORCH_CHECK(input.dim() == 4, "expected a 4-dimensional input, got ", input.dim(), " dimensions");
}

// Fills `out`, and `index` where there is one.
using Launch = void (*)(runtime::Queue&, DType, const ops::RoiProblem&);
void pool(const char* what, Launch launch, const at::Tensor& input_, const at::Tensor& rois_, const RoiWindow& window,
          const at::Tensor& out, const at::Tensor& index, bool by_channels) {
  const at::Tensor rois = plain(rois_);
  at::Tensor input = input_;
  ops::RoiProblem problem = roi_problem(what, input, rois, input.sizes(), window);
  if (by_channels && ops::plan_roi(problem).channels_last) {
    input = input.contiguous(at::MemoryFormat::ChannelsLast);
    problem.map = input.const_data_ptr();
    for (int d = 0; d < 4; ++d) problem.stride[d] = input.stride(d);
  }
  problem.out = out.mutable_data_ptr();
  if (index.defined()) problem.index = index.mutable_data_ptr<int32_t>();
  launch(runtime::current_queue(), dtype_of(input), problem);
  runtime::check_kernel_errors(runtime::current_queue());
}

at::Tensor pooled(const char* what, Launch launch, const at::Tensor& input, const at::Tensor& rois,
                  const RoiWindow& window, at::Tensor* index, bool position_sensitive) {
  const int64_t bins = window.rows * window.columns,
                channels = position_sensitive ? input.size(1) / bins : input.size(1);
  const std::vector<int64_t> sizes{rois.size(0), channels, window.rows, window.columns};
  const bool empty = rois.size(0) == 0 || channels == 0 || bins == 0 || input.size(2) == 0 || input.size(3) == 0;
  at::Tensor out = empty ? at::zeros(sizes, input.options()) : new_empty(sizes, input.scalar_type());
  if (index) *index = empty ? at::zeros(sizes, input.options().dtype(at::kInt)) : new_empty(sizes, at::kInt);
  if (!empty) pool(what, launch, input, rois, window, out, index ? *index : at::Tensor(), !position_sensitive);
  return out;
}

// Sums in the compute type, [images, channels, height, width] or with channels innermost, as the input's gradient.
at::Tensor pooled_grad(const char* what, Launch launch, const at::Tensor& grad_, const at::Tensor& rois_,
                       const at::Tensor& index, const RoiWindow& window, at::IntArrayRef input, bool channels_last,
                       bool strided) {
  if (grad_.numel() == 0 || c10::multiply_integers(input) == 0) return at::zeros(input, grad_.options());
  TORCH_CHECK(grad_.dim() == 4, "expected a 4-dimensional gradient, got ", grad_.dim(), " dimensions");
  const at::Tensor grad = strided ? grad_ : plain(grad_), rois = plain(rois_);
  ops::RoiProblem problem = roi_problem(what, grad, rois, input, window);
  std::vector<int64_t> sizes = input.vec();
  if (channels_last) std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
  const at::Tensor sums = at::zeros(sizes, grad.options().dtype(at::toOpMathType(grad.scalar_type())));
  problem.out = sums.mutable_data_ptr();
  if (index.defined()) problem.index = const_cast<int32_t*>(index.const_data_ptr<int32_t>());
  launch(runtime::current_queue(), dtype_of(grad), problem);
  runtime::check_kernel_errors(runtime::current_queue());
  if (!channels_last && sums.scalar_type() == grad.scalar_type()) return sums;
  const at::Tensor result = new_empty(input, grad.scalar_type());
  copy_device_to_device(result, channels_last ? sums.movedim(-1, 1) : sums, true);
  return result;
}

void check_ps(const char* kernel, const at::Tensor& input, const at::Tensor& rois, const RoiWindow& window) {
  TORCH_CHECK(rois.size(1) == 5, "Tensor rois should have shape as Tensor[K, 5]");
  check_same_type(kernel, input, "input", rois);
  check_map(input);
  TORCH_CHECK(window.rows > 0 && window.columns > 0 && input.size(1) % (window.rows * window.columns) == 0,
              "input channels must be a multiple of pooling height * pooling width");
}

// Checks of a pooled gradient's operands, so that kernels stay in their memory.
void check_grad(const at::Tensor& grad, const at::Tensor& rois, int64_t channels, const RoiWindow& window) {
  TORCH_CHECK(
      grad.numel() == 0 || grad.sizes() == at::IntArrayRef({rois.size(0), channels, window.rows, window.columns}),
      "expected a gradient of shape [", rois.size(0), ", ", channels, ", ", window.rows, ", ", window.columns,
      "], got ", grad.sizes());
}

int64_t ps_channels(int64_t channels, const RoiWindow& window) {
  TORCH_CHECK(window.rows > 0 && window.columns > 0 && channels % (window.rows * window.columns) == 0,
              "input channels must be a multiple of pooling height * pooling width");
  return channels / (window.rows * window.columns);
}

template <ops::PsPool kKind> void ps_forward(runtime::Queue& queue, DType type, const ops::RoiProblem& problem) {
  ops::ps_roi(queue, kKind, type, problem);
}
template <ops::PsPool kKind> void ps_backward(runtime::Queue& queue, DType type, const ops::RoiProblem& problem) {
  ops::ps_roi_grad(queue, kKind, type, problem);
}

}  // namespace

at::Tensor torchvision_nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold) {
  TORCH_CHECK(dets.dim() == 2, "boxes should be a 2d tensor, got ", dets.dim(), "D");
  TORCH_CHECK(dets.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", dets.size(1));
  TORCH_CHECK(scores.dim() == 1, "scores should be a 1d tensor, got ", scores.dim(), "D");
  TORCH_CHECK(dets.size(0) == scores.size(0), "boxes and scores should have same number of elements in ",
              "dimension 0, got ", dets.size(0), " and ", scores.size(0));
  TORCH_CHECK(dets.scalar_type() == scores.scalar_type(), "dets should have the same type as scores");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(dets.scalar_type()), "\"nms_kernel\" not implemented for '",
                              dets.scalar_type(), "'");
  at::Tensor keep = new_empty({dets.size(0)}, at::kLong);
  if (dets.numel() == 0) return keep;
  const at::Tensor order = std::get<1>(at::sort(scores, /*stable=*/true, 0, /*descending=*/true));
  const at::Tensor boxes = at::index_select(dets, 0, order);
  ops::NmsProblem problem{};
  problem.boxes = boxes.const_data_ptr();
  problem.order = order.const_data_ptr<int64_t>();
  problem.keep = keep.mutable_data_ptr<int64_t>();
  problem.n = narrowed(dets.size(0), "nms");
  return keep.narrow(0, 0, ops::nms(runtime::current_queue(), dtype_of(dets), problem, iou_threshold));
}

at::Tensor torchvision_roi_align(const at::Tensor& input, const at::Tensor& rois, double spatial_scale,
                                 int64_t pooled_height, int64_t pooled_width, int64_t sampling_ratio, bool aligned) {
  TORCH_CHECK(rois.size(1) == 5, "rois must have shape as Tensor[K, 5]");
  check_same_type("roi_align_forward_kernel", input, "input", rois);
  check_map(input);
  return pooled("roi_align", ops::roi_align, input, rois,
                {spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned}, nullptr, false);
}

at::Tensor torchvision__roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, double spatial_scale,
                                           int64_t pooled_height, int64_t pooled_width, int64_t batch_size,
                                           int64_t channels, int64_t height, int64_t width, int64_t sampling_ratio,
                                           bool aligned) {
  check_same_type("roi_align_backward_kernel", grad, "grad", rois);
  const RoiWindow window{spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned};
  check_grad(grad, rois, channels, window);
  return pooled_grad("roi_align", ops::roi_align_grad, grad, rois, {}, window, {batch_size, channels, height, width},
                     true, true);
}

std::tuple<at::Tensor, at::Tensor> torchvision_roi_pool(const at::Tensor& input, const at::Tensor& rois,
                                                        double spatial_scale, int64_t pooled_height,
                                                        int64_t pooled_width) {
  check_same_type("roi_pool_forward_kernel", input, "input", rois);
  check_map(input);
  at::Tensor argmax;
  at::Tensor out =
      pooled("roi_pool", ops::roi_pool, input, rois, {spatial_scale, pooled_height, pooled_width}, &argmax, false);
  return {out, argmax};
}

at::Tensor torchvision__roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor& argmax,
                                          double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                                          int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  TORCH_CHECK(rois.size(1) == 5, "Tensor rois should have shape as Tensor[K, 5]");
  check_same_type("roi_pool_backward_kernel", grad, "grad", rois);
  check_scalar_type(argmax, at::kInt);
  const RoiWindow window{spatial_scale, pooled_height, pooled_width};
  check_grad(grad, rois, channels, window);
  TORCH_CHECK(grad.numel() == 0 || argmax.sizes() == grad.sizes(), "expected an argmax of shape ", grad.sizes(),
              ", got ", argmax.sizes());
  return pooled_grad("roi_pool", ops::roi_pool_grad, grad, rois, plain(argmax), window,
                     {batch_size, channels, height, width}, false, true);
}

std::tuple<at::Tensor, at::Tensor> torchvision_ps_roi_align(const at::Tensor& input, const at::Tensor& rois,
                                                            double spatial_scale, int64_t pooled_height,
                                                            int64_t pooled_width, int64_t sampling_ratio) {
  const RoiWindow window{spatial_scale, pooled_height, pooled_width, sampling_ratio};
  check_ps("ps_roi_align_forward_kernel", input, rois, window);
  at::Tensor mapping;
  at::Tensor out = pooled("ps_roi_align", ps_forward<ops::PsPool::align>, input, rois, window, &mapping, true);
  return {out, mapping};
}

// The mapping follows from the shapes: the kernels do not read it.
at::Tensor torchvision__ps_roi_align_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor&,
                                              double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                                              int64_t sampling_ratio, int64_t batch_size, int64_t channels,
                                              int64_t height, int64_t width) {
  check_same_type("ps_roi_align_backward_kernel", grad, "grad", rois);
  const RoiWindow window{spatial_scale, pooled_height, pooled_width, sampling_ratio};
  check_grad(grad, rois, ps_channels(channels, window), window);
  return pooled_grad("ps_roi_align", ps_backward<ops::PsPool::align>, grad, rois, {}, window,
                     {batch_size, channels, height, width}, false, false);
}

std::tuple<at::Tensor, at::Tensor> torchvision_ps_roi_pool(const at::Tensor& input, const at::Tensor& rois,
                                                           double spatial_scale, int64_t pooled_height,
                                                           int64_t pooled_width) {
  const RoiWindow window{spatial_scale, pooled_height, pooled_width};
  check_ps("ps_roi_pool_forward_kernel", input, rois, window);
  at::Tensor mapping;
  at::Tensor out = pooled("ps_roi_pool", ps_forward<ops::PsPool::average>, input, rois, window, &mapping, true);
  return {out, mapping};
}

at::Tensor torchvision__ps_roi_pool_backward(const at::Tensor& grad, const at::Tensor& rois, const at::Tensor&,
                                             double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                                             int64_t batch_size, int64_t channels, int64_t height, int64_t width) {
  check_same_type("ps_roi_pool_backward_kernel", grad, "grad", rois);
  const RoiWindow window{spatial_scale, pooled_height, pooled_width};
  check_grad(grad, rois, ps_channels(channels, window), window);
  return pooled_grad("ps_roi_pool", ps_backward<ops::PsPool::average>, grad, rois, {}, window,
                     {batch_size, channels, height, width}, false, false);
}

// ---- Deformable convolution

namespace {

// One call: operands as the kernels want them, checked.
struct Deform {
  at::Tensor input, weight, offset, mask;  // channels innermost: [images, y, x, channels], [groups, out, taps * in]
  ops::DeformProblem problem{};
  int64_t out_channels, positions, row;  // row: columns of one group
  DType type;
  uint32_t at_once;

  Deform(const at::Tensor& input_c, const at::Tensor& weight_c, const at::Tensor& offset_c, const at::Tensor& mask_c,
         at::IntArrayRef stride, at::IntArrayRef pad, at::IntArrayRef dilation, int64_t n_weight_grps,
         int64_t n_offset_grps, bool use_mask) {
    TORCH_CHECK(input_c.ndimension() == 4);
    TORCH_CHECK(offset_c.ndimension() == 4);
    TORCH_CHECK(!use_mask || mask_c.ndimension() == 4);
    TORCH_CHECK(weight_c.ndimension() == 4);
    const int64_t weight_h = weight_c.size(2), weight_w = weight_c.size(3);
    TORCH_CHECK(weight_h > 0 && weight_w > 0, "weight_h: ", weight_h, " weight_w: ", weight_w);
    TORCH_CHECK(stride[0] > 0 && stride[1] > 0, "stride_h: ", stride[0], " stride_w: ", stride[1]);
    TORCH_CHECK(pad[0] >= 0 && pad[1] >= 0, "pad_h: ", pad[0], " pad_w: ", pad[1]);
    TORCH_CHECK(dilation[0] > 0 && dilation[1] > 0, "dilation_h: ", dilation[0], " dilation_w: ", dilation[1]);
    const int64_t ker_h = dilation[0] * (weight_h - 1) + 1, ker_w = dilation[1] * (weight_w - 1) + 1;
    const int64_t out_h = (input_c.size(2) + 2 * pad[0] - ker_h) / stride[0] + 1,
                  out_w = (input_c.size(3) + 2 * pad[1] - ker_w) / stride[1] + 1;
    TORCH_CHECK(n_weight_grps > 0 && n_offset_grps > 0, "groups: ", n_weight_grps, " offset groups: ", n_offset_grps);
    TORCH_CHECK(weight_c.size(1) * n_weight_grps == input_c.size(1));
    TORCH_CHECK(weight_c.size(0) % n_weight_grps == 0);
    TORCH_CHECK((offset_c.size(1) == n_offset_grps * 2 * weight_h * weight_w),
                "offset.shape[1] is not valid: got: ", offset_c.size(1),
                " expected: ", n_offset_grps * 2 * weight_h * weight_w);
    TORCH_CHECK((!use_mask || mask_c.size(1) == n_offset_grps * weight_h * weight_w),
                "mask.shape[1] is not valid: got: ", mask_c.size(1),
                " expected: ", n_offset_grps * weight_h * weight_w);
    TORCH_CHECK(input_c.size(1) % n_offset_grps == 0);
    TORCH_CHECK((offset_c.size(0) == input_c.size(0)), "invalid batch size of offset");
    TORCH_CHECK((offset_c.size(2) == out_h && offset_c.size(3) == out_w), "offset output dims: (", offset_c.size(2),
                ", ", offset_c.size(3), ") - ", "computed output dims: (", out_h, ", ", out_w, ")");
    TORCH_CHECK((mask_c.size(0) == input_c.size(0)), "invalid batch size of mask");
    TORCH_CHECK((!use_mask || (mask_c.size(2) == out_h && mask_c.size(3) == out_w)), "mask output dims: (",
                mask_c.size(2), ", ", mask_c.size(3), ") - ", "computed output dims: (", out_h, ", ", out_w, ")");
    TORCH_CHECK(out_h > 0 && out_w > 0, "Calculated output size too small - out_h: ", out_h, " out_w: ", out_w);
    const at::ScalarType dtype = input_c.scalar_type();
    for (const at::Tensor& t : {weight_c, offset_c, mask_c}) check_scalar_type(t, dtype);
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(dtype), "\"deformable_im2col\" not implemented for '", dtype, "'");

    const char* what = "deform_conv2d";
    problem.images = narrowed(input_c.size(0), what), problem.channels = narrowed(input_c.size(1), what);
    problem.height = narrowed(input_c.size(2), what), problem.width = narrowed(input_c.size(3), what);
    problem.out_height = narrowed(out_h, what), problem.out_width = narrowed(out_w, what);
    problem.kernel_height = narrowed(weight_h, what), problem.kernel_width = narrowed(weight_w, what);
    for (int d = 0; d < 2; ++d) {
      problem.stride[d] = static_cast<int32_t>(narrowed(stride[d], what));
      problem.padding[d] = static_cast<int32_t>(narrowed(pad[d], what));
      problem.dilation[d] = static_cast<int32_t>(narrowed(dilation[d], what));
    }
    for (int64_t reach : {out_h * stride[0] + ker_h, out_w * stride[1] + ker_w, out_h * out_w}) narrowed(reach, what);
    problem.groups = narrowed(n_weight_grps, what), problem.offset_groups = narrowed(n_offset_grps, what);
    out_channels = weight_c.size(0), positions = out_h * out_w, row = weight_c.size(1) * weight_h * weight_w;
    type = to_dtype(dtype);
    input = plain(input_c.permute({0, 2, 3, 1}));
    weight = plain(weight_c.permute({0, 2, 3, 1})).view({n_weight_grps, out_channels / n_weight_grps, row});
    offset = plain(offset_c);
    if (use_mask) mask = plain(mask_c);
    at_once = problem.channels == 0
                  ? 1
                  : ops::plan_deform(problem, dtype_size(type), runtime::device_info(runtime::current_device()).policy)
                        .images;
  }

  bool empty() const { return problem.images == 0 || problem.channels == 0 || out_channels == 0; }

  at::Tensor new_columns() const {
    return new_empty({std::min<int64_t>(at_once, problem.images), positions, problem.groups, row}, input.scalar_type());
  }

  // The problem of some images.
  ops::DeformProblem part(int64_t first, int64_t count, const at::Tensor& columns) const {
    ops::DeformProblem p = problem;
    const auto at = [first](const at::Tensor& t) {
      return t.defined() ? static_cast<const char*>(t.const_data_ptr()) + first * t.stride(0) * t.element_size()
                         : nullptr;
    };
    p.images = static_cast<uint32_t>(count);
    p.input = at(input), p.offset = at(offset), p.mask = at(mask);
    p.columns = columns.mutable_data_ptr();
    return p;
  }

  // Calls f(first image, their number) until all are done.
  template <class F> void for_parts(F f) const {
    for (int64_t first = 0; first < problem.images; first += at_once)
      f(first, std::min<int64_t>(at_once, problem.images - first));
  }

  // [groups, channels, positions] of one image of a result or its gradient.
  at::Tensor by_group(const at::Tensor& out, int64_t image) const {
    return out.select(0, image).view({problem.groups, out_channels / problem.groups, positions});
  }
};

void* part_of(const at::Tensor& t, int64_t first) {
  return static_cast<char*>(t.mutable_data_ptr()) + first * t.stride(0) * t.element_size();
}

}  // namespace

at::Tensor torchvision_deform_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                                     const at::Tensor& mask, const at::Tensor& bias, int64_t stride_h, int64_t stride_w,
                                     int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                                     int64_t groups, int64_t offset_groups, bool use_mask) {
  const Deform call(input, weight, offset, mask, {stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups,
                    offset_groups, use_mask);
  const std::vector<int64_t> sizes{call.problem.images, call.out_channels, call.problem.out_height,
                                   call.problem.out_width};
  at::Tensor out = call.empty() ? at::zeros(sizes, input.options()) : new_empty(sizes, input.scalar_type());
  if (!call.empty()) {
    const at::Tensor columns = call.new_columns();
    call.for_parts([&](int64_t first, int64_t count) {
      ops::deform_columns(runtime::current_queue(), call.type, call.part(first, count, columns));
      for (int64_t i = 0; i < count; ++i) {
        at::Tensor to = call.by_group(out, first + i);
        at::bmm_out(to, call.weight, columns.select(0, i).permute({1, 2, 0}));
      }
    });
  }
  return out.add_(bias.view({1, call.out_channels, 1, 1}));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> torchvision__deform_conv2d_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
    const at::Tensor& mask, const at::Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
    int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Deform call(input, weight, offset, mask, {stride_h, stride_w}, {pad_h, pad_w}, {dilation_h, dilation_w}, groups,
                    offset_groups, use_mask);
  const ops::DeformProblem& a = call.problem;
  TORCH_CHECK(grad.sizes() == at::IntArrayRef({a.images, call.out_channels, a.out_height, a.out_width}),
              "expected a gradient of shape [", a.images, ", ", call.out_channels, ", ", a.out_height, ", ",
              a.out_width, "], got ", grad.sizes());
  check_scalar_type(grad, input.scalar_type());
  at::Tensor grad_bias = grad.sum({0, 2, 3}).mul(at::ones_like(bias));
  const auto contiguous = at::MemoryFormat::Contiguous;
  at::Tensor grad_offset = at::zeros_like(offset, at::TensorOptions(), contiguous),
             grad_mask = at::zeros_like(mask, at::TensorOptions(), contiguous);
  if (call.empty())
    return {at::zeros_like(input, at::TensorOptions(), contiguous),
            at::zeros_like(weight, at::TensorOptions(), contiguous), grad_offset, grad_mask, grad_bias};
  const auto compute = at::toOpMathType(input.scalar_type());
  const at::Tensor out_grad = plain(grad), columns = call.new_columns();
  const at::Tensor sums = at::zeros(call.input.sizes(), input.options().dtype(compute)),
                   weight_sums = at::zeros(call.weight.sizes(), weight.options().dtype(compute));
  call.for_parts([&](int64_t first, int64_t count) {
    runtime::Queue& queue = runtime::current_queue();
    ops::DeformProblem part = call.part(first, count, columns);
    part.grad_input = part_of(sums, first), part.grad_offset = part_of(grad_offset, first);
    if (use_mask) part.grad_mask = part_of(grad_mask, first);
    ops::deform_columns(queue, call.type, part);
    for (int64_t i = 0; i < count; ++i)
      weight_sums.add_(at::bmm(call.by_group(out_grad, first + i), columns.select(0, i).transpose(0, 1)));
    for (int64_t i = 0; i < count; ++i) {
      at::Tensor to = columns.select(0, i).transpose(0, 1);  // [groups, positions, row]
      at::bmm_out(to, call.by_group(out_grad, first + i).transpose(1, 2), call.weight);
    }
    ops::deform_offset_grad(queue, call.type, part);
    ops::deform_input_grad(queue, call.type, part);
  });
  const at::Tensor grad_input = new_empty(input.sizes(), input.scalar_type()),
                   grad_weight = new_empty(weight.sizes(), weight.scalar_type());
  copy_device_to_device(grad_input, sums.permute({0, 3, 1, 2}), true);
  copy_device_to_device(
      grad_weight,
      weight_sums.view({call.out_channels, a.kernel_height, a.kernel_width, weight.size(1)}).permute({0, 3, 1, 2}),
      true);
  return {grad_input, grad_weight, grad_offset, grad_mask, grad_bias};
}

}  // namespace xpu_ops::aten
