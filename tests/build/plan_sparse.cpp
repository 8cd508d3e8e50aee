// Plans of sparse tensors, of resampling and of grid sampling.
#include "kernels/ops/interpolation.hpp"
#include "kernels/ops/sparse.hpp"
#include "kernels/ops/sparse_product.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/sycl/core/tile_args.hpp"
#include "kernels/sycl/images/interpolation_args.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

void test_resample() {
  std::set<ResamplePlan::Kernel> seen;
  bool alone = false;
  for (const Policy& policy : policies())
    for (const int64_t rows : {1, 3, 600, 50000})
      for (const int64_t out : {1, 20, 3000})
        for (const int64_t inner : {1, 3, 15, 16, 2000}) {
          at("resample", policy.single_items, policy.units, rows, out, inner);
          const ResamplePlan plan = plan_resample(rows, out, inner, policy);
          seen.insert(plan.kernel);
          CHECK(plan.local <= policy.most_items);
          const bool by_rows = plan.kernel == ResamplePlan::Kernel::rows;
          CHECK(parts_cover(by_rows ? rows * out : rows, static_cast<int64_t>(plan.groups0), plan.rows_per_group));
          if (plan.kernel == ResamplePlan::Kernel::walk)
            CHECK(policy.single_items && plan.local == 1);
          else
            CHECK(parts_cover(by_rows ? inner : out * inner, static_cast<int64_t>(plan.groups1),
                              static_cast<int64_t>(plan.local)));
          for (const bool one : {false, true}) {
            const ResamplePlanePlan plane = plan_resample_plane(rows * out, out, one, policy);
            CHECK(parts_cover(rows * out, static_cast<int64_t>(plane.groups), plane.lines_per_group));
            CHECK((plane.local == 1) == (policy.single_items && !one));
          }
          NearestProblem args{};
          args.rows = static_cast<uint32_t>(rows), args.inner = static_cast<uint32_t>(inner);
          args.in_size[2] = 100, args.out_size[2] = static_cast<uint32_t>(out);
          const NearestPlan nearest = plan_nearest(args, policy);
          CHECK(parts_cover(rows, static_cast<int64_t>(nearest.groups), nearest.rows_per_group));
          alone |= nearest.local == 1;
          const auto width = static_cast<size_t>(inner == 1 ? out : inner);
          CHECK(nearest.local == 1 || nearest.local == xpu_ops::tile_group(width, policy));
          CHECK(nearest.local != 1 || policy.single_items);
        }
  check_all_seen("resample", seen, ResamplePlan::Kernel::walk);
  CHECK(alone);
  at("resample plane");
  DeviceTable one, two;
  one.taps = 1, two.taps = 2, one.full = two.full = true;
  CHECK(plan_resample_plane_serves(one, one, DType::f32, 100, 1));
  CHECK(plan_resample_plane_serves(two, two, DType::f32, 1, 100));
  CHECK(!plan_resample_plane_serves(two, two, DType::f32, 100, 1));
  CHECK(!plan_resample_plane_serves(one, two, DType::f32, 1, 100));
  two.full = false;
  CHECK(!plan_resample_plane_serves(two, two, DType::f32, 1, 100));
}

void test_grid() {
  bool block = false, items = false;
  for (const Policy& policy : policies())
    for (const int64_t n : kSizes)
      for (const bool volume : {false, true})
        for (const GridMode mode : {GridMode::bilinear, GridMode::nearest, GridMode::bicubic})
          for (const int64_t channels : {1, 32}) {
            GridProblem problem{{}, DType::f32, volume, channels, grid_taps(volume, mode)};
            problem.positions = static_cast<uint32_t>(n);
            at("grid", policy.single_items, n, volume, channels, problem.taps);
            const GridPlan plan = plan_grid_sample(problem, policy);
            (plan.block ? block : items) = true;
            CHECK(!plan.block || policy.single_items);
            CHECK(parts_cover(n, static_cast<int64_t>(plan.groups),
                              static_cast<int64_t>(plan.block ? kGridBlock : plan.local)));
          }
  Policy cpu, gpu;
  cpu.single_items = true;
  at("grid");
  CHECK(block && items);
  CHECK(plan_grid_planes(15, 1 << 20, gpu) && !plan_grid_planes(16, 1, gpu));
  CHECK(plan_grid_planes(16, 32768, cpu) && !plan_grid_planes(16, 32769, cpu));
}

}  // namespace

