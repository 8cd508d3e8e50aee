#include "kernels/ops/distance.hpp"

#include "gen/kernels/distance_kernels.hpp"
#include "kernels/ops/items.hpp"

namespace xpu_ops::plan::inline distance_family {
namespace {

constexpr size_t kNarrow = 16;                   // items, where rows are of many lengths
constexpr int64_t kMostSums = int64_t{1} << 24;  // elements of a gradient's partial sums
constexpr int64_t kPartsPerUnit = 4;
constexpr int64_t kRowsPerPart = 16;

}  // namespace

void cdist(runtime::Queue& queue, DType type, const CdistArgs& args) {
  launch_item_rows(queue, kernels::cdist[type], size_t{args.batch} * args.rows1, args.rows2, args);
}

void cdist_backward(runtime::Queue& queue, DType type, const CdistArgs& args) {
  launch_item_rows(queue, kernels::cdist_backward[type], size_t{args.batch} * args.rows1, args.features, args);
}

void pdist(runtime::Queue& queue, DType type, const CdistArgs& args) {
  // Narrow groups: row i has rows1 - 1 - i items.
  const size_t rows = args.rows1 - 1;
  runtime::launch2(queue, kernels::pdist[type], rows, runtime::ceil_div(rows, kNarrow * kPdistSums), 1, kNarrow, args);
}

int64_t plan_pdist_parts(int64_t rows, int64_t features, const runtime::Policy& policy) {
  const int64_t parts = kPartsPerUnit * int64_t{policy.units};
  const bool pays = policy.single_items && rows >= kRowsPerPart * parts && parts * rows * features <= kMostSums;
  return pays ? parts : 0;
}

void pdist_backward(runtime::Queue& queue, DType type, const CdistArgs& args) {
  launch_item_rows(queue, kernels::pdist_backward[type], args.rows1, args.features, args);
}

void pdist_backward_parts(runtime::Queue& queue, DType type, const PdistSumArgs& args) {
  runtime::launch2(queue, kernels::pdist_backward_pairs[type], args.parts, runtime::ceil_div(args.features, kNarrow), 1,
                   kNarrow, args);
}

void cross(runtime::Queue& queue, DType type, CrossArgs args, const Dims3& dims) {
  args.walk = make_walk<3>(dims);
  launch_item_rows(queue, kernels::cross[type], args.walk.rows, args.walk.inner, args);
}

}  // namespace xpu_ops::plan::inline distance_family
