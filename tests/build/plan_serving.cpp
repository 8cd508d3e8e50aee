// Plans of layers of experts and of rounding with scales.
#include "kernels/ops/experts.hpp"
#include "kernels/ops/rounding.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

void test_experts() {
  CHECK(plan_experts_serve(256, 8) && plan_experts_serve(1024, 64));
  CHECK(!plan_experts_serve(0, 1) && !plan_experts_serve(1025, 1) && !plan_experts_serve(8, 65));
  bool once = false, twice = false;
  for (const Policy& policy : policies())
    for (const uint32_t tokens : {1u, 3u, 16u, 512u})
      for (const uint32_t columns : {1u, 17u, 2048u, 11008u}) {
        at("experts", tokens, columns);
        CHECK(plan_choices(tokens, policy) >= 1 && plan_choices(tokens, policy) <= tokens);
        SpreadProblem spread;
        spread.tokens = tokens, spread.count = 8, spread.part[0].size = columns, spread.part[0].bytes = 4;
        const SpreadPlan moved = plan_spread(spread, policy);
        CHECK(policy.single_items ? moved.items == 1 : !moved.at_once && moved.items <= policy.tile_items);
        (moved.at_once ? once : twice) = true;
        SumProblem sum;
        sum.tokens = tokens, sum.count = 8, sum.columns = columns;
        PairProblem pairs;
        pairs.rows = tokens, pairs.columns = columns;
        for (const PiecePlan& plan : {plan_sum(sum, policy), plan_pairs(pairs, policy)})
          CHECK(parts_cover(columns, plan.groups, plan.chunk) && (plan.items == 1) == policy.single_items);
      }
  CHECK(once && twice);
}

void test_rounding() {
  for (const Policy& policy : policies())
    for (const uint32_t rows : {1u, 3u, 512u})
      for (const uint32_t columns : {1u, 96u, 4096u})
        for (const uint32_t group : {1u, 32u, 4096u}) {
          at("rounding", rows, columns, group);
          if (columns % group) continue;
          RoundProblem round;
          round.rows = rows, round.columns = columns, round.group = group;
          const RoundPlan plan = plan_round(round, policy);
          const size_t all = size_t{rows} * columns / group;
          CHECK(plan.spans == policy.single_items && plan.groups >= 1 && plan.groups <= all);
          CHECK(!plan.spans || (plan.groups * plan.each >= all && (plan.groups - 1) * plan.each < all));
          ScaleProblem scale;
          scale.rows = rows, scale.columns = columns, scale.group = group;
          const ScalePlan pieces = plan_scale(scale, policy);
          CHECK(parts_cover(columns, pieces.groups, pieces.chunk));
          CHECK(pieces.chunk % (group == 1 || group >= columns ? 16 : group) == 0);
        }
}

}  // namespace

void test_serving() {
  test_experts();
  test_rounding();
}

}  // namespace plan_test