void test_resampling() {
  test_resample();
  test_grid();
}

void test_sparse() {
  for (const Policy& policy : policies())
    for (const int64_t n : kSizes) {
      for (const int64_t work : {int64_t{1}, n, 5 * n}) {
        at("chunks", policy.units, n, work);
        const ItemChunks plan = plan_item_chunks(n, work, policy);
        CHECK(parts_cover(n, plan.items, plan.chunk) && plan.items <= 4 * policy.units);
      }
      for (const uint32_t bits : {1u, 8u, 9u, 30u, 60u}) {
        at("key sort", policy.units, n, bits);
        const KeySortPlan plan = plan_key_sort(static_cast<uint32_t>(n), bits, policy);
        CHECK(plan.passes * plan.digit >= bits && (plan.passes - 1) * plan.digit < bits && plan.digit <= 11);
      }
      for (const uint32_t columns : {1u, 5u, 64u, 1000u}) {
        at("runs", policy.units, n, columns);
        const RunSumPlan sums = plan_sum_runs(static_cast<uint32_t>(n), columns, policy);
        CHECK(parts_cover(columns == 1 ? n : columns, static_cast<int64_t>(sums.groups1),
                          static_cast<int64_t>(sums.local)));
        CHECK(columns == 1 || parts_cover(n, static_cast<int64_t>(sums.groups0), sums.runs_per_group));
        const SpmmPlan spmm = plan_spmm(n, columns, policy);
        CHECK(spmm.narrow == (columns < 16));
        CHECK(parts_cover(n, static_cast<int64_t>(spmm.groups0),
                          static_cast<int64_t>(spmm.rows_per_group * (spmm.narrow ? spmm.local : 1))));
        CHECK(spmm.narrow || parts_cover(columns, static_cast<int64_t>(spmm.groups1), 64));
        const SpgemmPlan spgemm = plan_spgemm(static_cast<uint32_t>(n), columns, policy);
        CHECK(parts_cover(n, spgemm.items, spgemm.chunk) && spgemm.few);
      }
      at("sampled", policy.units, n);
      CHECK(plan_sampled_chunk(static_cast<uint32_t>(n), policy) % 16 == 0);
    }
  Policy cpu, gpu;
  cpu.single_items = true;
  at("sparse products");
  CHECK(!plan_spgemm(100, (1 << 16) + 1, cpu).few);
  CHECK(plan_spgemm_serves(DType::f32, 10, 10, 1 << 24, cpu) && !plan_spgemm_serves(DType::f32, 10, 10, 10, gpu));
  CHECK(!plan_spgemm_serves(DType::f32, 10, 10, (1 << 24) + 1, cpu) && !plan_spgemm_serves(DType::f32, 0, 10, 10, cpu));
  CHECK(!plan_spgemm_serves(DType::f32, int64_t{1} << 31, 10, 10, cpu));
  CHECK(plan_sampled_rows_serve(DType::f32, 16, cpu) && !plan_sampled_rows_serve(DType::f32, 15, cpu));
  CHECK(!plan_sampled_rows_serve(DType::f64, 16, cpu) && !plan_sampled_rows_serve(DType::f32, 16, gpu));
  CHECK(spmm_in_place(3) && spmm_in_place(32) && !spmm_in_place(33));
  CHECK(bits_of(1) == 1 && bits_of(2) == 1 && bits_of(3) == 2 &&
        bits_of(static_cast<unsigned __int128>(1) << 64) == 64);
}

}  // namespace plan_test
