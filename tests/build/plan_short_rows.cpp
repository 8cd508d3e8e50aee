// Plans of rows that are short: reductions before few columns, moves by an index, copies. Others of these families are
// in plan_test.cpp.
#include "kernels/ops/copy.hpp"
#include "kernels/ops/indexing.hpp"
#include "kernels/ops/reduction.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

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

// An index is expanded over the first dimension, or has an element of its own everywhere.
void test_short_indexed_rows() {
  for (const int64_t columns : {2, 4, 16, 200, 5000})
    for (const bool expanded : {true, false})
      for (const Policy& policy : policies()) {
        at("short indexed rows", columns, expanded, policy.single_items);
        const IndexSource source{nullptr, nullptr, 300, 1, DeviceErrorCode::none, 0, 0, 0};
        const IndexedPlan plan = plan_indexed({false,
                                               nullptr,
                                               nullptr,
                                               4,
                                               source,
                                               {{40, {7 * columns, 2100, expanded ? 0 : 7 * columns}},
                                                {7, {columns, 300, columns}},
                                                {columns, {1, 0, 1}}}},
                                              policy);
        const bool rows = policy.single_items ? columns >= 4 : columns >= 256;
        CHECK((plan.args.mode == IndexMode::unit) == rows);
        if (rows) CHECK(plan.args.walk.inner == columns && plan.args.walk.rows == 280);
      }
}

// One index for each row: an item of a CPU copies whole rows up to 512 bytes, whatever else they could be joined to.
void test_short_rows_of_a_table() {
  for (const int64_t columns : {2, 12, 31, 128, 129})
    for (const Policy& policy : policies()) {
      at("rows of a table", columns, policy.single_items);
      const IndexSource source{nullptr, nullptr, 300, columns, DeviceErrorCode::none, 0, 0, 0};
      const IndexedPlan plan =
          plan_indexed({false, nullptr, nullptr, 4, source, {{5000, {columns, 0, 1}}, {columns, {1, 1, 0}}}}, policy);
      const bool whole = plan.args.mode == IndexMode::row && plan.local == 1;
      CHECK(whole == (policy.single_items && columns <= 128));
      if (whole) CHECK(plan.groups1 == 1 && plan.args.walk.inner == columns && plan.args.walk.ndim == 2);
    }
}

// Dense on both sides: vectors on a CPU device from four elements on.
void test_short_copied_rows() {
  for (const int64_t columns : {3, 4, 7, 15, 17})
    for (const Policy& policy : policies()) {
      at("short copied rows", columns, policy.single_items);
      plan_copy(policy, nullptr, nullptr, 4, {2, {1000, columns}, {20, 1}, {30, 1}}, [&](const CopyLaunch& l) {
        CHECK((l.layout == CopyLayout::spans) == (policy.single_items && columns >= 4));
      });
    }
}

}  // namespace plan_test
