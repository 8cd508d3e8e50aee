// torchvision's operators: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/vision.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// The largest float that is not above the threshold: a float exceeds both or none.
float nms_threshold(double threshold);
// Boxes in the order of their scores; problem.keep receives the numbers of those that stay. Waits for how many they
// are.
int64_t nms(runtime::Queue& queue, DType type, const NmsProblem& problem, double threshold);

struct RoiPlan {
  bool channels_last;  // whether channels of the map should lie side by side
  size_t groups0, groups1, local;
  uint32_t bands = 0, lines = 0;  // roi_align_grad: of an image, and of a band
};
// Pooling that reads all channels of a pixel. Channels last pays where more is read than the map holds.
RoiPlan plan_roi(const RoiProblem& problem);
// The gradient of roi_align: bands of lines for every unit of the device.
RoiPlan plan_roi_align_grad(const RoiProblem& problem, const runtime::Policy& policy);

// `problem.map` of stride 1 along channels, if the plan says so, is read vector by vector.
void roi_align(runtime::Queue& queue, DType type, const RoiProblem& problem);
void roi_align_grad(runtime::Queue& queue, DType type, const RoiProblem& problem);
void roi_pool(runtime::Queue& queue, DType type, const RoiProblem& problem);
void roi_pool_grad(runtime::Queue& queue, DType type, const RoiProblem& problem);

enum class PsPool { align, average };
void ps_roi(runtime::Queue& queue, PsPool kind, DType type, const RoiProblem& problem);
void ps_roi_grad(runtime::Queue& queue, PsPool kind, DType type, const RoiProblem& problem);

// Images whose columns are made at once, and positions of a work-group.
struct DeformPlan { uint32_t images = 1, segment = 1, segments = 1, block = 1; };
DeformPlan plan_deform(const DeformProblem& problem, size_t element, const runtime::Policy& policy);
void deform_columns(runtime::Queue& queue, DType type, const DeformProblem& problem);
void deform_input_grad(runtime::Queue& queue, DType type, const DeformProblem& problem);
void deform_offset_grad(runtime::Queue& queue, DType type, const DeformProblem& problem);

}  // namespace xpu_ops::ops
