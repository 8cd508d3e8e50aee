#include "kernels/ops/convolution.hpp"

#include <algorithm>

#include "gen/kernels/convolution_kernels.hpp"
#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/products/convolution_args.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr size_t kDirectItems = 256;
constexpr int64_t kDepthwiseShare = 4096;  // elements of a work-group
constexpr int64_t kDepthwiseParts = 4;     // for each unit, at least where there are rows enough
constexpr size_t kDepthwiseGroups = 8;     // for each unit
// Gradients of weights over columns pay for many weights, in little memory.
constexpr int64_t kManyWeights = int64_t{1} << 20, kMostColumns = int64_t{1} << 24, kMostTaps = 9;

const runtime::KernelTable& table_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward: return kernels::conv_forward;
    case ConvPass::backward_data: return kernels::conv_backward_data;
    default: return kernels::conv_backward_weights;
  }
}

const runtime::KernelTable& by_taps(int32_t k, const runtime::KernelTable& k3, const runtime::KernelTable& k5,
                                    const runtime::KernelTable& k7) {
  return k == 3 ? k3 : k == 5 ? k5 : k7;
}

}  // namespace

void direct_convolution(runtime::Queue& queue, ConvPass pass, DType type, const DirectProblem& problem,
                        int64_t written) {
  if (written >= (int64_t{1} << 32))
    throw Error(ErrorKind::runtime, "convolution: results of 2^32 or more elements are not supported");
  ConvArgs args{problem};
  args.items = static_cast<uint32_t>(written);
  runtime::launch(queue, table_of(pass)[type], ceil_div(args.items, kDirectItems), kDirectItems, args);
}

// oneDNN wants images channels-last; for a depthwise convolution the copies there and back cost more than all of it.
bool plan_depthwise_serves(const DirectProblem& a, const runtime::Policy& policy) {
  const int32_t k = a.kernel[2];
  return policy.single_items && a.groups == a.ci && a.groups == a.co && a.kernel[1] == k &&
         (k == 3 || k == 5 || k == 7) && a.stride[2] == 1 && a.dilation[1] == 1 && a.dilation[2] == 1;
}

// oneDNN's loops over strided images, and over all of float16, take 3 to 50 times as long as its float kernel and the
// copies.
bool plan_depthwise_widens(const DirectProblem& a, DType type, const runtime::Policy& policy) {
  const bool strided = a.stride[1] > 1 || a.stride[2] > 1;
  return policy.single_items && a.groups > 1 && a.groups == a.ci && a.groups == a.co &&
         (type == DType::f16 || (type == DType::bf16 && strided));
}

bool plan_relu_behind(const runtime::Policy& policy) { return policy.single_items; }

// oneDNN's channels-last kernels for more than 3x3 weights take 2 to 40 times as long as depthwise_weights and the
// copies.
bool plan_depthwise_copies(const DirectProblem& a, DType type, const runtime::Policy& policy) {
  return plan_depthwise_serves(a, policy) && (type == DType::f16 || a.kernel[2] > 3);
}

DepthwisePlan plan_depthwise(const DirectProblem& p) {
  DepthwisePlan plan;
  plan.rows = static_cast<uint32_t>(std::clamp<int64_t>(kDepthwiseShare / p.out[2], 1, p.out[1]));
  plan.blocks = static_cast<uint32_t>(ceil_div(p.out[1], plan.rows));
  return plan;
}

void depthwise_convolution(runtime::Queue& queue, DType type, bool activation, const DirectProblem& problem) {
  const DepthwisePlan plan = plan_depthwise(problem);
  ConvArgs args{problem};
  args.rows = plan.rows;
  args.blocks = plan.blocks;
  const int32_t k = args.kernel[2];
  const runtime::KernelTable& table =
      activation
          ? by_taps(k, kernels::conv_depthwise_act_k3, kernels::conv_depthwise_act_k5, kernels::conv_depthwise_act_k7)
          : by_taps(k, kernels::conv_depthwise_k3, kernels::conv_depthwise_k5, kernels::conv_depthwise_k7);
  runtime::launch(queue, table[type], size_t{args.n} * args.ci * args.blocks, kLanes, args);
}

