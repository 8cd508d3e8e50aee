#include "kernels/ops/sparse_product.hpp"

#include <algorithm>

#include "gen/kernels/sparse_kernels.hpp"
#include "kernels/ops/sparse.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/device/device_error.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/sparse/sparse_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr int64_t kRowFilling = 32, kMostGroupRows = 64;  // work-groups per compute unit, rows of one
constexpr uint32_t kSpmmLanes = 16, kSpmmBlock = 4;       // as in kernels/sycl/sparse/sparse.hpp
constexpr int64_t kDenseColumns = int64_t{1} << 24;       // of the dense row of an item
constexpr int64_t kFewColumns = 1 << 16;
constexpr uint32_t kFewFilling = 8;    // items per compute unit, where their dense rows are short
constexpr size_t kSumBytes = 16;       // of an accumulator
constexpr int64_t kSampledInner = 16;  // products of a dot that are worth vectors
constexpr size_t kPlaceItems = 64;

}  // namespace

uint32_t plan_group_rows(int64_t rows, const runtime::Policy& policy) {
  if (!policy.single_items) return 1;
  return static_cast<uint32_t>(std::clamp<int64_t>(rows / (kRowFilling * int64_t{policy.units}), 1, kMostGroupRows));
}

SpmmPlan plan_spmm(int64_t rows, int64_t columns, const runtime::Policy& policy) {
  SpmmPlan plan;
  plan.narrow = columns < kSpmmLanes;
  if (plan.narrow) {
    const Spread s = spread(static_cast<size_t>(rows), policy);
    plan.rows_per_group = s.chunk;
    plan.groups0 = s.groups;
    plan.local = s.local;
  } else {
    plan.rows_per_group = plan_group_rows(rows, policy);
    plan.groups0 = ceil_div(rows, plan.rows_per_group);
    plan.groups1 = ceil_div(columns, kSpmmLanes * kSpmmBlock);
    plan.local = kSpmmLanes;
  }
  return plan;
}

bool spmm_in_place(int64_t columns) { return columns < kSpmmLanes || columns % kSpmmLanes == 0; }

void check_spmm(DType type) { (void)kernels::spmm_rows[type]; }

void spmm(runtime::Queue& queue, DType type, const SpmmProblem& problem) {
  const SpmmPlan plan = plan_spmm(problem.rows, problem.columns, runtime::policy_of(queue));
  const SpmmArgs args{problem, plan.rows_per_group};
  if (plan.narrow)
    runtime::launch(queue, kernels::spmm_narrow[type], plan.groups0, plan.local, args);
  else
    runtime::launch2(queue, kernels::spmm_rows[type], plan.groups0, plan.groups1, 1, plan.local, args);
  runtime::check_kernel_errors(queue);
}

void spmm_reduce(runtime::Queue& queue, DType type, bool pick, const SpmmReduceProblem& problem) {
  const SpmmReduceArgs args{problem, plan_group_rows(problem.rows, runtime::policy_of(queue))};
  runtime::launch2(queue, (pick ? kernels::spmm_reduce_pick : kernels::spmm_reduce_sum)[type],
                   ceil_div(args.rows, args.rows_per_group), ceil_div(args.columns, kSpmmLanes), 1, kSpmmLanes, args);
}

bool plan_spgemm_serves(DType type, int64_t rows, int64_t inner, int64_t columns, const runtime::Policy& policy) {
  return policy.single_items && rows != 0 && rows < (int64_t{1} << 31) && inner < (int64_t{1} << 31) && columns != 0 &&
         columns <= kDenseColumns && kernels::spgemm_fill.has(type);
}

SpgemmPlan plan_spgemm(uint32_t rows, uint32_t columns, const runtime::Policy& policy) {
  SpgemmPlan plan;
  plan.few = columns <= kFewColumns;
  plan.chunk = static_cast<uint32_t>(ceil_div(rows, size_t{plan.few ? kFewFilling : 1} * policy.units));
  plan.items = static_cast<uint32_t>(ceil_div(rows, plan.chunk));
  return plan;
}

Spgemm::Spgemm(runtime::Queue& queue, const SpgemmProblem& problem)
    : queue_(queue),
      problem_(problem),
      plan_(plan_spgemm(problem.rows, problem.columns, runtime::policy_of(queue))),
      seen_(seen_bytes(plan_.items, problem.columns)),
      sums_(size_t{plan_.items} * problem.columns * kSumBytes) {}

SpgemmArgs Spgemm::args(int64_t* counts, const SpgemmResult& result) const {
  return {problem_,    result,      counts,   sums_.get(), seen_.get<uint64_t>(), runtime::error_flag(queue_.device),
          plan_.items, plan_.chunk, plan_.few};
}

void Spgemm::count(int64_t* counts) {
  runtime::launch(queue_, kernels::spgemm_count, plan_.items, 1, args(counts, {}));
}

void Spgemm::fill(DType type, int64_t* counts, const SpgemmResult& result) {
  runtime::launch(queue_, kernels::spgemm_fill[type], plan_.items, 1, args(counts, result));
  runtime::check_kernel_errors(queue_);
}

bool plan_sampled_rows_serve(DType type, int64_t inner, const runtime::Policy& policy) {
  return policy.single_items && type == DType::f32 && inner >= kSampledInner;
}

uint32_t plan_sampled_chunk(uint32_t nnz, const runtime::Policy& policy) {
  return static_cast<uint32_t>(ceil_div(spread(nnz, policy).chunk, kSpmmLanes) * kSpmmLanes);
}

void sampled_product(runtime::Queue& queue, DType type, bool rows, const SampledProblem& problem) {
  const SampledArgs args{problem, runtime::error_flag(queue.device),
                         plan_sampled_chunk(problem.nnz, runtime::policy_of(queue))};
  runtime::launch(queue, rows ? kernels::sampled_rows : kernels::sampled_dot[type], ceil_div(args.nnz, args.chunk),
                  rows ? 1 : kSpmmLanes, args);
  runtime::check_kernel_errors(queue);
}

void row_places(runtime::Queue& queue, int64_t rows, const RowPlaceProblem& problem) {
  runtime::launch(queue, kernels::row_places, static_cast<size_t>(rows), kPlaceItems, problem);
}

}  // namespace xpu_ops::ops
