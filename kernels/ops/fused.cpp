#include "kernels/ops/fused.hpp"

#include <algorithm>

#include "gen/kernels/fused_kernels.hpp"
#include "kernels/ops/normalization.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/elementwise/fused_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kStreamColumns = 64;                      // stores past the caches write whole lines
constexpr size_t kRotaryItems = 1024, kRotaryPairs = 8192;  // of a work-group

}  // namespace

AddNormKernel plan_add_norm(int64_t rows, int64_t cols, size_t bytes, const runtime::Policy& policy) {
  if (!policy.single_items || cols % kStreamColumns != 0 || cols > kMostVectorColumns) return AddNormKernel::row;
  const bool past = 2 * static_cast<size_t>(rows) * cols * bytes >= policy.cache;
  return past ? AddNormKernel::vectors_past : AddNormKernel::vectors;
}

void add_norm(runtime::Queue& queue, DType type, DType parameter, const AddNormProblem& problem) {
  const runtime::Policy& policy = runtime::policy_of(queue);
  const bool rms = !problem.norm.mean;
  AddNormKernel kernel = plan_add_norm(problem.norm.rows, problem.norm.cols, dtype_size(type), policy);
  if (!kernels::add_norm_vectors_plain.has(type, parameter)) kernel = AddNormKernel::row;
  const runtime::KernelTable2* const tables[][2] = {
      {&kernels::add_norm_row_plain, &kernels::add_norm_row_rms},
      {&kernels::add_norm_vectors_plain, &kernels::add_norm_vectors_rms},
      {&kernels::add_norm_vectors_plain_past, &kernels::add_norm_vectors_rms_past},
  };
  const runtime::KernelTable2& table = *tables[static_cast<int>(kernel)][rms];
  const size_t local = kernel == AddNormKernel::row ? policy.lanes : 1;
  runtime::launch(queue, table(type, parameter), row_groups(problem.norm.rows, policy), local, problem);
}

RotaryPlan plan_rotary(int64_t rows, int64_t pairs, const runtime::Policy& policy) {
  RotaryPlan plan;
  plan.local = std::min({kRotaryItems, size_t{policy.elementwise_group}, ceil_div(pairs, 16) * 16});
  plan.rows_per_group = static_cast<uint32_t>(kRotaryPairs / plan.local);
  plan.groups0 = ceil_div(rows, plan.rows_per_group);
  plan.groups1 = ceil_div(pairs, plan.local);
  return plan;
}

void rotary(runtime::Queue& queue, DType type, DType table, const RotaryProblem& problem, bool interleaved) {
  const RotaryPlan plan = plan_rotary(problem.rows, problem.half, runtime::policy_of(queue));
  const RotaryArgs args{problem, plan.rows_per_group};
  const auto& kernel = interleaved ? kernels::rotary_rows_interleaved : kernels::rotary_rows_halves;
  runtime::launch2(queue, kernel(type, table), plan.groups0, plan.groups1, 1, plan.local, args);
}

}  // namespace xpu_ops::ops
