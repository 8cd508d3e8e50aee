// Plans of sorts, selections, cumulative operators and softmax.
#include "kernels/ops/scan.hpp"
#include "kernels/ops/softmax.hpp"
#include "kernels/ops/sort.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"
#include "kernels/sycl/reduce/softmax_args.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

void test_sort() {
  std::set<SortPlan::Kernel> seen;
  for (const Policy& policy : policies())
    for (const DType type : {DType::u8, DType::f16, DType::f32, DType::f64})
      for (const int64_t length : kSizes)
        for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{3000}}) {
          at("sort", policy.single_items, policy.units, length, rows);
          const SortPlan plan = plan_sort({type, nullptr, nullptr, nullptr, rows, length, length, false}, policy);
          seen.insert(plan.kernel);
          CHECK((plan.kernel == SortPlan::Kernel::none) == (rows == 0));
          if (rows == 0) continue;
          CHECK(plan.batch >= 1);
          const bool ranks = plan.kernel == SortPlan::Kernel::rank || plan.kernel == SortPlan::Kernel::rank_flat;
          if (ranks) CHECK(plan.batch * length < (int64_t{1} << 31));
          if (!ranks) CHECK(plan.batch == 1 || plan.half * 2 + plan.counts <= (size_t{1} << 30));
          const bool cut = plan.kernel == SortPlan::Kernel::chunks || plan.kernel == SortPlan::Kernel::team_chunks;
          if (cut) CHECK(parts_cover(length, plan.chunks, plan.chunk));
          const bool teams = plan.kernel >= SortPlan::Kernel::team;
          CHECK(ranks || teams == !policy.single_items);
          if (teams) CHECK(plan.batch * length < (int64_t{1} << 31) && plan.local % 16 == 0 && plan.local <= 256);
          const size_t bits = dtype_size(type) * 8;
          const size_t digit = plan.kernel == SortPlan::Kernel::row_short || teams || bits <= 16 ? 8 : 11;
          if (plan.passes) CHECK(plan.passes * digit >= bits && (plan.passes - 1) * digit < bits);
        }
  check_all_seen("sort", seen, SortPlan::Kernel::team_chunks);
}

void test_topk_pick_runs() {
  std::set<TopkPlan::Kernel> topk_seen;
  std::set<PickPlan::Kernel> pick_seen;
  std::set<uint32_t> rooms;
  uint32_t parts = 1;  // of a row of topk
  for (const Policy& policy : policies())
    for (const int64_t length : kSizes)
      for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{900}}) {
        for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{16}, int64_t{50}, int64_t{200}, int64_t{1000}}) {
          if (k > length) continue;
          at("topk", policy.single_items, policy.units, length, rows, k);
          const TopkPlan plan = plan_topk({DType::f32, nullptr, nullptr, nullptr, rows, length, k, true}, policy);
          topk_seen.insert(plan.kernel);
          if (plan.kernel == TopkPlan::Kernel::scan) CHECK(policy.single_items && plan.rows_per_item >= 1);
          if (plan.kernel == TopkPlan::Kernel::few || plan.kernel == TopkPlan::Kernel::many)
            CHECK(plan.capacity >= k && plan.capacity <= 1024);
          parts = std::max(parts, plan.chunks);
          if (plan.chunks > 1)
            CHECK(plan.kernel == TopkPlan::Kernel::many && length / plan.chunks >= 4096 &&
                  (plan.chunks - 1) * rows < 8 * int64_t{policy.units});
          if (plan.kernel == TopkPlan::Kernel::take) CHECK(policy.single_items && length >= 16 * k);
        }
        at("pick", policy.units, length, rows);
        const PickPlan pick =
            plan_pick({DType::f64, nullptr, nullptr, nullptr, rows, length, 0, PickMode::median}, policy);
        pick_seen.insert(pick.kernel);
        if (pick.kernel == PickPlan::Kernel::row)
          CHECK(policy.single_items && length <= kSelectShort && pick.rows_per_item >= 1);
        if (pick.kernel == PickPlan::Kernel::select) CHECK(parts_cover(length, pick.chunks, pick.chunk));
        if (pick.kernel == PickPlan::Kernel::select) CHECK(pick.passes * kSelectBits >= 64);
        if (rows == 0) continue;
        const RunsPlan runs = plan_runs({DType::f32, nullptr, nullptr, nullptr, length, 1}, policy);
        rooms.insert(runs.room);
        CHECK(parts_cover(length, runs.chunks, runs.chunk));
      }
  check_all_seen("topk", topk_seen, TopkPlan::Kernel::sort);
  CHECK(parts > 16);
  check_all_seen("pick", pick_seen, PickPlan::Kernel::sorted);
  CHECK(rooms.size() == 2);
}

