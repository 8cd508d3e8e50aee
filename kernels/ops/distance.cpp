#include "kernels/ops/distance.hpp"

#include <bit>
#include <cmath>

#include "gen/kernels/distance_kernels.hpp"
#include "kernels/ops/items.hpp"
#include "kernels/sycl/products/distance_args.hpp"

namespace xpu_ops::ops {
namespace {

constexpr size_t kNarrow = 16;                   // items, where rows are of many lengths
constexpr int64_t kMostSums = int64_t{1} << 24;  // elements of a gradient's partial sums
constexpr int64_t kPartsPerUnit = 4;
constexpr int64_t kRowsPerPart = 16;

NormKind kind_of(const Real& norm) {
  const double p = std::bit_cast<double>(norm.f64_bits);
  if (p == 0.) return NormKind::zero;
  if (p == 1.) return NormKind::one;
  if (p == 2.) return NormKind::two;
  if (std::isinf(p)) return NormKind::infinity;
  return p < 2. ? NormKind::below_two : NormKind::above_two;
}

CdistArgs to_args(const CdistProblem& problem) { return {problem, kind_of(problem.p)}; }
PdistSumArgs to_args(const PdistSumProblem& problem) { return {problem, kind_of(problem.p)}; }

}  // namespace

void cdist(runtime::Queue& queue, DType type, const CdistProblem& problem) {
  launch_item_rows(queue, kernels::cdist[type], size_t{problem.batch} * problem.rows1, problem.rows2, to_args(problem));
}

void cdist_backward(runtime::Queue& queue, DType type, const CdistProblem& problem) {
  launch_item_rows(queue, kernels::cdist_backward[type], size_t{problem.batch} * problem.rows1, problem.features,
                   to_args(problem));
}

void pdist(runtime::Queue& queue, DType type, const CdistProblem& problem) {
  // Narrow groups: row i has rows1 - 1 - i items.
  const size_t rows = problem.rows1 - 1;
  runtime::launch2(queue, kernels::pdist[type], rows, runtime::ceil_div(rows, kNarrow * kPdistSums), 1, kNarrow,
                   to_args(problem));
}

int64_t plan_pdist_parts(int64_t rows, int64_t features, const runtime::Policy& policy) {
  const int64_t parts = kPartsPerUnit * int64_t{policy.units};
  const bool pays = policy.single_items && rows >= kRowsPerPart * parts && parts * rows * features <= kMostSums;
  return pays ? parts : 0;
}

void pdist_backward(runtime::Queue& queue, DType type, const CdistProblem& problem) {
  launch_item_rows(queue, kernels::pdist_backward[type], problem.rows1, problem.features, to_args(problem));
}

void pdist_backward_parts(runtime::Queue& queue, DType type, const PdistSumProblem& problem) {
  runtime::launch2(queue, kernels::pdist_backward_pairs[type], problem.parts,
                   runtime::ceil_div(problem.features, kNarrow), 1, kNarrow, to_args(problem));
}

void cross(runtime::Queue& queue, DType type, const CrossProblem& problem, const Dims3& dims) {
  CrossArgs args{problem};
  args.walk = make_walk<3>(dims);
  launch_item_rows(queue, kernels::cross[type], args.walk.rows, args.walk.inner, args);
}

}  // namespace xpu_ops::ops
