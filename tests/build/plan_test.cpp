// Checks plans of kernels/ops: every kernel of a plan is chosen by some problem, work is covered exactly once, indices
// change their width at its border; and limits of control groups. Links neither torch nor needs a device; prints what
// fails.
#include <cstring>

#include "kernels/ops/copy.hpp"
#include "kernels/ops/distance.hpp"
#include "kernels/ops/factory.hpp"
#include "kernels/ops/fused.hpp"
#include "kernels/ops/lowprecision.hpp"
#include "kernels/ops/normalization.hpp"
#include "kernels/ops/pooling.hpp"
#include "kernels/ops/random.hpp"
#include "kernels/ops/reduction.hpp"
#include "kernels/ops/shape.hpp"
#include "kernels/ops/varlen.hpp"
#include "kernels/sycl/elementwise/fused_args.hpp"
#include "kernels/sycl/elementwise/random_args.hpp"
#include "kernels/sycl/images/pooling_args.hpp"
#include "kernels/sycl/products/lowprecision_args.hpp"
#include "kernels/sycl/reduce/normalization_args.hpp"
#include "kernels/sycl/reduce/reduction_args.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

void test_norms() {
  std::set<bool> by_row;
  for (const Policy& policy : policies())
    for (const int64_t rows : kSizes)
      for (const int64_t cols : {int64_t{1}, int64_t{7}, int64_t{64}, int64_t{100}, int64_t{5000}, int64_t{20000}}) {
        at("column sums", policy.units, rows, cols);
        for (const int64_t batches : {int64_t{1}, int64_t{6}}) {
          const ColumnSumPlan plan = plan_column_sums(batches, rows, cols, policy);
          CHECK(parts_cover(rows, plan.splits, plan.block));
          CHECK(parts_cover(cols, plan.blocks, kColumnVectors * kLanes));
          CHECK(plan.groups == size_t{plan.splits} * plan.blocks * static_cast<size_t>(batches));
        }
        at("norm_apply", policy.single_items, policy.units, rows, cols);
        for (const uint32_t by_column : {0u, 1u}) {
          NormApplyProblem args;
          args.rows = static_cast<uint32_t>(rows), args.cols = static_cast<uint32_t>(cols);
          args.by_column = by_column;
          const ApplyPlan plan = plan_norm_apply(args, policy);
          by_row.insert(plan.by_row);
          if (plan.by_row) continue;
          CHECK(plan.local <= policy.most_items && plan.local % 16 == 0);
          CHECK(parts_cover(cols, static_cast<int64_t>(plan.groups1), static_cast<int64_t>(plan.local)));
          CHECK(parts_cover(rows, plan.parts, plan.rows_per_group));
        }
        const size_t groups = plan_layer_sums(rows, policy);
        CHECK(groups >= 1 && groups <= static_cast<size_t>(rows));
        CHECK(row_groups(rows, policy) >= 1);
      }
  at("norm_apply");
  CHECK(by_row.size() == 2);
  at("add_norm");
  Policy cpu, gpu;
  cpu.single_items = true;
  cpu.cache = gpu.cache = 1 << 20;
  CHECK(plan_add_norm(1 << 20, 64, 4, cpu) == AddNormKernel::vectors_past);
  CHECK(plan_add_norm(1 << 20, 65, 4, cpu) == AddNormKernel::row);
  CHECK(plan_add_norm(1 << 20, kMostVectorColumns + 64, 4, cpu) == AddNormKernel::row);
  CHECK(plan_add_norm(10, 64, 4, cpu) == AddNormKernel::vectors);
  CHECK(plan_add_norm(1 << 20, 64, 4, gpu) == AddNormKernel::row);
  for (const int64_t rows : kSizes)
    for (const int64_t pairs : kSizes) {
      at("rotary", rows, pairs);
      const RotaryPlan plan = plan_rotary(rows, pairs, gpu);
      CHECK(parts_cover(rows, static_cast<int64_t>(plan.groups0), plan.rows_per_group));
      CHECK(parts_cover(pairs, static_cast<int64_t>(plan.groups1), static_cast<int64_t>(plan.local)));
    }
}

