// Plans of reductions over all but a few columns; other reductions are in plan_test.cpp.
#include "kernels/ops/reduction.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::plan;

// How a contiguous tensor is reduced over its last dimension but one.
ColMode mode_of(const std::vector<int64_t>& sizes, const Policy& policy) {
  ReductionShape s;
  s.ndim = static_cast<int>(sizes.size());
  int64_t in = 1, out = 1;
  for (int d = s.ndim - 1; d >= 0; --d) {
    s.size[d] = sizes[d], s.reduced[d] = d == s.ndim - 2, s.in[d] = in;
    s.out0[d] = s.out1[d] = s.reduced[d] ? 0 : out;
    in *= sizes[d];
    if (!s.reduced[d]) out *= sizes[d];
  }
  ReductionPlan plan;
  CHECK(plan_reduction(s, false, policy, plan) == ReductionFit::ok);
  CHECK(plan.kernel == ReductionPlan::Kernel::col);
  if (plan.args.mode == ColMode::columns) {
    const auto wide = static_cast<int64_t>(plan.local * kColumns), blocks = int64_t{plan.args.blocks};
    CHECK(wide <= sizes.back() && blocks * wide >= sizes.back());
    CHECK(static_cast<int64_t>(plan.groups) == blocks * (out / sizes.back()) * plan.args.splits);
  }
  return plan.args.mode;
}

}  // namespace

void test_few_columns() {
  for (const int64_t columns : {8, 9, 12, 48, 63}) {
    at("few columns", columns);
    CHECK(mode_of({64, 100, columns}, Policy{}) == ColMode::columns);
    CHECK(mode_of({4, 100000, columns}, Policy{}) == ColMode::columns);
    CHECK(mode_of({64, 100, columns}, gpu_policy(64)) == ColMode::gather);
    CHECK(mode_of({1000, columns}, Policy{}) == ColMode::flat);
  }
  CHECK(mode_of({64, 100, 7}, Policy{}) == ColMode::gather);
  CHECK(mode_of({64, 4, 8}, Policy{}) == ColMode::gather);
}

}  // namespace plan_test
