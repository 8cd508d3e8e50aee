// Convolutions with own kernels: plans (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/ops/problem/convolution.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// The three products of a convolution: one item per element written.
enum class ConvPass { forward, backward_data, backward_weights };
// Throws Error{runtime} for 2^32 elements written and more.
void direct_convolution(runtime::Queue& queue, ConvPass pass, DType type, const DirectProblem& problem,
                        int64_t written);

// Whether the depthwise kernels take a layer of groups of one channel: contiguous images of two dimensions.
bool plan_depthwise_serves(const DirectProblem& problem, const runtime::Policy& policy);
// Whether the gradients of a depthwise layer of 16-bit images are computed in float, where depthwise_* do not take
// them.
bool plan_depthwise_widens(const DirectProblem& problem, DType type, const runtime::Policy& policy);
// Whether relu is a pass behind a primitive: as its post-op that keeps NaN it takes an exponential for each element.
bool plan_relu_behind(const runtime::Policy& policy);
// Whether channels-last images are copied for depthwise_weights.
bool plan_depthwise_copies(const DirectProblem& problem, DType type, const runtime::Policy& policy);
// Rows of an image that a work-group computes, and work-groups of an image.
struct DepthwisePlan { uint32_t rows = 1, blocks = 1; };
DepthwisePlan plan_depthwise(const DirectProblem& problem);
// `activation`: the problem has one, as a gate or by name.
void depthwise_convolution(runtime::Queue& queue, DType type, bool activation, const DirectProblem& problem);
// Whether conv_depthwise_last takes a depthwise layer of channels-last images of two dimensions.
bool plan_depthwise_last_serves(const DirectProblem& problem, DType type, const runtime::Policy& policy);
DepthwisePlan plan_depthwise_last(const DirectProblem& problem, const runtime::Policy& policy);
// problem.weights: floats by tap and channel, then the bias. `bounded`: it has bounds of what is read.
void depthwise_last(runtime::Queue& queue, DType type, bool bounded, const DirectProblem& problem);
void depthwise_weights(runtime::Queue& queue, DType type, const DirectProblem& problem);

// Whether a gradient of weights is one product over columns: bfloat16 images of two dimensions, one group, not
// transposed. `last`: the images are channels-last.
bool plan_columns_serve(const DirectProblem& problem, bool last, const runtime::Policy& policy);
// The elements of src, channels-last, under each element of dst: [positions, taps * channels] in problem.dst.
void convolution_columns(runtime::Queue& queue, DType type, const DirectProblem& problem);

}  // namespace xpu_ops::ops