void test_copy() {
  std::set<CopyLayout> seen;
  const auto run_with = [&](const Policy& policy, const CopyShape& shape, size_t element) {
    int64_t moved = 0, most = 0;
    plan_copy(policy, nullptr, nullptr, element, shape, [&](const CopyLaunch& l) {
      seen.insert(l.layout);
      int64_t n = 1, reach = 0;
      for (int d = 0; d < kCopyDims; ++d) {
        n *= l.args.size[d].d;
        reach += int64_t{l.args.size[d].d - 1} * std::abs(int64_t{l.args.src_stride[d]});
      }
      moved += n * static_cast<int64_t>(l.element);
      most = std::max(most, reach);
    });
    int64_t total = static_cast<int64_t>(element);
    for (int d = 0; d < shape.ndim; ++d) total *= shape.size[d];
    CHECK(moved == total);
    CHECK(most < (int64_t{1} << 31));
  };
  const auto run = [&](const CopyShape& shape, size_t element) {
    for (const Policy& policy : policies()) run_with(policy, shape, element);
  };
  at("copy");
  run({1, {1000}, {1}, {1}}, 4);
  run({2, {300, 40}, {40, 1}, {80, 1}}, 4);
  for (const size_t element : {2, 4, 16}) run({2, {300, 400}, {400, 1}, {1, 300}}, element);
  run({2, {300, 40}, {40, 1}, {1000, 3}}, 4);
  run({2, {300, 80}, {80, 1}, {1000, 3}}, 4);
  run({3, {100, 3, 7}, {21, 7, 1}, {50, 16, 2}}, 4);
  run({2, {1000, 3}, {3, 1}, {1, 1000}}, 4);
  run({2, {3, 1000}, {1000, 1}, {1, 3}}, 4);
  run({3, {7, 2, 1000}, {2000, 1000, 1}, {2100, 1, 2}}, 2);
  run({2, {1000, 5}, {5, 1}, {1, 1000}}, 4);
  run({2, {40, 30}, {7, 500}, {900, 2}}, 4);
  run({1, {1000}, {1}, {1}}, 1);
  run({1, {0}, {1}, {1}}, 4);
  at("copy, border");
  const int64_t border = int64_t{1} << 31;
  int launches = 0;
  const auto count = [&](int64_t n) {
    launches = 0;
    plan_copy(policies()[0], nullptr, nullptr, 4, {1, {n}, {1}, {1}}, [&](const CopyLaunch&) { ++launches; });
    return launches;
  };
  CHECK(count(border - 1) == 1);
  CHECK(count(border) == 2);
  run({1, {3 * border + 5}, {1}, {1}}, 4);
  run({2, {5, 7}, {7, 1}, {border - 3, 1}}, 4);
  check_all_seen("copy", seen, CopyLayout::steps);
}

// Every reduced element is in one split.
void check_splits(const ReductionArgs& a) {
  if (a.mode == ColMode::flat) return;  // split s takes every splits-th row
  const int64_t inner = a.inner_splits.d, outer = a.splits / inner;
  CHECK(outer * inner == a.splits);
  CHECK(parts_cover(a.inner_count, inner, a.inner_block));
  CHECK(parts_cover(a.outer_count, outer, a.outer_block));
}

