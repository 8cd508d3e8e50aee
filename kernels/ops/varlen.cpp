#include "kernels/ops/varlen.hpp"

#include <algorithm>

#include "gen/kernels/varlen_kernels.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/products/varlen_args.hpp"

namespace xpu_ops::ops {
namespace {

constexpr size_t kJoinFilling = 2;  // work-groups per compute unit that are left where heads are joined

}  // namespace

bool plan_paged_serves(int64_t dim, DType type, const runtime::Policy& policy) {
  return policy.single_items && dim % 16 == 0 && dim > 0 && dim <= int64_t{kMostPagedDim} &&
         (type == DType::f32 || type == DType::f16 || type == DType::bf16);
}

uint32_t plan_paged_share(const PagedProblem& p, const runtime::Policy& policy) {
  for (uint32_t share : {4u, 2u})
    if (p.group % share == 0 && size_t{p.sequences} * (p.heads / share) >= kJoinFilling * policy.units) return share;
  return 1;
}

void paged_attention(runtime::Queue& queue, DType type, const PagedProblem& problem) {
  PagedArgs args{problem};
  args.share = plan_paged_share(problem, runtime::policy_of(queue));
  args.error = runtime::error_flag(queue.device);
  args.message = runtime::register_error_message(
      "varlen attention: cum_seq_q has to rise by 0 or 1, as max_q says, and seqused_k may not pass the pages");
  runtime::launch(queue, kernels::paged_attention[type], size_t{args.sequences} * (args.heads / args.share), 1, args);
  runtime::check_kernel_errors(queue);
}

size_t plan_place_items(const PlaceProblem& p, const runtime::Policy& policy) {
  if (policy.single_items) return 1;
  return tile_group(std::max(p.part[0].size[2], p.part[1].size[2]), policy);
}

void place_rows(runtime::Queue& queue, size_t element, const PlaceProblem& problem) {
  PlaceArgs args{problem};
  args.error = runtime::error_flag(queue.device);
  const size_t items = plan_place_items(problem, runtime::policy_of(queue));
  const auto& table = items == 1 ? kernels::place_spans : kernels::place_rows;
  runtime::launch2(queue, table[raw_dtype(element)], args.tokens, 2, 1, items, args);
  runtime::check_kernel_errors(queue);
}

}  // namespace xpu_ops::ops
