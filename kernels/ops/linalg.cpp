#include "kernels/ops/linalg.hpp"

#include <algorithm>

#include "gen/kernels/linalg_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/products/linalg_args.hpp"

namespace xpu_ops::ops {
namespace {

constexpr size_t kMatrixGroup = 64;            // matrices of one work-group
constexpr int64_t kMostMatrixItems = 1 << 14;  // work-items with scratch memory of their own
constexpr int64_t kVectorBytes = 64;

const runtime::KernelTable& table_of(SmallRoutine routine, bool packs) {
  switch (routine) {
    case SmallRoutine::cholesky: return packs ? kernels::small_packs_cholesky : kernels::small_items_cholesky;
    case SmallRoutine::cholesky_solve:
      return packs ? kernels::small_packs_cholesky_solve : kernels::small_items_cholesky_solve;
    case SmallRoutine::lu: return packs ? kernels::small_packs_lu : kernels::small_items_lu;
    case SmallRoutine::solve: return packs ? kernels::small_packs_solve : kernels::small_items_solve;
    case SmallRoutine::triangular: return packs ? kernels::small_packs_triangular : kernels::small_items_triangular;
    case SmallRoutine::qr: return packs ? kernels::small_packs_qr : kernels::small_items_qr;
    case SmallRoutine::eigh: return packs ? kernels::small_packs_eigh : kernels::small_items_eigh;
    default: return packs ? kernels::small_packs_svd : kernels::small_items_svd;
  }
}

}  // namespace

void lu_permutation(runtime::Queue& queue, const PermutationProblem& problem) {
  runtime::launch(queue, kernels::lu_permutation, runtime::ceil_div(problem.batch, kMatrixGroup), kMatrixGroup,
                  problem);
}

bool small_serves(const runtime::Policy& policy, DType type, int64_t count, int64_t side) {
  if (type != DType::f32 && type != DType::f64) return false;
  return side <= kSmallSide && count >= (policy.host_memory ? kSmallCount : 2);
}

SmallPlan plan_small(const runtime::Policy& policy, DType type, const SmallProblem& p) {
  const auto bytes = static_cast<int64_t>(dtype_size(type));
  SmallPlan plan{};
  plan.packs = policy.single_items;
  int64_t side = 1;
  for (const SmallMatrices* m : {&p.a, &p.b, &p.x, &p.y, &p.z}) side = std::max<int64_t>({side, m->rows, m->columns});
  // No routine has more than three tiles and a vector.
  plan.elements = static_cast<int32_t>(3 * (side | 1) * side + side);
  const int64_t lanes = plan.packs ? kVectorBytes / bytes : 1;
  const int64_t most = plan.packs ? kGroupsPerUnit * policy.units : kMostMatrixItems;
  plan.workers = static_cast<uint32_t>(std::min<int64_t>(runtime::ceil_div(p.count, lanes), most));
  plan.scratch_bytes = plan.elements * lanes * bytes * plan.workers;
  return plan;
}

void run_small(runtime::Queue& queue, SmallRoutine routine, DType type, const SmallProblem& problem) {
  const SmallPlan plan = plan_small(runtime::policy_of(queue), type, problem);
  const runtime::Scratch scratch(static_cast<size_t>(plan.scratch_bytes));
  const SmallArgs args{problem, scratch.get(), plan.elements, plan.workers};
  const size_t local = plan.packs ? 1 : kMatrixGroup;
  runtime::launch(queue, table_of(routine, plan.packs)[type], runtime::ceil_div(plan.workers, local), local, args);
}

}  // namespace xpu_ops::ops