void test_reduction() {
  std::set<ReductionPlan::Kernel> kernels;
  std::set<ColMode> modes;
  std::set<uint32_t> joined;
  bool short_rows = false, splits = false, one = false;
  const auto run_with = [&](std::vector<int64_t> sizes, std::vector<bool> reduced, const Policy& policy) {
    ReductionShape s;
    s.ndim = static_cast<int>(sizes.size());
    int64_t in = 1, out = 1;
    for (int d = s.ndim - 1; d >= 0; --d) {
      s.size[d] = sizes[d], s.reduced[d] = reduced[d], s.in[d] = in;
      s.out0[d] = s.out1[d] = reduced[d] ? 0 : out;
      in *= sizes[d];
      if (!reduced[d]) out *= sizes[d];
    }
    ReductionPlan plan;
    CHECK(plan_reduction(s, false, policy, plan) == ReductionFit::ok);
    CHECK(int64_t{plan.args.kept_count} == out && int64_t{plan.args.inner_count} * plan.args.outer_count * out == in);
    CHECK(plan.groups >= 1);
    check_splits(plan.args);
    kernels.insert(plan.kernel);
    const int64_t tasks = int64_t{plan.args.kept_count} * plan.args.splits;
    if (plan.kernel == ReductionPlan::Kernel::team) {
      const int64_t items = plan.args.blocks, local = static_cast<int64_t>(plan.local), teams = local / items;
      CHECK(items % kLanes == 0 && local % items == 0 && (items == kLanes || teams == 1));
      CHECK(local <= policy.team_items && plan.args.tasks > 0);
      CHECK(static_cast<int64_t>(plan.groups) * teams * plan.args.tasks >= tasks);
    } else {
      CHECK(plan.local <= 256);
    }
    if (plan.args.mode == ColMode::columns)
      CHECK(sizes.back() >= static_cast<int64_t>(plan.local * kColumns) ||
            plan.args.kept[0].d >= plan.local * kColumns);
    if (plan.args.splits > 1) {
      const size_t each = plan.joined_by == 0 ? plan.final_local : plan.joined_by == kLanes ? kLanes : 1;
      CHECK(parts_cover(plan.args.kept_count, static_cast<int64_t>(plan.final_groups), static_cast<int64_t>(each)));
    }
    joined.insert(plan.joined_by);
    if (plan.kernel == ReductionPlan::Kernel::col) modes.insert(plan.args.mode);
    short_rows |= plan.args.short_rows > 0;
    (plan.args.splits > 1 ? splits : one) = true;
  };
  const auto run = [&](const std::vector<int64_t>& sizes, const std::vector<bool>& reduced, uint32_t units) {
    Policy policy;
    policy.units = units;
    run_with(sizes, reduced, policy);
    run_with(sizes, reduced, gpu_policy(units));
  };
  for (const uint32_t units : {1u, 2u, 64u, 1024u})
    for (const int64_t rows : {1, 3, 60, 1000, 30000})
      for (const int64_t cols : {2, 5, 64, 300, 3000}) {
        at("reduction", units, rows, cols);
        run({rows, cols}, {false, true}, units);
        run({rows, cols}, {true, false}, units);
        run({rows, cols}, {true, true}, units);
        run({5, rows, cols}, {true, false, true}, units);
        run({5, rows, cols}, {false, true, false}, units);
        run({rows, 3, cols, 2}, {false, true, false, true}, units);
      }
  check_all_seen("reduction", kernels, ReductionPlan::Kernel::team);
  CHECK(joined.size() == 3);
  check_all_seen("reduction modes", modes, ColMode::flat);
  CHECK(short_rows && splits && one);
  at("reduction, border");
  const auto whole = [](int64_t n) {
    ReductionShape s;
    s.ndim = 1, s.size[0] = n, s.in[0] = 2, s.out0[0] = s.out1[0] = 0, s.reduced[0] = true;
    return refuses([&] {
      ReductionPlan plan;
      plan_reduction(s, false, Policy{}, plan);
    });
  };
  CHECK(!whole((int64_t{1} << 31) - 1) && !whole(int64_t{1} << 31) && !whole((int64_t{1} << 31) + 11));
}

void test_pooling() {
  std::set<PoolKernel> seen;
  for (const Policy& policy : policies())
    for (const PoolKind kind : {PoolKind::max, PoolKind::max_back, PoolKind::avg, PoolKind::avg_back})
      for (const bool last : {false, true})
        for (const bool adaptive : {false, true})
          for (const int32_t size : {4, 40, 600})
            for (const int32_t window : {1, 2, 8}) {
              at("pool", static_cast<int>(kind), last, adaptive, size, window, policy.units);
              PoolProblem a{{}, kind, DType::f32, 2, last, 6};
              const bool back = kind == PoolKind::max_back || kind == PoolKind::avg_back;
              a.channels = last ? 40 : 1;
              a.adaptive = adaptive;
              for (int d = 0; d < 3; ++d) {
                a.in[d] = d == 0 ? 1 : size, a.out[d] = d == 0 ? 1 : std::max(1, size / window);
                a.kernel[d] = a.stride[d] = d == 0 ? 1 : window;
              }
              const auto& size_of = back ? a.in : a.out;
              const PoolPlan plan = plan_pool(a, policy);
              seen.insert(plan.kernel);
              CHECK(plan.at_once * size * size * a.channels < (int64_t{1} << 31));
              CHECK(!last || plan.kernel == PoolKernel::last);
              if (policy.single_items && !last && !adaptive && kind != PoolKind::max_back)
                CHECK(plan.kernel == PoolKernel::lines || plan.kernel == PoolKernel::tiles);
              if (plan.kernel == PoolKernel::lines || plan.kernel == PoolKernel::scatter) {
                const PoolItems items = plan_pool_items(a, plan.kernel, 6, policy);
                const bool bands = plan.kernel == PoolKernel::scatter;
                CHECK(parts_cover(size_of[bands ? items.axis : 2], items.parts, items.segment));
                CHECK(items.items == 6 * items.parts * (bands ? 1 : size_of[0] * size_of[1]));
                CHECK(bands || items.segment >= static_cast<uint32_t>(std::min(size_of[2], 64)));
                CHECK(bands || !back || items.segment <= kPoolLine / 2);
                CHECK(bands || back || int64_t{items.segment} * a.stride[2] + a.kernel[2] <= kPoolLine + kPoolSlack);
              }
              if (plan.kernel != PoolKernel::last && plan.kernel != PoolKernel::wide) continue;
              const PoolLines lines = plan_pool_lines(a, 6, policy);
              CHECK(parts_cover(size_of[last ? 2 : 1], lines.parts, lines.segment));
              CHECK(parts_cover(lines.width, static_cast<int64_t>(lines.groups1),
                                last ? kPoolLanes * kPoolVectors : static_cast<int64_t>(lines.local)));
              CHECK(lines.groups0 == size_t{6} * size_of[0] * (last ? size_of[1] : 1) * lines.parts);
            }
  check_all_seen("pool", seen, PoolKernel::scatter);
}

