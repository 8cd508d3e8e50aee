// Plans of indexing, of writes by index and of walks.
#include "kernels/ops/ctc.hpp"
#include "kernels/ops/distance.hpp"
#include "kernels/ops/indexing.hpp"
#include "kernels/ops/scatter.hpp"
#include "kernels/ops/walk.hpp"
#include "kernels/sycl/core/tile_args.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using namespace xpu_ops::ops;

void test_indexing() {
  std::set<IndexMode> seen;
  for (const Policy& policy : policies())
    for (const int64_t rows : kSizes)
      for (const int64_t cols : {int64_t{1}, int64_t{5}, int64_t{40}, int64_t{3000}, int64_t{70000}}) {
        const IndexSource source{nullptr, nullptr, rows, cols, DeviceErrorCode::none, 0, 0, 0};
        // Rows of a table, elements of a vector, columns of rows.
        const Dims3 table = {{rows, {cols, 0, 1}}, {cols, {1, 1, 0}}}, vector = {{rows, {1, 0, 1}}},
                    columns = {{rows, {cols, cols, 0}}, {cols, {1, 0, 1}}}, turned = {{rows, {2, 0, 1}}};
        for (const Dims3* shape : {&table, &vector, &columns, &turned}) {
          const Dims3& dims = *shape;
          at("indexed", policy.single_items, policy.units, rows, cols);
          const IndexedPlan plan = plan_indexed({false, nullptr, nullptr, 4, source, dims}, policy);
          CHECK(plan.local <= policy.elementwise_group);
          seen.insert(plan.args.mode);
          int64_t total = 1;
          for (const auto& d : dims) total *= d.size;
          const bool wide = !policy.single_items && &dims == &table && cols > 1 && cols % 4 == 0;
          CHECK(plan.element == (wide ? 16 : 4));
          CHECK(int64_t{plan.args.walk.rows} * plan.args.walk.inner * static_cast<int64_t>(plan.element) == 4 * total);
          CHECK(parts_cover(plan.args.walk.rows, static_cast<int64_t>(plan.groups0), plan.args.rows_per_group));
          const int64_t width =
              plan.args.mode == IndexMode::general ? static_cast<int64_t>(plan.local) : plan.args.piece;
          CHECK(parts_cover(plan.args.walk.inner, static_cast<int64_t>(plan.groups1), width));
        }
      }
  check_all_seen("indexed", seen, IndexMode::general);
  for (const int64_t rows : kSizes)
    for (const int64_t cols : {int64_t{1}, int64_t{5}, int64_t{40}, int64_t{3000}, int64_t{70000}}) {
      at("linearize", rows, cols);
      const LinearizePlan plan = plan_linearize({{rows, {cols, 1}}, {cols, {1, 0, 1}}}, policies()[0]);
      CHECK(int64_t{plan.walk.rows} * plan.walk.inner == rows * cols);
      CHECK(parts_cover(plan.walk.rows, static_cast<int64_t>(plan.groups0), plan.rows_per_group));
      CHECK(parts_cover(plan.walk.inner, static_cast<int64_t>(plan.groups1), kTileElements));
    }
  // Offsets within the row are 32-bit where its reach allows.
  at("indexed, border");
  Policy policy;
  const auto mode = [&](int64_t size) {
    const IndexSource source{nullptr, nullptr, size, 1, DeviceErrorCode::none, 0, 0, 0};
    return plan_indexed({false, nullptr, nullptr, 4, source, {{1000, {1, 0, 1}}}}, policy).args.mode;
  };
  CHECK(mode(int64_t{1} << 31) == IndexMode::unit);
  CHECK(mode((int64_t{1} << 31) + 1) == IndexMode::general);
}