void test_scan_softmax() {
  std::set<ScanPlan::Kernel> seen;
  std::set<SoftmaxPlan::Kernel> softmaxes;
  for (const Policy& policy : policies())
    for (const int64_t length : kSizes)
      for (const int64_t outer : {int64_t{1}, int64_t{3}, int64_t{16}, int64_t{5000}})
        for (const int64_t inner : {int64_t{1}, int64_t{5}, int64_t{3000}}) {
          at("scan", policy.units, outer, length, inner);
          const ScanPlan plan = plan_scan({outer, length, inner}, policy);
          CHECK(plan.local <= policy.most_items);
          seen.insert(plan.kernel);
          if (inner == 1) {
            CHECK(parts_cover(length, plan.chunks, plan.chunk));
            CHECK(plan.team == !policy.single_items && plan.local % kLanes == 0);
            Policy other = policy;
            other.units = 3 * policy.units + 1;
            if (policy.single_items) CHECK(plan_scan({outer, length, inner}, other).chunk == plan.chunk);
            CHECK(parts_cover(outer * (plan.kernel == ScanPlan::Kernel::in_turn ? 1 : plan.chunks),
                              static_cast<int64_t>(plan.groups0), static_cast<int64_t>(plan.local / kLanes)));
          } else {
            CHECK(plan.groups0 == static_cast<size_t>(outer) && parts_cover(inner, plan.groups1, plan.local));
          }
          SoftmaxProblem problem;
          problem.outer = static_cast<uint32_t>(outer), problem.dim = static_cast<uint32_t>(length);
          problem.inner = static_cast<uint32_t>(inner);
          for (const xpu_ops::DType type : {xpu_ops::DType::f32, xpu_ops::DType::f64}) {
            const SoftmaxPlan softmax = plan_softmax(type, problem, policy);
            using Kernel = SoftmaxPlan::Kernel;
            softmaxes.insert(softmax.kernel);
            CHECK(softmax.groups >= 1);
            if (softmax.kernel == Kernel::fours)
              CHECK(type == xpu_ops::DType::f32 && length >= kLanes && length <= kSoftmaxShort && inner == 1);
            if (softmax.kernel == Kernel::team) check_teams(outer, softmax.groups, softmax.local, softmax.team, policy);
            if (softmax.kernel == Kernel::columns) CHECK(parts_cover(inner, softmax.blocks, kSoftmaxVectors * kLanes));
          }
        }
  check_all_seen("scan", seen, ScanPlan::Kernel::axis);
  check_all_seen("softmax", softmaxes, SoftmaxPlan::Kernel::columns);
  // A line that 32 bits do not number is cut whatever the device.
  Policy one;
  at("scan, long line");
  const int64_t border = int64_t{1} << 30;
  CHECK(plan_scan({1 << 20, border, 1}, one).chunks == 1);
  CHECK(plan_scan({1 << 20, border + 1, 1}, one).chunks == 2);
}

}  // namespace

void test_orders() {
  test_sort();
  test_topk_pick_runs();
  test_scan_softmax();
}

}  // namespace plan_test