void test_factories() {
  bool buckets = false, one = false;
  for (const Policy& policy : policies())
    for (const int64_t n : kSizes) {
      at("shuffle", policy.units, n);
      const ShufflePlan plan = plan_shuffle(static_cast<uint32_t>(n), policy);
      CHECK(parts_cover(n, plan.chunks, plan.chunk));
      (plan.bits > 0 ? buckets : one) = true;
    }
  at("shuffle");
  CHECK(buckets && one);
  for (const int64_t n : kSizes) {
    at("factories", n);
    for (const size_t values : {1, 2, 4}) {
      const size_t items = plan_draws(static_cast<size_t>(n), values);
      CHECK(items % kRandomStride == 0 && items * values >= static_cast<size_t>(n));
      CHECK((items - kRandomStride) * values < static_cast<size_t>(n));
    }
    CHECK(plan_triangle(n) % n == 0 && plan_triangle(n) <= std::max(kFactoryLaunch, n));
    const int64_t rows = plan_rows(n, 4096);
    CHECK(rows >= 1 && rows <= 128 && (rows == 1 || rows * n <= 4096));
  }
  // A matrix that 30 bits do not number is a launch of its own.
  CHECK(plan_triangle(kFactoryLaunch) == kFactoryLaunch && plan_triangle(kFactoryLaunch + 1) == kFactoryLaunch + 1);
}

void test_pads() {
  std::set<bool> by_row, shared;
  for (const Policy& policy : policies())
    for (const int64_t row : kSizes)
      for (const uint32_t rows : {1u, 7u, 3000u}) {
        if (row * rows >= int64_t{1} << 31) continue;
        at("pad", policy.single_items, row, rows);
        PadProblem p{};
        p.rows = rows, p.written[0] = static_cast<uint32_t>(row), p.written[1] = rows, p.written[2] = 1;
        const PadPlan plan = plan_pad(p, policy);
        by_row.insert(plan.by_row);
        CHECK(plan.by_row == policy.single_items && plan.local <= policy.most_items);
        if (!plan.by_row) {
          CHECK(parts_cover(row * rows, static_cast<int64_t>(plan.groups),
                            static_cast<int64_t>(plan.local) * xpu_ops::kPadAhead));
          continue;
        }
        shared.insert(plan.parts > 1);
        CHECK(parts_cover(row, plan.parts, plan.columns));
        CHECK(parts_cover(rows, static_cast<int64_t>(plan.groups / plan.parts), plan.rows));
        CHECK(plan.parts == 1 || plan.rows == 1);
      }
  at("pad");
  CHECK(by_row.size() == 2 && shared.size() == 2);
}