void test_scatter() {
  bool sift = false, across = false, parts = false, together = false, tiles = false, sorted = false, each = false,
       dealt = false, dealt_slices = false;
  for (const Policy& policy : policies())
    for (const int64_t size : kSizes)
      for (const int64_t steps : {int64_t{1}, int64_t{1000}, int64_t{100000}})
        for (const int64_t width : {int64_t{1}, int64_t{17}, int64_t{64}, int64_t{3000}})
          for (const bool uniform : {true, false}) {
            at("columns", policy.single_items, policy.units, size, steps, width, uniform);
            const IndexSource source{nullptr, nullptr, size, width, DeviceErrorCode::none, 0, 0, 0};
            const ColumnPlan plan = plan_columns({Reduce::add,
                                                  DType::f32,
                                                  4,
                                                  nullptr,
                                                  nullptr,
                                                  source,
                                                  steps,
                                                  width,
                                                  uniform ? 1 : width,
                                                  {},
                                                  {{width, {1, 1, uniform ? 0 : 1}}}},
                                                 policy);
            const ColumnArgs& a = plan.args;
            if (plan.sorted) {
              CHECK(!policy.single_items && a.parts == 1);
              CHECK(plan.sorts == (a.uniform ? 1 : a.walk.rows * a.walk.inner));
              const auto groups0 = static_cast<int64_t>(plan.groups0), groups1 = static_cast<int64_t>(plan.groups1);
              if (a.uniform && a.unit) {
                CHECK(a.walk.rows == 1 && parts_cover(steps, groups0, a.take));
                CHECK(parts_cover(a.walk.inner, groups1, a.tile) && a.tile == plan.local);
              } else {
                CHECK(groups0 == int64_t{a.walk.rows} * a.walk.inner);
                CHECK(parts_cover(steps, groups1, static_cast<int64_t>(plan.local)));
              }
              (a.uniform ? sorted : each) = true;
              continue;
            }
            // Every index belongs to one part.
            CHECK(parts_cover(size, a.parts, a.part_size));
            if (plan.dealt) {
              CHECK(policy.single_items && parts_cover(steps, plan.chunks, plan.chunk) && a.parts <= kDealtParts);
              const bool slices = a.uniform && a.unit;
              (slices ? dealt_slices : dealt) = true;
              if (!slices) CHECK(a.walk.inner == 1 && plan.groups0 == a.parts && plan.groups1 == 1);
              if (!slices) continue;
            }
            CHECK(plan.groups0 == size_t{a.walk.rows} * a.parts);
            const bool shared = a.uniform && a.unit;
            const int64_t share = shared || policy.single_items ? a.tile : static_cast<int64_t>(plan.local);
            CHECK(parts_cover(a.walk.inner, static_cast<int64_t>(plan.groups1), share));
            sift |= a.sift, across |= a.across, parts |= a.parts > 1 && !a.sift, together |= shared;
            tiles |= a.tile > 1 && !shared;
          }
  at("columns");
  CHECK(sift && across && parts && together && tiles && sorted && each && dealt && dealt_slices);
  Policy cpu, gpu;
  cpu.single_items = true;
  cpu.units = gpu.units = 2;
  at("pdist");
  CHECK(plan_pdist_parts(128, 8, cpu) == 8 && plan_pdist_parts(127, 8, cpu) == 0 && plan_pdist_parts(128, 8, gpu) == 0);
  at("ctc");
  CHECK(plan_ctc(1) == 16 && plan_ctc(17) == 32 && plan_ctc(1000) == 128);
}

void test_walk() {
  at("walk");
  // Merged while the product fits 31 bits; the offset within a row fits 32.
  const auto rows = [](int64_t n) { return make_walk<1>({{n, {1 << 16}}, {1 << 16, {1}}}, false, int64_t{1} << 40); };
  CHECK(rows((1 << 15) - 1).ndim == 1);
  CHECK(rows(1 << 15).ndim == 2);
  CHECK(make_walk<1>({{3, {int64_t{1} << 31}}}, false).inner == 1);
  CHECK(make_walk<1>({{2, {int64_t{1} << 31}}}, false).inner == 2);
  std::vector<WalkDim<1>> many;
  for (int d = 0; d < kWalkDims + 1; ++d) many.push_back({2, {int64_t{1} << (2 * d)}});
  CHECK(refuses([&] { make_walk<1>(many); }));
  // The host steps through what is more: all items once, the innermost dim in every part.
  std::vector<int64_t> found;
  many[4].size = 3;
  for_walks(many, false, [&](const std::vector<WalkDim<1>>& dims, const int64_t (&offsets)[1]) {
    CHECK(make_walk<1>(dims, false).ndim == kWalkDims && dims.back().strides[0] == many.back().strides[0]);
    int64_t items = 1;
    for (const auto& d : dims) items *= d.size;
    for (int64_t i = 0; i < items; ++i) {
      int64_t place = offsets[0], rest = i;
      for (const auto& d : dims) place += rest % d.size * d.strides[0], rest /= d.size;
      found.push_back(place);
    }
  });
  std::sort(found.begin(), found.end());
  CHECK(found.size() == size_t{3} << kWalkDims && std::adjacent_find(found.begin(), found.end()) == found.end());
  many[4].size = 2;
  many.pop_back();
  CHECK(make_walk<1>(many).ndim == kWalkDims);
  for (const int64_t n : kSizes) {
    at("even_group", n);
    const size_t local = even_group(static_cast<size_t>(n)), groups = (n + local - 1) / local;
    CHECK(local % 16 == 0 && local <= 1024 &&
          parts_cover(n, static_cast<int64_t>(groups), static_cast<int64_t>(local)));
    for (const Policy& policy : policies()) {
      const Spread s = spread(static_cast<size_t>(n), policy);
      CHECK(parts_cover(n, static_cast<int64_t>(s.groups), static_cast<int64_t>(s.local * s.chunk)));
    }
  }
}

}  // namespace

void test_indices() {
  test_indexing();
  test_scatter();
  test_walk();
}

}  // namespace plan_test
