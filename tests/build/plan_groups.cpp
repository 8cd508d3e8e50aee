// Items of work-groups: a CPU device gets sub-groups, a GPU groups that it holds many sub-groups of.
#include "kernels/ops/copy.hpp"
#include "kernels/ops/indexing.hpp"
#include "kernels/ops/loss.hpp"
#include "kernels/ops/normalization.hpp"
#include "kernels/ops/pointwise.hpp"
#include "kernels/ops/reduction.hpp"
#include "kernels/ops/scatter.hpp"
#include "kernels/ops/softmax.hpp"
#include "kernels/sycl/core/counts_args.hpp"
#include "kernels/sycl/core/tile_args.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

constexpr int64_t kUnits = 132;

void test_tiles() {
  const Policy few = cpu_policy(2), many = gpu_policy(kUnits);
  Policy narrow = few;
  narrow.narrow = true;
  for (const int64_t n : kSizes) {
    at("tile_group", n);
    const size_t width = static_cast<size_t>(n), local = tile_group(width, many);
    CHECK(tile_group(width, narrow) == 8 && tile_share(8, kTileElements, narrow) == kTileElements);
    CHECK(tile_group(width, few) == 16 && tile_share(16, kTileElements, few) == kTileElements);
    CHECK(local % 16 == 0 && local <= 256 && (n < 256 ? local < width + 16 : local > 128));
    CHECK(tile_share(local, kTileElements, many) == local * kTileElements / 256);
    at("pointwise rows", n);
    const uint32_t columns = static_cast<uint32_t>(std::min<int64_t>(n, kTileElements)),
                   whole = static_cast<uint32_t>(n);
    const RowsPlan slim = plan_pointwise_rows(3, whole, few), wide = plan_pointwise_rows(3, whole, many);
    CHECK(slim.local == 16 && slim.group == std::clamp<uint32_t>(kTileElements / columns, 1, 128));
    CHECK(slim.columns == columns && wide.columns == columns && plan_pointwise_rows(1, whole, few).columns == columns);
    // Bytes: of a CPU device whole vectors of them, whatever the row's length.
    const RowsPlan bytes = plan_pointwise_rows(3, whole, few, 1, true);
    CHECK(bytes.local == kByteVector && bytes.group == slim.group && bytes.columns == columns);
    CHECK(plan_pointwise_rows(3, whole, many, 1, true).local == wide.local);
    // Sixteen threads: four work-groups each where these are no less than a tile.
    const RowsPlan spread = plan_pointwise_rows(1, whole, cpu_policy(16));
    CHECK(spread.local == 16 && spread.group == 1 && spread.columns <= 65536 && spread.columns >= columns);
    CHECK(n > 16 * 4 * 65536 || spread.columns <= kTileElements || n / spread.columns >= 48);
    CHECK(wide.local == tile_group(columns, many) && wide.group >= 1);
    CHECK(wide.group == 1 || wide.group * columns <= 16 * wide.local);
    at("sub_group_rows", n);
    CHECK(sub_group_rows(width, few).groups == width && sub_group_rows(width, few).local == 16);
    const RowGroups rows = sub_group_rows(width, many);
    CHECK(parts_cover(n, static_cast<int64_t>(rows.groups), static_cast<int64_t>(rows.local / 16)));
    for (const size_t held : {size_t{8}, size_t{16}}) {
      const RowTeams teams = row_teams(3000, width, held, many);
      check_teams(3000, teams.groups, teams.local, teams.items, many);
      CHECK(width > held * 256 || width <= held * teams.items);
    }
  }
}