bool plan_depthwise_last_serves(const DirectProblem& a, DType type, const runtime::Policy& policy) {
  const int32_t k = a.kernel[2];
  return policy.single_items && (type == DType::f32 || type == DType::bf16) && a.groups == a.ci && a.groups == a.co &&
         a.ci >= kLanes && a.kernel[1] == k && (k == 3 || k == 5) && a.stride[1] == a.stride[2] &&
         (a.stride[2] == 1 || a.stride[2] == 2) && a.dilation[1] == 1 && a.dilation[2] == 1;
}

// Rows that follow each other read the same memory, but there are parts enough to share.
DepthwisePlan plan_depthwise_last(const DirectProblem& args, const runtime::Policy& policy) {
  const int64_t vectors = int64_t{args.n} * ceil_div(args.ci, kLanes);
  const int64_t parts = ceil_div(kDepthwiseParts * static_cast<int64_t>(policy.units), vectors);
  const int64_t most = std::max<int64_t>(kDepthwiseShare / (int64_t{args.out[2]} * kLanes), 1);
  DepthwisePlan plan;
  plan.rows = static_cast<uint32_t>(std::clamp<int64_t>(args.out[1] / parts, 1, most));
  plan.blocks = static_cast<uint32_t>(ceil_div(args.out[1], plan.rows));
  return plan;
}

void depthwise_last(runtime::Queue& queue, DType type, bool bounded, const DirectProblem& problem) {
  const runtime::Policy& policy = runtime::policy_of(queue);
  const DepthwisePlan plan = plan_depthwise_last(problem, policy);
  ConvArgs args{problem};
  args.rows = plan.rows;
  args.blocks = plan.blocks;
  args.items = static_cast<uint32_t>(args.n * plan.blocks * ceil_div(args.ci, kLanes));
  const auto of = [&](const runtime::KernelTable& k3s1, const runtime::KernelTable& k3s2,
                      const runtime::KernelTable& k5s1, const runtime::KernelTable& k5s2) -> const auto& {
    const bool one = args.stride[2] == 1;
    return args.kernel[2] == 3 ? one ? k3s1 : k3s2 : one ? k5s1 : k5s2;
  };
  const runtime::KernelTable& table =
      bounded ? of(kernels::conv_depthwise_last_bounded_k3s1, kernels::conv_depthwise_last_bounded_k3s2,
                   kernels::conv_depthwise_last_bounded_k5s1, kernels::conv_depthwise_last_bounded_k5s2)
              : of(kernels::conv_depthwise_last_k3s1, kernels::conv_depthwise_last_k3s2,
                   kernels::conv_depthwise_last_k5s1, kernels::conv_depthwise_last_k5s2);
  runtime::launch(queue, table[type], std::min<size_t>(args.items, kDepthwiseGroups * policy.units), 1, args);
}

void depthwise_weights(runtime::Queue& queue, DType type, const DirectProblem& problem) {
  const ConvArgs args{problem};
  const runtime::KernelTable& table = by_taps(args.kernel[2], kernels::conv_depthwise_weights_k3,
                                              kernels::conv_depthwise_weights_k5, kernels::conv_depthwise_weights_k7);
  runtime::launch(queue, table[type], args.ci, kLanes, args);
}

// oneDNN transposes 16-bit operands of a weight gradient once for every block of weights where its threads cannot wait
// for each other (TBB's cannot). Where that is often, or the columns are few, one product over columns is faster.
bool plan_columns_serve(const DirectProblem& a, bool last, const runtime::Policy& policy) {
  if (!policy.single_items) return false;
  const int64_t window = int64_t{a.kernel[1]} * a.kernel[2], taps = window * a.ci;
  const bool few = a.stride[1] > 1 && a.stride[2] > 1 && last;
  if (window == 1 || window > kMostTaps || (taps * a.co < kManyWeights && !few)) return false;
  return int64_t{a.n} * a.out[1] * a.out[2] * taps <= kMostColumns;
}

void convolution_columns(runtime::Queue& queue, DType type, const DirectProblem& problem) {
  const ConvArgs args{problem};
  runtime::launch(queue, kernels::conv_columns[type], size_t{args.n} * static_cast<size_t>(args.out[1]), kLanes, args);
}

}  // namespace xpu_ops::ops