void test_pages() {
  bool shares[5] = {};
  for (const Policy& policy : policies())
    for (const uint32_t sequences : {1u, 3u, 16u, 256u})
      for (const uint32_t group : {1u, 2u, 3u, 4u, 6u, 8u})
        for (const uint32_t kv_heads : {1u, 4u}) {
          at("pages", sequences, group, kv_heads);
          PagedProblem args;
          args.sequences = sequences, args.group = group, args.heads = group * kv_heads;
          const uint32_t share = plan_paged_share(args, policy);
          CHECK(group % share == 0 && (share == 1 || sequences * args.heads / share >= 2 * policy.units));
          shares[share] = true;
        }
  at("pages");
  CHECK(shares[1] && shares[2] && shares[4]);
  for (const Policy& policy : policies())
    for (const uint32_t width : {1u, 16u, 128u, 1024u}) {
      PlaceProblem args;
      args.part[1].size[2] = width;
      const size_t items = plan_place_items(args, policy);
      CHECK(policy.single_items ? items == 1 : items >= 16 && items <= policy.tile_items);
    }
  Policy cpu;
  cpu.single_items = true;
  CHECK(plan_paged_serves(64, DType::bf16, cpu) && plan_paged_serves(256, DType::f32, cpu));
  CHECK(!plan_paged_serves(24, DType::f32, cpu) && !plan_paged_serves(272, DType::f32, cpu));
  CHECK(!plan_paged_serves(64, DType::f64, cpu) && !plan_paged_serves(64, DType::f32, Policy()));
}

void test_weights() {
  size_t served = 0, refused = 0;
  for (const Policy& policy : policies())
    for (const WeightKind kind : {WeightKind::int8, WeightKind::int4_pairs, WeightKind::int4_zeros})
      for (const uint32_t m : {0u, 1u, 4u, 8u, 9u, 16u, 17u})
        for (const uint32_t n : {1u, 15u, 16u, 17u, 4096u, 32000u})
          for (const uint32_t k : {0u, 15u, 16u, 128u, 1152u})
            for (const uint32_t group : {16u, 32u, 256u}) {
              at("weights", m, n, k, group);
              WeightProblem args;
              args.m = m, args.n = n, args.k = k, args.group = group;
              const WeightPlan plan = plan_weight(kind, DType::f16, args, policy);
              ++(plan.served ? served : refused);
              if (!plan.served) continue;
              const bool int4 = kind != WeightKind::int8;
              CHECK(policy.single_items && m && n >= xpu_ops::kWeightRows && k % 16 == 0);
              CHECK(!int4 || (k % xpu_ops::kWeightChunk == 0 && group >= xpu_ops::kWeightGroup));
              CHECK(m <= (int4 ? 16 : 8) && plan.blocks && plan.blocks % xpu_ops::kWeightSides == 0);
              CHECK(plan.blocks <= xpu_ops::kWeightBlocks);
              CHECK(parts_cover((n + 15) / 16, static_cast<int64_t>(plan.groups), plan.blocks));
            }
  at("weights");
  CHECK(served && refused);
  Policy cpu;
  cpu.single_items = cpu.dot16 = true;
  WeightProblem args;
  args.m = 16, args.n = 64, args.k = 64;
  CHECK(plan_weight(WeightKind::int8, DType::bf16, args, cpu).served);
  CHECK(plan_weight(WeightKind::int8, DType::bf16, args, cpu).pairs);
  CHECK(!plan_weight(WeightKind::int8, DType::f16, args, cpu).served);
  args.m = 1;
  CHECK(!plan_weight(WeightKind::int8, DType::bf16, args, cpu).pairs);
  Policy avx2;
  avx2.single_items = avx2.narrow = avx2.dots_narrow = true;
  args.k = args.group = 128;
  CHECK(plan_weight(WeightKind::int4_pairs, DType::bf16, args, avx2).narrow);
  CHECK(!plan_weight(WeightKind::int4_pairs, DType::f32, args, avx2).narrow);
  CHECK(!plan_weight(WeightKind::int8, DType::bf16, args, avx2).narrow);
}

}  // namespace
}  // namespace plan_test

int main() {
  using namespace plan_test;
  test_orders();
  test_norms();
  test_indices();
  test_pooling();
  test_factories();
  test_copy();
  test_reduction();
  test_few_columns();
  test_short_indexed_rows();
  test_short_rows_of_a_table();
  test_short_copied_rows();
  test_pointwise();
  test_layers();
  test_serving();
  test_resampling();
  test_groups();
  test_products();
  test_sparse();
  test_pads();
  test_pages();
  test_weights();
  test_control_groups();
  test_native_code();
  test_lru();
  test_native_target();
  test_queue_states();
  std::printf("%d checks, %d failures\n", g_checks, g_failures);
  return g_failures == 0 ? 0 : 1;
}
