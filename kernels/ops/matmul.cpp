#include "kernels/ops/matmul.hpp"

#include <algorithm>

#include "gen/kernels/bytes16_kernels.hpp"
#include "gen/kernels/dot16_kernels.hpp"
#include "gen/kernels/matmul_kernels.hpp"
#include "kernels/ops/limits.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/memory/allocator.hpp"
#include "kernels/runtime/queue/launch.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"

namespace xpu_ops::ops {
namespace {

using runtime::ceil_div;

constexpr uint32_t kManyRows = 4;  // from which on an item computes eight
constexpr uint32_t kWideProduct = 64, kNarrowProduct = 16;
// The execution of a oneDNN primitive on the CPU device, or copies for oneMKL, cost more than all of a product of this
// size.
constexpr int64_t kSmallProduct = 64 * 64 * 64, kSmallComplexProduct = 32 * 32 * 32;
// Rows of a up to which reading b once for four of them bounds the product. oneDNN multiplies more rows of 16 bits
// faster where the processor has instructions for them.
constexpr int64_t kFewRows = 8, kFewRows16 = 4;
constexpr int64_t kFewRowsOfBytes = 16;      // more are worth the copies of float32 products
constexpr int64_t kOperandBehind = 4 << 20;  // bytes
constexpr int64_t kReluBehind = 64 << 10;    // bytes from which a pass costs less than the post-op
// Products of two signed bytes are at most 2^14, with an unsigned one below 2^15.
constexpr int64_t kWholeInner = 1 << 10;
// uint32 sums of positions stay in range up to 2^31 elements.
constexpr uint32_t kDotChunk = 2048, kMostDotChunks = 64, kDotItems = 16;
constexpr size_t kDotBytes = 16;  // of a partial sum

bool by_pairs(DType type, MatmulForm form, const runtime::Policy& policy) {
  return type == DType::bf16 && form == MatmulForm::dots && policy.dot16;
}

}  // namespace

MatmulPlan plan_matmul(DType type, const MatmulArgs& args, uint32_t batch, MatmulForm form,
                       const runtime::Policy& policy) {
  using Kernel = MatmulPlan::Kernel;
  MatmulPlan plan;
  const bool many = args.m >= kManyRows;
  plan.kernel = by_pairs(type, form, policy) ? Kernel::pairs
                : form == MatmulForm::dots   ? type == DType::i8 ? Kernel::bytes : Kernel::dots
                : form == MatmulForm::across ? Kernel::across
                : many                       ? Kernel::rows8
                                             : Kernel::rows1;
  const uint32_t rows = plan.kernel == Kernel::pairs ? kPairRows : form != MatmulForm::any ? kDotRows : many ? 8 : 1;
  plan.row_blocks = static_cast<uint32_t>(ceil_div(args.m, rows));
  plan.blocks = plan.row_blocks * batch;
  plan.local = form != MatmulForm::any ? 1 : args.n >= kWideProduct ? kWideProduct : kNarrowProduct;
  const size_t share = ceil_div(size_t{args.n} * plan.blocks, policy.units * kGroupsPerUnit * kLanes) * kLanes;
  plan.dot_columns = static_cast<uint32_t>(std::clamp<size_t>(share, kLanes, kMostDotColumns));
  const size_t columns = form == MatmulForm::dots     ? plan.dot_columns
                         : form == MatmulForm::across ? kAcrossColumns
                                                      : plan.local;
  plan.groups0 = ceil_div(args.n, columns);
  plan.groups1 = plan.blocks;
  return plan;
}

void matmul(runtime::Queue& queue, DType type, MatmulArgs args, uint32_t batch, MatmulForm form) {
  const MatmulPlan plan = plan_matmul(type, args, batch, form, runtime::policy_of(queue));
  args.row_blocks = plan.row_blocks;
  args.blocks = plan.blocks;
  args.dot_columns = plan.dot_columns;
  const size_t groups = plan.groups0 * plan.groups1;
  switch (plan.kernel) {
    case MatmulPlan::Kernel::dots: return runtime::launch(queue, kernels::matmul_dot[type], groups, 1, args);
    case MatmulPlan::Kernel::pairs: return runtime::launch(queue, kernels::matmul_pairs[type], groups, 1, args);
    case MatmulPlan::Kernel::bytes: return runtime::launch(queue, kernels::matmul_bytes[type], groups, 1, args);
    case MatmulPlan::Kernel::across: return runtime::launch(queue, kernels::matmul_across[type], groups, 1, args);
    case MatmulPlan::Kernel::rows8:
      return runtime::launch2(queue, kernels::matmul_rows8[type], plan.groups0, plan.groups1, 1, plan.local, args);
    case MatmulPlan::Kernel::rows1:
      return runtime::launch2(queue, kernels::matmul_rows1[type], plan.groups0, plan.groups1, 1, plan.local, args);
  }
}

bool plan_small_matmul(int64_t results, int64_t inner, const runtime::Policy& policy) {
  return policy.single_items && results * inner <= kSmallProduct;
}

bool plan_blas_product(DType type, int64_t results, int64_t inner, bool as_it_lies, const runtime::Policy& policy) {
  if (!policy.single_items) return false;
  const int64_t steps = results * inner;
  switch (type) {
    case DType::f64: return as_it_lies || steps > kSmallProduct;
    case DType::c64:
    // Of a single step oneMKL multiplies infinities otherwise than torch does.
    case DType::c128: return (as_it_lies && inner > 1) || steps > kSmallComplexProduct;
    default: return false;
  }
}

bool plan_few_rows(DType type, int64_t rows, int64_t columns, MatmulForm form, const runtime::Policy& policy) {
  if (!policy.single_items || form == MatmulForm::any) return false;
  // Two work-groups of dots for each unit, one of those across.
  const int64_t least = form == MatmulForm::dots ? 2 * kLanes : kAcrossColumns;
  if (columns < least * policy.units) return false;
  if (type == DType::f32) return rows <= kFewRows;
  if (type != DType::bf16 && type != DType::f16) return false;
  if (by_pairs(type, form, policy)) return rows <= kPairRows;
  return rows <= (policy.products16 ? kFewRows16 : kFewRows);
}

bool plan_few_rows_of_bytes(int64_t rows, int64_t columns, const runtime::Policy& policy) {
  return policy.single_items && rows <= kFewRowsOfBytes && columns >= 2 * kLanes * policy.units;
}

bool plan_operand_behind(DType type, int64_t bytes, const runtime::Policy& policy) {
  return policy.single_items && type == DType::f32 && bytes >= kOperandBehind;
}

bool plan_relu_behind_product(int64_t bytes, const runtime::Policy& policy) {
  return policy.single_items && bytes >= kReluBehind && static_cast<uint64_t>(bytes) <= policy.cache / 2;
}

int64_t plan_whole_inner(int unsigned_operands) { return kWholeInner >> unsigned_operands; }

void whole_sum(runtime::Queue& queue, const WholeArgs& args) {
  const size_t group = runtime::policy_of(queue).elementwise_group;
  runtime::launch(queue, kernels::whole_sum[DType::i32], ceil_div(args.n, group), group, args);
}

DotPlan plan_dot(uint32_t n) {
  DotPlan plan;
  plan.chunk = std::max<uint32_t>(kDotChunk, static_cast<uint32_t>(ceil_div(n, kMostDotChunks)));
  plan.items = kDotItems * static_cast<uint32_t>(ceil_div(n, plan.chunk));
  return plan;
}

void dot(runtime::Queue& queue, DType type, const DotProblem& problem) {
  const DotPlan plan = plan_dot(problem.n);
  const runtime::Scratch partial(plan.items * kDotBytes);
  const DotArgs args{problem, partial.get(), plan.items, plan.chunk};
  runtime::launch(queue, kernels::dot_partial[type], args.items / kDotItems, kDotItems, args);
  runtime::launch(queue, kernels::dot_final[type], 1, 1, args);
}

}  // namespace xpu_ops::ops
