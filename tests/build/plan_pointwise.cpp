// Plans of pointwise kernels: rows, steps and fours.
#include "kernels/ops/pointwise.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {

using namespace xpu_ops::ops;

void test_pointwise() {
  const auto shape = [](std::vector<uint32_t> sizes, std::vector<std::vector<int64_t>> strides) {
    PointwiseShape s{};
    s.ndim = static_cast<int>(sizes.size());
    s.operands = static_cast<int>(strides[0].size());
    for (int d = 0; d < s.ndim; ++d) {
      s.sizes[d] = sizes[d];
      std::copy(strides[d].begin(), strides[d].end(), s.strides[d]);
    }
    for (int k = 0; k < s.operands; ++k) s.element[k] = 4;
    return s;
  };
  at("pointwise");
  PointwiseShape dense = shape({20, 30, 40}, {{1, 1}, {20, 20}, {600, 600}});
  collapse(dense);
  CHECK(dense.ndim == 1 && dense.sizes[0] == 24000 && classify(dense) == Layout::rows && in_order(dense));
  PointwiseShape broadcast = shape({20, 30}, {{1, 0}, {20, 1}});
  collapse(broadcast);
  CHECK(broadcast.ndim == 2 && classify(broadcast) == Layout::rows);
  CHECK(classify(shape({20, 30}, {{1, 30}, {20, 1}})) == Layout::strided);
  CHECK(!in_order(shape({20, 30}, {{1, 30}, {20, 1}})));
  CHECK(classify(shape({kMinRow - 1, 30}, {{1, 1}, {20, 20}})) == Layout::strided);
  CHECK(classify(shape({kMinRow, 30}, {{1, 1}, {20, 20}})) == Layout::rows);
  Policy cpu, gpu;
  cpu.single_items = true;
  const PointwiseShape stepping = shape({20, 30}, {{3, 3}, {60, 60}}), turned = shape({20, 30}, {{1, 30}, {20, 1}});
  CHECK(plan_pointwise(dense, classify(dense), true, gpu) == PointwiseKernel::rows);
  CHECK(plan_pointwise(stepping, classify(stepping), true, cpu) == PointwiseKernel::steps);
  CHECK(plan_pointwise(stepping, classify(stepping), false, cpu) == PointwiseKernel::none);
  CHECK(plan_pointwise(stepping, classify(stepping), true, gpu) == PointwiseKernel::none);
  CHECK(plan_pointwise(turned, classify(turned), true, cpu) == PointwiseKernel::none);
  PointwiseShape deep{};
  deep.operands = 1, deep.element[0] = 4, deep.ndim = kPointwiseRowDims + 3;
  int64_t stride = 1, total = 1, walked = 1;
  for (int d = 0; d < deep.ndim; ++d) { deep.sizes[d] = 2, deep.strides[d][0] = stride, stride *= 4, total *= 2; }
  for (OuterDim outer; take_outer(deep, outer);) walked *= outer.size;
  PointwiseArgs args{};
  fill(deep, Layout::strided, args, 1);
  CHECK(walked * args.rows * args.n == total);

  at("pointwise, fours");
  const Policy device = gpu_policy(132);
  alignas(64) static char memory[64];
  const auto serves = [&](PointwiseShape s, int offset, const Policy& policy) {
    PointwiseArgs a{};
    for (int k = 0; k < s.operands; ++k) a.ptr[k] = memory + offset;
    fill(s, Layout::rows, a, 1);
    return by_fours(s, a, policy);
  };
  const PointwiseShape flat = shape({1 << 20}, {{1, 1}});
  CHECK(serves(flat, 0, device) && serves(flat, 16, device) && !serves(flat, 4, device) && !serves(flat, 0, cpu));
  CHECK(!serves(shape({(1 << 20) + 2}, {{1, 1}}), 0, device) && !serves(shape({4092}, {{1, 1}}), 0, device));
  const auto rows = [&](int64_t pitch) { return shape({1 << 10, 1 << 10}, {{1, 1}, {1 << 10, pitch}}); };
  CHECK(serves(rows(1028), 0, device) && !serves(rows(1026), 0, device));
  PointwiseShape small = flat, scaled = shape({1 << 20}, {{1, 1, 0}});
  small.element[0] = small.element[1] = 2;
  CHECK(serves(small, 8, device) && !serves(small, 4, device));
  scaled.immediate[2] = true;
  CHECK(serves(scaled, 0, device));
  CHECK(plan_pointwise_rows(1, 1 << 20, device, 4).local == 256 && plan_pointwise_rows(64, 256, device, 4).local == 64);
}

}  // namespace plan_test