void test_copies() {
  const auto locals = [](const Policy& policy, const CopyShape& shape) {
    std::set<size_t> all;
    plan_copy(policy, nullptr, nullptr, 4, shape, [&](const CopyLaunch& l) { all.insert(l.local); });
    return all;
  };
  using Sizes = std::set<size_t>;
  at("copy, items");
  const CopyShape dense = {1, {1 << 20}, {1}, {1}}, rows = {2, {300, 512}, {512, 1}, {1024, 1}},
                  turned = {2, {300, 400}, {400, 1}, {1, 300}}, lines = {2, {300, 1000}, {1000, 1}, {4000, 3}};
  CHECK(locals(cpu_policy(2), dense) == Sizes{16} && locals(gpu_policy(kUnits), dense) == Sizes{256});
  CHECK(locals(cpu_policy(2), rows) == Sizes{1} && locals(gpu_policy(kUnits), rows) == Sizes{128});
  CHECK(locals(cpu_policy(2), turned) == Sizes{1} && locals(gpu_policy(kUnits), turned) == Sizes{256});
  CHECK(locals(cpu_policy(2), lines) == Sizes{1} && locals(gpu_policy(kUnits), lines) == Sizes{256});
}

void test_moves() {
  at("indexed, items");
  const IndexSource source{nullptr, nullptr, 1 << 16, 1, DeviceErrorCode::none, 0, 0, 0};
  const auto plan = [&](const Policy& policy, int64_t rows, int64_t cols, int64_t by_row) {
    const Dims3 dims = {{rows, {cols, 0, by_row}}, {cols, {1, 1, 1 - by_row}}};
    const IndexSource table{nullptr, nullptr, 1 << 16, cols, DeviceErrorCode::none, 0, 0, 0};
    return plan_indexed({false, nullptr, nullptr, 4, by_row ? table : source, dims}, policy);
  };
  // Rows of a table: 4 elements per item, one where they are of sixteen bytes. A vector: all items of a group.
  CHECK(plan(cpu_policy(2), 4096, 1024, 1).local == 16 && plan(gpu_policy(kUnits), 4096, 1024, 1).local == 256);
  CHECK(plan(gpu_policy(kUnits), 4096, 1022, 1).local == 256 && plan(gpu_policy(kUnits), 4096, 255, 1).local == 64);
  CHECK(plan(gpu_policy(kUnits), 4096, 256, 1).args.mode == IndexMode::general);
  CHECK(plan(cpu_policy(2), 4096, 2048, 0).local == 1 && plan(gpu_policy(kUnits), 4096, 2048, 0).local == 256);
  // Elements by a general index: 8,192 moves per work-group, whatever the device.
  const auto general = [&](const Policy& policy) {
    return plan_indexed({false, nullptr, nullptr, 4, source, {{1 << 18, {2, 0, 1}}}}, policy).args;
  };
  CHECK(general(cpu_policy(1)).mode == IndexMode::general && general(cpu_policy(1)).rows_per_group == 8);
  CHECK(general(gpu_policy(1)).rows_per_group == 32);
  at("columns of teams");
  const auto rows = [](int64_t count, int64_t steps, int64_t step, const Policy& policy) {
    const IndexSource source{nullptr, nullptr, 5000, 1, DeviceErrorCode::none, 0, 0, 0};
    return plan_columns({Reduce::add,
                         DType::f32,
                         4,
                         nullptr,
                         nullptr,
                         source,
                         steps,
                         step,
                         step,
                         {},
                         {{count, {5000, steps * step, steps * step}}}},
                        policy);
  };
  const ColumnPlan shared = rows(5001, 100, 1, gpu_policy(7));
  CHECK(shared.team && !shared.sorted && shared.args.steps == 100);
  // Sub-groups take columns in turn, as many at a time as the cache holds.
  Policy cached = gpu_policy(7);
  cached.cache = size_t{5000} * 4 * 7 * 8 * 3;
  CHECK(shared.local == 128 && shared.groups0 == 626 && rows(5001, 100, 1, cached).groups0 == 21);
  CHECK(rows(100, 100, 1, cached).groups0 == 13);
  CHECK(!rows(5001, 100, 2, gpu_policy(7)).team && !rows(5001, 15, 1, gpu_policy(7)).team);
  CHECK(!rows(2, 100, 1, gpu_policy(7)).team && !rows(5001, 100, 1, cpu_policy(7)).team);
  // A work-group has a column of many indices; one that is not too long is held in local memory.
  const ColumnPlan met = rows(5001, 1000, 1, gpu_policy(7));
  CHECK(!shared.args.meets && met.team && met.args.meets && !met.args.held && met.local == 256);
  CHECK(met.groups0 == 112 && rows(5001, 300, 1, gpu_policy(7)).local == 80);
  const auto held = [](int64_t size, int64_t steps) {
    const IndexSource source{nullptr, nullptr, size, 1, DeviceErrorCode::none, 0, 0, 0};
    const Dims3 columns = {{5001, {size, steps, steps}}};
    return plan_columns({Reduce::add, DType::f32, 4, nullptr, nullptr, source, steps, 1, 1, {}, columns}, gpu_policy(7))
        .args.held;
  };
  CHECK(held(4096, 1024) && !held(4097, 2048) && !held(4096, 1023) && held(1, 256));
  at("last of equal indices");
  const auto assigned = [](int64_t size, const Policy& policy) {
    const IndexSource source{nullptr, nullptr, size, 64, DeviceErrorCode::none, 0, 0, 0};
    const Dims3 columns = {{64, {1, 1, 0}}};
    return plan_columns({Reduce::assign, DType::f32, 4, nullptr, nullptr, source, 5000, 64, 1, {}, columns}, policy);
  };
  CHECK(assigned(5000, gpu_policy(7)).last && !assigned(5000, gpu_policy(7)).sorted &&
        !assigned(5000, cpu_policy(7)).last);
  CHECK(assigned(320'001, gpu_policy(7)).sorted && !assigned(320'001, gpu_policy(7)).last);
  at("few columns side by side, many threads");
  const auto slices = [](int64_t columns, const Policy& policy) {
    const IndexSource source{nullptr, nullptr, 5000, 1, DeviceErrorCode::none, 0, 0, 0};
    return plan_columns(
        {Reduce::add, DType::f32, 4, nullptr, nullptr, source, 300'000, columns, 1, {}, {{columns, {1, 1, 0}}}},
        policy);
  };
  const ColumnPlan narrow = slices(3, cpu_policy(16));
  CHECK(narrow.args.sift && !narrow.args.unit && narrow.args.parts == 5 && narrow.groups0 * narrow.groups1 == 15);
  CHECK(!slices(3, cpu_policy(2)).args.sift && slices(3, cpu_policy(2)).args.unit);
  CHECK(!slices(64, cpu_policy(16)).args.sift && slices(64, cpu_policy(16)).args.unit);
  at("linearize, items");
  const LinearDims dims = {{1000, {5000, 1}}, {5000, {1, 0, 1}}};
  CHECK(plan_linearize(dims, cpu_policy(2)).local == 16 && plan_linearize(dims, gpu_policy(kUnits)).local == 256);
}

void test_rows() {
  at("softmax, items");
  const auto softmax = [](const Policy& policy, uint32_t rows, uint32_t n) {
    SoftmaxProblem problem;
    problem.outer = rows, problem.dim = n;
    return plan_softmax(DType::f32, problem, policy);
  };
  CHECK(softmax(cpu_policy(2), 65536, 2048).local == 16 && softmax(cpu_policy(2), 65536, 2048).team == 1);
  CHECK(softmax(gpu_policy(kUnits), 65536, 128).local == 128 && softmax(gpu_policy(kUnits), 65536, 128).team == 16);
  CHECK(softmax(gpu_policy(kUnits), 65536, 2048).local == 128 && softmax(gpu_policy(kUnits), 65536, 2048).team == 128);
  CHECK(softmax(gpu_policy(kUnits), 4096, 32768).local == 256 &&
        softmax(gpu_policy(kUnits), 4096, 32768).groups == 4096);
  CHECK(softmax(gpu_policy(kUnits), 65536, 64).rows == 4 && softmax(gpu_policy(kUnits), 65536, 64).groups == 2048);
  CHECK(softmax(gpu_policy(kUnits), 65536, 65).rows == 1 && softmax(cpu_policy(2), 65536, 64).rows == 1);
  at("norm_apply, items");
  NormApplyProblem apply;
  apply.rows = 64 * 256, apply.cols = 56 * 56, apply.period = 256;
  CHECK(plan_norm_apply(apply, cpu_policy(2)).by_row && !plan_norm_apply(apply, gpu_policy(kUnits)).by_row);
  CHECK(plan_norm_apply(apply, gpu_policy(kUnits)).local == 256);
}

void test_sums() {
  const auto plan = [](const Policy& policy, int64_t rows, int64_t cols, bool by_row, bool by_column) {
    ReductionShape s;
    s.ndim = 2;
    s.size[0] = rows, s.size[1] = cols, s.in[0] = cols, s.in[1] = 1;
    s.reduced[0] = by_column, s.reduced[1] = by_row;
    s.out0[0] = s.out1[0] = by_column ? 0 : 1, s.out0[1] = s.out1[1] = by_row ? 0 : 1;
    ReductionPlan out;
    plan_reduction(s, false, policy, out);
    return out;
  };
  using Kernel = ReductionPlan::Kernel;
  at("sum of all");
  const ReductionPlan all = plan(gpu_policy(kUnits), 1 << 13, 1 << 13, true, true);
  CHECK(all.kernel == Kernel::team && all.local == 256 && all.groups >= 4 * kUnits && all.joined_by == 256);
  CHECK(plan(cpu_policy(2), 1 << 13, 1 << 13, true, true).kernel == Kernel::row);
  at("sum of rows");
  // A sub-group per row where there are enough of them.
  const auto shared = [&](int64_t count, int64_t n) {
    return plan(gpu_policy(kUnits), count, n, true, false).args.blocks;
  };
  CHECK(plan(gpu_policy(kUnits), 65536, 2048, true, false).local == 128 && shared(65536, 2048) == kLanes);
  CHECK(shared(65536, 8192) == kLanes && shared(65536, 8193) == 256 && shared(16896, 2048) == kLanes);
  CHECK(shared(16895, 2048) == 128 && shared(16895, 512) == kLanes);
  CHECK(plan(gpu_policy(kUnits), 65536, 128, true, false).local == 128 &&
        plan(gpu_policy(kUnits), 65536, 128, true, false).args.blocks == 16);
  CHECK(plan(cpu_policy(2), 65536, 2048, true, false).local == 16);
  at("sum of columns");
  const ReductionPlan columns = plan(gpu_policy(kUnits), 65536, 2048, false, true);
  CHECK(columns.kernel == Kernel::col && columns.local == 128 && columns.joined_by == kLanes);
  CHECK(plan(cpu_policy(2), 65536, 2048, false, true).local == 16 &&
        plan(cpu_policy(2), 65536, 2048, false, true).joined_by == 0);
}

void test_counts() {
  for (const Policy& policy : policies())
    for (const int64_t n : kSizes)
      for (const int64_t bins : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1} << 24}) {
        at("counts", policy.units, n, bins);
        const CountPlan plan = plan_counts(n, bins, policy);
        CHECK(plan.by_group ? plan.groups == plan.tables
                            : parts_cover(plan.tables, static_cast<int64_t>(plan.groups), plan.local));
        CHECK(plan.by_group == (!policy.single_items && bins <= xpu_ops::kLocalBins));
        CHECK(bins == 0 || plan.tables == 1 || plan.by_group || plan.tables * bins <= (int64_t{1} << 22));
      }
}

void test_losses() {
  at("loss");
  const auto sums = [](size_t n, const Policy& policy) { return plan_partial(n, policy).groups; };
  CHECK(sums(0, cpu_policy(2)) == 1 && sums(4096, cpu_policy(2)) == 1 && sums(4097, cpu_policy(2)) == 2 &&
        sums(1 << 30, cpu_policy(2)) == 64);
  CHECK(plan_partial(1, cpu_policy(2)).items == 16 && plan_partial(1, gpu_policy(132)).items == 256);
  CHECK(sums(0, gpu_policy(132)) == 1 && sums(4097, gpu_policy(132)) == 2 && sums(1 << 30, gpu_policy(132)) == 264);
}

}  // namespace

void test_groups() {
  test_tiles();
  test_copies();
  test_moves();
  test_rows();
  test_sums();
  test_counts();
  test_losses();
}

}  // namespace plan_test
