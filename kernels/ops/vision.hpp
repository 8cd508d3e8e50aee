// torchvision's operators: plans (pure host code) and launches. The arguments of the kernels are the problems; fields
// that a plan makes are left as they are.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/vision_args.hpp"

namespace xpu_ops::plan::inline vision_family {

// The largest float that is not above the threshold: a float exceeds both or none.
float nms_threshold(double threshold);
// Boxes in the order of their scores; args.keep receives the numbers of those that stay. Waits for how many they are.
int64_t nms(runtime::Queue& queue, DType type, NmsArgs args, double threshold);

struct RoiPlan {
  bool channels_last;  // whether channels of the map should lie side by side
  size_t groups0, groups1, local;
};
// Pooling that reads all channels of a pixel. Channels last pays where more is read than the map holds.
RoiPlan plan_roi(const RoiArgs& args);
// The gradient of roi_align: bands of lines for every unit of the device.
RoiPlan plan_roi_align_grad(RoiArgs& args, const runtime::Policy& policy);

// `args.map` of stride 1 along channels, if the plan says so, is read vector by vector.
void roi_align(runtime::Queue& queue, DType type, const RoiArgs& args);
void roi_align_grad(runtime::Queue& queue, DType type, RoiArgs args);
void roi_pool(runtime::Queue& queue, DType type, const RoiArgs& args);
void roi_pool_grad(runtime::Queue& queue, DType type, const RoiArgs& args);

enum class PsPool { align, average };
void ps_roi(runtime::Queue& queue, PsPool kind, DType type, RoiArgs args);
void ps_roi_grad(runtime::Queue& queue, PsPool kind, DType type, const RoiArgs& args);

// Images whose columns are made at once, and positions of a work-group.
struct DeformPlan { uint32_t images = 1, segment = 1, segments = 1, block = 1; };
DeformPlan plan_deform(const DeformArgs& args, size_t element, const runtime::Policy& policy);
void deform_columns(runtime::Queue& queue, DType type, DeformArgs args);
void deform_input_grad(runtime::Queue& queue, DType type, DeformArgs args);
void deform_offset_grad(runtime::Queue& queue, DType type, DeformArgs args);

}  // namespace xpu_ops::plan::inline vision_family
